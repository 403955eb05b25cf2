"""Columns, contexts and plain copies on a simulated device."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa
from saeta import _core
from sim_devices import simulator


@pytest.fixture
def simulated():
    device = simulator().Device(0)
    yield device
    assert device.races == []


@pytest.fixture
def sim(simulated):
    return simulated.context


def interface(column):
    return column.__cuda_array_interface__


def test_a_column_exports_the_cuda_array_interface(sim):
    column = sa.column([1, 2, 3], sim, name="n", type="int32")
    assert interface(column) == {
        "shape": (3,),
        "typestr": "<i4",
        "data": (column.address, True),
        "strides": None,
        "version": 3,
        "stream": interface(column)["stream"],
    }
    assert interface(column)["stream"] > 2
    assert interface(column[1:])["data"] == (column.address + 4, True)
    assert interface(column[1:])["shape"] == (2,)


def test_fixed_size_lists_and_structs_are_exported_with_more_dimensions(sim):
    pairs = sa.column([[1, 2], [3, 4], [5, 6]], sim, name="p", type="fixed_size_list<item: float>[2]")
    shown = interface(pairs)
    assert (shown["shape"], shown["typestr"]) == ((3, 2), "<f4")
    points = sa.column([{"x": 1}, {"x": 3}], sim, name="p", type="struct<x: int16>")
    shown = interface(points)
    assert (shown["shape"], shown["typestr"]) == ((2, 1), "<i2")


def test_unsupported_columns_lack_the_interface_or_raise_a_buffer_error(sim):
    assert not hasattr(sa.column(["a"], sim, name="s"), "__cuda_array_interface__")
    assert not hasattr(
        sa.column([{"a": "x"}], sim, name="s", type="struct<a: string>"), "__cuda_array_interface__"
    )
    assert not hasattr(
        sa.column([[1], [2, 3]], sim, name="l", type="list<item: int64>"), "__cuda_array_interface__"
    )
    with pytest.raises(BufferError, match="1 of 2 values of an int64 column are null"):
        interface(sa.column([1, None], sim, name="n"))
    numbers = sa.column([1, 2], sim, name="n")
    with pytest.raises(BufferError, match="__cuda_array_interface__"):
        interface(sa.Column.from_chunks([numbers, numbers]))


def test_an_export_is_valid_while_the_column_lives(sim):
    column = sa.column(np.arange(1000), sim, name="n")
    before = sim.memory.statistics()["current"]
    shown = interface(column)
    del column
    sim.synchronize()
    assert sim.memory.statistics()["current"] < before
    assert shown["shape"] == (1000,)


@pytest.mark.parametrize(
    ("kind", "way"), [("host_to_device", "host_to_device"), ("device_to_host", "device_to_host")]
)
def test_a_plain_copy_moves_its_bytes_over_the_link_each_time(sim, kind, way):
    before = sim.counters()[way]
    copies = _core._PlainCopies(sim, 3000, kind)
    assert sim.memory.by_tag() == {"copy measurement": 3000}
    assert copies.time() >= 0
    copies.time()
    after = sim.counters()
    assert after[way]["calls"] - before["calls"] == 3, "two measured calls and a warm-up"
    assert after[way]["bytes"] - before["bytes"] == 9000
    assert sum(after[other]["calls"] for other in ("host_to_device", "device_to_host")) == after[way]["calls"]
    del copies
    sim.synchronize()
    assert sim.memory.by_tag() == {}
    kept = sim.memory.statistics()["pinned"]
    for _ in range(3):
        _core._PlainCopies(sim, 3000, kind)
    assert sim.memory.statistics()["pinned"] == kept


def test_a_plain_copy_in_host_memory_is_not_counted(sim):
    before = sim.counters()
    assert 0 <= _core._PlainCopies(sim, 1, "memcpy").time() < 60
    assert sim.counters() == before


def test_empty_plain_copies_and_unknown_kinds_are_refused(sim):
    with pytest.raises(sa.InvalidError, match="nothing to measure: 0 bytes"):
        _core._PlainCopies(sim, 0, "memcpy")
    with pytest.raises(
        sa.InvalidError, match="kind 'sideways': expected memcpy, host_to_device or device_to_host"
    ):
        _core._PlainCopies(sim, 8, "sideways")


def test_errors_name_chunks_and_columns_of_different_devices(sim, host):
    here, there = sa.column([1], host, name="n"), sa.column([2], sim, name="m")
    with pytest.raises(sa.InvalidError, match=f"a chunk is on {sim.device}, the first one on host"):
        sa.Column.from_chunks([here, there])
    with pytest.raises(sa.InvalidError, match=f"column 'm' is on {sim.device}, the table on host"):
        sa.table({"n": here}, ctx=host).append_column("m", there)
    with pytest.raises(sa.InvalidError, match="no chunks: at least one is needed to know the type"):
        sa.Column.from_chunks([])


def test_during_a_capture_synchronize_waits_only_for_the_contexts_own_stream(sim):
    column = sa.column([1, 2], sim, name="n")
    with sim.capturing():
        sim.synchronize()
    assert column.to_pylist() == [1, 2]


def test_a_reservation_reports_its_remaining_bytes(host):
    with host.memory.reserve("1MiB") as part:
        assert repr(part) == "<saeta.Context host: reservation of 1 MiB, 1 MiB left, 0 B in use>"
        block = part.allocate(256 << 10)
        assert "reservation of 1 MiB, 768 KiB left" in repr(part)
        del block
        with pytest.raises(sa.InvalidError, match="draws from a reservation has no limit of its own"):
            part.memory.limit = 10
    with host.memory.child("query") as child:
        assert repr(child) == "<saeta.Context host: child 'query', no budget, 0 B in use>"
    assert repr(child) == "<saeta.Context host: child 'query', no budget, 0 B in use, closed>"
    assert repr(host) == "<saeta.Context host: no budget, 0 B in use>"


@pytest.mark.parametrize("wait", [-0.001, 1.1e9, float("nan"), float("-inf")])
def test_waits_out_of_range_are_refused(wait):
    with pytest.raises(sa.InvalidError, match=r"wait is \S+ seconds, expected 0 to 1e9"):
        sa.context("host", wait=wait)


def test_stream_arguments_are_dlpack_stream_numbers(sim):
    buffer = sim.allocate(8, stream=1)
    with sa.use(2, reads=[buffer]) as token:
        assert token.stream == 2
    with pytest.raises(sa.InvalidError, match="stream -1 is not a stream: expected None, 1, 2 or a stream"):
        sim.allocate(8, stream=-1)
    codes = sa.column(["a", "b", "a"], sim, name="c", type="dictionary<values=string, indices=int8>")
    with sa.use(2, reads=[codes]), pytest.raises(sa.BusyError):
        sa.use(2, writes=[codes]).__enter__()


def test_foreign_memory_can_not_be_viewed_during_a_capture(sim, simulated):
    block = sim.allocate(64)
    with sim.capturing(), pytest.raises(sa.BusyError, match="can't wait for users of external memory"):
        _core._foreign_bytes(sim, block.address, 64, block, "lent")
    lent = _core._foreign_bytes(sim, block.address, 64, block, "lent")
    assert (lent.address, lent.nbytes) == (block.address, 64)
    del lent
    sim.synchronize()
