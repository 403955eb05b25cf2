"""Allocators of other libraries on a context: what they allocate is charged to its budget, under a tag.

    torch.cuda.memory.change_current_allocator(saeta.allocators.torch_allocator(ctx))   # before torch's first tensor
    cupy.cuda.set_allocator(saeta.allocators.cupy_allocator(ctx))

Pass a context of `ctx.memory.child` to give a library a share of its own. RMM has a module for itself: `saeta.rmm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saeta import _core
from saeta._core import Context
from saeta._optional import load
from saeta._use import stream_number
from saeta.errors import InvalidError

__all__ = ["cupy_allocator", "torch_allocator"]


def torch_allocator(ctx: Context, tag: str = "torch") -> Any:
    """A `torch.cuda.memory.CUDAPluggableAllocator` that lends from the context, for its device.

    torch takes it with `torch.cuda.memory.change_current_allocator` before its first allocation on a GPU, or in a
    `torch.cuda.MemPool`. There is one function for all devices: what the latest call for a device named serves it.

    Memory is reused behind the stream that a tensor was made on and those of `Tensor.record_stream`, as torch has it. A
    refusal is a RuntimeError whose text has the budget's numbers, because torch knows no other way for an allocator of
    others. CUDA graphs can't be captured on it. InvalidError for a context on the host.
    """
    ordinal = cuda_ordinal(ctx, "torch's allocator")
    memory = load("torch", "torch's allocator on a context").cuda.memory
    record_stream = _core._serve_torch(ctx, ordinal, tag)
    made = memory.CUDAPluggableAllocator(_core.__file__, "saeta_torch_allocate", "saeta_torch_free")
    made.allocator().set_record_stream_fn(record_stream)
    return made


def cupy_allocator(ctx: Context, tag: str = "cupy") -> Callable[[int], Any]:
    """An allocator for `cupy.cuda.set_allocator`, or for a `with cupy.cuda.using_allocator` block.

    Memory is ready on CuPy's current stream. CuPy does not tell on which streams an array was used, so what it frees is
    reused behind all work of the device at that moment. A refusal is BudgetExceeded. InvalidError for a context on the
    host.
    """
    ordinal = cuda_ordinal(ctx, "CuPy's allocator")
    cupy = load("cupy", "CuPy's allocator on a context")

    def allocate(nbytes: int) -> Any:
        lent = _core._LentMemory(ctx, nbytes, tag, stream_number(cupy.cuda.get_current_stream()))
        memory = cupy.cuda.UnownedMemory(lent.address, nbytes, lent, ordinal)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate


def cuda_ordinal(ctx: Context, what: str) -> int:
    """Number of the context's GPU, InvalidError where it has none."""
    kind, _, number = ctx.device.partition(":")
    if kind != "cuda":
        raise InvalidError(f"{what} gives memory of a GPU, and this context is on {ctx.device}")
    return int(number or 0)
