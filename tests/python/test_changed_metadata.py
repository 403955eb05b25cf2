"""IPC messages with corrupt metadata: all readers agree, either on an error or on the same table."""

from __future__ import annotations

import io
import struct

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import DEVICES, contexts_of


def joined(scan):
    none = sa.from_arrow(pa.schema(scan.schema).empty_table(), "host")
    return sa.concat_tables(list(scan) or [none])


WAYS = {
    "views": lambda raw, ctx: sa.read_ipc(raw, ctx),
    "copy": lambda raw, ctx: sa.read_ipc(raw, ctx, copy=True),
    "combine_chunks": lambda raw, ctx: sa.read_ipc(raw, ctx, combine_chunks=True),
    "scan": lambda raw, ctx: joined(sa.scan_ipc(raw, ctx)),
    "scan of copies": lambda raw, ctx: joined(sa.scan_ipc(raw, ctx, copy=True)),
    "live stream": lambda raw, ctx: sa.read_ipc(io.BytesIO(raw), ctx),
}


PAIR = pa.table({"a": pa.array(range(5), pa.int64()), "b": pa.array(range(5), pa.int32())})


def stream_of(table, rows=None):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def messages_of(raw):
    """Returns the messages of a stream with their bodies, without the end-of-stream marker."""
    found = []
    while raw[4:8] != bytes(4):
        body = pa.ipc.read_message(pa.py_buffer(raw)).body
        size = 8 + int.from_bytes(raw[4:8], "little") + (0 if body is None else body.size)
        found.append(raw[:size])
        raw = raw[size:]
    return found


def outcome(way, raw, ctx):
    try:
        return way(raw, ctx).to_arrow().to_pydict()
    except sa.Error as failure:
        return type(failure).__name__


@pytest.mark.parametrize("bit", [1, 4, 0x80, 0xFF])
def test_all_readers_agree_on_a_changed_byte_of_a_batch(host, bit):
    table = pa.table(
        {
            "i": pa.array([1, 2, None, 4], pa.int64()),
            "s": pa.array(["a", "bb", None, "dddd"]),
            "l": pa.array([[1], [], [2, 3], None], pa.list_(pa.int32())),
            "v": pa.array(["x" * 20, "y", None, "z"], pa.string_view()),
        }
    )
    messages = messages_of(stream_of(table, rows=2))
    batch = messages[1]
    for at in range(8, 8 + int.from_bytes(batch[4:8], "little")):
        changed = bytearray(batch)
        changed[at] ^= bit
        raw = b"".join([messages[0], bytes(changed), *messages[2:]])
        seen = {name: outcome(way, raw, host) for name, way in WAYS.items()}
        assert len({repr(each) for each in seen.values()}) == 1, (at, seen)


@pytest.mark.parametrize("way", [each for each in WAYS if each != "live stream"])
def test_a_block_that_exceeds_its_file_is_refused(host, way):
    """The batch has no body, so the block's length is all that can be checked."""
    sink = io.BytesIO()
    table = pa.table({"n": pa.nulls(3)})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    raw = sink.getvalue()
    batch = raw.index(b"\xff\xff\xff\xff", raw.index(b"\xff\xff\xff\xff") + 8)
    length = raw.index(struct.pack("<q", batch), batch) + 8  # the length follows the offset in the block
    assert WAYS[way](raw, host).num_rows == 3
    with pytest.raises(sa.FormatError, match="65536"):
        WAYS[way](raw[:length] + struct.pack("<i", 65536) + raw[length + 4 :], host)


@pytest.mark.parametrize("way", WAYS)
def test_a_dictionary_without_a_column_is_refused(host, way):
    plain = messages_of(stream_of(pa.table({"i": [1, 2, 3, 4]}), rows=2))
    words = messages_of(stream_of(pa.table({"d": pa.array(["a"]).dictionary_encode()})))
    assert len(words) == 3
    raw = b"".join([*plain[:2], words[1], plain[2]])
    with pytest.raises(sa.FormatError):
        WAYS[way](raw, host)


def test_dictionaries_of_unread_columns_are_skipped(host):
    raw = stream_of(pa.table({"i": [1, 2], "d": pa.array(["a", "b"]).dictionary_encode()}))
    for copy in (None, True):
        assert sa.read_ipc(raw, host, columns=["i"], copy=copy).to_arrow().to_pydict() == {"i": [1, 2]}


def with_body(message, body):
    """Returns a schema message with a body, which no writer makes: a new FlatBuffer that contains the old
    one."""
    old = message[8:]
    table = struct.unpack_from("<I", old)[0]
    vtable = table - struct.unpack_from("<i", old, table)[0]
    header = table + struct.unpack_from("<H", old, vtable + 4 + 2 * 2)[0]  # the third field of Message.fbs
    schema = header + struct.unpack_from("<I", old, header)[0]
    front = struct.pack("<I6H4x", 20, 12, 20, 8, 10, 4, 12)  # version, type, header and bodyLength
    front += struct.pack("<iIhBxq", 16, 40 + schema - 24, 4, 1, len(body))
    return struct.pack("<II", 0xFFFFFFFF, len(front + old)) + front + old + body


@pytest.mark.parametrize("way", WAYS)
def test_a_schema_with_a_body_is_refused(host, way):
    schema, *others = messages_of(stream_of(pa.table({"i": [1, 2, 3, 4]}), rows=2))
    whole = b"".join([with_body(schema, b""), *others])
    assert WAYS[way](whole, host)["i"].to_pylist() == [1, 2, 3, 4]
    with pytest.raises(sa.FormatError, match=r"schema.* body of 128 bytes"):
        WAYS[way](b"".join([with_body(schema, bytes(128)), *others]), host)


def version_place(raw, message):
    """Returns the offset of the metadata version in the message at offset `message`."""
    flat = message + 8
    table = flat + struct.unpack_from("<I", raw, flat)[0]
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    return table + struct.unpack_from("<H", raw, vtable + 4)[0]


@pytest.mark.parametrize("opened", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("way", WAYS)
def test_messages_of_two_versions_are_refused(host, way, opened):
    """No writer makes such files. The reader takes the version of all batches from the first one."""
    sink = io.BytesIO()
    with opened(sink, PAIR.schema) as writer:
        writer.write_table(PAIR, max_chunksize=3)
    raw = bytearray(sink.getvalue())
    mark = b"\xff\xff\xff\xff"
    last = raw.rindex(mark, 0, raw.rindex(mark + bytes(4)))
    assert raw[version_place(raw, last)] == 4
    raw[version_place(raw, last)] = 3
    with pytest.raises(sa.FormatError, match="batch 1: its metadata is of another version"):
        WAYS[way](bytes(raw), host)


WORDS = pa.table({"d": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", "b", None])})


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_an_unused_dictionary_must_be_valid(host, way, replaced):
    schema, words, batch = messages_of(stream_of(WORDS))
    bad = misplaced(words, (3, 1), (300, 1))
    raw = b"".join([schema, bad, words, batch] if replaced else [schema, bad])
    with pytest.raises(sa.FormatError, match=r"dictionary of column 'd': its validity take 38 bytes"):
        WAYS[way](raw, host)


def misplaced(raw, place, to):
    old = struct.pack("<qq", *place)
    assert raw.count(old) == 1
    return raw.replace(old, struct.pack("<qq", *to))


@pytest.mark.parametrize("offset", [36, 4, 1])
@pytest.mark.parametrize("way", WAYS)
def test_the_error_for_a_misaligned_buffer_has_its_number_and_offset(host, way, offset):
    raw = stream_of(PAIR)
    with pytest.raises(sa.FormatError, match=rf"(?i)buffer \d .*offset:? {offset}"):
        WAYS[way](misplaced(raw, (40, 20), (offset, 20)), host)


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def test_unpack_refuses_a_misaligned_buffer(ctx):
    metadata, body = sa.from_arrow(PAIR, ctx).pack()
    raw = bytes(metadata)
    offset = next(  # the offset depends on the buffer's alignment in host memory
        place for place in range(0, body.nbytes, 8) if raw.count(struct.pack("<qq", place, 20)) == 1
    )
    message = f"buffer 3 is at offset {offset + 4}, which is not a multiple of 8"
    with pytest.raises(sa.FormatError, match=message):
        sa.unpack(misplaced(raw, (offset, 20), (offset + 4, 20)), body)


NODES = {
    "column": pa.array([1.0, None, 3.0, None]),
    "child": pa.array([[1, None, 3, None]], pa.list_(pa.int64())),
    "field": pa.StructArray.from_arrays([pa.array(["a", None, "c", None])], ["s"]),
    "dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 0], pa.int8()), pa.array(["a", None, "c", None])
    ),
}


@pytest.mark.parametrize("claim", [1, 3, 4, -1])
@pytest.mark.parametrize("kind", NODES)
def test_unpack_counts_the_nulls_of_columns_children_and_dictionaries(ctx, kind, claim):
    source = pa.table({"c": NODES[kind]})
    metadata, body = sa.from_arrow(source, ctx, copy=True).pack()
    table = sa.unpack(misplaced(bytes(metadata), (4, 2), (4, claim)), body)
    table.to_arrow().validate(full=True)
    assert table.to_arrow().equals(source)
    assert bytes(table.pack().metadata) == bytes(metadata)


def test_unpack_trusts_the_null_counts_of_a_trusted_sender(host):
    metadata, body = sa.from_arrow(pa.table({"c": NODES["column"]}), host, copy=True).pack()
    changed = misplaced(bytes(metadata), (4, 2), (4, 1))
    assert sa.unpack(changed, body, validate=False)["c"].null_count == 1


@pytest.mark.parametrize("rows", [1 << 62, (1 << 63) - 1, 1 << 40, -5])
def test_unpack_refuses_more_rows_than_the_body_has(ctx, rows):
    source = pa.table({"c": pa.array(range(77777), pa.int64())})
    metadata, body = sa.from_arrow(source, ctx).pack()
    number = (77777).to_bytes(8, "little")
    changed = bytes(metadata).replace(number, rows.to_bytes(8, "little", signed=True))
    with pytest.raises(sa.FormatError):
        sa.unpack(changed, body)


def test_all_readers_refuse_more_rows_than_the_body_has(host):
    raw = stream_of(pa.table({"c": pa.array(range(77777), pa.int64())}))
    changed = raw.replace((77777).to_bytes(8, "little"), (1 << 62).to_bytes(8, "little"))
    for way in WAYS.values():
        with pytest.raises(sa.FormatError):
            way(changed, host)


def test_a_row_count_that_overflows_is_a_format_error(host):
    table = sa.concat_tables([sa.from_arrow(pa.table({"n": pa.nulls(77777)}), host)] * 3)
    metadata, _ = table.pack()
    changed = bytes(metadata).replace((77777).to_bytes(8, "little"), (1 << 62).to_bytes(8, "little"))
    with pytest.raises(sa.FormatError):
        sa.unpack(changed, np.empty(0, np.uint8))


@pytest.mark.parametrize("bit", [1, 2, 8, 0x80])
def test_all_readers_agree_on_a_changed_byte_of_a_footer(host, bit):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, PAIR.schema) as writer:
        writer.write_table(PAIR, max_chunksize=2)
    raw = sink.getvalue()
    end = len(raw) - 10  # the footer's size and the magic come behind it
    for at in range(end - int.from_bytes(raw[end : end + 4], "little"), end):
        changed = bytearray(raw)
        changed[at] ^= bit
        seen = {
            name: outcome(way, bytes(changed), host) for name, way in WAYS.items() if name != "live stream"
        }
        assert len({repr(each) for each in seen.values()}) == 1, (at, seen)


def test_only_views_look_at_runs_behind_the_last_row(host):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 6], pa.int32()), pa.array([7, 8, 9], pa.int8()))
    ends, broken = struct.pack("<3i", 2, 4, 6), struct.pack("<3i", 2, 8, 7)
    raw = stream_of(pa.table({"x": runs}))
    assert raw.count(ends) == 1
    raw = raw.replace(ends, broken)
    with pytest.raises(sa.FormatError, match="column 'x': run ends don't increase: 7 after 8 at run 2"):
        sa.read_ipc(raw, host)
    assert sa.read_ipc(raw, host, copy=True)["x"].to_pylist() == [7, 7, 8, 8, 8, 8]
