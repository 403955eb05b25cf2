"""Numba's memory manager over a simulated device, with Numba's own classes.
tests/interop/test_gpu_cuda_module.py uses a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import saeta as sa
from sim_devices import simulator


def test_numba_allocates_from_the_context() -> None:
    pytest.importorskip("numba.cuda")
    from saeta._numba_manager import manager_class

    home = simulator().Device(0).context
    made = manager_class(home, 0, "numba")(context=SimpleNamespace(device=SimpleNamespace(id=0)))
    made.initialize()
    assert made.interface_version == 1
    pointer = made.memalloc(1000)
    assert (int(pointer.device_pointer), pointer.size) == (pointer.device_pointer_value, 1000)
    assert home.memory.by_tag() == {"numba": 1000}
    home.memory.limit = 4096
    assert made.get_memory_info() == (3096, 4096)
    with pytest.raises(sa.BudgetExceeded):
        made.memalloc(1 << 20)
    pointer.free()
    home.synchronize()
    assert home.memory.by_tag() == {}


def test_a_host_context_is_refused() -> None:
    with pytest.raises(sa.InvalidError, match="this context is on host"):
        sa.allocators.numba_manager(sa.context("host"))
