"""Tables that leave the device compressed: fewer bytes meanwhile, and equal when they return."""

from __future__ import annotations

import datetime
import decimal
import os
import pathlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saeta as sa
from sim_devices import simulator

MIB = 1 << 20


@pytest.fixture(params=["host", "sim"])
def ctx(request, tmp_path):
    if request.param == "host":
        with sa.context("host").memory.child("compressed", None) as child:
            before = child.spill_dir
            child.spill_dir = tmp_path
            yield child
            child.spill_dir = before
        return
    device = simulator().Device(0)
    device.context.memory.limit = 64 * MIB
    device.context.spill_dir = tmp_path
    yield device.context
    assert device.races == []


def tiers_of(ctx):
    return ["file"] if ctx.device == "host" else ["pinned", "pageable", "file"]


def trips(rows):
    random = np.random.default_rng(rows)
    return pa.table(
        {
            "fare": np.round(random.lognormal(2, 0.5, rows), 2),
            "tip": pa.array(
                random.integers(0, 9, rows).astype(np.float32) / 4, mask=random.random(rows) < 0.2
            ),
            "price": pa.array([decimal.Decimal(int(n)).scaleb(-2) for n in random.integers(0, 9999, rows)]),
            "start": pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
            "day": pa.array([datetime.date(2026, 1, 1 + n % 28) for n in range(rows)]),
            "way": pa.array([["card", "cash", None][n % 3] for n in range(rows)]),
            "city": pa.array(["Lyon", "Bern"] * (rows // 2) + ["Lyon"] * (rows % 2)).dictionary_encode(),
            "stops": pa.array([list(range(n % 4)) for n in range(rows)], pa.list_(pa.int32())),
        }
    )


def returned(handle):
    """The table as pyarrow's, so that nobody has it on the device."""
    with handle.use() as table:
        return table.to_arrow()


@pytest.mark.parametrize("rows", [0, 1, 1000, 30_000])
def test_a_table_returns_equal_from_each_tier(ctx, rows):
    source = trips(rows)
    handle = ctx.spillable(sa.from_arrow(source, ctx), compress=True)
    for tier in tiers_of(ctx):
        assert handle.spill(tier) == (tier if rows else "device")
        if rows > 1000:
            assert handle.stored_nbytes * 3 < handle.nbytes
        assert returned(handle).equals(source)
        assert handle.stored_nbytes == handle.nbytes


def test_every_bit_of_a_float_returns(ctx):
    bits = np.array(
        [0x7FF8_0000_DEAD_BEEF, 0xFFF0_0000_0000_0001, 0x8000_0000_0000_0000, 1, 0x3FF8_0000_0000_0000],
        np.uint64,
    )
    values = np.where(
        np.arange(20_000) % 90 == 0, bits[np.arange(20_000) % 5], np.float64(1.5).view(np.uint64)
    )
    handle = ctx.spillable(sa.table({"x": values.view(np.float64)}, ctx), compress=True)
    handle.spill()
    assert handle.stored_nbytes < handle.nbytes / 5
    assert np.array_equal(returned(handle)["x"].to_numpy().view(np.uint64), values)


def test_what_can_not_get_smaller_leaves_as_it_is(ctx):
    values = np.random.default_rng(1).integers(-(1 << 63), 1 << 63, 100_000)
    handle = ctx.spillable(sa.table({"x": values}, ctx), compress=True)
    handle.spill()
    assert handle.stored_nbytes == handle.nbytes


def test_batches_and_slices_of_others_return(ctx):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n": range(20_000), "s": [f"name {n % 100}" for n in range(20_000)]})
    for others in (frame[50:19_000], trips(9000).slice(7, 5000)):
        expected = sa.from_arrow(others, ctx).to_arrow()
        handle = ctx.spillable(sa.from_arrow(others, ctx), compress=True)
        handle.spill()
        assert returned(handle).equals(expected)


NUMBERS = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 100),
    "float32": st.floats(width=32) | st.integers(-999, 999).map(lambda n: n / 8),
    "float64": st.floats() | st.integers(-99_999, 99_999).map(lambda n: n / 100),
    "string": st.text(max_size=8),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(NUMBERS)), times=st.integers(1, 900))
def test_any_values_return(tmp_path_factory, data, kind, times):
    some = data.draw(st.lists(st.none() | NUMBERS[kind], max_size=40))
    source = pa.table({"x": pa.array(some * times, getattr(pa, kind)())})
    ctx = sa.context("host").memory.child("any", None)
    ctx.spill_dir = tmp_path_factory.getbasetemp()
    handle = ctx.spillable(sa.from_arrow(source, ctx), compress=True)
    handle.spill()
    back = returned(handle)["x"].combine_chunks()
    chunk = source["x"].combine_chunks()
    assert back.equals(chunk) or [repr(v) for v in back.to_pylist()] == [repr(v) for v in chunk.to_pylist()]


def test_a_damaged_file_is_an_error_and_not_other_values(tmp_path):
    device = simulator().Device(0)
    device.context.spill_dir = tmp_path
    handle = device.context.spillable(sa.from_arrow(trips(5000), device.context), compress=True)
    handle.spill("file")
    file = next(
        os.open(entry, os.O_RDWR)
        for entry in pathlib.Path("/proc/self/fd").iterdir()
        if entry.exists() and str(entry.readlink()).startswith(f"{tmp_path}/")
    )
    try:
        for at in range(3, handle.stored_nbytes, handle.stored_nbytes // 40):
            before = os.pread(file, 1, at)
            os.pwrite(file, bytes([before[0] ^ 0x40]), at)
            with pytest.raises(sa.FileError, match=r"damaged: 1 of its \d+ blocks"), handle.use():
                pass
            assert handle.tier == "file"
            os.pwrite(file, before, at)
    finally:
        os.close(file)
    assert returned(handle).equals(trips(5000))


def test_a_process_that_is_killed_while_it_spills_leaves_no_file(run_python, tmp_path):
    program = """
import os, threading, numpy as np, saeta as sa
ctx = sa.context("host")
tables = [sa.table({"n": np.arange(400_000) + turn}, ctx) for turn in range(20)]
handles = [ctx.spillable(tables.pop(), compress=True) for turn in range(20)]
threading.Timer(0.02, os.kill, (os.getpid(), 9)).start()
while True:
    for handle in handles:
        handle.spill()
        with handle.use():
            pass
"""
    assert run_python(program, SAETA_SPILL_DIR=str(tmp_path)).returncode == -9
    assert list(tmp_path.iterdir()) == []
