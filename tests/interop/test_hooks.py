"""Ready-made hooks: against the frameworks themselves on a GPU, and against stand-ins that count."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

import saeta as sa
from gpu_frameworks import installed_rmm
from saeta import hooks


class OnGpu:
    """A context that says it is on a GPU and keeps the hooks that it is given."""

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
    """Memory of which all above `used` is only cached."""

    def __init__(self, held, used):
        self.held, self.used = held, used

    def trim(self):
        self.held = self.used


def test_torch_empties_its_cache_on_the_device_of_the_context(monkeypatch):
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


def test_cupy_frees_the_blocks_of_its_pool(monkeypatch):
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
    """As much of the CUDA runtime's bindings as trimming a pool needs."""

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


def test_rmm_trims_the_pool_of_the_driver_below_adaptors(runtime):
    below = SimpleNamespace(pool_handle=lambda: 77)
    ctx = OnGpu()
    hooks.trim_rmm(ctx, SimpleNamespace(upstream_mr=below), priority=2)
    trim, priority = ctx.added["rmm"]
    assert (priority, trim(1), trim(1)) == (2, 400, 0)
    runtime.status = 2
    with pytest.raises(sa.DeviceError, match="RMM"):
        trim(1)


def test_a_pool_of_rmm_itself_is_refused(runtime):
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


def test_the_host_has_no_cache_of_a_gpu(host):
    for register in (hooks.trim_torch, hooks.trim_cupy, lambda ctx: hooks.trim_rmm(ctx, None)):
        with pytest.raises(sa.InvalidError, match="makes no room on host"):
            register(host)


def gpu():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    return sa.context("cuda")


def relieve(ctx, hook):
    """Makes a request that doesn't fit beside what is held, and returns what each hook says that it freed.

    Those of others stay on a context: tables that may be spilled, of an earlier test, have one as long as the
    context.
    """
    ctx.budget = ctx.memory.statistics()["current"] + 2**20
    held = ctx.allocate("768KiB")
    try:
        with ctx.memory.record() as recording, hook, pytest.raises(sa.BudgetExceeded):
            ctx.allocate("512KiB")  # alone it fits: what can never fit asks no hook
    finally:
        del held
        ctx.budget = None
    return {each["tag"]: each["bytes"] for each in recording.records() if each["event"] == "relief"}


def test_what_fits_beside_nothing_asks_the_hooks(host):
    assert relieve(host, host.memory.add_hook(lambda missing: 7, name="seven"))["seven"] == 7


@pytest.mark.gpu
def test_torch_itself_gives_its_cache_back():
    torch = pytest.importorskip("torch")
    ctx = gpu()
    torch.cuda.empty_cache()
    held = torch.ones(1 << 20, device="cuda")
    torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
    assert relieve(ctx, hooks.trim_torch(ctx))["torch"] >= 64 << 20
    assert held.sum().item() == 1 << 20


@pytest.mark.gpu
def test_cupy_itself_gives_its_cache_back():
    cupy = pytest.importorskip("cupy")
    ctx = gpu()
    cupy.ones(64 << 20, dtype="u1")
    assert relieve(ctx, hooks.trim_cupy(ctx))["cupy"] >= 64 << 20


@pytest.mark.gpu
def test_rmm_itself_gives_its_pool_back():
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
