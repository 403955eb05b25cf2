"""saeta.hooks: with the real frameworks on a GPU, and with stand-ins that record their calls."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

import saeta as sa
from gpu_frameworks import installed_rmm
from saeta import hooks


class OnGpu:
    """A stand-in for a context on a GPU that records the hooks added to it."""

    device = "cuda:1"

    def __init__(self):
        self.memory = self
        self.added = {}

    def add_hook(self, fn, *, name, priority):
        self.added[name] = (fn, priority)
        return name


def install(monkeypatch, name, **content):
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


class Pool:
    """A pool of `held` bytes, of which `used` are in use and the rest cached."""

    def __init__(self, held, used):
        self.held, self.used = held, used

    def trim(self):
        self.held = self.used


def test_the_torch_hook_empties_the_cache_of_the_contexts_device(monkeypatch):
    pool, devices = Pool(1000, 300), []

    def at(ordinal):
        devices.append(ordinal)
        return nullcontext()

    cuda = SimpleNamespace(memory_reserved=lambda ordinal: pool.held, empty_cache=pool.trim, device=at)
    install(monkeypatch, "torch", cuda=cuda)
    ctx = OnGpu()
    hooks.trim_torch(ctx, priority=7)
    trim, priority = ctx.added["torch"]
    assert (priority, trim(1), trim(1)) == (7, 700, 0)
    assert devices == [1, 1]


def test_the_cupy_hook_frees_the_blocks_of_its_pool(monkeypatch):
    pool, devices = Pool(1000, 0), []

    def at(ordinal):
        devices.append(ordinal)
        return nullcontext()

    blocks = SimpleNamespace(total_bytes=lambda: pool.held, free_all_blocks=pool.trim)
    install(monkeypatch, "cupy", cuda=SimpleNamespace(Device=at), get_default_memory_pool=lambda: blocks)
    ctx = OnGpu()
    hooks.trim_cupy(ctx)
    trim, priority = ctx.added["cupy"]
    assert (priority, trim(1), trim(1)) == (0, 1000, 0)
    assert devices == [1, 1]


class Runtime:
    """The functions of cuda-python's runtime that trimming a pool needs."""

    cudaError_t = SimpleNamespace(cudaSuccess=0)  # noqa: N815 - as the bindings spell it
    cudaMemPoolAttr = SimpleNamespace(cudaMemPoolAttrReservedMemCurrent="reserved")  # noqa: N815

    def __init__(self, pool):
        self.pool = pool
        self.status = 0

    def as_module(self):
        return {
            "cudaError_t": self.cudaError_t,
            "cudaMemPoolAttr": self.cudaMemPoolAttr,
            "cudaMemPool_t": lambda handle: handle,
            "cudaMemPoolGetAttribute": lambda handle, what: (self.status, self.pool.held),
            "cudaMemPoolTrimTo": self.trim_to,
        }

    def trim_to(self, handle, keep):
        assert (handle, keep) == (77, 0)
        self.pool.trim()
        return (self.status,)


@pytest.fixture
def runtime(monkeypatch):
    made = Runtime(Pool(500, 100))
    install(monkeypatch, "rmm")
    install(monkeypatch, "cuda")
    install(monkeypatch, "cuda.bindings")
    install(monkeypatch, "cuda.bindings.runtime", **made.as_module())
    return made


def test_the_rmm_hook_trims_the_drivers_pool_below_adaptors(runtime):
    below = SimpleNamespace(pool_handle=lambda: 77)
    ctx = OnGpu()
    hooks.trim_rmm(ctx, SimpleNamespace(upstream_mr=below), priority=2)
    trim, priority = ctx.added["rmm"]
    assert (priority, trim(1), trim(1)) == (2, 400, 0)
    runtime.status = 2
    with pytest.raises(sa.DeviceError, match="RMM"):
        trim(1)


def test_the_rmm_hook_refuses_rmms_own_pool(runtime):
    class PoolMemoryResource:
        upstream_mr = SimpleNamespace(pool_handle=lambda: 77)

    for resource in (PoolMemoryResource(), SimpleNamespace()):
        with pytest.raises(sa.UnsupportedError, match="no driver pool"):
            hooks.trim_rmm(OnGpu(), resource)


@pytest.mark.parametrize("package", ["torch", "cupy", "rmm"])
def test_a_framework_that_is_missing_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    register = getattr(hooks, f"trim_{package}")
    with pytest.raises(sa.MissingDependency, match=f"pip install {package}"):
        register(OnGpu(), *([object()] if package == "rmm" else []))


def test_the_hooks_refuse_a_host_context(host):
    for register in (hooks.trim_torch, hooks.trim_cupy, lambda ctx: hooks.trim_rmm(ctx, None)):
        with pytest.raises(sa.InvalidError, match="makes no room on host"):
            register(host)


def gpu():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    return sa.context("cuda")


def relieve(ctx, hook):
    """Makes an allocation exceed the budget while the hook is added. Returns the bytes that each hook
    reported freed.

    Other hooks may be present: a context keeps the hook of spillable tables once an earlier test has used
    them.
    """
    ctx.memory.limit = ctx.memory.statistics()["current"] + 2**20
    held = ctx.allocate("768KiB")
    try:
        with ctx.memory.record() as recording, hook, pytest.raises(sa.BudgetExceeded):
            ctx.allocate("512KiB")  # less than the budget: larger requests fail without calling hooks
    finally:
        del held
        ctx.memory.limit = None
    return {each["tag"]: each["bytes"] for each in recording.records() if each["event"] == "relief"}


def test_a_request_that_exceeds_the_budget_calls_the_hooks(host):
    assert relieve(host, host.memory.add_hook(lambda missing: 7, name="seven"))["seven"] == 7


@pytest.mark.gpu
def test_real_torch_releases_its_cache():
    torch = pytest.importorskip("torch")
    ctx = gpu()
    torch.cuda.empty_cache()
    held = torch.ones(1 << 20, device="cuda")
    torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
    assert relieve(ctx, hooks.trim_torch(ctx))["torch"] >= 64 << 20
    assert held.sum().item() == 1 << 20


@pytest.mark.gpu
def test_real_cupy_releases_its_cache():
    cupy = pytest.importorskip("cupy")
    ctx = gpu()
    cupy.ones(64 << 20, dtype="u1")
    assert relieve(ctx, hooks.trim_cupy(ctx))["cupy"] >= 64 << 20


@pytest.mark.gpu
def test_real_rmm_trims_its_pool():
    rmm = installed_rmm()
    runtime = pytest.importorskip("cuda.bindings.runtime")
    driver = pytest.importorskip("cuda.bindings.driver")
    ctx = gpu()
    properties = runtime.cudaMemPoolProps()
    properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
    status, pool = runtime.cudaMemPoolCreate(properties)
    assert status == runtime.cudaError_t.cudaSuccess
    keeps_all = runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
    runtime.cudaMemPoolSetAttribute(pool, keeps_all, driver.cuuint64_t(1 << 40))
    resource = rmm.mr.CudaAsyncViewMemoryResource(pool)
    stream = rmm.pylibrmm.stream.DEFAULT_STREAM
    block = resource.allocate(64 << 20, stream)
    resource.deallocate(block, 64 << 20, stream)
    stream.synchronize()
    assert relieve(ctx, hooks.trim_rmm(ctx, resource))["rmm"] >= 64 << 20
