"""RMM and Saeta on one budget, in both directions.

`resource` makes RMM allocate from a context, and with it cuDF and everything else on RMM. `context` opens a
context that takes its memory from RMM.

CuPy and torch can use a context through RMM's own adaptors for them (`rmm.allocators`), or without RMM
through `saeta.allocators`. This module has the same name as RMM's and imports RMM only when a function is
called.

Example:
    >>> import rmm
    >>> import saeta as sa
    >>> import saeta.rmm
    >>> rmm.mr.set_current_device_resource(saeta.rmm.resource(sa.context("cuda:0", budget="8GiB")))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saeta import _core
from saeta._core import Context
from saeta._optional import load
from saeta.errors import InvalidError, MissingDependency, TypeMismatch, UnsupportedError

if TYPE_CHECKING:
    import rmm.mr

__all__ = ["context", "resource"]


def __dir__() -> list[str]:
    return __all__


def resource(ctx: Context, tag: str = "rmm") -> rmm.mr.CallbackMemoryResource:
    """Makes an `rmm.mr.DeviceMemoryResource` that allocates from the context.

    Memory is charged to the context's budget under a tag.

    Memory is ordered as in RMM: it is ready on the stream of the allocation, and it is reused behind the work
    queued on the stream of the deallocation. While a graph is captured, memory comes from a
    `saeta.allocators.graph_pool`. A refusal reaches RMM as out of memory and Python as MemoryError, with the
    budget's numbers in its text.

    Each call goes through Python and costs some microseconds. For many small allocations put a pool of RMM on
    top, or use the C++ class `saeta::context_resource`. RMM holds the result only as long as Python does.

    Example:
        >>> import rmm
        >>> import saeta as sa
        >>> import saeta.rmm
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> rmm.mr.set_current_device_resource(saeta.rmm.resource(ctx))
        >>> buffer = rmm.DeviceBuffer(size=1 << 20)
        >>> ctx.memory.by_tag()["rmm"] >= 1 << 20
        True
    """
    mr = load("rmm", "a resource of RMM on a context").mr

    def allocate(nbytes: int, stream: Any) -> int:
        return _core._lend(ctx, nbytes, tag, _core._stream_number(stream))

    def deallocate(address: int, nbytes: int, stream: Any) -> None:
        _core._take_back(ctx, address, nbytes, _core._stream_number(stream))

    adaptor: rmm.mr.CallbackMemoryResource = mr.CallbackMemoryResource(allocate, deallocate)
    return adaptor


def context(
    device: str,
    upstream: rmm.mr.DeviceMemoryResource,
    *,
    budget: int | str | None = None,
    stack: str | None = None,
    wait: float | None = None,
) -> Context:
    """Opens the context of a device, with its cache over a resource of RMM instead of the driver's pool.

    `upstream` is an `rmm.mr.DeviceMemoryResource` that was made for this device. The context keeps it alive.
    The other arguments are those of `saeta.context`. Call this before the first use of the device:
    InvalidError if its context exists already. The context requests memory from RMM in slabs, on any thread.
    `ctx.memory.trim()` returns slabs to RMM.

    UnsupportedError for a resource that runs Python code (`CallbackMemoryResource`,
    `FailureCallbackResourceAdaptor`), also below adaptors: the cache requests a slab while it holds its lock,
    and a thread that waits for that lock may hold the GIL. MissingDependency if Saeta was built without RMM.

    Example:
        >>> import rmm
        >>> import saeta as sa
        >>> import saeta.rmm
        >>> pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 28)
        >>> ctx = saeta.rmm.context("cuda:0", pool, budget="128MiB")
        >>> table = sa.table({"fare": [12.5, 8.0]}, ctx)
    """
    mr = load("rmm", "a context over a resource of RMM").mr
    if not isinstance(upstream, mr.DeviceMemoryResource):
        raise TypeMismatch(
            f"upstream is of type {type(upstream).__name__}, expected rmm.mr.DeviceMemoryResource"
        )
    name = _runs_python(mr, upstream)
    if name is not None:
        raise UnsupportedError(f"{name} runs Python code, which a resource below a cache must not do")
    return _open(device, upstream, budget, stack, wait)


def _open(
    device: str, upstream: Any, budget: int | str | None, stack: str | None, wait: float | None
) -> Context:
    mr = load("rmm", "a context over a resource of RMM").mr
    try:
        from saeta import _rmm  # type: ignore[attr-defined]
    except ImportError as failure:
        raise MissingDependency(
            f"a context over a resource of RMM needs a Saeta that was built where RMM is installed: {failure}"
        ) from failure
    if wait is not None and not 0 <= wait <= 1e9:
        raise InvalidError(f"wait is {wait} seconds, expected 0 to 1e9")
    ordinal = int(device.partition(":")[2] or 0)
    # RMM hands over its C++ object only as the current resource of a device.
    before = mr.get_per_device_resource(ordinal)
    mr.set_per_device_resource(ordinal, upstream)
    try:
        source = _rmm.Source(ordinal, upstream)
    finally:
        mr.set_per_device_resource(ordinal, before)
    ctx: Context = source.open(device, stack, None if wait is None else round(wait * 1000))
    if budget is not None:
        ctx.memory.limit = budget
    return ctx


def _runs_python(mr: Any, upstream: Any) -> str | None:
    """Returns the name of the first resource, from the top down, that calls Python. None if there is none."""
    if isinstance(upstream, mr.CallbackMemoryResource | mr.FailureCallbackResourceAdaptor):
        return type(upstream).__name__
    below = [getattr(upstream, "upstream_mr", None), *getattr(upstream, "bin_mrs", ())]
    return next(
        (name for base in below if base is not None and (name := _runs_python(mr, base))),
        None,
    )
