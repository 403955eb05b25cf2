"""Splits the bytes of Arrow IPC files and streams into messages, packs messages, and joins them to a
stream."""

from __future__ import annotations

import struct

import pyarrow as pa

PREFIX = 8
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
DICTIONARY, BATCH = 2, 3  # numbers of MessageHeader in Message.fbs
BODY_LENGTH = 3  # number of the field in table Message
DATA, BUFFERS, COMPRESSION = 1, 2, 3  # numbers of fields in tables DictionaryBatch and RecordBatch


def number(flat, at, kind="I"):
    return struct.unpack_from("<" + kind, flat, at)[0]


def field(flat, table, which):
    """Returns the offset of a table's field in a FlatBuffer, or None if the field has its default."""
    vtable = table - number(flat, table, "i")
    entry = 4 + 2 * which
    offset = number(flat, vtable + entry, "H") if entry < number(flat, vtable, "H") else 0
    return table + offset if offset else None


def table_of(flat, table, which):
    """Returns the offset of the table or vector that a field refers to, or None."""
    at = field(flat, table, which)
    return None if at is None else at + number(flat, at)


def header_of(message):
    """Returns the type of a message, the offset of its header, and its FlatBuffer."""
    flat = memoryview(message)[PREFIX:]
    root = number(flat, 0)
    return number(flat, field(flat, root, 1), "B"), table_of(flat, root, 2), flat


def is_compressed(message):
    kind, header, flat = header_of(message)
    return kind == BATCH and table_of(flat, header, COMPRESSION) is not None


def messages_of(raw):
    """Returns the messages and their bodies in order, without the end-of-stream marker. The metadata must be
    valid."""
    at, end = 0, len(raw)
    if raw.startswith(b"ARROW1"):
        at, end = 8, end - 10 - number(raw, end - 10)
    found = []
    while at < end and (size := number(raw, at + 4)) != 0:
        body = pa.ipc.read_message(pa.py_buffer(raw[at:])).body
        begin = at + PREFIX + size
        at = begin + (0 if body is None else body.size)
        found.append((raw[begin - PREFIX - size : begin], raw[begin:at]))
    return found


def pack(messages):
    """Returns the messages of the packed form and the one body in which their buffers lie."""
    whole = b"".join(body for _, body in messages)
    made, before = [], 0
    for message, body in messages:
        moved = bytearray(message)
        kind, header, flat = header_of(moved)
        if kind in (DICTIONARY, BATCH):
            batch = header if kind == BATCH else table_of(flat, header, DATA)
            if (buffers := table_of(flat, batch, BUFFERS)) is not None:
                for at in range(buffers + 4, buffers + 4 + 16 * number(flat, buffers), 16):
                    struct.pack_into("<q", flat, at, number(flat, at, "q") + before)
            if body:
                struct.pack_into("<q", flat, field(flat, number(flat, 0), BODY_LENGTH), len(whole))
        made.append(bytes(moved))
        before += len(body)
    return made, whole


def stream_of(messages, body):
    """Joins the messages with their parts of the body to a stream. Returns None if pyarrow rejects a
    message."""
    made = []
    for message in messages:
        try:
            own = pa.ipc.read_message(pa.py_buffer(message + body)).body
        except (pa.ArrowInvalid, OSError):
            return None
        made += [message, body[: 0 if own is None else own.size]]
    return b"".join(made) + END_OF_STREAM
