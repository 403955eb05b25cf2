"""Builds tables and columns, and tables with other columns, from the objects that Python programs have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from saeta import _core
from saeta._convert.exact_arrays import array_of_type
from saeta._convert.exact_values import arrow_array, arrow_array_of, arrow_type
from saeta._convert.from_cudf import is_series
from saeta._convert.from_numpy import is_array, mask_of
from saeta._convert.from_pyarrow import with_stream
from saeta._convert.from_tensors import is_tensor, take_tensor
from saeta._convert.lent_capsules import lent
from saeta._convert.tables import column_place, place_of_name
from saeta._convert.types import schema as make_schema
from saeta._core import (
    Column,
    Context,
    CountedTable,
    DataType,
    Field,
    Schema,
    Table,
    _capsule_name,
    _LentCapsule,
)
from saeta.errors import InvalidError, TypeMismatch
from saeta.exchange import (
    ContextLike,
    context_of,
    from_arrow,
    from_dlpack,
    is_arrow_array,
    is_arrow_capsule,
    is_elsewhere,
    refuse_capsule,
)

Cast: TypeAlias = Literal["truncate", "reinterpret"] | None

SIGNED, UNSIGNED = ("c", "s", "i", "l"), ("C", "S", "I", "L")  # formats of integers


def table(
    columns: Mapping[str, Any] | Iterable[tuple[str, Any]] | Any,
    ctx: ContextLike = None,
    *,
    schema: Any = None,
    truncate: bool = False,
    reinterpret: bool = False,
    index: bool = False,
) -> Table:
    """Makes a table of columns of equal length.

    Memory that is on the context's device is shared. Other memory is copied with one transfer per column.
    If `ctx` is given, columns and tensors of another GPU are copied to its device.

    Args:
        columns: a mapping from names to values, pairs of both (names may repeat), a sequence of columns, or a
            whole table: a DataFrame, any object with `__arrow_c_stream__` or `__arrow_c_array__`, capsules of
            Arrow, a Dataset or Scanner of pyarrow, or a tensor of two dimensions. Columns of a sequence are
            tensors and arrays; those with a name (Column, polars or pandas Series) keep it. The others, and
            the columns of a tensor, are named by the schema, else col_0, col_1 ... after their places. Values
            are what `saeta.column` takes. DLPack capsules are consumed if the table can be made, otherwise
            all of them stay as they were.
        ctx: a Context or the name of a device. None: the context of the first Column, else the best device.
        schema: names, types, nullability and metadata that the table must have: what `saeta.schema` takes, or
            a list of names, which leaves the types to the data. Python values and NumPy arrays are
            converted as by `saeta.column`.
        truncate, reinterpret: how to convert values that the types of the schema can't represent, as for
            `saeta.column`. Tensors are only reinterpreted.
        index: whether the index of a DataFrame of pandas or cuDF becomes columns, as for `saeta.from_arrow`.

    Returns:
        A Table.

    Raises:
        TypeMismatch, InvalidError: a value is not a column, or lengths differ. The message names the column.

    Example:
        >>> import saeta as sa
        >>> sa.table({"a": [1, 2], "b": ["x", None]}, "host").shape
        (2, 2)
    """
    columns = with_stream(columns)
    described = _fields(schema)
    cast = _cast_of(truncate, reinterpret)
    with lent([columns]) as (tensor,):
        if _is_tensor(tensor):
            return _table_of_tensor(tensor, ctx, described, cast)
    _require_type(cast, typed=isinstance(described, Schema))
    if _is_table(columns):
        return _whole_table(columns, ctx, described, cast, index)
    pairs = _named(_pairs(columns), described)
    with lent([value for _, value in pairs]) as values:
        pairs = [(name, value) for (name, _), value in zip(pairs, values, strict=True)]
        where = context_of(ctx if ctx is not None else _first_context(pairs))
        if ctx is not None:
            pairs = [(name, _moved(value, where)) for name, value in pairs]
        if described is not None:
            return _described(pairs, where, described, cast)
        return _core._from_columns(where, [as_column(name, value, where) for name, value in pairs])


def column(
    data: Any,
    ctx: ContextLike = None,
    *,
    name: str | Field = "",
    type: Any = None,  # noqa: A002
    truncate: bool = False,
    reinterpret: bool = False,
) -> Column:
    """Makes a column.

    Args:
        data: a Column, an object with DLPack (a tensor, a NumPy array), one with an Arrow protocol (a pyarrow
            array, a polars or pandas Series), a capsule of either, one with `__arrow_array__` (an array or an
            Index of pandas) or a sequence of Python values, which pyarrow converts. Masked values of a NumPy
            array become nulls. A DLPack capsule is consumed if the column can be made.
        ctx: a Context or the name of a device. None: the context of a Column, else the best device.
        name: the name, or a Field, which also gives type, nullability and metadata.
        type: what `saeta.DataType` takes: "int32", "timestamp[us, tz=UTC]", a pyarrow type. Python values,
            NumPy arrays and arrays of pandas are converted to it if every value stays equal; floats and
            decimals become the nearest float. Any other object must have this type. `saeta.symbol()` takes
            what `Column.as_symbols` does. None: the type of the data.
        truncate: whether to drop what the type can't represent: the fraction of a number, the time of day of
            a date, the nanoseconds of a time in microseconds. Integers become the nearest float.
        reinterpret: whether to take the bits of integers as integers of the other sign, or as the ticks of
            dates, times, timestamps and durations of the same width, and timestamps without a zone as UTC.
            Without both, no conversion changes values.

    Returns:
        A Column. Memory that is on the context's device is shared. A Column or tensor of another GPU is
        copied, if `ctx` is given.

    Raises:
        TypeMismatch: the data is of another kind (text where numbers are expected), or is not a column.
        InvalidError: the type can't represent a value; with `truncate`, because the value is outside the
            type's range. The message names the first such value and its row. Also for nulls in a field that
            allows none.

    Example:
        >>> import saeta as sa
        >>> sa.column([1, None], "host", name="a", type="int16").type.name
        'int16'
        >>> sa.column([2.5, None], "host", name="a", type="int16", truncate=True).to_pylist()
        [2, None]
    """
    described = name
    if type is not None:
        described = name.with_type(type) if isinstance(name, Field) else Field(name, type)
    cast = _cast_of(truncate, reinterpret)
    _require_type(cast, typed=isinstance(described, Field))
    with lent([data]) as (taken,):
        if ctx is not None:
            where = context_of(ctx)
            return as_column(described, _moved(taken, where), where, cast)
        where = context_of(taken.context if isinstance(taken, Column) else None)
        return as_column(described, taken, where, cast)


def from_bytes(columns: Sequence[Any], ctx: ContextLike = None, *, schema: Any) -> Table:
    r"""Makes a table from values that already have Arrow's memory layout.

    One transfer for all columns; values are not checked.

    Args:
        columns: for each field of the schema an object with the buffer protocol (bytes, memoryview, mmap, a
            NumPy array) that holds its values in little-endian order, row after row and without nulls.
        ctx: a Context or the name of a device. None: the best device.
        schema: what `saeta.schema` takes. Each type has a whole number of bytes per value: numbers, "bool8",
            decimals, times, binaries of a fixed size.

    Returns:
        A Table of one batch, with a copy of the values.

    Raises:
        UnsupportedError: a type has bits, offsets, children or a dictionary.
        InvalidError: the bytes are not a whole number of values, columns have different numbers of rows, or
            there are not as many columns as fields. The message names the column, what was expected and what
            it got.

    Example:
        >>> import saeta as sa
        >>> values = [b"\1\0\2\0", b"ab"]
        >>> sa.from_bytes(values, "host", schema={"n": "uint16", "flag": "uint8"}).to_pydict()
        {'n': [1, 2], 'flag': [97, 98]}
    """
    if isinstance(columns, str | bytes | Mapping) or not isinstance(columns, Iterable):
        raise TypeMismatch(
            f"columns are of type {type(columns).__name__}, expected a sequence with the bytes of each column"
        )
    fields = schema if isinstance(schema, Schema) else make_schema(schema)
    given = list(columns)
    for place, values in enumerate(given):
        if not offers_bytes(values):
            name = fields[place].name if place < len(fields) else place
            raise TypeMismatch(
                f"column {name!r}: {type(values).__name__} does not offer its memory as contiguous bytes"
            )
        if mask_of(values) is not None:
            raise InvalidError(
                f"column {fields[place].name!r}: a masked array has nulls, which bytes can't represent"
            )
    return _core._from_bytes(context_of(ctx), fields, given)


def counted_table(capacity: Table, count: Any, *, num_rows: int | None = None) -> CountedTable:
    """Combines a table that may have more capacity than rows with a count of valid rows on the device.

    Args:
        capacity: a Table with room for the rows.
        count: one number of type uint32, uint64, int32 or int64: a Column, a tensor of one element or
            anything else that `saeta.column` takes. A kernel may still be writing it: reads wait for the
            kernel.
        num_rows: the number, if the caller knows it. The number on the device is then never read.

    Returns:
        A CountedTable. Nothing is copied.

    Raises:
        TypeMismatch: the count has another type.
        InvalidError: the count is more than one number, or is in another context.
        OutOfRange: `num_rows` exceeds the capacity. The number on the device is checked when it is read.

    Example:
        >>> import numpy as np
        >>> import saeta as sa
        >>> found = sa.counted_table(sa.table({"x": [7, 8, 0, 0]}, "host"), np.array([2], np.uint32))
        >>> found.to_table().to_pydict()
        {'x': [7, 8]}
    """
    if not isinstance(capacity, Table):
        raise TypeMismatch(f"the capacity is of type {type(capacity).__name__}, expected a Table")
    if getattr(count, "shape", None) == ():  # a zero-dimensional tensor
        count = count.reshape(1)
    with lent([count]) as (taken,):
        rows = taken if isinstance(taken, Column) else as_column("rows", taken, capacity.context)
        return _core._counted_table(capacity, rows, num_rows)


def append_column(self: Table, name: str | Field, values: Any) -> Table:
    """Implements `Table.append_column`."""
    return add_column(self, self.num_columns, name, values)


def add_column(self: Table, index: int, name: str | Field, values: Any) -> Table:
    """Implements `Table.add_column`."""
    columns = self.columns
    place = column_place(index, len(columns), last=len(columns))
    with lent([values]) as (taken,):
        columns.insert(place, as_column(name, taken, self.context))
        return self._with_columns(columns)


def set_column(self: Table, index: int | str, name: str | Field, values: Any) -> Table:
    """Implements `Table.set_column`."""
    columns = self.columns
    if isinstance(index, str):
        index = place_of_name(self, index)
    place = column_place(index, len(columns), last=len(columns) - 1)
    with lent([values]) as (taken,):
        columns[place] = as_column(name, taken, self.context)
        return self._with_columns(columns)


def as_column(
    name: str | Field, value: Any, ctx: Context, cast: Cast = None, *, converted: bool = False
) -> Column:
    """Makes a column of the context from `value`, named by a text or described by a Field.

    Args:
        converted: whether the memory of `value` was allocated by a conversion. It is then copied into memory
            of the context, on the host too, so that it is charged to the budget.
    """
    if isinstance(name, Field):
        return _as_field(name, value, ctx, cast)
    if not isinstance(name, str):
        raise TypeMismatch(f"a column's name is of type {type(name).__name__}, expected text or a Field")
    if isinstance(value, Column):
        return value.with_name(name)
    if _describes_itself(value):
        value = arrow_array_of(f"column '{name}'", value)
    elif is_array(value):
        given, value = value, array_of_type(name, value, None, None)
        # The conversion allocates memory, except for dates and times, whose values it views.
        converted = converted or (value is not given and given.dtype.kind not in "Mm")
    copy = True if converted and ctx.device == "host" else None
    if _has_arrow(value) or is_series(value):
        if hasattr(value, "column_names") or hasattr(value, "columns"):
            raise TypeMismatch(f"column '{name}': {type(value).__name__} is a table, not a column")
        column: Column = from_arrow(value, ctx, as_column=True, copy=copy)
        return column.with_name(name)
    taken = take_tensor(value, ctx, copy=copy, name=name)
    if taken is not None:
        return taken
    refuse_capsule(value)
    if _is_sequence(value):
        return as_column(name, arrow_array(name, list(value), None, None), ctx, converted=True)
    raise TypeMismatch(
        f"column '{name}': {type(value).__name__} has neither DLPack, an Arrow protocol nor the CUDA Array "
        f"Interface and is not a sequence"
    )


def _on_another_gpu(value: Any, ctx: Context) -> bool:
    """Whether the value is a Column or a tensor on another GPU than the context's."""
    asked = isinstance(value, Column) or (_is_tensor(value) and not is_array(value))
    return ctx.device != "host" and asked and is_elsewhere(value.__dlpack_device__(), ctx)


def _moved(value: Any, ctx: Context) -> Any:
    """Returns the value, or its copy in the context if it is on another GPU."""
    if not _on_another_gpu(value, ctx):
        return value
    return value.to(ctx) if isinstance(value, Column) else from_dlpack(value, ctx, copy=True)


def _as_field(field: Field, value: Any, ctx: Context, cast: Cast) -> Column:
    if cast == "reinterpret":
        column = _reinterpret(field, value, ctx)
    else:
        prepared = _make_of_type(field, value, cast)
        converted = prepared is not value and not _describes_itself(value)
        column = as_column(field.name, prepared, ctx, converted=converted)
    if field.type.is_symbol and column.type != field.type:
        table = field.type.symbol_table
        column = column.as_symbols(None if table == _core.SymbolTable.default() else table)
    if (
        field.type == "bool8" and column.type == "bool"
    ):  # pyarrow converted Python values; it has no type bool8
        column = column.as_bool8(extension=False)
    narrow = field.type.dtype is not None and field.type.format.startswith("w:")
    if narrow and column.type == DataType(f"fixed_size_binary[{field.type.byte_width}]"):
        column = column._with_type_of_bytes(field.type)  # pyarrow has no bfloat16
    column = column._with_field(field)
    if not field.nullable and column.null_count:
        raise InvalidError(f"column '{field.name}' has {column.null_count} nulls, and its field allows none")
    return column


def _fields(schema: Any) -> Schema | list[str] | None:
    """Returns the schema that an argument describes, or the names that it lists."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, list | tuple) and schema and all(isinstance(each, str) for each in schema):
        return list(schema)
    return make_schema(schema)


def _names(described: Schema | list[str]) -> list[str]:
    return described.names if isinstance(described, Schema) else described


def _pairs(columns: Any) -> list[tuple[str | Field | None, Any]]:
    """Returns the names and values of the columns of a table; None for a column without a name."""
    refuse_capsule(columns)
    if isinstance(columns, Mapping):
        return list(columns.items())
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise TypeMismatch(
            f"{type(columns).__name__} is not a table: expected a mapping from names to columns, pairs of "
            "both, a sequence of tensors, or an object with an Arrow protocol, as a DataFrame"
        )
    return [_pair(number, each) for number, each in enumerate(columns)]


def _pair(number: int, given: Any) -> tuple[str | Field | None, Any]:
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str | Field):
        return given[0], given[1]
    if _is_exchangeable(given) or _capsule_name(given) is not None:
        name = getattr(given, "name", None)  # a Column, or a Series of polars or pandas
        return name if isinstance(name, str) else None, given
    rows = "; pyarrow.Table.from_pylist makes a table of rows" if isinstance(given, Mapping) else ""
    raise TypeMismatch(
        f"column number {number} is of type {type(given).__name__}: expected a pair (name, values), a tensor "
        f"or an array{rows}"
    )


def _named(
    pairs: list[tuple[str | Field | None, Any]], described: Schema | list[str] | None
) -> list[tuple[str | Field, Any]]:
    """Names the columns without a name by their index: with the schema's name if there is a schema."""
    known = [] if described is None else _names(described)
    names = known if len(known) == len(pairs) else [f"col_{place}" for place in range(len(pairs))]
    return [(names[place] if name is None else name, value) for place, (name, value) in enumerate(pairs)]


def _first_context(pairs: list[tuple[str | Field, Any]]) -> Context | None:
    return next((value.context for _, value in pairs if isinstance(value, Column)), None)


def _described(
    pairs: list[tuple[str | Field, Any]], ctx: Context, described: Schema | list[str], cast: Cast = None
) -> Table:
    names = [name.name if isinstance(name, Field) else name for name, _ in pairs]
    if names != _names(described):
        raise InvalidError(f"the schema has columns {_names(described)}, the table {names}")
    if not isinstance(described, Schema):
        return _core._from_columns(ctx, [as_column(name, value, ctx) for name, value in pairs])
    columns = [
        as_column(field, value, ctx, cast) for field, (_, value) in zip(described.fields, pairs, strict=True)
    ]
    return _core._from_columns(ctx, columns)._with_schema(described)


def _table_of_tensor(
    tensor: Any, ctx: ContextLike, described: Schema | list[str] | None, cast: Cast
) -> Table:
    if cast == "truncate":
        raise InvalidError("truncate=True is for columns: a tensor keeps its type or is reinterpreted")
    copy = True if ctx is not None and _on_another_gpu(tensor, context_of(ctx)) else None
    schema = described if isinstance(described, Schema) else None
    table = from_dlpack(tensor, ctx, copy=copy, columns=True, schema=schema, reinterpret=cast is not None)
    return table.rename_columns(described) if isinstance(described, list) else table


def _whole_table(
    source: Any, ctx: ContextLike, schema: Schema | list[str] | None, cast: Cast, index: bool
) -> Table:
    if cast is not None:
        raise InvalidError(
            f"{cast}=True is for columns, and {type(source).__name__} is a table: convert it there"
        )
    whole = source if isinstance(source, Table) and ctx is None else from_arrow(source, ctx, index=index)
    if not isinstance(whole, Table):
        raise TypeMismatch(
            f"{type(source).__name__} is a column, not a table: expected a mapping from names to columns"
        )
    return (
        whole
        if schema is None
        else _described([(column.name, column) for column in whole.columns], whole.context, schema)
    )


def offers_bytes(given: Any) -> bool:
    try:
        return memoryview(given).c_contiguous
    except TypeError:
        return False


def _is_table(given: Any) -> bool:
    """Whether the object is imported as a whole through an Arrow protocol. Also True for a column."""
    return not isinstance(given, Mapping) and _has_arrow(given)


def _has_arrow(value: Any) -> bool:
    return (
        hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or is_arrow_capsule(value)
    )


def _has_dlpack(value: Any) -> bool:
    return hasattr(value, "__dlpack__") or isinstance(value, _LentCapsule)


def _is_tensor(given: Any) -> bool:
    return _has_dlpack(given) and not _is_table(given)


def _is_exchangeable(value: Any) -> bool:
    return _has_arrow(value) or is_tensor(value) or is_arrow_array(value) or is_series(value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _describes_itself(value: Any) -> bool:
    """Whether only pyarrow can convert the object to an Arrow array, as for arrays of pandas."""
    return is_arrow_array(value) and not _is_table(value)


def _make_of_type(field: Field, value: Any, cast: Literal["truncate"] | None) -> Any:
    """Converts Python values and NumPy or pandas arrays to an input of `as_column` with the field's type."""
    wanted = DataType("string") if field.type.is_symbol else field.type
    if is_array(value) and not _describes_itself(value):
        numbers = field.type.is_symbol and value.dtype.kind in "iu"
        return value if numbers else array_of_type(field.name, value, wanted, cast)
    if _describes_itself(value):
        value = arrow_array_of(f"column '{field.name}'", value)
        same = field.type.is_symbol or value.type == arrow_type(field.name, wanted)
        return value if same else arrow_array(field.name, value.to_pylist(), wanted, cast)
    if _is_sequence(value) and not _is_exchangeable(value):
        return arrow_array(field.name, list(value), wanted, cast)
    if cast is not None:
        raise InvalidError(
            f"column '{field.name}': {cast}=True converts Python values and NumPy arrays, and "
            f"{type(value).__name__} has a type of its own: convert it there"
        )
    return value


def _cast_of(truncate: bool, reinterpret: bool) -> Cast:
    """Returns what the two arguments ask for."""
    if truncate and reinterpret:
        raise InvalidError("truncate=True and reinterpret=True exclude each other: choose one")
    return "truncate" if truncate else "reinterpret" if reinterpret else None


def _require_type(cast: Cast, *, typed: bool) -> None:
    if cast is not None and not typed:
        raise InvalidError(f"{cast}=True needs a type to convert to, and no type is given")


def _reinterpret(field: Field, value: Any, ctx: Context) -> Column:
    """Takes the bits of integers, or of timestamps without a zone, as values of the field's type."""
    wanted = field.type
    if _is_sequence(value) and not (_is_exchangeable(value) or isinstance(value, Column)):
        sign = "u" if wanted.format in SIGNED else ""
        value = arrow_array(
            field.name, list(value), DataType(f"{sign}int{8 * wanted.byte_width or 64}"), None
        )
    column = as_column(field.name, value, ctx)
    given = column.type
    integers = [kind.format in SIGNED + UNSIGNED and not kind.extension_name for kind in (given, wanted)]
    ticks = wanted.format.startswith("t") and not wanted.format.startswith("ti") and not wanted.extension_name
    zones = given.format.startswith("ts") and given.format[:4] == wanted.format[:4] and given.format[4:] == ""
    if not (integers[0] and (integers[1] or ticks) and given.byte_width == wanted.byte_width) and not zones:
        raise TypeMismatch(
            f"column '{field.name}' is of type {given.name}, which can't become {wanted.name}: "
            "reinterpret=True reads integers as others of the same width, or as dates, times "
            "and durations of that width, and timestamps without a zone as UTC"
        )
    return column._with_type_of_bytes(wanted)
