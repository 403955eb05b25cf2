"""Columns and tables as the objects of NumPy, pyarrow, pandas, polars, torch and CuPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saeta._optional import load
from saeta.errors import ExchangeError, TypeMismatch
from saeta.exchange import CPU

if TYPE_CHECKING:
    from saeta._core import Column, Table


def table_to_arrow(self: Table) -> Any:
    return load("pyarrow", "Table.to_arrow").table(self)


def table_to_pandas(self: Table) -> Any:
    load("pandas", "Table.to_pandas")
    return table_to_arrow(self).to_pandas()


def table_to_polars(self: Table) -> Any:
    return load("polars", "Table.to_polars").from_arrow(table_to_arrow(self))


def column_to_arrow(self: Column) -> Any:
    return load("pyarrow", "Column.to_arrow").chunked_array(self)


def column_to_pandas(self: Column) -> Any:
    load("pandas", "Column.to_pandas")
    series = column_to_arrow(self).to_pandas()
    series.name = self.name
    return series


def column_to_polars(self: Column) -> Any:
    return load("polars", "Column.to_polars").Series(self.name, column_to_arrow(self))


def column_to_torch(self: Column) -> Any:
    return load("torch", "Column.to_torch").from_dlpack(self)


def column_to_cupy(self: Column) -> Any:
    return load("cupy", "Column.to_cupy").from_dlpack(self)


def column_to_numpy(self: Column, *, copy: bool | None = None) -> Any:
    numpy = load("numpy", "Column.to_numpy")
    if self.null_count:
        raise ExchangeError(
            f"column '{self.name}' has {self.null_count} nulls, which a NumPy array can't carry: "
            "to_arrow().to_numpy(zero_copy_only=False) or to_pylist() show them"
        )
    if self.type == "bool":
        _require_copy(self, copy, "its values are bits, NumPy's are bytes")
        return column_to_numpy(self.as_bool8())
    chunks = [_chunk_to_numpy(numpy, chunk, copy) for chunk in (self.chunks or [self])]
    if len(chunks) > 1:
        _require_copy(self, copy, f"it has {len(chunks)} chunks (hand over each of its .chunks)")
        return numpy.concatenate(chunks)
    return numpy.array(chunks[0]) if copy else chunks[0]


def column_array(self: Column, dtype: Any = None, copy: bool | None = None) -> Any:
    """Body of `Column.__array__`, NumPy's protocol, which must not download behind the caller's back."""
    if self.device != "host":
        raise TypeMismatch(
            f"column '{self.name}' lives on {self.device}: to_numpy() downloads it where that is wanted"
        )
    values = column_to_numpy(self, copy=copy)
    return values if dtype is None else values.astype(dtype, copy=bool(copy))


def _chunk_to_numpy(numpy: Any, chunk: Column, copy: bool | None) -> Any:
    if chunk.type.dtype is not None:
        if chunk.device != "host":
            _require_copy(chunk, copy, f"it lives on {chunk.device}")
        return numpy.from_dlpack(_OnHost(chunk))
    if chunk.device != "host":
        _require_copy(chunk, copy, f"it lives on {chunk.device}")
    pyarrow = load("pyarrow", f"Column.to_numpy of {chunk.type.name}")
    try:
        return pyarrow.array(chunk).to_numpy(zero_copy_only=copy is False)
    except pyarrow.ArrowInvalid as failure:
        raise ExchangeError(f"column '{chunk.name}' of type {chunk.type.name}: {failure}") from failure


def _require_copy(column: Column, copy: bool | None, reason: str) -> None:
    if copy is False:
        raise ExchangeError(f"column '{column.name}' can't become a NumPy array without a copy: {reason}")


class _OnHost:
    """A column as NumPy's `from_dlpack` of any release takes it: on the CPU, downloaded where it is not."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: Any) -> object:
        target = None if self._column.device == "host" else (CPU, 0)
        return self._column.__dlpack__(max_version=max_version, dl_device=target)
