"""Saeta's use of Numba's API, with stand-ins for Numba's classes and a simulated device.

tests/interop/test_gpu_cuda_module.py and test_numba_manager.py use Numba itself.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

import numba_stand_in
import saeta as sa
from saeta import _core
from sim_devices import simulator

POINTERS = [numba_stand_in.MemoryPointer, numba_stand_in.OlderMemoryPointer]


@pytest.fixture(params=POINTERS)
def pointer(request, monkeypatch):
    numba_stand_in.put_in_place(monkeypatch, request.param)
    return request.param


@pytest.fixture
def cuda(monkeypatch):
    made = pytest.importorskip("saeta.cuda")
    simulated = simulator().Device(0)
    monkeypatch.setitem(made._devices.stand_ins, 0, simulated.context)
    return made


def manager_on(home, number=0):
    from saeta._numba_manager import manager_class

    of = SimpleNamespace(device=SimpleNamespace(id=number))
    return manager_class(home, 0, "numba")(context=of)


def test_memory_of_numba_is_memory_of_the_context_until_its_finalizer_runs(pointer):
    home = simulator().Device(0).context
    manager = manager_on(home)
    manager.initialize()
    assert manager.interface_version == 1
    made = manager.memalloc(1000)
    assert isinstance(made, pointer)
    assert made.size == 1000
    assert getattr(made, "context", manager.context) is manager.context
    assert isinstance(made.device_pointer, ctypes.c_void_p)
    assert made.device_pointer_value % 256 == 0
    assert home.memory.by_tag() == {"numba": 1000}
    made.free()
    home.synchronize()
    assert home.memory.by_tag() == {}


def test_the_memory_info_of_numba_is_what_the_budget_leaves(pointer):
    home = simulator().Device(0).context
    home.memory.limit = 4096
    manager = manager_on(home)
    made = manager.memalloc(1000)
    assert manager.get_memory_info() == (3096, 4096)
    with pytest.raises(sa.BudgetExceeded):
        manager.memalloc(1 << 20)
    rest = manager.memalloc(3096)
    assert manager.get_memory_info() == (0, 4096)
    made.free()
    rest.free()
    home.synchronize()


def test_without_a_budget_the_memory_info_of_numba_is_that_of_the_device(pointer, monkeypatch):
    home = simulator().Device(0).context
    devices = [
        SimpleNamespace(name="host", free_bytes=1, total_bytes=2),
        SimpleNamespace(name=home.device, free_bytes=300, total_bytes=400),
    ]
    monkeypatch.setattr(_core, "devices", lambda: devices)
    assert manager_on(home).get_memory_info() == (300, 400)
    devices[1].free_bytes = None
    with pytest.raises(sa.DeviceError, match=f"the free memory of {home.device} is not known"):
        manager_on(home).get_memory_info()


def test_each_device_of_numba_has_its_own_context(pointer, monkeypatch):
    home, other = simulator().Device(0).context, simulator().Device(1).context
    monkeypatch.setattr(_core, "context", {"cuda:1": other}.__getitem__)
    made = manager_on(home, 1).memalloc(500)
    assert (home.memory.by_tag(), other.memory.by_tag()) == ({}, {"numba": 500})
    made.free()
    other.synchronize()
    assert other.memory.by_tag() == {}


@pytest.mark.usefixtures("pointer")
def test_contexts_are_identified_by_number_and_handle(cuda, monkeypatch):
    asked = []
    monkeypatch.setattr(cuda.Context, "__init__", lambda self, **given: asked.append(given))
    cuda.Context.from_numba()
    other = SimpleNamespace(device=SimpleNamespace(id=3), handle=SimpleNamespace(value=None))
    cuda.Context.from_numba(other)
    other.handle = 77  # an integer, as in NVIDIA's Python bindings
    cuda.Context.from_numba(other)
    assert asked == [
        {"device_number": 0, "handle": 0x1000},
        {"device_number": 3, "handle": 0},
        {"device_number": 3, "handle": 77},
    ]


@pytest.mark.usefixtures("pointer")
def test_to_numba_returns_the_context_of_the_same_device(cuda):
    ctx = cuda.Context(0)
    assert ctx.to_numba().device.id == 0
    assert cuda._numba.context_of(2).device.id == 2


def test_buffers_pass_in_both_directions(cuda, pointer, monkeypatch):
    ctx = cuda.Context(0)
    primary = SimpleNamespace(device=SimpleNamespace(id=0), handle=ctx.handle)
    monkeypatch.setattr(sys.modules["numba.cuda"], "current_context", lambda: primary)
    buffer = ctx.buffer_from_data(b"0123456789")
    theirs = buffer.to_numba()
    assert isinstance(theirs, pointer)
    assert (theirs.device_pointer.value, theirs.size) == (buffer.address, 10)
    assert theirs.owner is buffer
    assert getattr(theirs, "context", primary) is primary
    again = cuda.CudaBuffer.from_numba(theirs)
    assert (again.address, again.size) == (buffer.address, 10)
    assert again.copy_to_host().to_pybytes() == b"0123456789"


@pytest.mark.usefixtures("pointer")
def test_to_numba_converts_columns_to_arrays(host):
    ctx = simulator().Device(0).context
    numbers = sa.column([1, 2, 3], ctx, name="n")
    assert numbers.to_numba() == ("array", numbers)
    kind, flags = sa.column([True, False], ctx, name="f").to_numba()
    assert (kind, str(flags.type), flags.to_pylist()) == ("array", "extension<arrow.bool8>", [True, False])
    two = sa.Column.from_chunks([numbers, numbers])
    kind, joined = two.to_numba()
    assert (joined.num_chunks, joined.to_pylist()) == (1, [1, 2, 3, 1, 2, 3])
    _, filled = sa.column([1, None], ctx, name="x").to_numba(fill=7)
    assert filled.to_pylist() == [1, 7]
    with pytest.raises(sa.ExchangeError, match="column 'n' is on the host, and arrays of Numba are on a GPU"):
        sa.column([1], host, name="n").to_numba()
