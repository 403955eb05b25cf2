"""Corrupt child rows that no parent row refers to ("hidden rows"). Exports include them, so reads must check
them."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta._share.pickling import restored_table
from sim_devices import DEVICES, contexts_of

FAR = 1 << 30  # outside of every buffer


def words(*numbers, width=32):
    return np.array(numbers, f"int{width}").tobytes()


def view(size, prefix, buffer, offset):
    return words(size) + prefix + words(buffer, offset)


TEXTS = pa.array(["aaaa", "bbbb", "cc"])
OFFSETS, LOST = words(0, 4, 8, 10), words(FAR, FAR + 60, FAR + 60, FAR + 60)
LONG = ["a string that is long 1", "a string that is long 2", "a string that is long 3"]


def lists(values, kind=pa.list_):
    return pa.array([values[:2], values[2:]], kind)


def no_rows(width=32):
    """Returns the offset bytes of two lists and the replacement that makes both lists empty."""
    return words(0, 2, 3, width=width), words(0, 0, 0, width=width)


# Arrays of each nested layout. Replacing the bytes hides child rows and corrupts them.
HIDDEN = {
    "lists without values": (lists(TEXTS.to_pylist(), pa.list_(pa.string())), [no_rows(), (OFFSETS, LOST)]),
    "values behind the last list": (
        lists(TEXTS.to_pylist(), pa.list_(pa.string())),
        [(words(0, 2, 3), words(0, 0, 1)), (OFFSETS, words(0, 4, FAR, FAR + 60))],
    ),
    "values before the first list": (
        lists(TEXTS.to_pylist(), pa.list_(pa.string())),
        [(words(0, 2, 3), words(2, 2, 3)), (OFFSETS, words(-FAR, -FAR + 4, 8, 10))],
    ),
    "large strings": (
        lists(TEXTS.to_pylist(), pa.list_(pa.large_string())),
        [no_rows(), (words(0, 4, 8, 10, width=64), words(FAR, FAR + 60, FAR + 60, FAR + 60, width=64))],
    ),
    "large lists": (
        lists(TEXTS.to_pylist(), pa.large_list(pa.string())),
        [no_rows(64), (OFFSETS, LOST)],
    ),
    "lists of lists": (
        pa.array([[[11, 12], [13]], [[14], [15]]], pa.list_(pa.list_(pa.int64()))),
        [(words(0, 2, 4), words(0, 0, 0)), (words(0, 2, 3, 4, 5), words(0, FAR, FAR, FAR, FAR))],
    ),
    "views": (
        lists(LONG, pa.list_(pa.string_view())),
        [no_rows(), (view(23, b"a st", 0, 23), view(23, b"a st", 77, FAR))],
    ),
    "views before the first list": (
        lists(LONG, pa.list_(pa.string_view())),
        [(words(0, 2, 3), words(2, 2, 3)), (view(23, b"a st", 0, 23), view(23, b"a st", 77, FAR))],
    ),
    "indices": (
        lists(["a", "b", "a"], pa.list_(pa.string())).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        [no_rows(), (words(0, 1, 0), words(FAR, FAR, -5))],
    ),
    "maps": (
        pa.array([[("kk", 1), ("ll", 2)], [("mm", 3)]], pa.map_(pa.string(), pa.int32())),
        [no_rows(), (words(0, 2, 4, 6), LOST)],
    ),
    "list views": (
        lists(TEXTS.to_pylist(), pa.list_view(pa.string())),
        [(words(2, 1), words(0, 0)), (OFFSETS, LOST)],
    ),
    "dense unions": (
        pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([7, 8]), TEXTS]
        ),
        [(OFFSETS, LOST)],
    ),
    "sparse unions": (
        pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([7, 8, 9]), TEXTS]),
        [(OFFSETS, LOST)],
    ),
    "runs behind the last row": (
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 6], pa.int32()), TEXTS),
        [(words(2, 4, 6), words(6, 7, 8)), (OFFSETS, words(0, 4, FAR, FAR + 60))],
    ),
    "null structs": (
        pa.StructArray.from_arrays([TEXTS], ["s"], mask=pa.array([True, False, True])),
        [(OFFSETS, words(-FAR, 4, 8, FAR))],
    ),
    "null lists": (
        pa.array([["aaaa", "bbbb"], None], pa.list_(pa.string())),
        [(words(0, 2, 2), words(2, 2, 2)), (words(0, 4, 8), words(FAR, FAR + 9, FAR + 9))],
    ),
    "null lists over values": (
        pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), TEXTS, mask=pa.array([True, True])),
        [(OFFSETS, LOST)],
    ),
    "null lists of a fixed size": (
        pa.FixedSizeListArray.from_arrays(
            pa.array(["aaaa", "bbbb", "cc", "d"]), 2, mask=pa.array([True, True])
        ),
        [(words(0, 4, 8, 10, 11), LOST + words(FAR + 60))],
    ),
    "values of a dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), TEXTS),
        [(OFFSETS, words(0, 4, FAR, FAR + 60))],
    ),
}


def broken(raw, replacements):
    for old, new in replacements:
        assert raw.count(old) >= 1, "the bytes to replace must exist"
        raw = raw.replace(old, new)
    return raw


@pytest.fixture(params=HIDDEN)
def hidden(request):
    return HIDDEN[request.param]


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def packed(hidden, host):
    array, replacements = hidden
    metadata, body = sa.from_arrow(pa.table({"c": array}), host, copy=True).pack()
    return metadata, broken(bytes(np.from_dlpack(body)), replacements)


def test_unpack_refuses_corrupt_hidden_rows(hidden, ctx, host):
    metadata, body = packed(hidden, host)
    with pytest.raises(sa.FormatError, match=r"column 'c'|dictionary"):
        sa.unpack(metadata, body, ctx)


class Packed:
    """Pickles as a table with the given metadata and body."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return restored_table, self.parts


def test_unpickling_refuses_corrupt_hidden_rows(hidden, host):
    with pytest.raises(sa.FormatError):
        pickle.loads(pickle.dumps(Packed(*packed(hidden, host))))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("copy", [None, True])
def test_reads_refuse_or_omit_corrupt_hidden_rows(hidden, copy, stream, host):
    array, replacements = hidden
    sink = io.BytesIO()
    table = pa.table({"c": array})
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    raw = broken(sink.getvalue(), replacements)
    try:
        found = sa.read_ipc(raw, host, copy=copy)
    except sa.FormatError:
        return
    assert copy, "a view includes the hidden rows and must be refused"
    found.to_arrow().validate(full=True)


def test_run_ends_that_stop_before_the_last_row_are_refused(ctx, host):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 6], pa.int32()), TEXTS)
    with pytest.raises(sa.FormatError, match="the last of 3 run ends is 5, the column has 6 rows"):
        sa.unpack(*packed((runs, [(words(2, 4, 6), words(2, 4, 5))]), host), ctx)
