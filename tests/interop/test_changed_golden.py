"""The Apache Arrow project's integration files with one byte of their metadata changed: every way of reading
refuses them, or reads the same. It is a sample; the same places are drawn in each run."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from test_golden import names

import saeta as sa

CHANGES = 8  # to a file
WAYS = {
    "views": lambda raw, ctx: sa.read_ipc(raw, ctx),
    "copy": lambda raw, ctx: sa.read_ipc(raw, ctx, copy=True),
    "rechunk": lambda raw, ctx: sa.read_ipc(raw, ctx, rechunk=True),
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
    return sa.concat_tables(batches) if batches else sa.from_arrow(pa.schema(scan).empty_table(), ctx)


def metadata_places(raw: bytes) -> list[int]:
    """The places of all bytes of metadata: of each message, and of the footer of a file."""
    places: list[int] = []
    at, end = 0, len(raw)
    if raw.startswith(b"ARROW1"):
        footer = int.from_bytes(raw[-10:-6], "little")
        at, end = 8, end - 10 - footer
        places += range(end, end + footer)
    while (size := int.from_bytes(raw[at + 4 : at + 8], "little")) != 0 and at < end:
        body = pa.ipc.read_message(pa.py_buffer(raw[at:])).body
        places += range(at + 8, at + 8 + size)
        at += 8 + size + (0 if body is None else body.size)
    return places


def outcome(way, raw, ctx):
    try:
        found = way(raw, ctx).to_arrow()
    except sa.Error:
        return "refused"
    rows = found.combine_chunks()
    if found.num_rows == 0:
        return str(found.schema)
    try:
        values = [each.chunk(0).to_string(window=1000, container_window=1000) for each in rows.columns]
    except KeyError:  # pyarrow has no class for arrays of months
        values = [found.num_rows]
    return str(found.schema), values


def require_one_meaning(whole: bytes, place: int, flip: int, ctx):
    changed = bytearray(whole)
    changed[place] ^= flip
    seen = {way: outcome(read, bytes(changed), ctx) for way, read in WAYS.items()}
    assert len({repr(each) for each in seen.values()}) == 1, (place, flip, seen)
    return seen["views"]


@pytest.mark.parametrize("name", names())
def test_a_changed_byte_means_the_same_to_every_way(host, shared_data: Path, name: str):
    whole = (shared_data / "golden" / name).read_bytes()
    draw = random.Random(name)
    for place in draw.sample(metadata_places(whole), CHANGES):
        require_one_meaning(whole, place, draw.choice([1, 2, 4, 0x10, 0x80, 0xFF]), host)


@pytest.mark.parametrize(
    ("name", "place", "flip"),
    [
        ("1.0.0-littleendian/generated_nested_dictionary.arrow_file", 1864, 4),
        ("cpp-21.0.0/generated_dictionary.stream", 944, 2),
    ],
)
def test_a_delta_without_values_before_it_is_refused(host, shared_data: Path, name, place, flip):
    """The byte makes the first values of a dictionary a delta."""
    whole = (shared_data / "golden" / name).read_bytes()
    assert require_one_meaning(whole, place, flip, host) == "refused"
    changed = bytearray(whole)
    changed[place] ^= flip
    with pytest.raises(sa.FormatError, match="which no message before has given"):
        sa.ipc.inspect(bytes(changed))
