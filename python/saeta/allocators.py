"""Allocators for other libraries that take memory from a context.

The memory is charged to the context's budget, under a tag.

Pass a context of `ctx.memory.child` to give a library a share of its own. RMM has a module of its own:
`saeta.rmm`.

Memory that is allocated while a CUDA graph is captured belongs to the graph until the graph is gone.
`torch.cuda.graph` reports its captures itself. Captures with CuPy and RMM need a `graph_pool` around them.

Example:
    >>> import cupy, torch
    >>> import saeta as sa
    >>> ctx = sa.context("cuda:0", budget="8GiB")
    >>> torch.cuda.memory.change_current_allocator(sa.allocators.torch_allocator(ctx))
    >>> cupy.cuda.set_allocator(sa.allocators.cupy_allocator(ctx))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from saeta import _core
from saeta._core import Context, GraphPool
from saeta._optional import load
from saeta.errors import InvalidError

if TYPE_CHECKING:
    import cupy
    import numba.cuda
    import torch

__all__ = ["GraphPool", "cupy_allocator", "graph_pool", "numba_manager", "torch_allocator", "torch_mem_pool"]


def __dir__() -> list[str]:
    return __all__


def torch_allocator(ctx: Context, tag: str = "torch") -> torch.cuda.memory.CUDAPluggableAllocator:
    """Makes a `torch.cuda.memory.CUDAPluggableAllocator` that allocates from the context, for its device.

    Pass it to `torch.cuda.memory.change_current_allocator` before torch's first allocation on a GPU. torch
    has one allocator for all devices. Each device is served by the context of the latest call for that
    device.

    As with torch's own allocator, memory is reused behind the stream that a tensor was made on and the
    streams of `Tensor.record_stream`. A refusal is a RuntimeError whose text has the budget's numbers,
    because torch offers no other error to pluggable allocators. InvalidError for a context on the host.

    Memory that `torch.cuda.graph` and `torch.cuda.make_graphed_callables` allocate during a capture comes
    from a pool of that graph. It is charged under "<tag>.graph_pool" until the graph is reset or dropped.
    torch supports `MemPool`s on its own allocator only: see `torch_mem_pool`.

    Example:
        >>> import torch
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> torch.cuda.memory.change_current_allocator(sa.allocators.torch_allocator(ctx))
        >>> weights = torch.zeros(1 << 20, device="cuda")
        >>> ctx.memory.by_tag()["torch"] >= 4 << 20
        True
    """
    ordinal = cuda_ordinal(ctx, "torch's allocator")
    memory = load("torch", "torch's allocator on a context").cuda.memory
    hooks = _core._serve_torch(ctx, ordinal, tag)
    allocator = memory.CUDAPluggableAllocator(_core.__file__, "saeta_torch_allocate", "saeta_torch_free")
    for setter, hook in hooks.items():
        getattr(allocator.allocator(), setter)(hook)
    return allocator


def torch_mem_pool(ctx: Context, tag: str = "torch") -> torch.cuda.MemPool:
    """Makes a `torch.cuda.MemPool` that allocates from the context, for its device.

    It is for programs that keep torch's own allocator and put a part of their memory under a budget, with
    `torch.cuda.use_mem_pool(pool)` or `torch.cuda.graph(graph, pool=pool.id)`. torch takes memory in segments
    and reuses them as it does its own. The segments stay charged until torch frees them with the pool. All
    pools of a device are served by the context of the latest call for that device. A refusal is a
    RuntimeError. InvalidError for a context on the host.

    Example:
        >>> import torch
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> pool = sa.allocators.torch_mem_pool(ctx)
        >>> with torch.cuda.use_mem_pool(pool):
        ...     weights = torch.zeros(1 << 20, device="cuda")
        >>> ctx.memory.by_tag()["torch"] >= 4 << 20
        True
    """
    ordinal = cuda_ordinal(ctx, "torch's MemPool")
    cuda = load("torch", "torch's MemPool on a context").cuda
    _core._serve_torch_segments(ctx, ordinal, tag)
    allocator = cuda.memory.CUDAPluggableAllocator(
        _core.__file__, "saeta_torch_allocate_segment", "saeta_torch_free_segment"
    )
    with cuda.device(ordinal):
        return cuda.MemPool(allocator.allocator())


def graph_pool(ctx: Context, tag: str = "graph_pool") -> GraphPool:
    """Makes a pool for memory that CuPy and RMM allocate while a CUDA graph is captured.

    The memory is charged to the context under a tag.

    A graph writes to the same addresses at each launch. All memory allocated during its capture therefore
    belongs to the graph and stays in the pool, including memory that was freed again. Keep the pool as long
    as the graph, then `release` it or drop it.

    The block serves the thread that entered it and belongs to one capture. Inside the block, memory is reused
    in the order of the stream that it was allocated on: memory that RMM frees on that stream, and memory that
    CuPy drops, which names no stream. Several graphs may share a pool, with one block for each, if they are
    launched one after the other.

    Example:
        >>> import cupy
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0")
        >>> cupy.cuda.set_allocator(sa.allocators.cupy_allocator(ctx))
        >>> stream, source = cupy.cuda.Stream(), cupy.arange(4)
        >>> result = source * 2  # loads the kernel that is captured
        >>> pool = sa.allocators.graph_pool(ctx)
        >>> with stream, pool:
        ...     stream.begin_capture()
        ...     result = source * 2
        ...     graph = stream.end_capture()
        >>> graph.launch(stream)  # as often as wanted
        >>> result.tolist()
        [0, 2, 4, 6]
        >>> del graph, result
        >>> pool.release()
    """
    return GraphPool(ctx, tag)


def cupy_allocator(ctx: Context, tag: str = "cupy") -> Callable[[int], cupy.cuda.MemoryPointer]:
    """Makes an allocator for `cupy.cuda.set_allocator`, or for a `with cupy.cuda.using_allocator` block.

    Memory is ready on CuPy's current stream. CuPy does not report on which streams an array was used. Memory
    that it frees is therefore reused behind all work that the device has at that moment. A refusal is
    BudgetExceeded. While a graph is captured, memory comes from a `graph_pool`; without a pool the allocation
    raises InvalidError. InvalidError for a context on the host, too.

    Example:
        >>> import cupy
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> with cupy.cuda.using_allocator(sa.allocators.cupy_allocator(ctx)):
        ...     array = cupy.zeros(1 << 20, "float32")
        >>> ctx.memory.by_tag()["cupy"] >= array.nbytes
        True
    """
    ordinal = cuda_ordinal(ctx, "CuPy's allocator")
    cupy = load("cupy", "CuPy's allocator on a context")

    def allocate(nbytes: int) -> Any:
        lent = _core._LentMemory(ctx, nbytes, tag, _core._stream_number(cupy.cuda.get_current_stream()))
        memory = cupy.cuda.UnownedMemory(lent.address, nbytes, lent, ordinal)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate


def numba_manager(ctx: Context, tag: str = "numba") -> type[numba.cuda.HostOnlyCUDAMemoryManager]:
    """Makes a memory manager class for `numba.cuda.set_memory_manager`.

    Numba's device memory comes from the context.

    Numba asks for one class for all devices. Managers of other devices than the context's allocate from the
    process's context of that device, under the same tag. Page-locked and mapped host memory stays Numba's
    own.

    Numba does not report on which stream it will use memory. Memory is therefore ready on every stream when
    Numba gets it, and it is reused behind all work that the device has when Numba frees it.
    `cuda.current_context().get_memory_info()` reports the budget if there is one. A refusal is
    BudgetExceeded. InvalidError for a context on the host.

    Example:
        >>> from numba import cuda
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> cuda.set_memory_manager(sa.allocators.numba_manager(ctx))
        >>> array = cuda.device_array(1000)
        >>> ctx.memory.by_tag()["numba"] >= 8000
        True
    """
    from saeta._numba_manager import manager_class

    return manager_class(ctx, cuda_ordinal(ctx, "Numba's memory manager"), tag)


def cuda_ordinal(ctx: Context, what: str) -> int:
    """Returns the number of the context's GPU. Raises InvalidError for a context without one."""
    kind, _, number = ctx.device.partition(":")
    if kind != "cuda":
        raise InvalidError(f"{what} provides GPU memory, and this context is on {ctx.device}")
    return int(number or 0)
