"""The codes of columns: a code is the index of a row's value in a list of values, the same in all files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol

from saeta import _core
from saeta._convert.build import as_column
from saeta._convert.dictionaries import dictionary_encode
from saeta._convert.to_python import FLOATS
from saeta._core import Column, DataType, Field, Schema, SymbolTable, Table
from saeta._loader.base import Data
from saeta._loader.records import Load
from saeta._optional import load
from saeta.errors import ColumnNameError, InvalidError, OutOfRange, TypeMismatch
from saeta.exchange import from_arrow

TEXT = ("u", "U")  # Arrow's format strings


class Coder(Protocol):
    """Makes the codes of a column."""

    @property
    def values(self) -> list[Any]:
        """The values, in the order of their codes."""

    def codes(self, column: Column) -> Column:
        """Returns the codes of the rows. Null for a null, and OutOfRange for a value that has no code."""


def make_coders(codes: Any, data: Data, schema: Schema) -> dict[str, Coder]:
    """Makes the coders of the columns that the argument `codes` of a loader names."""
    if codes is None or codes is False:
        return {}
    if codes is True:
        codes = [field.name for field in schema.fields if _is_encoded(field, data)]
    elif isinstance(codes, str):
        codes = [codes]
    for name in codes:
        if name not in schema.names:
            raise ColumnNameError(f"codes: {_core._unknown_column(name, schema.names)}")
    return {
        name: _coder(schema.field(name), data, codes[name] if isinstance(codes, Mapping) else None)
        for name in codes
    }


def _is_encoded(field: Field, data: Data) -> bool:
    """Whether the column is a dictionary, or was one when its files were written."""
    return field.type.value_type is not None or field.name in data.dictionaries


def _coder(field: Field, data: Data, given: Iterable[Any] | None) -> Coder:
    """Makes the coder of the given values, or of those of the dictionaries of the files."""
    name = field.name
    type_ = field.type.value_type or field.type
    if type_.format.startswith("+"):
        raise TypeMismatch(f"codes: column '{name}' is of type {field.type.name}, whose values have parts")
    if given is None and not _is_encoded(field, data):
        raise TypeMismatch(
            f"codes: column '{name}' is of type {type_.name}: name its values, as "
            f"codes={{'{name}': [...]}} in tensor_options"
        )
    is_text = type_.format in TEXT or type_.is_symbol
    if given is not None and is_text:
        return _OfText(name, list(given))
    values = _of_type(name, type_, [] if given is None else list(given))
    if given is None:
        values = _values_of_dictionaries(values, data)
    elif len(_rows_of_values(values)) < len(values):
        raise InvalidError(f"codes of column '{name}': a value is named twice, or is a null")
    return _OfText(name, values.to_pylist()) if is_text else _OfValues(values)


def _of_type(name: str, type: DataType, values: list[Any]) -> Column:  # noqa: A002 - the word of the lexicon
    return as_column(Field(name, type), values, _core.context("host"))


def _values_of_dictionaries(none: Column, data: Data) -> Column:
    """Returns the distinct values of the dictionaries in the first batch of each file, in their order.

    `none` is an empty column of their name and type.
    """
    spans = data.firsts()
    reader = data.open(none.context, [none.name], [Load([span], None) for span in spans], ahead=0)
    parts = [none]
    while (rows := reader.next()) is not None:
        parts += [values.to(none.context) for values, _ in _parts(rows.column(none.name))]
    values = Column.from_chunks(parts)
    return values.take(list(_rows_of_values(values).values()))


def _parts(column: Column) -> list[tuple[Column, Column]]:
    """Returns values and indices of the chunks of a column. Makes a dictionary of a plain column."""
    return (column if column.type.value_type is not None else _encoded(column))._dictionary_parts()


def _encoded(column: Column) -> Column:
    """Returns a column whose chunks are dictionaries of their values, in the order of their first rows.

    pyarrow finds the values, so a column of a device passes through host memory.
    """
    pyarrow = load("pyarrow", "codes of values")
    values = column.to_arrow()
    if pyarrow.types.is_decimal32(values.type) or pyarrow.types.is_decimal64(values.type):
        values = values.cast(pyarrow.decimal128(values.type.precision, values.type.scale))
    chunks = [dictionary_encode(pyarrow, chunk) for chunk in values.chunks]
    encoded = pyarrow.chunked_array(chunks, pyarrow.dictionary("int32", values.type))
    made: Table = from_arrow(pyarrow.table({column.name: encoded}), column.context)
    return made.column(0)


class _OfText:
    """Codes of text: the symbols of a table that has the values. Kernels of symbols make them."""

    def __init__(self, name: str, values: list[str]) -> None:
        self.values = values
        self._name = name
        self._table = SymbolTable()
        if self._table.intern_all(values) != list(range(len(values))):
            raise InvalidError(f"codes of column '{name}': a value is named twice")

    def codes(self, column: Column) -> Column:
        found = column.as_symbols(self._table)
        if len(self._table) > len(self.values):
            raise _no_code(self._name, self._table.name(len(self.values)))
        return found


class _OfValues:
    """Codes of other values.

    The host finds the code of each value of a dictionary, and the device looks up the code of each row.
    """

    def __init__(self, values: Column) -> None:
        self._values = values
        self._codes = _rows_of_values(values)

    @property
    def values(self) -> list[Any]:
        return self._values.to_pylist()

    def codes(self, column: Column) -> Column:
        return Column.from_chunks([self._taken(*part) for part in _parts(column)], column.name)

    def _taken(self, values: Column, indices: Column) -> Column:
        key_of = _key_of(values.type)
        codes = []
        for row, raw in enumerate(values._raw_values()):
            code = None if raw is None else self._codes.get(key_of(raw))
            if code is None and raw is not None:
                raise _no_code(self._values.name, values[row])
            codes.append(code)
        return as_column(Field(values.name, "int64"), codes, indices.context)._take(indices)


def _no_code(name: str, value: Any) -> OutOfRange:
    return OutOfRange(
        f"the value {value!r} has no code: name all values, as codes={{'{name}': [...]}} in tensor_options"
    )


def _rows_of_values(values: Column) -> dict[Hashable, int]:
    """Returns the first row of each value that is not null."""
    key_of = _key_of(values.type)
    found: dict[Hashable, int] = {}
    for row, raw in enumerate(values._raw_values()):
        if raw is not None:
            found.setdefault(key_of(raw), row)
    return found


def _key_of(type: DataType) -> Callable[[Any], Hashable]:  # noqa: A002
    """Returns a function that makes equal keys of equal values, from the bytes of the Arrow layout."""
    if type.format in FLOATS:
        return lambda raw: _key_of_float(struct.unpack(FLOATS[type.format], raw)[0])
    if type.format.startswith("d:"):  # pyarrow encodes narrow decimals as wide ones
        return lambda raw: int.from_bytes(raw, "little", signed=True)
    return lambda raw: raw


def _key_of_float(value: float) -> Hashable:
    return value if value == value else "nan"
