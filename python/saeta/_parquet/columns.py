"""Gives columns of pylibcudf the layout of an Arrow type, which cuDF lost."""

from __future__ import annotations

from typing import Any, NamedTuple

from saeta._optional import load
from saeta._parquet.types import children

UNITS = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}
SAME_NAME = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class TooLongError(Exception):
    """A column has more bytes of text, or more values of a dictionary, than its type can number."""


class Libcudf(NamedTuple):
    """What calls of pylibcudf need: the module, a stream and a memory resource."""

    plc: Any
    stream: Any
    mr: Any

    def cast(self, column: Any, kind: str, scale: int = 0) -> Any:
        """Returns a column as a TypeId. The bytes stay where both are integers of one width."""
        types = self.plc.types
        wanted = types.DataType(getattr(types.TypeId, kind), scale)
        if column.type().id() == wanted.id() and column.type().scale() == wanted.scale():
            return column
        return self.plc.unary.cast(column, wanted, self.stream, self.mr)

    def changed(self, column: Any, parts: list[Any], kind: str | None = None) -> Any:
        """Returns a column with other children, and of another type if one is named."""
        types = self.plc.types
        type = column.type() if kind is None else types.DataType(getattr(types.TypeId, kind))  # noqa: A001
        return self.plc.Column(
            type, column.size(), column.data(), column.null_mask(), column.null_count(), 0, parts
        )


def with_layout(lib: Libcudf, column: Any, type: Any) -> Any:  # noqa: A002 - lexicon's word
    """Returns a column whose buffers are those of an Arrow type, a type of pyarrow.

    Zones, precisions, names of fields and the like are in the schema that the column is exported with.
    """
    types = load("pyarrow", "reading Parquet").types
    type = getattr(type, "storage_type", type)  # noqa: A001
    if types.is_dictionary(type):
        return _dictionary(lib, column, type)
    if types.is_struct(type):
        fields = zip(column.children(), children(type), strict=True)
        return lib.changed(column, [with_layout(lib, part, field.type) for part, field in fields])
    if types.is_list(type) or types.is_large_list(type) or types.is_map(type):
        return _list(lib, column, type, long=types.is_large_list(type))
    if types.is_string(type) or types.is_binary(type):
        return _require_short(lib, column)
    if types.is_large_string(type) or types.is_large_binary(type):
        return _with_offsets(lib, column)
    if types.is_decimal(type):
        return lib.cast(column, f"DECIMAL{type.bit_width}", -type.scale)
    kind = _kind(types, type)
    if kind is None:
        return column
    if kind.startswith("DURATION") and column.type().id() == lib.plc.types.TypeId.INT64:
        return column
    return lib.cast(column, kind)


def _kind(types: Any, type: Any) -> str | None:  # noqa: A002
    """Returns the name of the TypeId whose values have the bytes of a type of pyarrow."""
    name = str(type)
    if name in SAME_NAME:
        return name.upper()
    if types.is_timestamp(type):
        return f"TIMESTAMP_{UNITS[type.unit]}"
    if types.is_duration(type) or types.is_time64(type):
        return f"DURATION_{UNITS[type.unit]}"
    if types.is_time32(type):
        return "INT32"
    return None


def _list(lib: Libcudf, column: Any, type: Any, *, long: bool) -> Any:  # noqa: A002
    types = load("pyarrow", "reading Parquet").types
    offsets, values = column.children()
    if types.is_map(type):
        pairs = zip(values.children(), (type.key_type, type.item_type), strict=True)
        values = lib.changed(values, [with_layout(lib, part, of) for part, of in pairs])
    else:
        values = with_layout(lib, values, type.value_type)
    return lib.changed(column, [lib.cast(offsets, "INT64") if long else offsets, values])


def _require_short(lib: Libcudf, column: Any) -> Any:
    offsets = column.children()[:1]
    if offsets and offsets[0].type().id() != lib.plc.types.TypeId.INT32:
        raise TooLongError
    return column


def _with_offsets(lib: Libcudf, column: Any) -> Any:
    """Returns text or bytes with offsets of 64 bits."""
    offsets = column.children()[:1]
    return lib.changed(column, [lib.cast(offsets[0], "INT64")]) if offsets else column


def _dictionary(lib: Libcudf, column: Any, type: Any) -> Any:  # noqa: A002
    """Returns a dictionary whose values are sorted."""
    plc = lib.plc
    _require_short(lib, column)
    keys, codes = plc.transform.encode(plc.Table([column]), lib.stream, lib.mr)
    values = keys.columns()[0]
    if values.null_count():  # the last one: the rows have their own validity
        values = plc.copying.slice(values, [0, values.size() - 1], lib.stream)[0].copy(lib.stream, lib.mr)
        values = values.with_mask(None, 0)
    if values.size() > 1 << (type.index_type.bit_width - 1):
        raise TooLongError
    codes = lib.cast(codes.with_mask(None, 0), str(type.index_type).upper())
    kind = plc.types.DataType(plc.types.TypeId.DICTIONARY32)
    return plc.Column(kind, column.size(), None, column.null_mask(), column.null_count(), 0, [codes, values])
