"""The helpers of XLOG's Python layer, under their names, implemented with Saeta.

docs/coming-from-xlog.md maps the rest.

Example:
    >>> import saeta as sa
    >>> sa.xlog.dlpack_is_cuda(sa.column([1, 2], "host", name="a"))
    False
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saeta import _core
from saeta._convert.build import table as make_table
from saeta._core import CountedTable, SymbolTable, Table
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices
from saeta.errors import TypeMismatch
from saeta.exchange import CUDA, CUDA_MANAGED, context_of, from_arrow, from_dlpack, is_arrow_capsule

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from saeta._core import Column, Context

__all__ = [
    "dlpack_is_cuda",
    "dlpack_roundtrip",
    "export_arrow_device",
    "import_arrow_device",
    "symbols",
]

symbols: SymbolTable = SymbolTable.default()
"""The symbol table of the process."""


def __dir__() -> list[str]:
    return __all__


def dlpack_roundtrip(tensor: Any, device: int | str = 0, memory_mb: int | None = None) -> CapsuleType:
    """Takes a tensor in and returns it as a "dltensor" capsule over the same memory.

    `tensor` has `__dlpack__` (NumPy, torch, CuPy, cuDF series) or is a capsule. `device` is the number of a
    GPU or a name ("host"). A tensor of the host that goes to a GPU is copied there. `memory_mb` limits that
    copy, in MiB. The errors are those of `saeta.from_dlpack`.

    Example:
        >>> import saeta as sa
        >>> import numpy as np
        >>> capsule = sa.xlog.dlpack_roundtrip(np.arange(3), device="host")
        >>> sa.from_dlpack(capsule, "host").to_pylist()
        [0, 1, 2]
    """
    return from_dlpack(tensor, _context(device, memory_mb)).__dlpack__()


def dlpack_is_cuda(capsule: Any) -> bool:
    """Whether a tensor is in device or managed memory of a GPU.

    It is a capsule, or an object with `__dlpack_device__`.

    Example:
        >>> import saeta as sa
        >>> sa.xlog.dlpack_is_cuda(sa.column([1, 2], "host", name="a"))
        False
    """
    if _core._capsule_name(capsule) is not None:
        kind = _core._tensor_device(capsule)[0]
    elif hasattr(capsule, "__dlpack_device__"):
        kind = int(capsule.__dlpack_device__()[0])
    else:
        raise TypeMismatch(
            f"{type(capsule).__name__} has no __dlpack_device__ and is not a capsule of a tensor"
        )
    return kind in (CUDA, CUDA_MANAGED)


def export_arrow_device(
    columns: Table | CountedTable | Mapping[str, Any] | Sequence[Any],
    device: int | str = 0,
    memory_mb: int | None = None,
) -> tuple[CapsuleType, CapsuleType]:
    """Exports columns as one struct array of the Arrow C Device Data Interface.

    Returns the capsules "arrow_schema" and "arrow_device_array". `columns` is a table (of a CountedTable the
    valid rows), a mapping of names to tensors, or a sequence of tensors, which are named col_0, col_1 and so
    on. Tensors are objects with `__dlpack__` or DLPack capsules; these are consumed, unless the call fails.
    Data that is on the device already is not copied. A table of several batches is joined. `device` and
    `memory_mb` are those of `dlpack_roundtrip`.

    Example:
        >>> import saeta as sa
        >>> capsules = sa.xlog.export_arrow_device({"a": sa.column([1, 2], "host", name="a")}, device="host")
        >>> sa.from_arrow(capsules, "host").column_names
        ['a']
    """
    if isinstance(columns, CountedTable):
        return columns.__arrow_c_device_array__()
    if isinstance(columns, Table):
        return columns._device_array()
    if isinstance(columns, list | tuple) and not is_arrow_capsule(columns):
        columns = {f"col_{place}": tensor for place, tensor in enumerate(columns)}
    return make_table(columns, _context(device, memory_mb))._device_array()


def import_arrow_device(
    obj: Any, device: int | str = 0, memory_mb: int | None = None
) -> tuple[list[CapsuleType], list[str], int]:
    """Imports Arrow data as (tensors, names, number of rows).

    `obj` is the result of `export_arrow_device`, or any object of the Arrow protocols.

    The tensors are "dltensor" capsules, without a copy if the memory is on `device`. Several batches are
    joined. Symbols are returned as numbers: `saeta.xlog.symbols` has the names of this process's symbols,
    XLOG's own table those of XLOG. BufferError for columns with nulls and for types that tensors lack: import
    such data with `saeta.from_arrow`.

    Example:
        >>> import saeta as sa
        >>> tensors, names, rows = sa.xlog.import_arrow_device(sa.table({"a": [1, 2]}, "host"), device="host")
        >>> names, rows
        (['a'], 2)
    """
    taken = from_arrow(obj, _context(device, memory_mb))
    if not isinstance(taken, Table):
        raise TypeMismatch(f"the data is of type {taken.type}, expected an array or a stream of structs")
    whole = taken.combine_chunks()
    return [_numbers(column) for column in whole.columns], whole.column_names, whole.num_rows


def _numbers(column: Column) -> CapsuleType:
    """Exports a column as a "dltensor" capsule; symbols as their numbers."""
    if not column.type.is_symbol:
        return column.__dlpack__()
    return Exported(column, Choices(codes=True)).__dlpack__()


def _context(device: int | str, memory_mb: int | None) -> Context:
    ctx = context_of(f"cuda:{device}" if isinstance(device, int) else device)
    return ctx if memory_mb is None else ctx.memory.child("xlog", memory_mb << 20)
