"""The packed form (metadata and one body): round trips of every type, and every kind of body."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import copies
from protocols import OnlyArray
from sim_devices import DEVICES, contexts_of


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def again(table):
    return sa.unpack(*table.pack())


def require_same(found, expected):
    assert found.to_arrow().equals(expected.to_arrow())
    assert found.schema == expected.schema
    assert [each.num_rows for each in found.batches] == [each.num_rows for each in expected.batches]


def test_every_type_makes_the_round_trip(ctx):
    source = arrow_data.table().replace_schema_metadata({"key": "value"})
    table = sa.from_arrow(source, ctx)
    metadata, body = table.pack()
    assert (body.type, body.context, len(body) % 64) == ("uint8", ctx, 0)
    found = sa.unpack(metadata, body)
    assert found.context == ctx
    require_same(found, table)
    assert found.to_arrow().schema.equals(source.schema, check_metadata=True)
    for part in (table[3:20], table[:1], table[:0], table.select([])):
        require_same(again(part), part)
    require_same(again(sa.concat_tables([table, table[5:9]])), sa.concat_tables([table, table[5:9]]))


def test_padding_is_zero(ctx):
    columns = {
        "a": sa.column(np.full(70, -1, np.int8), ctx, name="a"),
        "b": sa.column(np.full(70, -1, np.int16), ctx, name="b"),
    }
    used_before = sa.column(np.full(320, -1, np.int8), ctx, name="c")
    ctx.synchronize()
    del used_before  # its memory, filled with ones, may be reused for the body
    body = sa.table(columns, ctx).pack().body
    expected = np.zeros(320, np.uint8)
    expected[:70] = expected[128:268] = 255
    assert body.to_numpy().tolist() == expected.tolist()


def test_large_tables_are_gathered_in_parts(ctx):
    numbers = np.arange(2_500_001)  # 19 MiB, gathered in parts of 16 MiB and more
    columns = {
        **{f"large{i}": sa.column(numbers + i, ctx, name=f"large{i}") for i in range(4)},
        "small": sa.column((numbers % 100).astype(np.int8), ctx, name="small"),
        "nulls": sa.column(pa.array(numbers % 3, mask=numbers % 2 == 0, type=pa.int8()), ctx, name="nulls"),
    }
    table = sa.table(columns, ctx)
    metadata, body = table.pack()
    assert len(body) > 4 * numbers.nbytes
    assert sa.unpack(metadata, body).equals(table)


def test_a_table_in_one_slab_is_packed_without_a_copy(ctx, tmp_path):
    sa.from_arrow(arrow_data.table(), "host").write_ipc(tmp_path / "a.arrow")
    table = sa.read_ipc(tmp_path / "a.arrow", ctx, copy=True, combine_chunks=True)
    ctx.reset_counters()
    before = ctx.memory.statistics()["current"]
    packed = table.pack()
    found = sa.unpack(*packed, validate=False)
    assert copies(ctx) == 0
    assert ctx.memory.statistics()["current"] == before
    require_same(found, table)


def test_packing_an_unpacked_table_again_returns_the_same_form(ctx):
    table = again(sa.table({"a": [1, 2, None]}, ctx))
    first, second = table.pack(), table.pack()
    assert first.metadata is second.metadata
    assert first.body is second.body
    require_same(sa.unpack(*second), table)


def test_a_table_does_not_keep_its_packed_copy(host):
    words = sa.table({"a": ["x", "yz"] * 1000, "b": range(2000)}, host)
    before = host.memory.statistics()["current"]
    packed = words.pack()
    assert host.memory.statistics()["current"] > before
    del packed
    assert host.memory.statistics()["current"] == before


def test_a_forked_child_packs_a_table_of_its_parent_itself(run_python):
    program = """
import os
import saeta as sa

table = sa.unpack(*sa.table({"a": [1, 2]}, "host").pack())
table.pack()
child = os.fork()
if child == 0:
    body = table.pack().body
    sound = sa.unpack(*table.pack())["a"].to_pylist() == [1, 2] and body.context == sa.context("host")
    os._exit(0 if sound else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run_python(program)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\n")


def test_bool8_and_symbols_make_the_round_trip(ctx):
    flags = sa.from_dlpack(np.array([True, False, True]), ctx)
    words = ["Lyon", None, "Brno"]
    table = sa.table(
        {"f": flags, "g": flags.as_bool8(), "w": sa.column(words, ctx, name="w", type="symbol")}, ctx
    )
    restored = again(table)
    assert restored.schema == table.schema
    assert [str(each.type) for each in restored.columns] == ["bool8", "extension<arrow.bool8>", "symbol"]
    assert restored["f"].to_pylist() == [True, False, True]
    assert restored["w"].to_pylist() == words


def test_any_buffer_can_be_a_body(ctx):
    table = sa.from_arrow(arrow_data.table(), ctx)
    metadata, body = table.to("host").pack()
    array = np.from_dlpack(body)
    for given in (bytes(array), bytearray(array), memoryview(array), array, OnlyArray(body), body):
        require_same(sa.unpack(metadata, given, ctx), table)
        require_same(sa.unpack(memoryview(metadata), given), table)
    if ctx.device != "host":
        with pytest.raises(sa.ExchangeError):
            sa.unpack(metadata, body, ctx, copy=False)


def test_a_tensor_can_be_a_body():
    torch = pytest.importorskip("torch")
    table = sa.from_arrow(arrow_data.table(), "host")
    metadata, body = table.pack()
    require_same(sa.unpack(metadata, torch.from_dlpack(body)), table)
    with pytest.raises(sa.TypeMismatch, match="expected one chunk of uint8"):
        sa.unpack(metadata, torch.zeros(1000))
    with pytest.raises(sa.TypeMismatch, match="several columns"):
        sa.unpack(metadata, pa.table({"a": [1], "b": [2]}))


def test_misaligned_bodies_are_copied_if_allowed(host):
    table = sa.table({"a": np.arange(1000)}, host)
    metadata, body = table.pack()
    room = np.zeros(len(body) + 8, np.uint8)
    start = 1 - room.ctypes.data % 8 if room.ctypes.data % 8 <= 1 else 9 - room.ctypes.data % 8
    moved = room[start : start + len(body)]
    moved[:] = np.from_dlpack(body)
    require_same(sa.unpack(metadata, moved), table)
    with pytest.raises(sa.ExchangeError, match="not a multiple of 8"):
        sa.unpack(metadata, moved, copy=False)


def test_columns_keep_the_body_alive(host):
    body = bytearray(np.from_dlpack((packed := sa.table({"a": np.arange(9)}, host).pack()).body))
    table = sa.unpack(packed.metadata, body)
    with pytest.raises(BufferError):
        body.append(0)
    assert table["a"].to_pylist() == [*range(9)]
    del table
    host.synchronize()
    body.append(0)


def test_errors_describe_invalid_packed_tables(host):
    table = sa.table({"city": ["Lyon", "Brno"], "n": [1, 2]}, host)
    metadata, body = table.pack()
    with pytest.raises(sa.FormatError, match=r"packed table: .*body of \d+ bytes, found 64"):
        sa.unpack(metadata, body.slice(0, 64))
    for broken in (b"", metadata[:-8], metadata[:-4], metadata + b"12345678", b"ARROW1\0\0" + metadata):
        with pytest.raises(sa.FormatError, match="packed table: "):
            sa.unpack(broken, body)
    offsets = np.array(np.from_dlpack(body))
    place = bytes(offsets).index(np.array([0, 4, 8], np.int32).tobytes())
    offsets[place + 4 : place + 8] = np.array([500], np.int32).view(np.uint8)
    with pytest.raises(sa.FormatError, match=r"batch 0: column 'city'"):
        sa.unpack(metadata, offsets)
    sa.unpack(metadata, offsets, validate=False)


def test_the_metadata_are_an_arrow_stream_without_bodies(host):
    metadata, _body = sa.table({"a": [1, 2, 3], "s": ["x", None, "z"]}, host).pack()
    assert pa.ipc.read_schema(pa.py_buffer(metadata)).names == ["a", "s"]
    assert metadata.endswith(b"\xff\xff\xff\xff\0\0\0\0")


def stream_of(metadata, body):
    """Returns the Arrow stream that the metadata describes, where each message has the whole body."""
    parts, at = [], 0
    while at < len(metadata):
        end = at + 8 + int.from_bytes(metadata[at + 4 : at + 8], "little")
        parts.append(metadata[at:end])
        if at != 0 and end < len(metadata):
            parts.append(body)
        at = end
    return b"".join(parts)


def test_pyarrow_reads_the_metadata_with_a_body_in_each_message(host):
    source = arrow_data.table()
    for table in (sa.from_arrow(source, host), sa.from_arrow(source.slice(3, 20), host)):
        metadata, body = table.pack()
        with pa.ipc.open_stream(stream_of(metadata, bytes(np.from_dlpack(body)))) as reader:
            found = reader.read_all()
        found.validate(full=True)
        assert found.equals(table.to_arrow())


def test_a_dictionary_of_dictionaries_is_refused(host):
    twice = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x"]).dictionary_encode())
    table = sa.from_arrow(pa.table({"twice": twice}), host)
    with pytest.raises(sa.UnsupportedError, match="column 'twice'"):
        table.pack()


def test_a_dictionary_that_is_replaced_before_its_use_is_not_validated(host):
    """Reading a file also ignores the values of a dictionary that is replaced before its first use."""
    words = pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode()})
    table = sa.from_arrow(words, host)
    metadata, body = table.pack()
    content = bytes(np.from_dlpack(body))
    schema, dictionary, rest = metadata_messages(metadata)
    offsets = content.index(struct.pack("<3i", 0, 1, 2))
    entry = struct.pack("<qq", offsets, 12)
    assert dictionary.count(entry) == 1
    broken = dictionary.replace(entry, struct.pack("<qq", content.index(b"ab"), 12))  # decreasing offsets
    assert sa.unpack(schema + broken + dictionary + rest, content).to_arrow().equals(words)
    for given in (schema + broken + rest, schema + dictionary + broken + rest):
        with pytest.raises(sa.FormatError, match=r"column 'd'.*offsets decrease"):
            sa.unpack(given, content)


def metadata_messages(metadata):
    """Returns the first message, the second message, and the remaining bytes."""
    found = []
    for _ in range(2):
        size = 8 + int.from_bytes(metadata[4:8], "little")
        found.append(metadata[:size])
        metadata = metadata[size:]
    return [*found, metadata]
