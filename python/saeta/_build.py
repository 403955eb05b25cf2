"""Tables and columns from what Python programs have at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saeta import _core
from saeta._core import Column, Context, Table
from saeta._cuda_array import from_cuda_array
from saeta._optional import load
from saeta.errors import InvalidError, TypeMismatch
from saeta.exchange import from_arrow, from_dlpack


def table(columns: Mapping[str, Any] | Iterable[tuple[str, Any]], ctx: Context | None = None) -> Table:
    """A table of named columns of equal length.

    Each value is a Column, an object with DLPack (a tensor, a NumPy array), one with an Arrow protocol (a pyarrow array, a
    polars Series), one with the CUDA Array Interface (an array of Numba) or a sequence of Python values, which pyarrow
    converts. Memory that is on the context's device is
    shared, other memory is copied in one transfer a column. Without `ctx` the table goes where its first Column is, else to
    the best device.
    """
    pairs = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
    where = ctx or next((value.context for _, value in pairs if isinstance(value, Column)), None)
    where = where or _core.context()
    return _core._from_columns(where, [as_column(name, value, where) for name, value in pairs])


def as_column(name: str, value: Any, ctx: Context) -> Column:
    """`value` as a column of the context."""
    if isinstance(value, Column):
        return value.with_name(name)
    if _is_numpy(value):
        value = _exchangeable(name, value)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        made = from_arrow(value, ctx)
        if not isinstance(made, Column):
            raise TypeMismatch(f"column '{name}': {type(value).__name__} is a table, not a column")
        return made.with_name(name)
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value, ctx, name=name)
    if hasattr(value, "__cuda_array_interface__"):
        return from_cuda_array(value, ctx, name=name)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        values = load("pyarrow", f"column '{name}': a {type(value).__name__} of Python values").array(
            list(value)
        )
        return as_column(name, values, ctx)
    raise TypeMismatch(
        f"column '{name}': {type(value).__name__} has neither DLPack, an Arrow protocol nor the CUDA Array Interface and is "
        "no sequence"
    )


def with_column(self: Table, name: str, values: Any) -> Table:
    """Body of `Table.with_column`."""
    places = [place for place, known in enumerate(self.column_names) if known == name]
    if len(places) > 1:
        raise InvalidError(f"{len(places)} columns are named '{name}': which one to replace is not clear")
    return self._with_column(as_column(name, values, self.context), places[0] if places else None)


def append_column(self: Table, name: str, values: Any) -> Table:
    """Body of `Table.append_column`."""
    return self._with_column(as_column(name, values, self.context))


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _exchangeable(name: str, array: Any) -> Any:
    """A NumPy array that DLPack can carry, or a pyarrow array where DLPack has no such type."""
    if array.ndim != 1:
        raise InvalidError(f"column '{name}': a column is 1-D, the array has shape {array.shape}")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return load("pyarrow", f"column '{name}': a NumPy array of {array.dtype}").array(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else array.copy()
