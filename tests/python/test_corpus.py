"""Files by pyarrow with many batch sizes: Saeta reads them as pyarrow does, joined, by batch, and in part."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of

# The numbers of rows of each file's batches.
SHAPES = {
    "one": [90],
    "two": [60, 30],
    "seven": [1, 0, 40, 1, 0, 33, 15],
    "empty": [0, 0],
    "none": [],
    "thousand": [[0, 1, 2, 5][i % 4] for i in range(1000)],
}
CODECS = [None, "lz4", "zstd"]


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def write(path, schema, batches, codec, *, stream):
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=stream)
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(path, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def cut(source: pa.Table, rows: list[int]) -> list[pa.RecordBatch]:
    """Returns slices of the table with these numbers of rows. Their offsets differ."""
    whole = source.combine_chunks().to_batches()[0]
    batches, at = [], 0
    for count in rows:
        at = at if at + count <= whole.num_rows else 1
        batches.append(whole.slice(at, count))
        at += count
    return batches


def same(seen, expected):
    """Compares values if pyarrow's `equals` fails: it is False for equal values with different
    dictionaries."""
    exported = seen.to_arrow()
    assert exported.schema.equals(expected.schema, check_metadata=True)
    return exported.equals(expected) or exported.to_pydict() == expected.to_pydict()


def require_equal(path, schema, batches, device):
    expected = pa.Table.from_batches(batches, schema)
    for combine_chunks in (None, True, False):
        seen = sa.read_ipc(path, device, copy=True, combine_chunks=combine_chunks)
        assert same(seen, expected), combine_chunks
        assert combine_chunks is not False or seen.num_batches == len(batches)
    assert same(sa.read_ipc(path, device), expected)
    some = expected.column_names[::-3]
    assert same(sa.read_ipc(path, device, columns=some), expected.select(some))
    first, last = len(batches) // 3, len(batches) - len(batches) // 4
    part = pa.Table.from_batches(batches[first:last], schema)
    for combine_chunks in (True, False):
        seen = sa.read_ipc(path, device, batches=(first, last), columns=some, combine_chunks=combine_chunks)
        assert same(seen, part.select(some))


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_in_batches_of_every_shape(device, tmp_path, shape, codec, stream):
    source = arrow_data.table(120)
    if shape == "thousand":  # a sixth of the columns each, as a thousand batches are slow
        names = source.column_names
        source = source.select(names[CODECS.index(codec) * 2 + stream :: 6])
    batches = cut(source, SHAPES[shape])
    write(tmp_path / "x.arrow", source.schema, batches, codec, stream=stream)
    require_equal(tmp_path / "x.arrow", source.schema, batches, device)


PATTERNS = {
    "none": lambda i: False,
    "all": lambda i: True,
    "first": lambda i: i == 0,
    "last of a byte": lambda i: i % 8 == 7,
    "whole words": lambda i: i // 64 % 2 == 0,
    "every other": lambda i: i % 2 == 1,
}


@pytest.mark.parametrize("codec", CODECS)
def test_batches_with_every_pattern_of_nulls_are_joined(device, tmp_path, codec):
    types = [pa.int16(), pa.string(), pa.bool_(), pa.list_(pa.int8()), pa.struct([("a", pa.string())])]
    value = [3, "three", True, [1, None, 3], {"a": "x"}]
    schema = pa.schema([(str(i), kind) for i, kind in enumerate(types)])
    batches = []
    for seed, (one, two) in enumerate(itertools.permutations(PATTERNS, 2)):
        rows = random.Random(seed).choice([1, 7, 8, 63, 64, 65, 130])
        columns = [
            pa.array([None if PATTERNS[one if c % 2 else two](i) else value[c] for i in range(rows)], kind)
            for c, kind in enumerate(types)
        ]
        batches.append(pa.record_batch(columns, schema))
    write(tmp_path / "x.arrow", schema, batches, codec, stream=False)
    require_equal(tmp_path / "x.arrow", schema, batches, device)


@pytest.mark.parametrize("codec", CODECS)
def test_dictionaries_grow_and_are_replaced(device, tmp_path, codec):
    """The dictionaries are also nested in other types, and some batches have only nulls."""
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("d", words), ("l", pa.list_(words)), ("n", pa.int32())])

    def batch(values, number):
        flat = pa.array(values).dictionary_encode().cast(words) if values else pa.array([], words)
        offsets = pa.array(range(len(values) + 1), pa.int32())
        return pa.record_batch(
            [flat, pa.ListArray.from_arrays(offsets, flat), [number] * len(values)], schema
        )

    batches = [
        batch(values, number)
        for number, values in enumerate(
            [
                ["a", "b"],
                ["a", "b", "c"],
                [],
                ["a", "b", "c", "d", None],
                ["z"],
                ["z", "y" * 5000, None],
                ["q"],
            ]
        )
    ]
    write(tmp_path / "x.arrows", schema, batches, codec, stream=True)
    require_equal(tmp_path / "x.arrows", schema, batches, device)


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_utf8_is_validated_on_request(device, tmp_path, kind, codec, stream):
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, pa.binary_view())
    good = pa.array(["plain", None, "piñata", "", "a longer text of many bytes €"] * 9, kind)
    bad = pa.array([b"ok", b"a longer text that ends in half a character \xe2\x82", None], raw).view(kind)
    schema = pa.schema([("n", pa.int8()), ("s", kind)])
    batches = [
        pa.record_batch([[1] * len(each), each], schema) for each in (good, good.slice(3, 11), bad, good)
    ]
    path = tmp_path / "x.arrow"
    write(path, schema, batches, codec, stream=stream)
    for combine_chunks, copy in itertools.product((True, False), (None, True)):
        options = {"combine_chunks": combine_chunks, "copy": copy}
        assert sa.read_ipc(path, device, **options).num_rows == 104
        assert sa.read_ipc(path, device, batches=(0, 2), validate="utf8", **options).num_rows == 56
        with pytest.raises(sa.FormatError, match=r"batch 2: column 's': .*(row|index) 1\b"):
            sa.read_ipc(path, device, validate="utf8", **options)
    with pytest.raises(sa.InvalidError, match="expected True, False or 'utf8'"):
        sa.read_ipc(path, device, validate="ascii")
