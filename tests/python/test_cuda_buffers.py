"""Buffers of saeta.cuda: copies, slices, range checks, and their use as pyarrow buffers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from cuda_module import DEVICES, KINDS, cuda, opened, simulated
from saeta import _core
from threads import run_in_threads

SIZES = [0, 1, 1000]


@pytest.fixture(params=KINDS)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


@pytest.fixture(params=DEVICES)
def gpu(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


def content(size: int) -> bytes:
    return bytes(np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8))


@pytest.mark.parametrize("size", SIZES)
def test_a_device_buffer_is_a_buffer_of_pyarrow(gpu: Any, size: int) -> None:
    buffer = gpu.buffer_from_data(content(size))
    assert isinstance(buffer, pa.Buffer)
    assert (buffer.size, len(buffer), buffer.is_cpu, buffer.is_mutable) == (size, size, False, True)
    assert (buffer.address > 0) == (size > 0)
    assert buffer.device == gpu.device
    assert not buffer.memory_manager.is_cpu
    with pytest.raises(BufferError, match="device buffer not supported"):
        memoryview(buffer)
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(buffer)


def test_strict_mode_refuses_to_copy_to_the_host(ctx: Any) -> None:
    buffer = ctx.buffer_from_data(content(1000))
    target = pa.allocate_buffer(1000)
    before = ctx.saeta.counters()["device_to_host"]
    with ctx.saeta.forbid_downloads():
        if ctx.saeta.device == "host":
            assert buffer.copy_to_host().to_pybytes() == content(1000)
        else:
            for options in ({}, {"position": 10, "nbytes": 20}, {"buf": target}):
                with pytest.raises(sa.DownloadForbidden, match="bytes would be copied from"):
                    buffer.copy_to_host(**options)
            assert ctx.saeta.counters()["device_to_host"] == before
        landed = bytearray(8)  # reading page-locked memory is not a download
        _core._read_bytes(ctx.saeta.allocate(8, kind="pinned"), 0, landed)
    assert buffer.copy_to_host().to_pybytes() == content(1000)


def test_the_classes_have_no_constructors() -> None:
    with pytest.raises(TypeError, match="Do not call CudaBuffer's constructor directly"):
        cuda.CudaBuffer()
    with pytest.raises(TypeError, match="Do not call HostBuffer's constructor directly"):
        cuda.HostBuffer()
    with pytest.raises(TypeError, match="Do not call IpcMemHandle's constructor directly"):
        cuda.IpcMemHandle()


@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_read_one_by_one_and_in_slices(ctx: Any, size: int) -> None:
    data = content(size)
    buffer = ctx.buffer_from_data(data)
    for index in range(0, size, max(1, size // 10)):
        assert buffer[index] == data[index]
    if size:
        assert buffer[-1] == data[-1]
    for index in (size, -size - 1):
        with pytest.raises(IndexError):
            buffer[index]
    for part in (slice(None), slice(size // 4, size // 2), slice(-3, None)):
        assert buffer[part].to_pybytes() == data[part]
        assert isinstance(buffer[part], cuda.CudaBuffer) or size == 0


@pytest.mark.parametrize("size", SIZES)
def test_slices_share_and_know_their_parent(ctx: Any, size: int) -> None:
    data = content(size)
    buffer = ctx.buffer_from_data(data)
    part = buffer.slice(size // 4, size // 2)
    assert part.to_pybytes() == data[size // 4 :][: size // 2]
    assert part.parent == buffer
    assert (part.is_cpu, part.is_mutable, part.device_type) == (buffer.is_cpu, True, buffer.device_type)
    assert buffer.slice(size // 4, size + 10).size == size - size // 4, (
        "a slice ends at the end of the buffer"
    )
    assert buffer.slice().to_pybytes() == data
    again = part.slice(size // 8)
    assert again.to_pybytes() == data[size // 4 :][: size // 2][size // 8 :]
    assert again.address == buffer.address + size // 4 + size // 8 or size == 0
    for offset in (-1, size, size + 1):
        if offset != 0:
            with pytest.raises(ValueError, match="offset argument is out-of-range"):
                buffer.slice(offset)
    with pytest.raises(ValueError, match="-2"):
        buffer.slice(0, -2)


@pytest.mark.parametrize("size", SIZES)
def test_copy_to_host(ctx: Any, size: int) -> None:
    data = content(size)
    buffer = ctx.buffer_from_data(data)
    whole = buffer.copy_to_host()
    assert whole.is_cpu
    assert whole.to_pybytes() == data
    assert buffer.copy_to_host(position=size // 4).to_pybytes() == data[size // 4 :]
    assert buffer.copy_to_host(size // 4, size // 8).to_pybytes() == data[size // 4 :][: size // 8]
    assert buffer.copy_to_host(position=size, nbytes=0).size == 0
    assert buffer.copy_to_host(memory_pool=pa.system_memory_pool(), resizable=True).to_pybytes() == data
    for position in (-1, size + 1):
        with pytest.raises(ValueError, match="position argument is out-of-range"):
            buffer.copy_to_host(position=position)
    for position, nbytes in [(0, size + 1), (size, 1), (size // 2, size - size // 2 + 1)]:
        with pytest.raises(ValueError, match="requested more to copy than available from device buffer"):
            buffer.copy_to_host(position=position, nbytes=nbytes)


def test_copy_to_host_into_a_buffer(ctx: Any) -> None:
    data = content(100)
    buffer = ctx.buffer_from_data(data)
    room = pa.allocate_buffer(40)
    assert buffer.copy_to_host(buf=room) is room
    assert room.to_pybytes() == data[:40]
    buffer.copy_to_host(buf=room, position=90)
    assert room.to_pybytes() == data[90:] + data[10:40], "copies stop at the end of the buffer"
    buffer.copy_to_host(buf=room, position=6, nbytes=12)
    assert room.to_pybytes()[:12] == data[6:18]
    assert buffer.copy_to_host(buf=room, position=20, nbytes=40).to_pybytes() == data[20:60]
    with pytest.raises(ValueError, match="requested copy does not fit into host buffer"):
        buffer.copy_to_host(buf=room, nbytes=41)
    # pyarrow.cuda reads out of bounds in this case.
    with pytest.raises(ValueError, match="requested more to copy than available from device buffer"):
        buffer.copy_to_host(buf=room, position=90, nbytes=30)
    with pytest.raises(ValueError, match="read-only"):
        buffer.copy_to_host(buf=pa.py_buffer(bytes(40)))


def test_copy_to_host_into_a_device_buffer_is_refused(gpu: Any) -> None:
    buffer = gpu.buffer_from_data(b"abc")
    with pytest.raises(ValueError, match="not in host memory"):
        buffer.copy_to_host(buf=gpu.new_buffer(3))


@pytest.mark.parametrize("way", ["copy_from_host", "copy_from_device"])
@pytest.mark.parametrize("size", SIZES)
def test_copies_into_a_buffer(ctx: Any, size: int, way: str) -> None:
    data = content(size)
    source = data if way == "copy_from_host" else ctx.buffer_from_data(data)
    buffer = ctx.buffer_from_data(bytes(size))
    copy = getattr(buffer, way)
    assert copy(source) == size
    assert buffer.to_pybytes() == data
    assert copy(source, position=size // 4) == size - size // 4
    assert buffer.to_pybytes() == data[: size // 4] + data[: size - size // 4]
    copy(source)
    assert copy(source, 1 if size else 0, size // 2) == size // 2
    assert buffer.to_pybytes() == data[: size and 1] + data[: size // 2] + data[(size and 1) + size // 2 :]
    for position in (-1, size + 1):
        with pytest.raises(ValueError, match="position argument is out-of-range"):
            copy(source, position=position)
    with pytest.raises(ValueError, match="requested more to copy than available from"):
        copy(source, nbytes=size + 1)
    if size:
        with pytest.raises(ValueError, match="requested more to copy than available in device buffer"):
            copy(source, position=1, nbytes=size)


def test_copy_from_another_device() -> None:
    with simulated(2):
        near, far = cuda.Context(0), cuda.Context(1)
        data = content(1000)
        buffer = near.new_buffer(1000)
        assert buffer.copy_from_device(far.buffer_from_data(data)) == 1000
        assert buffer.to_pybytes() == data
        assert near.buffer_from_data(far.buffer_from_data(data), 10, 20).to_pybytes() == data[10:30]
        del buffer


def test_parts_of_one_buffer_that_overlap_are_copied_as_by_memmove(ctx: Any) -> None:
    data = content(1000)
    for first, second in ((0, 100), (100, 0), (5, 5)):
        buffer = ctx.buffer_from_data(data)
        buffer.slice(second, 800).copy_from_device(buffer.slice(first, 800))
        expected = bytearray(data)
        expected[second : second + 800] = data[first : first + 800]
        assert buffer.to_pybytes() == bytes(expected)


def test_buffers_are_compared_by_their_bytes(ctx: Any) -> None:
    made, same, other = (ctx.buffer_from_data(each) for each in (b"abc", b"abc", b"abd"))
    assert made.equals(same)
    assert made == same
    assert made != other
    assert made != ctx.buffer_from_data(b"ab")
    assert made == pa.py_buffer(b"abc")
    assert pa.py_buffer(b"abc") == made
    assert made == b"abc"
    with pytest.raises(TypeError):  # like buffers of pyarrow
        made.__eq__("abc")
    assert made.hex() == b"616263"


def test_from_buffer_recognises_device_memory(ctx: Any) -> None:
    buffer = ctx.buffer_from_data(b"0123456789")
    array = pa.Array.from_buffers(pa.uint8(), 4, [None, buffer.slice(2, 4)])
    plain = array.buffers()[1]
    assert type(plain) is pa.Buffer
    known = cuda.CudaBuffer.from_buffer(plain)
    assert isinstance(known, cuda.CudaBuffer)
    assert known.address == buffer.address + 2
    assert known.to_pybytes() == b"2345"
    with pytest.raises(TypeError, match="bytes"):
        cuda.CudaBuffer.from_buffer(b"123")


def test_use_accepts_a_buffer(ctx: Any) -> None:
    buffer = ctx.buffer_from_data(np.arange(10, dtype="i4"))
    with sa.use(writes=buffer.memory) as token:
        assert token.pointer(buffer.memory) == buffer.address
    assert buffer.to_pybytes() == np.arange(10, dtype="i4").tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_page_locked_buffers_are_host_memory(ctx: Any, size: int) -> None:
    buffer = cuda.new_host_buffer(size)
    view = np.frombuffer(buffer, dtype=np.uint8)
    view[:] = 7
    assert buffer.size == size
    assert buffer.is_cpu
    assert isinstance(buffer, pa.Buffer)
    assert buffer.to_pybytes() == b"\x07" * size
    assert buffer.slice(size // 2).to_pybytes() == b"\x07" * (size - size // 2)
    assert buffer.slice(0).parent == buffer
    assert ctx.buffer_from_data(buffer).to_pybytes() == b"\x07" * size
    with pytest.raises(ValueError, match="-1"):
        cuda.new_host_buffer(-1)


def test_pyarrow_sees_page_locked_buffers_as_host_memory(gpu: Any) -> None:
    buffer = cuda.new_host_buffer(16)
    assert buffer.memory.kind == "pinned"
    assert buffer.memory_manager.is_cpu
    assert buffer.device == pa.default_cpu_memory_manager().device
    with pytest.raises(ValueError, match="less than"):
        cuda.new_host_buffer(16, cuda.Context.get_num_devices())


def test_a_read_waits_for_pending_foreign_writes() -> None:
    with simulated() as (device,):
        buffer = cuda.Context(0).buffer_from_data(bytes(64))
        for value in range(1, 6):
            work = device.fill_late(buffer.address, 64, value, 0.02)
            assert buffer.to_pybytes() == bytes([value]) * 64
            del work
        del buffer


def test_memory_is_not_reused_before_foreign_reads_finish() -> None:
    with simulated() as (device,):
        ctx = cuda.Context(0)
        for value in range(1, 6):
            buffer = ctx.buffer_from_data(bytes([value]) * 4096)
            work = device.read_late(buffer.address, 4096, 0.02)
            del buffer
            other = ctx.buffer_from_data(bytes(4096))
            assert work.seen() == bytes([value]) * 4096
            del other, work


def test_threads_share_a_context(ctx: Any) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            data = bytes([number, turn]) * 500
            buffer = ctx.buffer_from_data(data)
            assert buffer.slice(10).to_pybytes() == data[10:]

    run_in_threads(8, work)


def test_many_exchanges_leak_nothing(ctx: Any) -> None:
    before = ctx.saeta.memory.statistics()["buffers"]
    data = bytes(64)
    for _ in range(2000):
        buffer = ctx.buffer_from_data(data)
        buffer.slice(8).copy_to_host()
    del buffer
    ctx.synchronize()
    assert ctx.saeta.memory.statistics()["buffers"] == before
