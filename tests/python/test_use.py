"""Buffers, and use tokens, which give a user's kernels pointers and arrays."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta._core import _stream_number
from sim_devices import simulator
from threads import run_in_threads


def fill(lent, values):
    """Writes all elements. Checks the length first: writing past the buffer would crash later tests."""
    view = np.asarray(lent)
    assert view.shape == np.shape(values)
    view[:] = values


def test_a_buffer_reports_its_properties(anywhere):
    buffer = anywhere.allocate(1000, tag="mine", alignment=4096)
    assert (buffer.nbytes, len(buffer), buffer.tag, buffer.device) == (1000, 1000, "mine", anywhere.device)
    assert buffer.address % 4096 == 0
    assert buffer.context == anywhere
    assert buffer.kind == ("host" if anywhere.device == "host" else "device")
    assert "mine" in repr(buffer)
    assert anywhere.allocate(1).generation != buffer.generation


def test_page_locked_memory_is_charged_to_the_host(anywhere):
    host = sa.context("host")
    before = host.memory.statistics()["current"]
    buffer = anywhere.allocate("1MiB", tag="landing", kind="pinned")
    assert buffer.kind == ("host" if anywhere.device == "host" else "pinned")
    assert buffer.device == anywhere.device
    assert host.memory.statistics()["current"] == before + (1 << 20)
    with pytest.raises(sa.UnsupportedError, match="managed"):
        anywhere.allocate(8, kind="managed")
    with pytest.raises(sa.InvalidError, match="page-locked"):
        anywhere.allocate(8, kind="page-locked")


def test_numpy_and_the_device_read_page_locked_memory(anywhere):
    buffer = anywhere.allocate(40, kind="pinned")
    with sa.use(writes=[buffer]) as token:
        fill(token.array(buffer, "f4"), np.arange(10))
        assert hasattr(token.array(buffer), "__cuda_array_interface__") == (anywhere.device != "host")
    with sa.use(reads=[buffer]) as token:
        assert np.asarray(token.array(buffer, "f4")).tolist() == list(range(10))


def test_numpy_reads_page_locked_memory_after_the_tokens_stream():
    sim = simulator().Device(0).context
    buffer = sim.allocate(40, kind="pinned")
    with sa.use(writes=[buffer]) as token:
        array = token.array(buffer, "f4")
        waits = sim.counters()["synchronizations"]
        assert array.__cuda_array_interface__["stream"] is None
        assert sim.counters()["synchronizations"] == waits, "work on a device needs no host synchronization"
        np.asarray(array)
        assert sim.counters()["synchronizations"] > waits


def test_the_host_can_wait_for_the_stream_of_a_token(anywhere):
    buffer = anywhere.allocate(8)
    with sa.use(writes=[buffer]) as token:
        anywhere.reset_counters()
        token.synchronize()
        assert anywhere.counters()["synchronizations"] == (0 if anywhere.device == "host" else 1)
    with pytest.raises(sa.ClosedError):
        token.synchronize()


def test_a_slice_shares_the_bytes(anywhere):
    buffer = anywhere.allocate(1000)
    part = buffer[100:300][50:]
    assert (part.nbytes, part.address) == (150, buffer.address + 150)
    assert anywhere.memory.statistics()["buffers"] == 1
    assert buffer[2000:].nbytes == 0
    with pytest.raises(sa.InvalidError, match="step 2"):
        buffer[::2]


def test_a_token_reads_what_an_earlier_token_wrote(host):
    buffer = host.allocate(40)
    with sa.use(writes=[buffer]) as token:
        assert token.stream is None
        assert token.pointer(buffer) == buffer.address
        fill(token.array(buffer, "f4"), np.arange(10))
    with sa.use(reads=[buffer[8:16]]) as token:
        view = np.asarray(token.array(buffer[8:16], np.float32))
        assert view.tolist() == [2.0, 3.0]
        assert not view.flags.writeable
    with pytest.raises(sa.ClosedError, match="not open"):
        _ = token.stream


def test_arrays_of_columns_have_their_type(host):
    column = sa.table({"a": np.arange(6, dtype="i2")}, host)["a"]
    with sa.use(reads=[column[2:]]) as token:
        view = np.asarray(token.array(column[2:]))
        assert (view.dtype.str, view.tolist()) == ("<i2", [2, 3, 4, 5])
        with pytest.raises(sa.TypeMismatch, match="<i2"):
            token.array(column, "i4")


def test_columns_that_an_array_can_not_represent_are_refused(host):
    table = sa.table({"n": [1, None, 3], "s": ["a", "b", "c"]}, host)
    buffer = host.allocate(10)
    with sa.use(reads=[table["n"], table["s"], buffer]) as token:
        with pytest.raises(sa.ExchangeError, match="1 nulls"):
            token.array(table["n"])
        with pytest.raises(sa.TypeMismatch, match="not an array of numbers"):
            token.array(table["s"])
        with pytest.raises(sa.InvalidError, match="10 bytes"):
            token.array(buffer, "i4")
        with pytest.raises(sa.InvalidError, match="not aligned"):
            token.array(buffer[1:9], "i4")
        with pytest.raises(sa.TypeMismatch, match="Buffer or a Column"):
            token.pointer("text")


def test_pointers_and_arrays_are_available_only_inside_the_block(host):
    buffer = host.allocate(8)
    token = sa.use(writes=[buffer])
    assert not token.is_open
    with pytest.raises(sa.ClosedError):
        token.pointer(buffer)
    with token:
        lent = token.array(buffer)
        assert len(lent) == 8
    with pytest.raises(sa.ClosedError):
        lent.__array_interface__  # noqa: B018 - reading it is what fails
    with pytest.raises(sa.ClosedError):
        token.pointer(buffer)
    with pytest.raises(sa.ClosedError, match="once"), token:
        pass


def test_only_named_buffers_can_be_accessed(anywhere):
    read, written, other = (anywhere.allocate(8) for _ in range(3))
    with sa.use(reads=[read], writes=[written]) as token:
        assert not token.writable(read)
        assert token.writable(written)
        with pytest.raises(sa.InvalidError, match="not named"):
            token.pointer(other)
        with pytest.raises(sa.BusyError), sa.use(writes=[read]):
            pass
    with pytest.raises(sa.InvalidError, match="at least one buffer"):
        sa.use()


@pytest.mark.parametrize("order", [1, -1], ids=["host first", "device first"])
def test_a_token_with_host_and_device_memory_uses_the_devices_stream(order):
    simulated = simulator().Device()
    ours, theirs = sa.context("host").allocate(8), simulated.context.allocate(8)
    with sa.use(writes=[theirs]) as token:
        stream = token.stream
    assert stream is not None
    both = [ours, theirs][::order]
    for named in ({"reads": both}, {"writes": both}, {"reads": both[:1], "writes": both[1:]}):
        with sa.use(**named) as token:
            assert token.stream == stream
            assert (token.pointer(ours), token.pointer(theirs)) == (ours.address, theirs.address)
            token.synchronize()
    with sa.use(reads=[ours]) as token:
        assert token.stream is None
    del ours, theirs, both, named, token
    assert simulated.races == []


def test_a_token_ends_with_its_block_even_after_an_error(anywhere):
    buffer = anywhere.allocate(8)
    with pytest.raises(LookupError), sa.use(writes=[buffer]):
        raise LookupError
    with sa.use(writes=[buffer]):
        pass


def test_foreign_read_only_memory_can_not_be_written(host):
    column = sa.from_arrow(pa.array([0, 1, 2, 3]), host)
    with pytest.raises(sa.InvalidError, match="read-only"), sa.use(writes=[column]):
        pass
    with sa.use(reads=[column]) as token:
        assert np.asarray(token.array(column)).tolist() == [0, 1, 2, 3]


@pytest.fixture
def restless():
    """Makes Python switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_writes_of_several_threads_are_serialized(host):
    buffer = host.allocate(8)
    with sa.use(writes=[buffer]) as token:
        fill(token.array(buffer, "i8"), [0])
    ready = threading.Barrier(4)

    def count(_):
        ready.wait()
        for _ in range(300):
            with sa.use(writes=[buffer]) as token:
                view = np.asarray(token.array(buffer, "i8"))
                before = int(view[0])
                sum(range(1000))  # long enough for a thread switch
                view[0] = before + 1

    run_in_threads(4, count)
    with sa.use(reads=[buffer]) as token:
        assert np.asarray(token.array(buffer, "i8")).tolist() == [1200]


def test_memory_is_freed_after_its_last_user(anywhere):
    buffer = anywhere.allocate(1000)
    with sa.use(writes=[buffer]) as token:
        del buffer
        assert anywhere.memory.statistics()["current"] == 1000
    anywhere.synchronize()
    assert anywhere.memory.statistics()["current"] == 0
    assert not token.is_open


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (None, None),
        (2, 2),
        (SimpleNamespace(cuda_stream=0), 1),
        (SimpleNamespace(cuda_stream=4096), 4096),
        (SimpleNamespace(ptr=0), 1),
        (SimpleNamespace(ptr=2), 2),
        (SimpleNamespace(handle=SimpleNamespace(value=None)), 1),
        (SimpleNamespace(handle=SimpleNamespace(value=512)), 512),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 64)), 64),
    ],
    ids=["none", "number", "torch 0", "torch", "cupy 0", "cupy", "numba 0", "numba", "protocol"],
)
def test_stream_objects_of_frameworks_are_accepted(stream, number):
    assert _stream_number(stream) == number


def test_objects_that_are_not_streams_are_refused(host):
    buffer = host.allocate(8)
    with pytest.raises(sa.TypeMismatch, match="is not a stream"):
        sa.use("fast", reads=[buffer])
    with pytest.raises(sa.InvalidError, match="the host"), sa.use(1, reads=[buffer]):
        pass
    with pytest.raises(sa.InvalidError, match="the host"):
        host.allocate(8, stream=1)


@pytest.mark.gpu
def test_cupy_kernels_use_arrays_of_a_token():
    cupy = pytest.importorskip("cupy")
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    ctx = sa.context("cuda")
    double = cupy.ElementwiseKernel("int32 x", "int32 y", "y = 2 * x", "double_it")
    column = sa.table({"a": np.arange(1000, dtype="i4")}, ctx)["a"]
    target = ctx.allocate(4000)
    side = cupy.cuda.Stream(non_blocking=True)
    with side, sa.use(side, reads=[column], writes=[target]) as token:
        double(cupy.asarray(token.array(column)), cupy.asarray(token.array(target, "i4")))
    with sa.use(reads=[target]) as token, cupy.cuda.ExternalStream(token.stream):
        got = cupy.asarray(token.array(target, "i4")).get()
    np.testing.assert_array_equal(got, 2 * np.arange(1000))
    for wrong in (0, -1, -7):
        with pytest.raises(sa.InvalidError), sa.use(wrong, reads=[target]):
            pass
