"""Converts columns and tables to objects of NumPy, pyarrow, pandas, polars, torch, CuPy, JAX and Numba.

The compiled module reads and checks the keywords of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from saeta import _core
from saeta._convert.dictionaries import decoded
from saeta._convert.tables import require_memory
from saeta._core import Column, DataType, _SignalScope, from_dlpack
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices
from saeta._optional import load
from saeta.errors import ExchangeError, TypeMismatch

if TYPE_CHECKING:
    from saeta._core import Table


def tensor_of(source: Column | Table, take: Callable[[Any], Any], **chosen: Any) -> Any:
    """Exports a column or table through `take`, the `from_dlpack` of a library.

    With `nulls="mask"` returns the tensor of the values and the tensor of their validity.
    """
    if not chosen:
        return take(source)
    how = Choices(**chosen)
    values = take(Exported(source, how))
    return (values, take(Exported(source, how.mask()))) if how.masks else values


def _require_memory(*columns: Column) -> None:
    """Refuses columns with more rows than any memory can hold, which would crash other libraries."""
    for column in columns:
        require_memory(len(column), column.nbytes, partial("column '{}'".format, column.name))


def table_to_arrow(self: Table) -> Any:
    pyarrow = load("pyarrow", "Table.to_arrow")
    with _SignalScope():
        return pyarrow.table(self)


def table_to_dataframe(self: Table, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
    """Implements `Table.__dataframe__`."""
    return table_to_arrow(self).__dataframe__(nan_as_null, allow_copy)


def table_to_pandas(self: Table) -> Any:
    load("pandas", "Table.to_pandas")
    _require_memory(*self.columns)
    return _to_pandas(table_to_arrow(_without_offsets(self, self.schema.types)), "table")


def table_to_polars(self: Table) -> Any:
    polars = load("polars", "Table.to_polars")
    _require_memory(*self.columns)
    for column in self.columns:
        _require_wide_decimals(column)
    with _naming_polars(polars, "table"):
        return polars.from_arrow(table_to_arrow(self))


def column_to_arrow(self: Column) -> Any:
    pyarrow = load("pyarrow", "Column.to_arrow")
    with _SignalScope():
        return pyarrow.chunked_array(self)


def column_to_pandas(self: Column) -> Any:
    load("pandas", "Column.to_pandas")
    _require_memory(self)
    whole = _without_offsets(self, [self.type])
    series = _to_pandas(column_to_arrow(whole), f"column '{self.name}' of type {self.type.name}")
    series.name = self.name
    return series


def _without_offsets(source: Any, types: Sequence[DataType]) -> Any:
    """Copies rows with list views, because pandas would get nulls for slices of them from pyarrow 26."""
    has_views = any("list_view" in type_.name for type_ in types)
    return source.take(load("numpy", "to_pandas").arange(len(source))) if has_views else source


def _to_pandas(source: Any, label: str) -> Any:
    """Converts an object of pyarrow.

    Raises Saeta's error for types that pandas lacks, such as dictionaries of lists.
    """
    try:
        return (source if len(source) else _with_chunks(source)).to_pandas()
    except (NotImplementedError, TypeError, ValueError) as failure:
        raise ExchangeError(f"{label}: pandas can't take it: {failure}; to_arrow() keeps it") from failure


def _with_chunks(source: Any) -> Any:
    """Gives list views of a table or a chunked array without rows a chunk.

    pyarrow 26 ends the process where they have none.
    """
    pyarrow = load("pyarrow", "to_pandas")
    if isinstance(source, pyarrow.Table):
        return pyarrow.table([_with_chunks(column) for column in source.columns], source.schema)
    has_views = "list_view" in str(source.type)
    return pyarrow.chunked_array([pyarrow.nulls(0, source.type)]) if has_views else source


def _require_wide_decimals(column: Column) -> None:
    """Refuses types with short decimals inside: polars 2.1 reads 16 bytes for each of them."""
    if re.search(r".decimal(32|64)\(", column.type.name):
        raise ExchangeError(
            f"column '{column.name}' of type {column.type.name}: polars can't take it: it misreads decimals "
            "of 32 and 64 bits inside of other types; to_arrow() keeps it, and pyarrow casts it to decimal128"
        )


@contextmanager
def _naming_polars(polars: Any, label: str) -> Iterator[None]:
    """Turns the errors of polars for types that it lacks into Saeta's."""
    try:
        yield
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as failure:
        raise ExchangeError(f"{label}: polars can't take it: {failure}; to_arrow() keeps it") from failure


def column_to_polars(self: Column) -> Any:
    polars = load("polars", "Column.to_polars")
    _require_memory(self)
    _require_wide_decimals(self)
    with _naming_polars(polars, f"column '{self.name}' of type {self.type.name}"):
        return polars.Series(self.name, column_to_arrow(self))


def column_to_torch(self: Column, **chosen: Any) -> Any:
    return tensor_of(self, load("torch", "Column.to_torch").from_dlpack, **chosen)


def column_to_cupy(self: Column, **chosen: Any) -> Any:
    return tensor_of(self, load("cupy", "Column.to_cupy").from_dlpack, **chosen)


def column_to_numba(self: Column, **chosen: Any) -> Any:
    as_cuda_array = load("numba.cuda", "Column.to_numba").as_cuda_array
    if self.device == "host":
        raise ExchangeError(f"column '{self.name}' is on the host, and arrays of Numba are on a GPU")

    def take(source: Any) -> Any:
        column = source if isinstance(source, Column) else from_dlpack(source, self.context)
        whole = column if column.num_chunks == 1 else column.combine_chunks()
        return as_cuda_array(whole.as_bool8() if whole.type == "bool" else whole)

    return tensor_of(self, take, **chosen)


def column_to_jax(self: Column, **chosen: Any) -> Any:
    load("jax", "Column.to_jax")
    return tensor_of(self, load("jax.numpy", "Column.to_jax").from_dlpack, **chosen)


def table_to_torch(self: Table, **chosen: Any) -> Any:
    return tensor_of(self, load("torch", "Table.to_torch").from_dlpack, **chosen)


def table_to_cupy(self: Table, **chosen: Any) -> Any:
    return tensor_of(self, load("cupy", "Table.to_cupy").from_dlpack, **chosen)


def table_to_jax(self: Table, *, order: str | None = None, **chosen: Any) -> Any:
    load("jax", "Table.to_jax")
    take = load("jax.numpy", "Table.to_jax").from_dlpack
    return tensor_of(self, take, order=order or "row", **chosen)


def table_to_numpy(self: Table, *, copy: bool | None = None, **chosen: Any) -> Any:
    numpy = load("numpy", "Table.to_numpy")

    def take(how: Choices) -> Any:
        return numpy.from_dlpack(Exported(self, how, on_host=True, copy=copy))

    how = Choices(**chosen)
    return (take(how), take(how.mask())) if how.masks else take(how)


def table_array(self: Table, dtype: Any = None, copy: bool | None = None) -> Any:
    """Implements `Table.__array__`, NumPy's protocol. pandas would use it too, and lose the column names."""
    raise TypeMismatch("a table does not become an array by itself: use .to_numpy(), or .to_pandas()")


def column_to_numpy(self: Column, *, copy: bool | None = None, **chosen: Any) -> Any:
    numpy = load("numpy", "Column.to_numpy")
    how = Choices(**chosen)
    _require_memory(self)
    if self.type.value_type is not None and not chosen.get("codes"):
        _require_copy(self, copy, "its values are in a dictionary")
        on_host = self if self.device == "host" else self.to("host")
        return column_to_numpy(decoded(on_host), **chosen)
    if how.masks:
        _require_copy(self, copy, "its validity is bits, a mask is bytes")
        return _to_numpy(numpy, self, copy, how), column_to_numpy(self.is_valid())
    return _to_numpy(numpy, self, copy, how)


def _to_numpy(numpy: Any, column: Column, copy: bool | None, how: Choices) -> Any:
    if how.refuses_nulls and column.null_count:
        raise ExchangeError(
            f"column '{column.name}' has {column.null_count} nulls, which a NumPy array can't represent: "
            f"choose {_ways_with_nulls(column)}nulls='mask', or drop_null() and fill_null(value) before; "
            "to_pylist() shows them"
        )
    if column.type == "bool":
        _require_copy(column, copy, "its values are bits, NumPy's are bytes")
    with_rows = [chunk for chunk in column.chunks if len(chunk)]
    chunks = [
        _chunk_to_numpy(numpy, chunk, copy, how) for chunk in with_rows or column.chunks[:1] or [column]
    ]
    if len(chunks) > 1:
        _require_copy(column, copy, f"it has {len(chunks)} chunks (.combine_chunks() joins them)")
        return numpy.concatenate(chunks)
    return numpy.array(chunks[0]) if copy else chunks[0]


def _ways_with_nulls(column: Column) -> str:
    """Returns the keywords that replace nulls in an array of the type, as a list for a message."""
    if column.type.dtype is None and column.type != "bool":
        return ""
    return "nulls='nan', fill=value or " if "float" in (column.type.dtype or "") else "fill=value or "


def _is_for_pyarrow(type: DataType, how: Choices) -> bool:  # noqa: A002
    """Whether pyarrow must convert the values, because tensors lack the type and no option converts it."""
    while type.format == "+r":  # run-end encoded numbers are exported as tensors
        type = type.fields[1].type  # noqa: A001
    return type.dtype is None and type != "bool" and how.shows_values


def column_array(self: Column, dtype: Any = None, copy: bool | None = None) -> Any:
    """Implements `Column.__array__`, NumPy's protocol. It must not download without an explicit request."""
    if self.device != "host":
        raise TypeMismatch(f"column '{self.name}' is on {self.device}: call to_numpy() to download it")
    values = column_to_numpy(self, copy=copy)
    if dtype is None or values.dtype == dtype:
        return values
    _require_copy(self, copy, f"its values are of type {values.dtype}, not {dtype}")
    return values.astype(dtype)


def _chunk_to_numpy(numpy: Any, chunk: Column, copy: bool | None, how: Choices) -> Any:
    if chunk.device != "host":
        _require_copy(chunk, copy, f"it is on {chunk.device}")
    narrow = _core._narrow_float_type(chunk.type.dtype or "")
    if narrow is not None:  # a type of ml_dtypes, which NumPy does not accept through DLPack
        load("ml_dtypes", f"Column.to_numpy of {narrow.name}")
        bits = _core.DataType(f"uint{8 * narrow.byte_width}")
        return _chunk_to_numpy(numpy, chunk._with_type_of_bytes(bits), copy, how).view(chunk.type.dtype)
    if not _is_for_pyarrow(chunk.type, how):
        in_place = False if copy is False else None
        return numpy.from_dlpack(Exported(chunk, how, on_host=True, copy=in_place))
    pyarrow = load("pyarrow", f"Column.to_numpy of {chunk.type.name}")
    # Uses the stream: pyarrow.array tries the device protocol first, and a pyarrow without CUDA refuses that
    # for memory of a GPU.
    shown = pyarrow.chunked_array(chunk)
    array = shown.chunk(0) if shown.num_chunks else pyarrow.array([], shown.type)
    try:
        return array.to_numpy(zero_copy_only=copy is False)
    except pyarrow.ArrowException as failure:
        raise ExchangeError(f"column '{chunk.name}' of type {chunk.type.name}: {failure}") from failure


def _require_copy(column: Column, copy: bool | None, reason: str) -> None:
    if copy is False:
        raise ExchangeError(f"column '{column.name}' can't become a NumPy array without a copy: {reason}")
