"""Allocators of other libraries on a context: what they allocate is charged to its budget, under a tag.

    torch.cuda.memory.change_current_allocator(saeta.allocators.torch_allocator(ctx))   # before torch's first tensor
    cupy.cuda.set_allocator(saeta.allocators.cupy_allocator(ctx))
    numba.cuda.set_memory_manager(saeta.allocators.numba_manager(ctx))                  # before Numba's first call of CUDA

Pass a context of `ctx.memory.child` to give a library a share of its own. RMM has a module for itself: `saeta.rmm`.

What a CUDA graph allocates while it is captured belongs to it until it is gone. `torch.cuda.graph` says so itself; around
captures by CuPy and with RMM stands a `graph_pool`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saeta import _core
from saeta._core import Context, GraphPool
from saeta._optional import load
from saeta.errors import InvalidError

__all__ = ["GraphPool", "cupy_allocator", "graph_pool", "numba_manager", "torch_allocator", "torch_mem_pool"]


def torch_allocator(ctx: Context, tag: str = "torch") -> Any:
    """A `torch.cuda.memory.CUDAPluggableAllocator` that lends from the context, for its device.

    torch takes it with `torch.cuda.memory.change_current_allocator` before its first allocation on a GPU. There is one
    function for all devices: what the latest call for a device named serves it.

    Memory is reused behind the stream that a tensor was made on and those of `Tensor.record_stream`, as torch has it. A
    refusal is a RuntimeError whose text has the budget's numbers, because torch knows no other way for an allocator of
    others. InvalidError for a context on the host.

    What `torch.cuda.graph` and `torch.cuda.make_graphed_callables` allocate while they capture comes from a pool of that
    graph, charged under "<tag>.graph_pool" until the graph is reset or dropped. torch has its `MemPool`s on its own
    allocator only: see `torch_mem_pool`.
    """
    ordinal = cuda_ordinal(ctx, "torch's allocator")
    memory = load("torch", "torch's allocator on a context").cuda.memory
    hooks = _core._serve_torch(ctx, ordinal, tag)
    made = memory.CUDAPluggableAllocator(_core.__file__, "saeta_torch_allocate", "saeta_torch_free")
    for setter, hook in hooks.items():
        getattr(made.allocator(), setter)(hook)
    return made


def torch_mem_pool(ctx: Context, tag: str = "torch") -> Any:
    """A `torch.cuda.MemPool` whose memory is lent from the context, for its device.

    For programs that keep torch's own allocator and give a part of their memory to a budget, with
    `torch.cuda.use_mem_pool(pool)` or `torch.cuda.graph(graph, pool=pool.id)`. torch hands the memory on in segments and
    reuses it as it does its own; the segments stay charged until torch gives them up with the pool. What the latest call
    for a device named serves all its pools. A refusal is a RuntimeError. InvalidError for a context on the host.
    """
    ordinal = cuda_ordinal(ctx, "torch's MemPool")
    cuda = load("torch", "torch's MemPool on a context").cuda
    _core._serve_torch_segments(ctx, ordinal, tag)
    made = cuda.memory.CUDAPluggableAllocator(
        _core.__file__, "saeta_torch_allocate_segment", "saeta_torch_free_segment"
    )
    with cuda.device(ordinal):
        return cuda.MemPool(made.allocator())


def graph_pool(ctx: Context, tag: str = "graph_pool") -> GraphPool:
    """Memory for what CuPy and RMM allocate while a CUDA graph is captured, charged to the context under a tag.

    A graph writes to the same addresses at each launch. So all that was allocated in its capture belongs to it, also what
    was freed again, and stays in the pool. Keep the pool as long as the graph; `release` it, or drop it, afterwards:

        pool = saeta.allocators.graph_pool(ctx)
        with stream, pool:
            stream.begin_capture()
            result = step(batch)              # CuPy arrays, from `cupy_allocator(ctx)`
            graph = stream.end_capture()
        graph.launch(stream)                  # as often as wanted
        del graph, result
        pool.release()

    The block serves the thread that entered it and belongs to one capture. Within it memory is used again in the order of
    the stream that it was allocated on: what RMM frees on that stream, and what CuPy drops, which names no stream. Several
    graphs may share a pool, one block for each, if they are launched one after the other.
    """
    return GraphPool(ctx, tag)


def cupy_allocator(ctx: Context, tag: str = "cupy") -> Callable[[int], Any]:
    """An allocator for `cupy.cuda.set_allocator`, or for a `with cupy.cuda.using_allocator` block.

    Memory is ready on CuPy's current stream. CuPy does not tell on which streams an array was used, so what it frees is
    reused behind all work of the device at that moment. A refusal is BudgetExceeded. While a graph is captured memory comes
    from a `graph_pool`, and without one is InvalidError. So is a context on the host.
    """
    ordinal = cuda_ordinal(ctx, "CuPy's allocator")
    cupy = load("cupy", "CuPy's allocator on a context")

    def allocate(nbytes: int) -> Any:
        lent = _core._LentMemory(ctx, nbytes, tag, _core._stream_number(cupy.cuda.get_current_stream()))
        memory = cupy.cuda.UnownedMemory(lent.address, nbytes, lent, ordinal)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate


def numba_manager(ctx: Context, tag: str = "numba") -> type[Any]:
    """A memory manager class for `numba.cuda.set_memory_manager`: Numba's device memory comes from the context.

    Numba asks for one class for all devices: those of other devices than the context's lend from the process's context of that
    device, under the same tag. Page-locked and mapped host memory stays Numba's own. Memory is ready on every stream when Numba gets
    it, because Numba does not tell on which one it will be used, and is reused behind all work of the device at the moment
    that Numba frees it. `cuda.current_context().get_memory_info()` tells of the budget where there is one. A refusal is
    BudgetExceeded. InvalidError for a context on the host.
    """
    from saeta._numba_manager import manager_class

    return manager_class(ctx, cuda_ordinal(ctx, "Numba's memory manager"), tag)


def cuda_ordinal(ctx: Context, what: str) -> int:
    """Number of the context's GPU, InvalidError where it has none."""
    kind, _, number = ctx.device.partition(":")
    if kind != "cuda":
        raise InvalidError(f"{what} gives memory of a GPU, and this context is on {ctx.device}")
    return int(number or 0)
