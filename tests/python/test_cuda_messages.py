"""IPC messages on a device: saeta.cuda.serialize_record_batch, read_message and read_record_batch."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cuda_module import CPU, KINDS, cuda, example, opened


@pytest.fixture(params=KINDS)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


def plain(rows: int) -> pa.RecordBatch:
    """Returns a batch without dictionaries, which would need messages of their own."""
    batch = example().drop_columns(["codes"])
    return (
        pa.Table.from_batches([batch] * rows).combine_chunks().to_batches()[0] if rows else batch.slice(0, 0)
    )


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_a_batch_makes_the_trip(ctx: Any, rows: int) -> None:
    batch = plain(rows)
    message = cuda.serialize_record_batch(batch, ctx)
    assert isinstance(message, cuda.CudaBuffer)
    assert message.context.device_number == ctx.device_number
    read = cuda.read_record_batch(message, batch.schema)
    assert isinstance(read, pa.RecordBatch)
    assert read.schema == batch.schema
    assert (read.num_rows, read.num_columns) == (batch.num_rows, batch.num_columns)
    assert read.copy_to(CPU).equals(batch)
    assert pa.ipc.read_record_batch(message.copy_to_host(), batch.schema).equals(batch)


def test_the_bytes_are_those_of_pyarrow(ctx: Any) -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 3]), "b": pa.array(["x", None, "z"])})
    assert cuda.serialize_record_batch(batch, ctx).to_pybytes() == batch.serialize().to_pybytes()


def test_a_batch_reports_its_device(ctx: Any) -> None:
    """A batch read by pyarrow.cuda claims to be in CPU memory."""
    message = cuda.serialize_record_batch(plain(3), ctx)
    read = cuda.read_record_batch(message, plain(3).schema)
    assert read.is_cpu == (ctx.saeta.device == "host")
    values = read["ints"].buffers()[1]
    assert message.address <= values.address < message.address + message.size, "a view of the message"
    assert str(read) == str(plain(3))
    del message
    assert read.copy_to(CPU).equals(plain(3)), "a batch keeps its message alive"


def test_null_counts_of_messages_are_recounted(ctx: Any) -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3]), "n": pa.nulls(3)})
    content = cuda.serialize_record_batch(batch, ctx).to_pybytes()
    said = struct.pack("<qq", 3, 1)  # length and null count of "a"
    assert content.count(said) == 1
    message = ctx.buffer_from_data(content.replace(said, struct.pack("<qq", 3, 2)))
    copied = cuda.read_record_batch(message, batch.schema).copy_to(CPU)
    assert (copied["a"].null_count, copied["n"].null_count) == (1, 3)
    assert copied.equals(batch)


@pytest.mark.parametrize(
    "column",
    [pa.nulls(3), pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None])],
    ids=["nulls", "runs"],
)
def test_null_counts_of_types_without_validity_are_ignored(ctx: Any, column: pa.Array) -> None:
    batch = pa.record_batch({"a": column})
    content = cuda.serialize_record_batch(batch, ctx).to_pybytes()
    said = struct.pack("<qq", 3, column.null_count)
    assert content.count(said) == 1
    message = ctx.buffer_from_data(content.replace(said, struct.pack("<qq", 3, 2)))
    copied = cuda.read_record_batch(message, batch.schema).copy_to(CPU)
    assert copied["a"].null_count == column.null_count
    copied.validate(full=True)
    assert copied.equals(batch)


def test_values_outside_of_their_buffers_are_refused(ctx: Any) -> None:
    batch = pa.record_batch({"v": pa.array(["x" * 20, "short"], pa.string_view())})
    content = cuda.serialize_record_batch(batch, ctx).to_pybytes()
    place = struct.pack("<i", 20) + b"xxxx" + bytes(8)  # the first view: size, prefix, buffer, offset
    assert content.count(place) == 1
    changed = content.replace(place, place[:8] + struct.pack("<ii", 0, 100))
    with pytest.raises(pa.ArrowInvalid, match="the view at row 0 has 20 bytes from 100"):
        cuda.read_record_batch(ctx.buffer_from_data(changed), batch.schema)


def test_a_batch_without_rows_has_its_buffers(ctx: Any) -> None:
    """pyarrow ignores the buffers of a batch without rows. Saeta refuses a message that lacks them."""
    batch = pa.record_batch({"a": pa.array([], pa.int32())})
    message = cuda.serialize_record_batch(batch, ctx)
    assert cuda.read_record_batch(message, batch.schema).num_rows == 0
    more = pa.schema([("a", pa.int32()), ("b", pa.null()), ("c", pa.int32())])
    with pytest.raises(pa.ArrowInvalid, match="1 field nodes, the schema needs 3"):
        cuda.read_record_batch(message, more)
    few = struct.pack("<I", 2) + struct.pack("<qq", 0, 0) * 2  # number of buffers, their offsets and lengths
    content = message.to_pybytes()
    assert content.count(few) == 1
    with pytest.raises(pa.ArrowInvalid, match="1 buffers, the schema needs 2"):
        cuda.read_record_batch(
            ctx.buffer_from_data(content.replace(few, struct.pack("<I", 1) + few[4:])), batch.schema
        )


def test_the_offset_of_a_list_without_rows_is_ignored(ctx: Any) -> None:
    batch = pa.record_batch({"l": pa.array([], pa.list_(pa.int32()))})
    content = cuda.serialize_record_batch(batch, ctx).to_pybytes()
    offsets = struct.pack("<qq", 0, 4)
    assert content.count(offsets) == 1
    changed = ctx.buffer_from_data(content.replace(offsets, struct.pack("<qq", 0, 2)))
    assert cuda.read_record_batch(changed, batch.schema).copy_to(CPU).equals(batch)


def test_the_validity_of_a_compressed_column_without_nulls_is_ignored(ctx: Any) -> None:
    batch = pa.record_batch({"a": pa.array(np.arange(100) // 7)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    begin = content.index(b"\xff\xff\xff\xff", 4)
    validity = struct.pack("<Iqq", 2, 0, 0)  # number of buffers, the empty validity
    assert content.count(validity) == 1
    changed = content.replace(validity, struct.pack("<Iqq", 2, 0, 4))[begin:]
    read = cuda.read_record_batch(ctx.buffer_from_data(changed), batch.schema)
    assert read.copy_to(CPU).equals(batch)


def test_a_batch_of_the_device_is_serialized(ctx: Any) -> None:
    batch = plain(2)
    there = batch.copy_to(ctx.memory_manager)
    message = cuda.serialize_record_batch(there, ctx)
    assert cuda.read_record_batch(message, batch.schema).copy_to(CPU).equals(batch)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_bodies_are_decoded(ctx: Any, codec: str) -> None:
    batch = pa.record_batch({"a": pa.array(np.arange(5000) // 7), "b": pa.array([None, "text"] * 2500)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as out:
        out.write_batch(batch)
    reader = cuda.BufferReader(ctx.buffer_from_data(sink.getvalue()))
    cuda.read_message(reader)
    rest = reader.read_buffer()
    read = cuda.read_record_batch(rest, batch.schema)
    assert read.copy_to(CPU).equals(batch)
    assert read.is_cpu == (ctx.saeta.device == "host")


def test_dictionaries_are_taken_from_the_memo(ctx: Any) -> None:
    batch = example().select(["codes"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
    table = pa.ipc.open_stream(cuda.BufferReader(ctx.buffer_from_data(sink.getvalue()))).read_all()
    assert table.num_rows == 4
    memo = pa.lib.DictionaryMemo()
    schema = pa.ipc.read_schema(sink.getvalue(), memo)
    message = cuda.serialize_record_batch(batch, ctx)
    with pytest.raises((pa.ArrowInvalid, pa.ArrowKeyError, KeyError)):
        cuda.read_record_batch(message, schema, dictionary_memo=memo)


def test_messages_are_read_one_after_the_other(ctx: Any) -> None:
    batch = plain(2)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
        out.write_batch(batch)
    device = ctx.buffer_from_data(sink.getvalue())
    reader = cuda.BufferReader(device)
    schema = cuda.read_message(reader)
    assert isinstance(schema, pa.Message)
    assert schema.type == "schema"
    for _ in range(2):
        message = cuda.read_message(reader, pa.system_memory_pool())
        assert message.type == "record batch"
        assert message.body.is_cpu == (ctx.saeta.device == "host")
    for _ in range(2):
        with pytest.raises(EOFError):
            cuda.read_message(reader)
    assert cuda.read_message(device).type == "schema"
    with pytest.raises(EOFError):
        cuda.read_message(ctx.new_buffer(0))


def test_wrong_arguments_are_type_errors(ctx: Any) -> None:
    batch = plain(1)
    for call in (
        lambda: cuda.serialize_record_batch(batch, None),
        lambda: cuda.serialize_record_batch([1], ctx),
        lambda: cuda.read_message(batch.serialize()),
        lambda: cuda.read_record_batch(batch.serialize(), batch.schema),
        lambda: cuda.read_record_batch(cuda.serialize_record_batch(batch, ctx), "schema"),
        lambda: cuda.read_record_batch(cuda.serialize_record_batch(batch, ctx), batch.schema, pool=3),
    ):
        with pytest.raises(TypeError):
            call()


def test_another_schema_is_refused(ctx: Any) -> None:
    message = cuda.serialize_record_batch(pa.record_batch({"a": [1, 2]}), ctx)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        cuda.read_record_batch(message, pa.schema([("a", pa.int64()), ("b", pa.string())]))


def test_truncated_messages_are_refused(ctx: Any) -> None:
    batch = plain(1)
    whole = cuda.serialize_record_batch(batch, ctx)
    for size in list(range(1, 64)) + list(range(64, whole.size - 8, 61)):
        with pytest.raises((pa.ArrowInvalid, OSError, EOFError)):
            cuda.read_record_batch(whole.slice(0, size), batch.schema)
    assert ctx.saeta.memory.statistics()["buffers"] is not None


@pytest.mark.parametrize("size", range(1, 8))
def test_the_error_for_a_message_that_ends_in_its_prefix(ctx: Any, size: int) -> None:
    """4 to 7 bytes hold the continuation marker, but not the whole size. The reader must not use bytes of the
    parent buffer beyond the message."""
    batch = plain(1)
    whole = cuda.serialize_record_batch(batch, ctx)
    for message in (whole.slice(0, size), ctx.buffer_from_data(whole.to_pybytes()[:size])):
        with pytest.raises((pa.ArrowInvalid, OSError), match=f"truncated in its prefix, after {size} bytes"):
            cuda.read_record_batch(message, batch.schema)


@pytest.mark.parametrize("size", range(4, 8))
def test_messages_before_arrow_0_15_have_a_prefix_of_four_bytes(ctx: Any, size: int) -> None:
    """Before Arrow 0.15 messages had no continuation marker. A size of 0 ends a stream; others need
    metadata."""
    batch = plain(1)
    with pytest.raises(
        (pa.ArrowInvalid, OSError), match="expected a record batch, found the end of a stream"
    ):
        cuda.read_record_batch(ctx.buffer_from_data(bytes(size)), batch.schema)
    with pytest.raises(
        (pa.ArrowInvalid, OSError),
        match=f"a prefix of 4 bytes and metadata of 9 bytes exceed its {size} bytes",
    ):
        cuda.read_record_batch(ctx.buffer_from_data(b"\t" + bytes(size - 1)), batch.schema)


def test_damaged_messages_are_refused_or_harmless(ctx: Any) -> None:
    """Flips a bit of each byte. The message is refused, or the batch can be copied and validated."""
    batch = pa.record_batch(
        {"a": pa.array([1, None, 3]), "s": pa.array(["x", "yy", None]), "l": pa.array([[1], [], None])}
    )
    content = bytearray(cuda.serialize_record_batch(batch, ctx).to_pybytes())
    places = random.Random(5)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << places.randrange(8)
        try:
            read = cuda.read_record_batch(ctx.buffer_from_data(damaged), batch.schema)
            copied = read.copy_to(CPU)
            copied.validate(full=True)
        except (pa.ArrowException, OSError, EOFError, MemoryError, ValueError):
            pass
