"""Changes one metadata byte in integration files of the Apache Arrow project: all readers must agree on the
result, either an error or the same table. The changed bytes are a sample, the same in each run."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from test_golden import names

import saeta as sa
from ipc_messages import (
    BATCH,
    DICTIONARY,
    END_OF_STREAM,
    PREFIX,
    header_of,
    is_compressed,
    messages_of,
    pack,
    stream_of,
)

CHANGES = 8  # per file
MANY = 100_000  # limit of printed rows: a corrupt row count of type null costs no bytes but makes a long text
FLIPS = [1, 2, 4, 0x10, 0x80, 0xFF]
STREAMS = [each for each in names() if each.endswith(".stream")]
WAYS = {
    "views": lambda raw, ctx: sa.read_ipc(raw, ctx),
    "copy": lambda raw, ctx: sa.read_ipc(raw, ctx, copy=True),
    "combine_chunks": lambda raw, ctx: sa.read_ipc(raw, ctx, combine_chunks=True),
    "scan": lambda raw, ctx: joined(sa.scan_ipc(raw, ctx), ctx),
    "scan of copies": lambda raw, ctx: joined(sa.scan_ipc(raw, ctx, copy=True), ctx),
    "columns": lambda raw, ctx: by_columns(raw, ctx, None),
    "copies of columns": lambda raw, ctx: by_columns(raw, ctx, True),
}


def by_columns(raw, ctx, copy):
    names = sa.scan_ipc(raw, ctx).schema.names
    if len(set(names)) != len(names):
        return sa.read_ipc(raw, ctx, copy=copy)
    return sa.read_ipc(raw, ctx, copy=copy, columns=names[::-1]).select(names)


def joined(scan, ctx):
    batches = list(scan)
    if batches:
        return sa.concat_tables(batches)
    return sa.from_arrow(pa.RecordBatchReader.from_batches(pa.schema(scan), []), ctx)


def metadata_places(raw: bytes) -> list[int]:
    """Returns the offsets of all metadata bytes: those of each message and of a file's footer."""
    places: list[int] = []
    at = 0
    if raw.startswith(b"ARROW1"):
        footer = int.from_bytes(raw[-10:-6], "little")
        at, end = 8, len(raw) - 10
        places += range(end - footer, end)
    for message, body in messages_of(raw):
        places += range(at + PREFIX, at + len(message))
        at += len(message) + len(body)
    return places


def text_of(column: pa.ChunkedArray) -> str:
    try:
        return column.combine_chunks().to_string(window=1000, container_window=1000)
    except (
        KeyError,
        pa.ArrowInvalid,
    ):  # pyarrow has no class for month intervals; children may be too long to be joined
        return ""


def outcome(way, raw, ctx):
    try:
        read = way(raw, ctx)
    except (sa.Error, pa.ArrowException, OSError):
        return "refused"
    table = read if isinstance(read, sa.Table) else sa.from_arrow(read, "host")
    try:
        exported = table.to_arrow()
    except pa.ArrowInvalid:  # a canonical extension type with the wrong storage type
        return [str(each) for each in table.schema], table.num_rows
    if not 0 < exported.num_rows < MANY:
        return str(exported.schema), exported.num_rows
    return str(exported.schema), [text_of(column) for column in exported.columns]


def changed_at(raw: bytes, place: int, flip: int) -> bytes:
    changed = bytearray(raw)
    changed[place] ^= flip
    return bytes(changed)


def require_equal_results(raw: bytes, ctx, **others):
    """Reads a stream or file with each reader in WAYS, and with the readers in `others`, which have the same
    data in another form. All results must be equal."""
    seen = {way: outcome(read, raw, ctx) for way, read in {**WAYS, **others}.items()}
    assert len({repr(each) for each in seen.values()}) == 1, seen
    return seen["views"]


def require_equal_results_of_packed(messages: list[bytes], body: bytes, ctx):
    def unpack(_raw, ctx):
        return sa.unpack(b"".join([*messages, END_OF_STREAM]), body, ctx)

    try:
        unpack(None, ctx)
    except sa.UnsupportedError:  # metadata version 4, another byte order, or delta dictionaries
        return
    except sa.FormatError:
        pass
    raw = stream_of(messages, body)
    if raw is None:
        assert outcome(unpack, raw, ctx) == "refused", "pyarrow does"
    else:
        require_equal_results(raw, ctx, unpack=unpack)


def require_equal_results_of_message(schema: bytes, message: bytes, body: bytes, ctx, device):
    """Compares `device` (a saeta.cuda.Context that holds the message) with the readers of streams."""
    from saeta import cuda

    def single(_raw, _ctx):
        found = cuda.read_record_batch(device.buffer_from_data(message + body), fields)
        return pa.Table.from_batches([found.copy_to(pa.default_cpu_memory_manager())])

    fields = pa.ipc.read_schema(pa.py_buffer(schema))
    raw = stream_of([schema, message], body)
    if raw is None:
        assert outcome(single, raw, ctx) == "refused", "pyarrow does"
    else:
        require_equal_results(raw, ctx, read_record_batch=single)


@pytest.mark.parametrize("name", names())
def test_all_readers_agree_on_a_changed_byte(host, shared_data: Path, name: str):
    whole = (shared_data / "golden" / name).read_bytes()
    draw = random.Random(name)
    for place in draw.sample(metadata_places(whole), CHANGES):
        flip = draw.choice(FLIPS)
        require_equal_results(changed_at(whole, place, flip), host)


@pytest.mark.parametrize("name", STREAMS)
def test_all_readers_agree_on_a_changed_byte_of_a_packed_table(host, shared_data: Path, name: str):
    messages = messages_of((shared_data / "golden" / name).read_bytes())
    if any(is_compressed(message) for message, _ in messages):
        pytest.skip("the packed form has no compression")
    packed, body = pack(messages)
    draw = random.Random(name)
    for _ in range(CHANGES):
        at = draw.randrange(len(packed))
        changed = changed_at(packed[at], draw.randrange(PREFIX, len(packed[at])), draw.choice(FLIPS))
        require_equal_results_of_packed([*packed[:at], changed, *packed[at + 1 :]], body, host)


@pytest.mark.parametrize("kind", ["host", "sim"])
@pytest.mark.parametrize("name", STREAMS)
def test_all_readers_agree_on_a_changed_byte_of_one_message(host, shared_data: Path, name: str, kind: str):
    from cuda_module import opened

    (schema, _), *messages = messages_of((shared_data / "golden" / name).read_bytes())
    kinds = {header_of(message)[0] for message, _ in messages}
    if DICTIONARY in kinds:
        pytest.skip("read_record_batch reads no dictionary messages")
    draw = random.Random(name)
    with opened(kind) as device:
        for _ in range(CHANGES if BATCH in kinds else 0):
            message, body = draw.choice(messages)
            changed = changed_at(message, draw.randrange(PREFIX, len(message)), draw.choice(FLIPS))
            require_equal_results_of_message(schema, changed, body, host, device)


@pytest.mark.parametrize(
    ("name", "place", "flip"),
    [
        ("1.0.0-littleendian/generated_nested_dictionary.arrow_file", 1864, 4),
        ("cpp-21.0.0/generated_dictionary.stream", 944, 2),
    ],
)
def test_a_delta_without_an_earlier_dictionary_batch_is_refused(host, shared_data: Path, name, place, flip):
    """The changed byte marks the first dictionary batch as a delta."""
    changed = changed_at((shared_data / "golden" / name).read_bytes(), place, flip)
    assert require_equal_results(changed, host) == "refused"
    with pytest.raises(sa.FormatError, match="which no message before has given"):
        sa.ipc.inspect(changed)


def test_a_packed_table_in_another_byte_order_is_refused(host, shared_data: Path):
    """The changed byte marks the schema as big-endian."""
    packed, body = pack(
        messages_of((shared_data / "golden/cpp-21.0.0/generated_interval_mdn.stream").read_bytes())
    )
    changed = [changed_at(packed[0], 42, 16), *packed[1:]]
    assert require_equal_results(stream_of(changed, body), host) != "refused"
    with pytest.raises(sa.UnsupportedError, match=r"^packed table: its schema has byte order 1"):
        sa.unpack(b"".join([*changed, END_OF_STREAM]), body, host)
