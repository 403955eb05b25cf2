"""Takes tables and columns from other libraries, through the Arrow PyCapsule Interface and DLPack."""

from __future__ import annotations

import sys
from typing import Any, Literal, Protocol, TypeAlias, overload
from weakref import WeakSet

from saeta import _core
from saeta._convert import from_cudf, pandas_index
from saeta._convert.exact_values import arrow_array_of
from saeta._convert.from_pyarrow import importer_of, parts_on_device, with_stream
from saeta._convert.tables import concat_tables
from saeta._convert.types import schema
from saeta._core import (
    Column,
    Context,
    CountedTable,
    DataType,
    Device,
    Field,
    Schema,
    SymbolTable,
    Table,
    from_dlpack,
)
from saeta.errors import ClosedError, ExchangeError, InvalidError, TypeMismatch

# Capsules of Arrow data: of streams, and pairs of a schema and an array.
STREAMS = ("arrow_array_stream", "arrow_device_array_stream")
ARRAYS = (("arrow_schema", "arrow_array"), ("arrow_schema", "arrow_device_array"))

# Device types as DLPack and Arrow number them.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

__all__ = ["context_of", "from_arrow", "from_dlpack"]

ContextLike: TypeAlias = Context | Device | str | None
"""A context, its device, or the device's name: "host", "cuda", "cuda:1". None: the best device."""
Symbols: TypeAlias = SymbolTable | Literal["ids"]
"""How symbols whose metadata name no table are taken: as their numbers, or as symbols of this table."""


def context_of(given: ContextLike) -> Context:
    """Returns the context that a `ctx=` argument names."""
    if given is None or isinstance(given, str):
        return _core.context(given)
    if isinstance(given, Context):
        return given
    if isinstance(given, Device):
        return _core.context(given.name)
    raise TypeMismatch(
        f"ctx is of type {type(given).__name__}, expected a Context or the name of a device, as 'cuda:0' or "
        "'host'"
    )


class ArrowStream(Protocol):
    """An object with the Arrow C stream interface, such as a table of another library."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...


class ArrowTable(Protocol):
    """A table of another library, as type checkers recognise it: it has columns."""

    @property
    def columns(self) -> Any: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...


class ArrowBatches(Protocol):
    """A stream whose batches are tables, as `saeta.Scan` is."""

    def __next__(self) -> Table: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...


class ArrowColumn(Protocol):
    """A column of another library, as type checkers recognise it: its values have one type."""

    @property
    def dtype(self) -> Any: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...


@overload
def from_arrow(
    source: object,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: Literal[True],
    symbols: Symbols = "ids",
    index: bool = False,
) -> Column: ...


@overload
def from_arrow(
    source: Schema,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: Literal[False] = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Schema: ...


@overload
def from_arrow(
    source: Field | DataType,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: Literal[False] = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Field: ...


@overload
def from_arrow(
    source: Table | CountedTable | ArrowTable | ArrowBatches,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: Literal[False] = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Table: ...


@overload
def from_arrow(
    source: Column | ArrowColumn,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: Literal[False] = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Column: ...


# Streams, capsules, and objects of libraries without types: their data says what they become.
@overload
def from_arrow(
    source: object,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: bool = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Any: ...


def from_arrow(
    source: Any,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    as_column: bool = False,
    symbols: Symbols = "ids",
    index: bool = False,
) -> Any:
    """Takes Arrow data into a context (a Context or the name of its device; None: the best device).

    `source` offers `__arrow_c_device_stream__`, `__arrow_c_device_array__`, `__arrow_c_stream__` or
    `__arrow_c_array__`, tried in this order. It may also be a capsule of a stream, or a pair of capsules
    (schema, array). A stream or array of structs becomes a Table, or with `as_column=True` one Column of
    structs. Any other type becomes a Column. An object or capsule that is only a schema becomes a Schema or a
    Field.

    An object that offers only `__arrow_array__`, and an array or Index of pandas, is first converted by
    pyarrow. Tables and record batches of the installed pyarrow are taken without these protocols where that
    is faster; the result is the same. A Dataset or Scanner of pyarrow is read through its reader. Frames and
    series of cuDF are taken as the device arrays of pylibcudf if these have all the information of their
    types, otherwise through the host.

    Memory that the context's device can use is shared. It is kept alive until our last work on it has
    finished, and our first work waits for the producer's. Memory of the context itself that comes back from
    another library is recognised: the column shares it, with its ordering state, and it is not counted again.

    `copy=True` copies into memory of the context, under its budget: memory of a device with one kernel per
    batch. Host memory goes to a device with one transfer per batch; `copy=False` refuses that with
    ExchangeError. Data on a device enters a context of that device. For a context of another GPU it is then
    copied there, as `Table.to` does; `copy=False` refuses that, too. For a host context the producer
    downloads it, if it offers that.

    `symbols` applies to symbol numbers (uint32 with the field metadata `xlog.symbol=true`) whose metadata
    names no table of symbols, such as those of XLOG. With "ids" they stay numbers and keep their metadata.
    With a SymbolTable they become symbols of that table; OutOfRange names a number that the table lacks.

    The index of a DataFrame of pandas or cuDF is left out. `index=True` adds a column for each of its levels,
    behind the others: one without a name is named `__index_level_0__`, with its number. All other objects
    have their index, if any, among their columns.

    Example:
        >>> import saeta as sa
        >>> import pyarrow as pa
        >>> table = sa.from_arrow(pa.table({"fare": [12.5, None]}), "host")
        >>> table["fare"].to_pylist()
        [12.5, None]
        >>> sa.from_arrow(pa.array([1, 2]), "host").to_pylist()
        [1, 2]
    """
    if isinstance(symbols, str) and symbols != "ids":
        raise InvalidError(f"symbols={symbols!r}: expected 'ids' or a SymbolTable")
    if not isinstance(symbols, str | SymbolTable):
        raise TypeMismatch(f"symbols is of type {type(symbols).__name__}, expected 'ids' or a SymbolTable")
    taken = _take(source, ctx, copy, as_column, index)
    if isinstance(symbols, str):
        return taken
    if isinstance(taken, Column):
        return _with_names(taken, symbols)
    if isinstance(taken, Table):
        return taken._with_columns([_with_names(column, symbols) for column in taken.columns])
    return taken


def _with_names(column: Column, symbols: SymbolTable) -> Column:
    """Converts symbol numbers whose metadata names no table to symbols of the given table.

    Returns other columns unchanged.
    """
    metadata = column.field.metadata
    marked = metadata.get(b"xlog.symbol") == b"true" and b"saeta.symbol_table" not in metadata
    return column.as_symbols(symbols) if marked and column.type == "uint32" else column


def _take(source: Any, ctx: ContextLike, copy: bool | None, as_column: bool, index: bool = False) -> Any:
    """Takes Arrow data, as `from_arrow` does, without naming symbols."""
    if pandas_index.is_frame(source):
        source = pandas_index.frame_to_arrow(source, index)
    source = with_stream(source)
    if isinstance(source, _core.Table | _core.Column) and ctx is not None:
        where = context_of(ctx)
        if "host" not in (source.device, where.device) and source.device != where.device:
            return _move(_take(source, source.context, None, as_column), where, copy)
    importer = None if as_column else importer_of(source)
    if importer is not None:
        return importer.table(context_of(ctx), source, copy)
    parts = parts_on_device(source)
    if parts is not None and (len(parts) != 1 or parts[0] is not source):
        return _join([_take(part, ctx, copy, as_column) for part in parts])
    if from_cudf.is_cudf(source):
        as_column = as_column or from_cudf.is_series(source)
        of_cudf = _from_cudf(source, context_of(ctx), copy, as_column, index)
        if of_cudf is not None:
            return of_cudf
    capsules = _device_capsules(from_cudf.exportable(source, copy), ctx)
    if capsules is not None:
        return _take_from_device(capsules, ctx, copy, as_column)
    source = from_cudf.host_form(source, index)
    if hasattr(source, "__arrow_c_stream__"):
        return _core._import_stream(context_of(ctx), _take_stream(source), copy, as_column)
    if hasattr(source, "__arrow_c_array__"):
        described, array = source.__arrow_c_array__()
        return _core._import_array(context_of(ctx), described, array, copy, as_column)
    if hasattr(source, "__arrow_c_schema__"):
        return _core._import_schema(source.__arrow_c_schema__())
    if is_arrow_array(source):
        return _take(arrow_array_of("from_arrow", source), ctx, copy, as_column)
    if _core._capsule_name(source) == "arrow_schema":
        return _core._import_schema(source)
    if is_arrow_capsule(source):  # host data; device capsules were handled above
        where = context_of(ctx)
        if isinstance(source, tuple):
            return _core._import_array(where, source[0], source[1], copy, as_column)
        return _core._import_stream(where, source, copy, as_column)
    refuse_capsule(source)
    raise TypeMismatch(
        f"{type(source).__name__} has none of __arrow_c_device_stream__, __arrow_c_device_array__, "
        "__arrow_c_stream__, __arrow_c_array__, __arrow_c_schema__ and __arrow_array__, and is not a capsule "
        "of one of them: saeta.table and saeta.column take Python values and tensors"
    )


def is_arrow_capsule(source: Any) -> bool:
    """Whether the object is a capsule of an Arrow stream, or a pair of capsules: a schema and an array."""
    if isinstance(source, tuple):
        return len(source) == 2 and tuple(map(_core._capsule_name, source)) in ARRAYS
    return _core._capsule_name(source) in STREAMS


def refuse_capsule(source: Any) -> None:
    """Raises TypeMismatch, with what to pass instead, for a capsule that holds no Arrow data by itself."""
    name = _core._capsule_name(source)
    if name is None:
        return
    if ("arrow_schema", name) in ARRAYS:
        advice = f"it does not say which columns it has: pass the pair (arrow_schema, {name})"
    elif name == "arrow_schema":
        advice = "it has no data: pass the pair of it and its array"
    elif "dltensor" in str(name):
        advice = "it has a tensor: use saeta.from_dlpack, saeta.column or saeta.table"
    else:
        advice = "it is neither one of Arrow nor one of DLPack"
    raise TypeMismatch(f"a capsule '{name}' is not a table or a column: {advice}")


def _take_in_place(source: Any, index: bool) -> Any:
    """Takes Arrow data, as `from_arrow` does, into a context of the device that its memory is on."""
    source = with_stream(source)
    if parts_on_device(source) is not None or from_cudf.is_cudf(source):
        return from_arrow(source, index=index)
    capsules = None if importer_of(source) is not None else _device_capsules(source, None)
    if capsules is not None:
        source, part = capsules, capsules[1] if isinstance(capsules, tuple) else capsules
        return from_arrow(source, _context_of(_core._device_of_capsule(part)))
    return from_arrow(source, "host", index=index)


def table_in_place(name: str, source: Any, index: bool = False) -> Table:
    """Takes an argument that is a table of this or of another library, where its memory is."""
    table = source if isinstance(source, Table) else _take_in_place(source, index)
    if not isinstance(table, Table):
        raise TypeMismatch(f"{name} is of type {type(source).__name__}, expected a table")
    return table


def is_arrow_array(source: Any) -> bool:
    """Whether pyarrow can make an Arrow array of the object.

    That is an object with `__arrow_array__`, or an array or Index of pandas.
    """
    if from_cudf.is_cudf(source):  # cuDF has the method only to refuse the call
        return False
    pandas = sys.modules.get("pandas")
    if hasattr(source, "__arrow_array__") or pandas is None:
        return hasattr(source, "__arrow_array__")
    known = isinstance(source, pandas.api.extensions.ExtensionArray | pandas.Index)
    return known and not isinstance(source, pandas.arrays.SparseArray)


# The readers of pyarrow that were read to their end here. Reading one again would silently return no rows.
_taken_readers: WeakSet[Any] = WeakSet()


def _take_stream(source: Any) -> Any:
    """Returns the stream of an object.

    Raises ClosedError if the object has one stream only and its rows were taken before.
    """
    if type(source).__name__ == "RecordBatchReader":
        if source in _taken_readers:
            raise ClosedError("the rows of this RecordBatchReader were already consumed: make a new reader")
        _taken_readers.add(source)
    try:
        return source.__arrow_c_stream__()
    except RuntimeError as failure:
        if "released" in str(failure):  # nanoarrow's message for a stream that was taken before
            raise ClosedError(
                f"the rows of this {type(source).__name__} were already consumed: {failure}"
            ) from failure
        raise


def _join(parts: list[Any]) -> Any:
    """Joins tables, or columns of one type, into one without a copy."""
    if isinstance(parts[0], _core.Table):
        return concat_tables(parts)
    return concat_tables([_core._from_columns(part.context, [part.with_name("")]) for part in parts])[""]


def _from_cudf(source: Any, ctx: Context, copy: bool | None, as_column: bool, index: bool) -> Any:
    """Imports a frame or series of cuDF through the device arrays of pylibcudf.

    Returns None if they lack information of cuDF's types: pylibcudf has no time zones, decimal precisions,
    field names or index.
    """
    if ctx.device == "host" or (as_column and not from_cudf.is_series(source)):
        return None
    described = from_cudf.to_arrow(source.iloc[:0], index)  # types and names only; no row is downloaded
    taken = from_arrow(source.to_pylibcudf()[0], ctx, copy=copy, as_column=as_column)
    if from_cudf.is_series(source):
        return taken if taken.type == DataType(described.type) else None
    try:
        return taken._with_schema(schema(described.schema))
    except (TypeMismatch, ValueError):
        return None


def _device_capsules(source: Any, ctx: ContextLike) -> Any:
    """Returns a stream, or a pair of schema and array, of the device protocols.

    None if the host protocols are to be used.
    """
    if _core._capsule_name(source) == "arrow_device_array_stream":
        return source
    if (
        isinstance(source, tuple)
        and len(source) == 2
        and _core._capsule_name(source[1]) == "arrow_device_array"
    ):
        return source
    on_host = ctx is not None and context_of(ctx).device == "host"
    for name in ("__arrow_c_device_stream__", "__arrow_c_device_array__"):
        if hasattr(source, name):
            capsules = getattr(source, name)()
            kind = _core._device_type_of_capsule(capsules[1] if isinstance(capsules, tuple) else capsules)
            downloads = hasattr(source, name.replace("_device", ""))
            return None if on_host and kind != CPU and downloads else capsules
    return None


def _take_from_device(capsules: Any, ctx: ContextLike, copy: bool | None, as_column: bool) -> Any:
    device = _core._device_of_capsule(capsules[1] if isinstance(capsules, tuple) else capsules)
    where = context_of(ctx) if ctx is not None or device[0] == CPU else _context_of(device)
    if is_elsewhere(device, where):
        return _move(_take_from_device(capsules, _context_of(device), None, as_column), where, copy)
    if isinstance(capsules, tuple):
        return _core._import_device_array(where, capsules[0], capsules[1], copy, as_column)
    return _core._import_device_stream(where, capsules, copy, as_column)


def is_elsewhere(device: tuple[int, int | None], ctx: Context) -> bool:
    """Whether a device (in DLPack's numbers) and the context's device are two different GPUs."""
    kind, ordinal = device
    on_gpus = kind not in (CPU, CUDA_HOST, CUDA_MANAGED) and ctx.device != "host"
    return on_gpus and ordinal is not None and ordinal != int(ctx.device.partition(":")[2])


def _move(taken: Any, ctx: Context, copy: bool | None) -> Any:
    """Copies imported data from the context of its own GPU to that of another one."""
    if copy is False:
        raise ExchangeError(
            f"the memory is on {taken.device} and the context on {ctx.device}, and a copy was forbidden: "
            f'move it with to("{ctx.device}")'
        )
    return taken.to(ctx)


def _context_of(device: tuple[int, int | None]) -> Context:
    kind, ordinal = device
    if kind in (CPU, CUDA_HOST):
        return _core.context("host")
    if kind in (CUDA, CUDA_MANAGED):
        return _core.context(f"cuda:{ordinal or 0}")
    raise ExchangeError(
        f"the tensor is on device type {kind}: only CPU (1) and CUDA (2, 3, 13) are supported"
    )
