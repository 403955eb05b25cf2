"""saeta.cuda.BufferReader and BufferWriter: device buffers as file objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cuda_module import KINDS, cuda, opened, simulated


@pytest.fixture(params=KINDS)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


CONTENT = bytes(np.random.default_rng(3).integers(0, 256, 1000, dtype=np.uint8))


def test_a_reader_copies_to_the_host(ctx: Any) -> None:
    reader = cuda.BufferReader(ctx.buffer_from_data(CONTENT))
    assert isinstance(reader, pa.NativeFile)
    assert (reader.size(), reader.tell(), reader.readable(), reader.seekable()) == (1000, 0, True, True)
    assert reader.read(10) == CONTENT[:10]
    assert reader.tell() == 10
    reader.seek(950)
    assert reader.read(100) == CONTENT[950:], "a read stops at the end of the buffer"
    assert reader.tell() == 1000
    assert reader.read() == b""
    reader.seek(925)
    room = np.zeros(100, dtype=np.uint8)
    assert reader.readinto(room) == 75
    assert room[:75].tobytes() == CONTENT[925:]
    assert reader.read_at(5, 3) == CONTENT[3:8]
    reader.seek(0)
    assert reader.read() == CONTENT


def test_read_buffer_returns_slices_without_a_copy(ctx: Any) -> None:
    whole = ctx.buffer_from_data(CONTENT)
    reader = cuda.BufferReader(whole)
    ctx.saeta.reset_counters()
    first = reader.read_buffer(10)
    assert isinstance(first, cuda.CudaBuffer)
    assert (first.address, first.size, reader.tell()) == (whole.address, 10, 10)
    rest = reader.read_buffer()
    assert (rest.address, rest.size) == (whole.address + 10, 990)
    assert reader.read_buffer(5).size == 0
    assert ctx.saeta.counters()["device_to_host"]["bytes"] == 0
    assert rest.to_pybytes() == CONTENT[10:]
    with pytest.raises(ValueError, match="-1"):
        reader.read_buffer(-1)


def test_a_reader_of_an_empty_buffer(ctx: Any) -> None:
    reader = cuda.BufferReader(ctx.new_buffer(0))
    reader.seek(0)
    assert reader.read() == b""
    assert reader.tell() == 0
    assert reader.read_buffer().size == 0


def test_a_reader_needs_a_device_buffer() -> None:
    with pytest.raises(TypeError, match="expected CudaBuffer instance, got Buffer"):
        cuda.BufferReader(pa.py_buffer(b"123"))
    with pytest.raises(TypeError, match="expected CudaBuffer instance, got bytes"):
        cuda.BufferWriter(b"123")


def test_a_closed_reader_refuses(ctx: Any) -> None:
    reader = cuda.BufferReader(ctx.buffer_from_data(CONTENT))
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.read(1)


@pytest.mark.parametrize("buffered", [0, 100, 4096])
def test_a_writer_writes_in_order(ctx: Any, buffered: int) -> None:
    target = ctx.buffer_from_data(bytes(1000))
    writer = cuda.BufferWriter(target)
    assert isinstance(writer, pa.NativeFile)
    assert (writer.tell(), writer.buffer_size, writer.num_bytes_buffered, writer.writable()) == (
        0,
        0,
        0,
        True,
    )
    writer.buffer_size = buffered
    assert writer.buffer_size == buffered
    writer.write(CONTENT[:10])
    assert writer.tell() == 10
    assert writer.num_bytes_buffered == (10 if buffered else 0)
    writer.write(pa.py_buffer(CONTENT[10:400]))
    writer.write(np.frombuffer(CONTENT[400:990], dtype=np.uint8))
    writer.write(b"")
    writer.writeat(995, CONTENT[995:])
    assert writer.tell() == 1000
    assert writer.seek(990) == 990
    assert writer.seek(0, 1) == 990
    writer.write(CONTENT[990:995])
    writer.flush()
    assert writer.num_bytes_buffered == 0
    assert target.to_pybytes() == CONTENT
    with pytest.raises(ValueError, match="Invalid value of whence: 2"):
        writer.seek(0, 2)


def test_buffered_bytes_are_written_on_close(ctx: Any) -> None:
    target = ctx.buffer_from_data(bytes(20))
    with cuda.BufferWriter(target) as writer:
        writer.buffer_size = 10
        writer.write(b"abc")
    assert target.to_pybytes()[:4] == b"abc\0"


def test_nothing_is_written_beyond_the_end(ctx: Any) -> None:
    """pyarrow.cuda writes out of bounds in this case."""
    neighbour = ctx.buffer_from_data(bytes(64))
    target = ctx.buffer_from_data(CONTENT[:64])
    writer = cuda.BufferWriter(target)
    for refused in (
        lambda: writer.write(bytes(65)),
        lambda: writer.writeat(60, bytes(5)),
        lambda: writer.writeat(-1, bytes(5)),
        lambda: writer.writeat(2**63 - 1, bytes(5)),
        lambda: writer.seek(65),
        lambda: writer.seek(-1),
    ):
        with pytest.raises((IndexError, ValueError)):
            refused()
    assert target.to_pybytes() == CONTENT[:64]
    assert neighbour.to_pybytes() == bytes(64)
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        writer.buffer_size = -1


def test_pyarrow_reads_and_writes_a_stream(ctx: Any) -> None:
    table = pa.table({"a": [1, None, 3], "b": ["x", "yy", None]})
    target = ctx.buffer_from_data(bytes(4096))
    writer = cuda.BufferWriter(target)
    with pa.ipc.new_stream(writer, table.schema) as sink:
        sink.write_table(table)
    end = writer.tell()
    writer.flush()
    assert pa.ipc.open_stream(target.slice(0, end).copy_to_host()).read_all().equals(table)


def test_a_reader_waits_for_pending_foreign_writes() -> None:
    with simulated() as (device,):
        buffer = cuda.Context(0).buffer_from_data(bytes(64))
        reader = cuda.BufferReader(buffer)
        work = device.fill_late(buffer.address, 64, 9, 0.02)
        assert reader.read(64) == b"\x09" * 64
        del buffer, reader, work
