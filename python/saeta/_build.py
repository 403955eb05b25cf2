"""Tables and columns from what Python programs have at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from saeta import _core
from saeta._core import Column, Context, CountedTable, DataType, Field, Schema, Table
from saeta._cuda_array import from_cuda_array
from saeta._cudf import is_series
from saeta._optional import load
from saeta._pyarrow_tables import with_stream
from saeta._types import schema as make_schema
from saeta.errors import InvalidError, TypeMismatch
from saeta.exchange import ContextLike, context_of, from_arrow, from_dlpack


def table(
    columns: Mapping[str, Any] | Iterable[tuple[str, Any]] | Any,
    ctx: ContextLike = None,
    *,
    schema: Schema | None = None,
    cast: Literal["reinterpret"] | None = None,
) -> Table:
    """Makes a table of named columns of equal length.

    Memory that is on the context's device is shared, other memory is copied in one transfer a column.

    Args:
        columns: a mapping from names to values, pairs of both (names may repeat), columns that have names (Column, polars or
            pandas Series), or a whole table: a DataFrame, any object with `__arrow_c_stream__` or `__arrow_c_array__`, a
            Dataset or Scanner of pyarrow, or a tensor of two dimensions, whose columns are named col_0, col_1 ... Values are
            what `saeta.column` takes.
        ctx: a Context or the name of a device. None: where the first Column is, else the best device.
        schema: names, types, nullability and metadata that the table must have; Python values are converted to them. It names
            the columns of a tensor.
        cast: 'reinterpret' takes the integers of a tensor for those of the schema that have the same width and another sign.

    Returns:
        A Table.

    Raises:
        TypeMismatch, InvalidError: a value is not a column, or lengths differ; the message names the column.

    Example:
        >>> import saeta as sa
        >>> sa.table({"a": [1, 2], "b": ["x", None]}, "host").shape
        (2, 2)
    """
    columns = with_stream(columns)
    if _is_tensor(columns):
        return from_dlpack(columns, ctx, columns=True, schema=schema, cast=cast)
    if cast is not None:
        raise InvalidError(f"cast={cast!r} is for tensors, and {type(columns).__name__} is none")
    if _is_table(columns):
        return _whole_table(columns, ctx, schema)
    pairs = _pairs(columns)
    where = context_of(ctx if ctx is not None else _first_context(pairs))
    if schema is not None:
        return _described(pairs, where, schema)
    return _core._from_columns(where, [as_column(name, value, where) for name, value in pairs])


def column(name: str | Field, data: Any, type: Any = None, ctx: ContextLike = None) -> Column:  # noqa: A002
    """Makes a column.

    Args:
        name: its name, or a Field, which also gives type, nullability and metadata.
        data: a Column, an object with DLPack (a tensor, a NumPy array), one with an Arrow protocol (a pyarrow array, a
            polars or pandas Series) or a sequence of Python values, which pyarrow converts.
        type: what `saeta.DataType` takes: "int32", "timestamp[us, tz=UTC]", a pyarrow type. Python values and NumPy arrays
            are converted to it; anything else must have it. `saeta.symbol()` takes what `Column.as_symbols` does. None: the type
            of the data.
        ctx: a Context or the name of a device. None: where a Column is, else the best device.

    Returns:
        A Column. Memory that is on the context's device is shared.

    Raises:
        TypeMismatch: the data has another type, or is not a column. InvalidError: a value does not fit the type, or there
        are nulls in a field that allows none.

    Example:
        >>> import saeta as sa
        >>> sa.column("a", [1, None], "int16", "host").type.name
        'int16'
    """
    described = name
    if type is not None:
        described = name.with_type(type) if isinstance(name, Field) else Field(name, type)
    own = data.context if isinstance(data, Column) else None
    return as_column(described, data, context_of(ctx if ctx is not None else own))


def from_bytes(columns: Sequence[Any], ctx: ContextLike = None, *, schema: Any) -> Table:
    """Makes a table of values that lie in memory as Arrow has them: one transfer for all columns, and no look at a value.

    Args:
        columns: for each field of the schema an object with the buffer protocol (bytes, memoryview, mmap, a NumPy array) that
            holds its values in little-endian order, row after row and without nulls.
        ctx: a Context or the name of a device. None: the best device.
        schema: what `saeta.schema` takes, of types with whole bytes a value: numbers, "bool8", decimals, times, binaries of
            a fixed size.

    Returns:
        A Table of one batch, with a copy of the values.

    Raises:
        UnsupportedError: a type has bits, offsets, children or a dictionary. InvalidError: bytes that are no whole number of
        values, columns of different rows, another number of columns than of fields. The message names the column, what was
        expected and what it got.

    Example:
        >>> import saeta as sa
        >>> sa.from_bytes([b"\\1\\0\\2\\0", b"ab"], "host", schema={"n": "uint16", "flag": "uint8"}).to_pydict()
        {'n': [1, 2], 'flag': [97, 98]}
    """
    if isinstance(columns, str | bytes | Mapping) or not isinstance(columns, Iterable):
        raise TypeMismatch(
            f"columns are of type {type(columns).__name__}, expected a sequence with the bytes of each column"
        )
    fields = schema if isinstance(schema, Schema) else make_schema(schema)
    given = list(columns)
    for place, each in enumerate(given):
        if not _offers_bytes(each):
            name = fields[place].name if place < len(fields) else place
            raise TypeMismatch(
                f"column {name!r}: {type(each).__name__} does not offer its memory as contiguous bytes"
            )
    return _core._from_bytes(context_of(ctx), fields, given)


def counted_table(capacity: Table, count: Any, *, num_rows: int | None = None) -> CountedTable:
    """Joins a table that has room for more rows than there are with the number on the device that says how many are valid.

    Args:
        capacity: a Table with room for the rows.
        count: one number of type uint32, uint64, int32 or int64: a Column, a tensor of one element or what else
            `saeta.column` takes. A kernel may still be writing it: it is read in order.
        num_rows: the number, where the caller knows it; it is never read then.

    Returns:
        A CountedTable. Nothing is copied.

    Raises:
        TypeMismatch: the count has another type. InvalidError: it is more than one number, or in another context. OutOfRange:
        `num_rows` is past the capacity; the number on the device is looked at when it is read.

    Example:
        >>> import numpy as np
        >>> import saeta as sa
        >>> found = sa.counted_table(sa.table({"x": [7, 8, 0, 0]}, "host"), np.array([2], np.uint32))
        >>> found.to_table().to_pydict()
        {'x': [7, 8]}
    """
    if not isinstance(capacity, Table):
        raise TypeMismatch(f"the capacity is of type {type(capacity).__name__}, expected a Table")
    if getattr(count, "shape", None) == ():  # a tensor of one element and no dimension
        count = count.reshape(1)
    rows = count if isinstance(count, Column) else as_column("rows", count, capacity.context)
    return _core._counted_table(capacity, rows, num_rows)


def as_column(name: str | Field, value: Any, ctx: Context) -> Column:
    """`value` as a column of the context, under a name or, with all that it says, a Field."""
    if isinstance(name, Field):
        return _as_field(name, value, ctx)
    if not isinstance(name, str):
        raise TypeMismatch(f"a column's name is of type {type(name).__name__}, expected text or a Field")
    if isinstance(value, Column):
        return value.with_name(name)
    if _is_numpy(value):
        value = _exchangeable(name, value)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__") or is_series(value):
        if hasattr(value, "column_names") or hasattr(value, "columns"):
            raise TypeMismatch(f"column '{name}': {type(value).__name__} is a table, not a column")
        made: Column = from_arrow(value, ctx, as_column=True)
        return made.with_name(name)
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value, ctx, name=name)
    if hasattr(value, "__cuda_array_interface__"):
        return from_cuda_array(value, ctx, name=name)
    if _is_sequence(value):
        return as_column(name, _arrow_array(name, list(value), None), ctx)
    raise TypeMismatch(
        f"column '{name}': {type(value).__name__} has neither DLPack, an Arrow protocol nor the CUDA Array Interface and is "
        "no sequence"
    )


def _as_field(field: Field, value: Any, ctx: Context) -> Column:
    wanted = DataType("string") if field.type.is_symbol else field.type
    numbers = field.type.is_symbol and _is_numpy(value) and value.dtype.kind in "iu"
    if _is_numpy(value) and value.dtype.name != wanted.dtype and not numbers:
        value = _arrow_array(field.name, value, wanted)
    elif _is_sequence(value) and not _is_exchangeable(value):
        value = _arrow_array(field.name, list(value), wanted)
    made = as_column(field.name, value, ctx)
    if field.type.is_symbol and made.type != field.type:
        made = made.as_symbols(field.type.symbol_table)
    if field.type == "bool8" and made.type == "bool":  # pyarrow made it of Python values, and knows no bool8
        made = made.as_bool8(extension=False)
    made = made._with_field(field)
    if not field.nullable and made.null_count:
        raise InvalidError(f"column '{field.name}' has {made.null_count} nulls, and its field allows none")
    return made


def _arrow_array(name: str, values: Any, type: DataType | None) -> Any:  # noqa: A002
    """Values that only pyarrow can convert, as a pyarrow array."""
    purpose = f"column '{name}': a {values.__class__.__name__} of Python values"
    pyarrow = load("pyarrow", purpose)
    wanted = None if type is None else pyarrow.field(Field(name, type)).type
    try:
        return pyarrow.array(values, wanted)
    except pyarrow.ArrowException as failure:  # a ValueError, a TypeError or a NotImplementedError
        raise InvalidError(f"column '{name}': {failure}") from failure


def _pairs(columns: Any) -> list[tuple[str | Field, Any]]:
    """Names and values of the columns that a table is made of."""
    if isinstance(columns, Mapping):
        return list(columns.items())
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise TypeMismatch(
            f"{type(columns).__name__} is not a table: expected a mapping from names to columns, pairs of both, or an "
            "object with an Arrow protocol, as a DataFrame"
        )
    return [_pair(number, each) for number, each in enumerate(columns)]


def _pair(number: int, given: Any) -> tuple[str | Field, Any]:
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str | Field):
        return given[0], given[1]
    name = getattr(given, "name", None)  # a Column, or a Series of polars or pandas
    if isinstance(name, str) and _is_exchangeable(given):
        return name, given
    raise TypeMismatch(
        f"column number {number} is of type {type(given).__name__}: expected a pair (name, values), or a column that has a "
        "name"
    )


def _first_context(pairs: list[tuple[str | Field, Any]]) -> Context | None:
    return next((value.context for _, value in pairs if isinstance(value, Column)), None)


def _described(pairs: list[tuple[str | Field, Any]], ctx: Context, schema: Schema) -> Table:
    names = [name.name if isinstance(name, Field) else name for name, _ in pairs]
    if names != schema.names:
        raise InvalidError(f"the schema has columns {schema.names}, the table {names}")
    columns = [as_column(field, value, ctx) for field, (_, value) in zip(schema.fields, pairs, strict=True)]
    return _core._from_columns(ctx, columns)._with_schema(schema)


def _whole_table(source: Any, ctx: ContextLike, schema: Schema | None) -> Table:
    made = source if isinstance(source, Table) and ctx is None else from_arrow(source, ctx)
    if not isinstance(made, Table):
        raise TypeMismatch(
            f"{type(source).__name__} is a column, not a table: expected a mapping from names to columns"
        )
    return (
        made
        if schema is None
        else _described([(each.name, each) for each in made.columns], made.context, schema)
    )


def _offers_bytes(given: Any) -> bool:
    try:
        return memoryview(given).c_contiguous
    except TypeError:
        return False


def _is_table(given: Any) -> bool:
    """Whether it speaks for itself; a column does as well, but is not iterated."""
    return not isinstance(given, Mapping) and (
        hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    )


def _is_tensor(given: Any) -> bool:
    return hasattr(given, "__dlpack__") and not _is_table(given)


def _is_exchangeable(value: Any) -> bool:
    protocols = ("__arrow_c_array__", "__arrow_c_stream__", "__dlpack__")
    return any(hasattr(value, protocol) for protocol in protocols) or is_series(value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _exchangeable(name: str, array: Any) -> Any:
    """A NumPy array that DLPack can carry, or a pyarrow array where DLPack has no such type."""
    if array.ndim != 1:
        raise InvalidError(f"column '{name}': a column is 1-D, the array has shape {array.shape}")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return _arrow_array(name, array, None)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else array.copy()
