"""Ready-made pressure hooks: frameworks free cached memory when a request of Saeta does not fit.

Each function registers a hook with `ctx.memory.add_hook` and returns its handle. The freed bytes are measured
with the framework's own counters. The framework is imported when its hook is registered: MissingDependency if
it is not installed. A hook does not keep a context alive.

Example:
    >>> import saeta as sa
    >>> ctx = sa.context("cuda:0")
    >>> with sa.hooks.trim_torch(ctx), sa.hooks.trim_cupy(ctx, priority=10):
    ...     table = sa.table({"fare": [12.5, 8.0]}, ctx)
"""

from __future__ import annotations

from typing import Any

from saeta._core import Context, MemoryHook
from saeta._optional import load
from saeta.errors import DeviceError, InvalidError, UnsupportedError

__all__ = ["trim_cupy", "trim_rmm", "trim_torch"]


def __dir__() -> list[str]:
    return __all__


def trim_torch(ctx: Context, priority: int = 0) -> MemoryHook:
    """Adds a hook that empties torch's caching allocator on the context's device. Tensors are not touched.

    Example:
        >>> import torch
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> with sa.hooks.trim_torch(ctx):
        ...     table = sa.table({"fare": [12.5, 8.0]}, ctx)
    """
    ordinal = _ordinal(ctx, "torch's cache")
    torch = load("torch", "trimming torch's cache")

    def trim(_needed: int) -> int:
        before = int(torch.cuda.memory_reserved(ordinal))
        with torch.cuda.device(ordinal):
            torch.cuda.empty_cache()
        return max(0, before - int(torch.cuda.memory_reserved(ordinal)))

    return ctx.memory.add_hook(trim, name="torch", priority=priority)


def trim_cupy(ctx: Context, priority: int = 0) -> MemoryHook:
    """Adds a hook that frees the unused blocks of CuPy's default memory pool on the context's device.

    Arrays are not touched.

    Example:
        >>> import cupy
        >>> import saeta as sa
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> with sa.hooks.trim_cupy(ctx, priority=10):
        ...     table = sa.table({"fare": [12.5, 8.0]}, ctx)
    """
    ordinal = _ordinal(ctx, "CuPy's pool")
    cupy = load("cupy", "trimming CuPy's pool")

    def trim(_needed: int) -> int:
        with cupy.cuda.Device(ordinal):
            pool = cupy.get_default_memory_pool()
            before = int(pool.total_bytes())
            pool.free_all_blocks()
            return max(0, before - int(pool.total_bytes()))

    return ctx.memory.add_hook(trim, name="cupy", priority=priority)


def trim_rmm(ctx: Context, resource: Any, priority: int = 0) -> MemoryHook:
    """Adds a hook that returns the unused memory of an RMM resource to the driver.

    `resource` is a resource that names its pool of the driver, as `CudaAsyncViewMemoryResource` does, or an
    adaptor on top of one. UnsupportedError for others: RMM's own pools (`PoolMemoryResource`, arenas) return
    memory only when they are destroyed, and `CudaAsyncMemoryResource` of RMM 26.10 does not name its pool in
    Python.

    Example:
        >>> import rmm
        >>> import saeta as sa
        >>> from cuda.bindings import runtime
        >>> ctx = sa.context("cuda:0", budget="4GiB")
        >>> status, pool = runtime.cudaDeviceGetDefaultMemPool(0)
        >>> resource = rmm.mr.CudaAsyncViewMemoryResource(pool)
        >>> with sa.hooks.trim_rmm(ctx, resource):
        ...     table = sa.table({"fare": [12.5, 8.0]}, ctx)
    """
    _ordinal(ctx, "an RMM resource")
    load("rmm", "trimming an RMM resource")
    runtime = load("cuda.bindings.runtime", "trimming an RMM resource")
    pool = runtime.cudaMemPool_t(_driver_pool(resource))
    reserved = runtime.cudaMemPoolAttr.cudaMemPoolAttrReservedMemCurrent

    def held() -> int:
        return int(_check_status(runtime, runtime.cudaMemPoolGetAttribute(pool, reserved)))

    def trim(_needed: int, _keep: Any = resource) -> int:
        before = held()
        _check_status(runtime, runtime.cudaMemPoolTrimTo(pool, 0))
        return max(0, before - held())

    return ctx.memory.add_hook(trim, name="rmm", priority=priority)


def _ordinal(ctx: Context, what: str) -> int:
    kind, _, number = ctx.device.partition(":")
    if kind != "cuda":
        raise InvalidError(f"{what} is GPU memory; trimming it makes no room on {ctx.device}")
    return int(number)


def _driver_pool(resource: Any) -> int:
    below = resource
    while not hasattr(below, "pool_handle"):
        upstream = getattr(below, "upstream_mr", None)
        if upstream is None or type(below).__name__ in ("PoolMemoryResource", "ArenaMemoryResource"):
            raise UnsupportedError(
                f"{type(resource).__name__} has no driver pool to trim: "
                "expected a resource that names its pool, as CudaAsyncViewMemoryResource, or an adaptor over "
                "one"
            )
        below = upstream
    return int(below.pool_handle())


def _check_status(runtime: Any, returned: tuple[Any, ...]) -> Any:
    status, *values = returned
    if status != runtime.cudaError_t.cudaSuccess:
        raise DeviceError(f"trimming an RMM resource: {status}")
    return values[0] if values else None
