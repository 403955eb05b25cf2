"""The functions that torch calls for the memory pools of its graphs, on the host and without torch.
tests/interop/test_torch_graphs.py uses torch itself."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import saeta.allocators
from threads import run_in_threads
from torch_hooks import TorchHooks

MIB = 1 << 20


@pytest.fixture
def torch_hooks(host):
    """A stand-in for torch on a device that the host context serves."""
    hooks = TorchHooks(62)
    hooks.serve(host)
    yield hooks
    hooks.serve(host)  # so that a test's child context can be freed


def test_a_torch_pool_keeps_freed_memory_until_its_release(host, torch_hooks):
    outside = torch_hooks.allocate(MIB)
    torch_hooks.begin_pool(7, 0)
    first = torch_hooks.allocate(MIB)
    second = torch_hooks.allocate(2 * MIB)
    assert host.memory.by_tag() == {"torch": MIB, "torch.graph_pool": 3 * MIB}
    torch_hooks.free(first, MIB)
    assert torch_hooks.allocate(MIB) == first
    torch_hooks.free(first, MIB)
    torch_hooks.free(outside, MIB)
    assert host.memory.by_tag() == {"torch.graph_pool": 3 * MIB}
    torch_hooks.end_pool(7, 0)
    after = torch_hooks.allocate(MIB)
    assert after != first
    assert host.memory.by_tag() == {"torch": MIB, "torch.graph_pool": 3 * MIB}
    torch_hooks.free(after, MIB)
    torch_hooks.release_pool(7, 0)
    assert host.memory.by_tag() == {"torch.graph_pool": 2 * MIB}, "a tensor is still allocated"
    torch_hooks.free(second, 2 * MIB)
    assert host.memory.by_tag() == {}


def test_torchs_stream_filter_is_called_for_each_stream(host, torch_hooks):
    asked = []

    def admits(stream):
        asked.append(stream)
        return stream == 0x1234

    torch_hooks.begin_pool(1, 0, admits=admits)
    inside, outside = torch_hooks.allocate(MIB, 0x1234), torch_hooks.allocate(MIB, 0)
    assert asked == [0x1234, 0]
    assert host.memory.by_tag() == {"torch": MIB, "torch.graph_pool": MIB}
    torch_hooks.end_pool(1, 0)
    torch_hooks.free(torch_hooks.allocate(MIB, 0x1234), MIB, 0x1234)
    assert asked == [0x1234, 0], "no calls after the end: the graph may be destroyed"
    torch_hooks.free(inside, MIB, 0x1234)
    torch_hooks.free(outside, MIB)
    torch_hooks.release_pool(1, 0)
    assert host.memory.by_tag() == {}


def test_torch_graphs_share_a_pool_until_the_last_release(host, torch_hooks):
    torch_hooks.begin_pool(0, 3)
    address = torch_hooks.allocate(MIB)
    torch_hooks.free(address, MIB)
    torch_hooks.end_pool(0, 3)
    torch_hooks.begin_pool(0, 3)
    assert torch_hooks.allocate(MIB) == address
    torch_hooks.free(address, MIB)
    torch_hooks.end_pool(0, 3)
    torch_hooks.release_pool(0, 3)
    assert host.memory.by_tag() == {"torch.graph_pool": MIB}
    torch_hooks.release_pool(0, 3)
    assert host.memory.by_tag() == {}


def test_torch_pools_are_identified_by_both_ids_and_the_innermost_serves(host, torch_hooks):
    torch_hooks.begin_pool(1, 0)
    torch_hooks.free(torch_hooks.allocate(MIB), MIB)
    torch_hooks.begin_pool(1, 1)
    torch_hooks.free(torch_hooks.allocate(MIB), MIB)
    torch_hooks.begin_pool(0, 1)
    torch_hooks.free(torch_hooks.allocate(MIB), MIB)
    assert host.memory.by_tag() == {"torch.graph_pool": 3 * MIB}
    for pool in ((0, 1), (1, 1), (1, 0)):
        torch_hooks.end_pool(*pool)
        torch_hooks.release_pool(*pool)
    assert host.memory.by_tag() == {}


def test_pool_memory_used_on_another_stream_is_kept(host, torch_hooks):
    torch_hooks.begin_pool(1, 0)
    used = torch_hooks.allocate(MIB)
    torch_hooks.record_stream(used, 0x77)
    torch_hooks.free(used, MIB)
    other = torch_hooks.allocate(MIB)
    assert other != used
    assert host.memory.by_tag() == {"torch.graph_pool": 2 * MIB}
    torch_hooks.free(other, MIB)
    torch_hooks.release_pool(1, 0)
    assert host.memory.by_tag() == {}
    torch_hooks.free(torch_hooks.allocate(MIB), MIB)  # releasing a pool also ends it
    assert host.memory.by_tag() == {}


def test_a_release_without_a_begin_and_a_second_end_do_nothing(host, torch_hooks, capfd):
    torch_hooks.end_pool(5, 0)
    torch_hooks.release_pool(5, 0)
    assert host.memory.by_tag() == {}
    assert capfd.readouterr().err == ""


def test_a_failure_to_open_a_pool_is_logged_and_never_throws(caplog):
    TorchHooks(61).begin_pool(1, 0)
    assert "no context serves torch's device cuda:61" in caplog.text
    TorchHooks(99).begin_pool(1, 0)
    assert "torch's device 99 is out of range" in caplog.text


def test_a_torch_pool_is_charged_to_the_context_that_served_at_its_start(host, torch_hooks):
    with host.memory.child("model", limit="4MiB") as child:
        torch_hooks.serve(child, "model")
        torch_hooks.begin_pool(1, 0)
        torch_hooks.free(torch_hooks.allocate(3 * MIB), 3 * MIB)
        assert child.memory.by_tag() == {"model.graph_pool": 3 * MIB}
        torch_hooks.end_pool(1, 0)
        torch_hooks.release_pool(1, 0)
        assert child.memory.by_tag() == {}


def test_threads_open_and_close_torch_pools_concurrently(host, torch_hooks):
    def capture(number):
        mine = threading.get_ident()
        for _ in range(50):
            torch_hooks.begin_pool(number, 0, admits=lambda stream: threading.get_ident() == mine)
            sizes = [1024 * (1 + each) for each in range(10)]
            for address, size in [(torch_hooks.allocate(size), size) for size in sizes]:
                torch_hooks.free(address, size)
            torch_hooks.end_pool(number, 0)
            torch_hooks.release_pool(number, 0)

    run_in_threads(4, capture)
    host.synchronize()
    assert host.memory.by_tag() == {}


def test_torchs_allocator_gets_every_function(host, monkeypatch):
    given = {}

    class Allocator:
        def __getattr__(self, setter):
            return lambda address: given.__setitem__(setter, address)

    allocator = Allocator()
    memory = SimpleNamespace(
        CUDAPluggableAllocator=lambda *names: SimpleNamespace(allocator=lambda: allocator)
    )
    monkeypatch.setattr(saeta.allocators, "cuda_ordinal", lambda ctx, what: 62)
    monkeypatch.setattr(
        saeta.allocators, "load", lambda *names: SimpleNamespace(cuda=SimpleNamespace(memory=memory))
    )
    saeta.allocators.torch_allocator(host)
    assert set(given) == {
        "set_record_stream_fn",
        "set_begin_allocate_to_pool",
        "set_end_allocate_to_pool_fn",
        "set_release_pool",
    }
    assert len(set(given.values())) == 4
    assert all(given.values())


def test_a_torch_mem_pool_allocates_segments_from_its_own_context(host, torch_hooks, monkeypatch):
    made = []

    def pluggable(library, allocate, free):
        made.append((allocate, free))
        return SimpleNamespace(allocator=lambda: "segments")

    devices = []
    cuda = SimpleNamespace(
        memory=SimpleNamespace(CUDAPluggableAllocator=pluggable),
        device=lambda ordinal: devices.append(ordinal) or nullcontext(),
        MemPool=lambda allocator: ("pool", allocator),
    )
    monkeypatch.setattr(saeta.allocators, "cuda_ordinal", lambda ctx, what: 62)
    monkeypatch.setattr(saeta.allocators, "load", lambda *names: SimpleNamespace(cuda=cuda))
    with host.memory.child("pools") as child:
        assert saeta.allocators.torch_mem_pool(child, tag="segments") == ("pool", "segments")
        assert (made, devices) == ([("saeta_torch_allocate_segment", "saeta_torch_free_segment")], [62])
        segment, tensor = torch_hooks.allocate_segment(2 * MIB), torch_hooks.allocate(MIB)
        assert child.memory.by_tag() == {"segments": 2 * MIB}
        torch_hooks.free(tensor, MIB)
        torch_hooks.free_segment(segment, 2 * MIB)
        host.synchronize()
        assert host.memory.by_tag() == {}
    saeta.allocators.torch_mem_pool(host)  # the child goes
