"""Dictionary ids in IPC files: an id shared by several columns, duplicate dictionaries, and mismatched
types."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

import saeta as sa

MODES = [
    {},
    {"copy": True},
    {"combine_chunks": True},
    {"copy": True, "combine_chunks": False},
    {"validate": False},
]
HEADER, FIELDS, DICTIONARY, ID = 2, 1, 4, 0  # numbers of fields in Message.fbs and Schema.fbs


def field_at(metadata, table, number):
    """Returns the offset of a field in a FlatBuffers table, or None if it has its default."""
    sizes = table - struct.unpack_from("<i", metadata, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", metadata, sizes)[0]:
        return None
    place = struct.unpack_from("<H", metadata, sizes + entry)[0]
    return table + place if place else None


def follow(metadata, at):
    return at + struct.unpack_from("<I", metadata, at)[0]


def id_of_column(metadata, column):
    """Returns the offset of the id of a column's dictionary in a schema message."""
    schema = follow(metadata, field_at(metadata, follow(metadata, 0), HEADER))
    fields = follow(metadata, field_at(metadata, schema, FIELDS))
    described = follow(metadata, fields + 4 + 4 * column)
    return field_at(metadata, follow(metadata, field_at(metadata, described, DICTIONARY)), ID)


def id_of_dictionary(metadata):
    return field_at(metadata, follow(metadata, field_at(metadata, follow(metadata, 0), HEADER)), ID)


def messages_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return [
        (message.type, bytearray(message.metadata.to_pybytes()), message.body)
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]


def stream_of(messages):
    parts = []
    for _, metadata, body in messages:
        padded = bytes(metadata) + bytes(-len(metadata) % 8)
        parts += [struct.pack("<Ii", 0xFFFFFFFF, len(padded)), padded, body.to_pybytes()]
    return b"".join([*parts, b"\xff\xff\xff\xff\0\0\0\0"])


def sharing_one_id(table):
    """Returns a stream of two dictionary columns, where the second uses the dictionary id of the first."""
    schema, *rest = messages_of(table)
    struct.pack_into("<q", schema[1], id_of_column(schema[1], 1), 0)
    dropped = [message for message in rest if message[0] == "dictionary" and id_of_dictionary(message[1])]
    assert len(dropped) == 1
    return stream_of([schema, *(message for message in rest if message is not dropped[0])])


def encoded(values, *codes):
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), values)


def read_everywhere(source, path):
    path.write_bytes(source)
    for mode in MODES:
        yield lambda mode=mode: sa.read_ipc(source, "host", **mode).to_arrow()
        yield lambda mode=mode: sa.read_ipc(path, "host", **mode).to_arrow()
    yield lambda: pa.concat_tables(part.to_arrow() for part in sa.scan_ipc(path, "host"))


def test_columns_that_share_an_id_share_the_dictionary(tmp_path):
    words = pa.array(["a", "b"])
    table = pa.table({"x": encoded(words, 0, 1, 1, None), "y": encoded(words, 1, 1, 0, 0)})
    for read in read_everywhere(sharing_one_id(table), tmp_path / "shared.arrow"):
        assert read().to_pylist() == table.to_pylist()


def test_an_id_shared_by_columns_of_different_value_types_is_refused(tmp_path):
    words, numbers = pa.array(["a", "b"]), pa.array([1, 2])
    table = pa.table({"x": encoded(words, 0, 1, 1), "y": encoded(numbers, 1, 1, 0)})
    for read in read_everywhere(sharing_one_id(table), tmp_path / "shared.arrow"):
        with pytest.raises(sa.FormatError):
            read()


def test_columns_that_share_an_id_may_have_different_field_metadata(tmp_path):
    def rows(note):
        child = pa.field("a", pa.int32(), metadata={"note": note})
        return pa.StructArray.from_arrays([pa.array([5, 6], pa.int32())], fields=[child])

    table = pa.table({"x": encoded(rows("one"), 0, 1, 1), "y": encoded(rows("two"), 1, 1, 0)})
    for read in read_everywhere(sharing_one_id(table), tmp_path / "shared.arrow"):
        seen = read()
        assert seen.to_pylist() == table.to_pylist()
        notes = [seen.schema.field(i).type.value_type.field(0).metadata for i in (0, 1)]
        assert notes == [{b"note": b"one"}, {b"note": b"two"}]


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_duplicate_dictionary_in_a_file_is_refused_in_every_mode(tmp_path, compression):
    table = pa.table(
        {"x": encoded(pa.array(["a", "b"]), 0, 1, 1), "y": encoded(pa.array(["c", "d"]), None, None, None)}
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=2)
    source = bytearray(sink.getvalue().to_pybytes())
    ids = []
    at = source.find(b"\xff\xff\xff\xff")
    while at >= 0:  # gives the second dictionary the id of the first
        metadata = source[at + 8 : at + 8 + struct.unpack_from("<i", source, at + 4)[0]]
        kind = metadata[field_at(metadata, follow(metadata, 0), 1)] if len(metadata) > 8 else 0
        if kind == 2:
            ids.append((at + 8, id_of_dictionary(metadata)))
        at = source.find(b"\xff\xff\xff\xff", at + 4)
    assert len(ids) == 2
    (front, place) = next((front, place) for front, place in ids if place is not None)
    struct.pack_into("<q", source, front + place, 0)
    for read in read_everywhere(bytes(source), tmp_path / "twice.arrow"):
        with pytest.raises(sa.FormatError, match="occurs twice"):
            read()
