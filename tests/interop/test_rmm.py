"""RMM resources over a context, contexts over RMM resources, and the allocators for torch and CuPy.

Without a GPU the tests use RMM's callback resources and adaptors, which work there. GPU tests use real
resources.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest

import saeta as sa
import saeta.allocators
import saeta.rmm
from contexts import leaving_nothing
from gpu_frameworks import installed_rmm
from saeta import _core
from threads import run_in_threads

MIB = 1 << 20
HAS_SOURCE = importlib.util.find_spec("saeta._rmm") is not None
needs_source = pytest.mark.skipif(not HAS_SOURCE, reason="Saeta was built without RMM")

# Start of test programs: an RMM resource over malloc that records its calls.
OVER_MALLOC = """
import ctypes, gc, rmm, saeta as sa, saeta.rmm
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
given, returned = [], []

def allocate(nbytes, stream):
    given.append(nbytes)
    return libc.aligned_alloc(256, -(-nbytes // 256) * 256)

def deallocate(address, nbytes, stream):
    returned.append(nbytes)
    libc.free(address)

callbacks = rmm.mr.CallbackMemoryResource(allocate, deallocate)
"""


@pytest.fixture
def rmm():
    return installed_rmm()


@pytest.fixture
def stream(rmm):
    return rmm.pylibrmm.stream.DEFAULT_STREAM


@pytest.fixture
def gpu():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with leaving_nothing(sa.context("cuda")) as ctx:
        yield ctx


def install(monkeypatch, name, **content):
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


# RMM resources over a context.


def test_an_rmm_resource_allocates_from_the_context(host, rmm, stream):
    top = rmm.mr.StatisticsResourceAdaptor(saeta.rmm.resource(host, tag="cudf"))
    address = top.allocate(3 * MIB, stream)
    assert host.memory.by_tag() == {"cudf": 3 * MIB}
    assert top.allocation_counts.current_bytes == 3 * MIB
    top.deallocate(address, 3 * MIB, stream)
    host.synchronize()
    assert host.memory.by_tag() == {}


def test_a_refusal_reaches_rmm_with_its_numbers(host, rmm, stream):
    with host.memory.child("cudf", limit=MIB) as child:
        resource = saeta.rmm.resource(child)
        with pytest.raises(MemoryError, match=str(2 * MIB)):
            resource.allocate(2 * MIB, stream)
        assert child.memory.statistics()["refused"] == 1


def test_an_error_of_the_context_reaches_rmm(host, rmm, stream):
    child = host.memory.child("closed")
    resource = saeta.rmm.resource(child)
    child.close()
    with pytest.raises(Exception, match="closed"):
        resource.allocate(8, stream)


def test_freeing_an_unknown_address_is_logged_and_never_raises(host, rmm, stream, caplog):
    resource = saeta.rmm.resource(host)
    address = resource.allocate(100, stream)
    resource.deallocate(address, 100, stream)
    assert caplog.text == ""
    resource.deallocate(address, 100, stream)
    assert "was not lent" in caplog.text


def test_many_threads_allocate_through_rmm(host, rmm, stream):
    resource = saeta.rmm.resource(host, tag="threads")

    def live(_):
        for size in range(1, 200):
            address = resource.allocate(size * 64, stream)
            resource.deallocate(address, size * 64, stream)

    run_in_threads(4, live)
    host.synchronize()
    assert host.memory.by_tag() == {}


def test_the_error_without_rmm_says_how_to_install_it(host, monkeypatch):
    monkeypatch.setitem(sys.modules, "rmm", None)
    for call in (lambda: saeta.rmm.resource(host), lambda: saeta.rmm.context("host", None)):
        with pytest.raises(sa.MissingDependency, match="pip install rmm"):
            call()


def test_a_star_import_does_not_shadow_rmm():
    names: dict[str, object] = {}
    exec("from saeta import *", names)
    assert "allocators" in names
    assert "rmm" not in names


# A context over an RMM resource.


def test_a_context_refuses_an_upstream_that_runs_python_code(rmm):
    callbacks = rmm.mr.CallbackMemoryResource(lambda n, s: 0, lambda p, n, s: None)
    for upstream in (callbacks, rmm.mr.StatisticsResourceAdaptor(callbacks)):
        with pytest.raises(sa.UnsupportedError, match="CallbackMemoryResource runs Python code"):
            saeta.rmm.context("host", upstream)
    with pytest.raises(sa.UnsupportedError, match="FailureCallbackResourceAdaptor"):
        saeta.rmm.context(
            "host", rmm.mr.FailureCallbackResourceAdaptor(rmm.mr.CudaMemoryResource(), lambda n: False)
        )
    with pytest.raises(sa.TypeMismatch, match="upstream is of type int"):
        saeta.rmm.context("host", 7)


@needs_source
def test_an_open_context_keeps_its_upstream_resource(host, rmm):
    with pytest.raises(sa.InvalidError, match="close it first"):
        saeta.rmm.context("host", rmm.mr.CudaMemoryResource())
    with pytest.raises(sa.InvalidError, match="wait is -1"):
        saeta.rmm.context("host", rmm.mr.CudaMemoryResource(), wait=-1)


@needs_source
def test_the_cache_allocates_slabs_from_rmm_and_frees_them(rmm, run_python):
    done = run_python(
        OVER_MALLOC
        + """
before = rmm.mr.get_per_device_resource(0)
ctx = saeta.rmm._open("host", rmm.mr.StatisticsResourceAdaptor(callbacks), "64MiB", None, 0.5)
assert rmm.mr.get_per_device_resource(0) is before
gc.collect()                              # only the context keeps the adaptor alive
blocks = [ctx.allocate(4096) for _ in range(100)]
assert 1 <= len(given) <= 4, given        # slabs of increasing size
try:
    ctx.allocate("65MiB")
except sa.BudgetExceeded as refusal:
    assert refusal.limit == 64 << 20
else:
    raise AssertionError("no budget")
above = saeta.rmm.resource(ctx, tag="above")
stream = rmm.pylibrmm.stream.DEFAULT_STREAM
address = above.allocate(4096, stream)    # an RMM resource over a context over an RMM resource
above.deallocate(address, 4096, stream)
del blocks
ctx.synchronize()
assert ctx.memory.trim() == sum(given), given
assert sorted(returned) == sorted(given)
print("done")
"""
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@needs_source
def test_an_exhausted_rmm_resource_is_an_out_of_memory_error(rmm, run_python):
    done = run_python(
        OVER_MALLOC
        + """
def refuse(nbytes, stream):
    raise MemoryError("nothing left")

ctx = saeta.rmm._open("host", rmm.mr.CallbackMemoryResource(refuse, deallocate), None, None, None)
try:
    ctx.allocate(4096)
except sa.OutOfMemory as failure:
    print(failure)
assert ctx.memory.statistics()["current"] == 0
"""
    )
    assert done.returncode == 0, done.stderr
    assert "RMM has too little memory" in done.stdout
    assert "nothing left" in done.stdout


# Allocators for torch and CuPy.


class Torch:
    """Calls the functions that torch looks up, with torch's argument types."""

    def __init__(self, ordinal):
        library = ctypes.CDLL(_core.__file__)
        self.ordinal = ordinal
        self.allocate_ = library.saeta_torch_allocate
        self.allocate_.restype = ctypes.c_void_p
        self.allocate_.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free_ = library.saeta_torch_free
        self.free_.restype = None
        self.free_.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.record_ = library.saeta_torch_record_stream
        self.record_.restype = None
        self.record_.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def allocate(self, nbytes):
        return self.allocate_(nbytes, self.ordinal, None)

    def free(self, address, nbytes):
        self.free_(address, nbytes, self.ordinal, None)


def test_torchs_functions_allocate_from_the_context_that_serves_the_device(host):
    torch = Torch(63)
    _core._serve_torch(host, 63, "torch")
    address = torch.allocate(MIB)
    torch.record_(address, None)
    assert host.memory.by_tag() == {"torch": MIB}
    with host.memory.child("model") as child:
        _core._serve_torch(child, 63, "model")
        other = torch.allocate(2 * MIB)
        assert child.memory.by_tag() == {"model": 2 * MIB}
        torch.free(address, MIB)
        torch.free(other, 2 * MIB)
        assert torch.allocate(0) is None
    host.synchronize()
    assert host.memory.by_tag() == {}
    _core._serve_torch(host, 63, "torch")  # so that the child context can be freed


def test_torchs_functions_release_the_gil(run_python):
    """A tensor's destructor calls with the GIL held, as ctypes.PyDLL does. Another thread may need it to
    finish."""
    done = run_python(
        """
import ctypes, threading
import saeta as sa
from saeta import _core

ctx = sa.context("host", budget="1MiB", wait=30)
_core._serve_torch(ctx, 0, "torch")
torch = ctypes.PyDLL(_core.__file__)
torch.saeta_torch_allocate.restype = ctypes.c_void_p
torch.saeta_torch_allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
held = [ctx.allocate("1MiB")]
asking = threading.Event()

def give_way():
    asking.wait()
    held.clear()

other = threading.Thread(target=give_way)
other.start()
asking.set()
print(torch.saeta_torch_allocate(1 << 20, 0, None) is not None)
other.join()
"""
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_torch_device_ordinals_are_below_64(host):
    for ordinal in (-1, 64):
        with pytest.raises(sa.OutOfRange, match=f"torch's device {ordinal} is out of range"):
            _core._serve_torch(host, ordinal, "torch")


def test_a_host_context_makes_no_gpu_allocator(host):
    for make in (saeta.allocators.torch_allocator, saeta.allocators.cupy_allocator):
        with pytest.raises(sa.InvalidError, match="this context is on host"):
            make(host)


@pytest.mark.parametrize("package", ["torch", "cupy"])
def test_a_framework_that_is_missing_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    make = getattr(saeta.allocators, f"{package}_allocator")
    with pytest.raises(sa.MissingDependency, match=f"pip install {package}"):
        make(SimpleNamespace(device="cuda:1"))


def test_memory_dropped_by_cupy_is_freed(host, monkeypatch):
    cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        UnownedMemory=lambda address, size, owner, device: SimpleNamespace(
            address=address, size=size, owner=owner, device=device
        ),
        MemoryPointer=lambda memory, offset: (memory, offset),
    )
    install(monkeypatch, "cupy", cuda=cuda)
    monkeypatch.setattr(saeta.allocators, "cuda_ordinal", lambda ctx, what: 3)
    memory, offset = saeta.allocators.cupy_allocator(host, tag="arrays")(MIB)
    assert (memory.size, memory.device, offset) == (MIB, 3, 0)
    assert memory.address == memory.owner.address
    assert host.memory.by_tag() == {"arrays": MIB}
    del memory
    host.synchronize()
    assert host.memory.by_tag() == {}


# Tests that need a GPU.


@pytest.mark.gpu
def test_rmm_device_buffers_are_charged_to_the_budget(gpu, rmm):
    before = rmm.mr.get_current_device_resource()
    rmm.mr.set_current_device_resource(saeta.rmm.resource(gpu, tag="buffers"))
    try:
        sent = rmm.DeviceBuffer.to_device(bytes(range(256)) * 4096)
        assert gpu.memory.by_tag()["buffers"] == MIB
        assert sent.copy().tobytes() == bytes(range(256)) * 4096
        gpu.synchronize()  # what was dropped is charged until its work has finished
        gpu.memory.limit = "64MiB"
        with pytest.raises(MemoryError):
            rmm.DeviceBuffer(size=128 * MIB)
        del sent
    finally:
        rmm.mr.set_current_device_resource(before)


@pytest.mark.gpu
def test_an_rmm_pool_can_use_a_context_as_upstream(gpu, rmm):
    pool = rmm.mr.PoolMemoryResource(saeta.rmm.resource(gpu, tag="pool"), initial_pool_size=16 * MIB)
    assert gpu.memory.by_tag()["pool"] == 16 * MIB
    held = rmm.DeviceBuffer(size=MIB, mr=pool)
    del held, pool


@pytest.mark.gpu
def test_cupy_allocates_through_rmm_and_directly(gpu, rmm):
    cupy = pytest.importorskip("cupy")
    from rmm.allocators.cupy import rmm_cupy_allocator

    before = rmm.mr.get_current_device_resource()
    rmm.mr.set_current_device_resource(saeta.rmm.resource(gpu, tag="through rmm"))
    try:
        with cupy.cuda.using_allocator(rmm_cupy_allocator):
            through = cupy.arange(MIB, dtype="u1")
        assert gpu.memory.by_tag()["through rmm"] >= MIB
        del through
    finally:
        rmm.mr.set_current_device_resource(before)
    with cupy.cuda.using_allocator(saeta.allocators.cupy_allocator(gpu)):
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
        for number in range(300):
            with streams[number % 3]:
                array = cupy.full(MIB, number % 200, dtype="u1")
                assert int(array.sum()) == MIB * (number % 200)
        assert gpu.memory.by_tag()["cupy"] >= MIB
        gpu.synchronize()  # what was dropped is charged until its work has finished
        gpu.memory.limit = "64MiB"
        with pytest.raises(sa.BudgetExceeded):
            cupy.empty(128 * MIB, dtype="u1")
        del array


TORCH = """
import torch, saeta as sa, saeta.rmm, saeta.allocators
ctx = sa.context("cuda", budget="256MiB")
{setup}
streams = [torch.cuda.Stream() for _ in range(3)]
totals = []
for number in range(300):
    tensor = torch.full((1 << 20,), number % 200, dtype=torch.uint8, device="cuda")
    assert ctx.memory.by_tag()["{tag}"] >= 1 << 20
    other = streams[number % 3]
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        total = tensor.sum()
    {record}
    del tensor
    totals.append((other, number, total))
    if len(totals) == 10:  # the other tensors are dropped before their sums are read
        for other, number, total in totals:
            other.synchronize()
            assert total.item() == (1 << 20) * (number % 200)
        totals.clear()
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except RuntimeError as refusal:
    assert str(1 << 30) in str(refusal), refusal
else:
    raise AssertionError("the budget holds nothing back")
del total
ctx.synchronize()
print("done")
"""


@pytest.mark.gpu
def test_torch_allocates_from_a_context(gpu, run_python):
    pytest.importorskip("torch")
    setup = "torch.cuda.memory.change_current_allocator(saeta.allocators.torch_allocator(ctx))"
    done = run_python(TORCH.format(setup=setup, tag="torch", record="tensor.record_stream(other)"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.gpu
def test_torch_allocates_through_rmm(gpu, rmm, run_python):
    pytest.importorskip("torch")
    setup = """
import rmm
from rmm.allocators.torch import rmm_torch_allocator
resource = saeta.rmm.resource(ctx)
rmm.mr.set_current_device_resource(resource)
torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
"""
    record = "torch.cuda.current_stream().wait_stream(other)"  # RMM's allocator has no record_stream
    done = run_python(TORCH.format(setup=setup, tag="rmm", record=record))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.gpu
@needs_source
@pytest.mark.parametrize("kind", ["pool", "arena", "async"])
def test_a_context_takes_its_memory_from_rmm(gpu, rmm, run_python, kind):
    made = {
        "pool": "rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=64 << 20)",
        "arena": "rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), arena_size=64 << 20)",
        "async": "rmm.mr.CudaAsyncMemoryResource()",
    }[kind]
    done = run_python(
        f"""
import numpy, rmm, saeta as sa, saeta.rmm
ctx = saeta.rmm.context("cuda", {made}, budget="128MiB")
for number in range(100):
    column = sa.table({{"x": numpy.full(100_000, number, "i4")}}, ctx)["x"]
    assert column.to_numpy().sum() == 100_000 * number
del column
ctx.synchronize()
assert ctx.memory.statistics()["current"] == 0
print(ctx.memory.trim() > 0)
"""
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
