"""take and filter of so many strings that threads share them, compared with pyarrow."""

from __future__ import annotations

import ctypes
import mmap
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

ROWS = 200_000  # several parts of every kind of column (compute/take_runner.cpp)
TYPES = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def words(random, rows, kind, nulls):
    """Returns strings with the lengths at which copies of a fixed size end, and some longer ones."""
    lengths = np.array([0, 1, 7, 8, 12, 13, 15, 16, 17, 31, 32, 33, 90])
    letters = random.integers(97, 123, 1 << 12, np.uint8).tobytes()
    distinct = [letters[at : at + n] for n in lengths for at in random.integers(0, 4000, 9)]
    chosen = pa.array(distinct, pa.binary()).take(pa.array(random.integers(0, len(distinct), rows)))
    if nulls:
        chosen = pa.array(chosen.to_pylist(), mask=random.random(rows) < 0.1)
    return chosen.cast(kind)


def table_of(random, rows):
    strings = {
        f"{kind} {nulls}": words(random, rows, kind, nulls) for kind in TYPES for nulls in (False, True)
    }
    counts = np.concatenate(([0], np.cumsum(random.integers(0, 3, rows)))).astype(np.int32)
    return pa.table(
        strings
        | {
            "number": random.integers(0, 1 << 40, rows),
            "truth": pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.5),
            "list": pa.ListArray.from_arrays(counts, np.arange(counts[-1], dtype=np.int16)),
            "words": pa.ListArray.from_arrays(counts, words(random, int(counts[-1]), pa.string(), True)),
            "code": words(random, rows, pa.string(), True).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module")
def source():
    random = np.random.default_rng(3)
    return table_of(random, ROWS + 100).slice(37, ROWS)


def with_views(source):
    """Adds columns of views. pyarrow can't take rows of them, so they are compared with the same strings."""
    for kind in (pa.string, pa.binary):
        for nulls in (False, True):
            column = source[f"{kind()} {nulls}"].cast(
                pa.string_view() if kind is pa.string else pa.binary_view()
            )
            source = source.append_column(f"view {kind()} {nulls}", column)
    return source


def pieces_of(source, count):
    """Returns a Table of the same rows in several batches."""
    ends = np.sort(np.random.default_rng(5).integers(0, len(source), count - 1))
    bounds = [0, *ends.tolist(), len(source)]
    parts = [source.slice(first, end - first) for first, end in pairwise(bounds)]
    return sa.table(with_views(pa.concat_tables(parts)), "host")


def require(made, expected):
    result = pa.table(made)
    result.validate(full=True)
    for name in result.column_names:
        plain = expected[name.removeprefix("view ")]
        assert result[name].cast(plain.type).combine_chunks().equals(plain.combine_chunks()), name


@pytest.mark.parametrize("pieces", [1, 9])
def test_random_rows_are_those_of_pyarrow(source, pieces):
    random = np.random.default_rng(pieces)
    rows = random.integers(0, ROWS, ROWS + 12_345)
    require(pieces_of(source, pieces).take(rows), source.take(pa.array(rows)))


@pytest.mark.parametrize("pieces", [1, 9])
def test_null_rows_are_those_of_pyarrow(source, pieces):
    random = np.random.default_rng(pieces)
    rows = pa.array(random.integers(0, ROWS, ROWS).astype(np.uint32), mask=random.random(ROWS) < 0.2)
    require(pieces_of(source, pieces).take(rows), source.take(rows))


@pytest.mark.parametrize("share", [0.0001, 0.5, 0.99])
@pytest.mark.parametrize("pieces", [1, 9])
def test_the_rows_of_a_mask_are_those_of_pyarrow(source, pieces, share):
    mask = np.random.default_rng(pieces).random(ROWS) < share
    table = pieces_of(source, pieces)
    expected = source.filter(pa.array(mask))
    require(table.filter(mask), expected)
    require(table.filter(pa.array(mask)), expected)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
def test_indices_of_every_type_are_checked(kind):
    table = sa.table({"a": [f"row {row}" for row in range(100)]}, "host")
    rows = np.array([3, 99, 0], kind)
    assert table.take(rows)["a"].to_pylist() == ["row 3", "row 99", "row 0"]
    for bad in (100, -1) if np.issubdtype(kind, np.signedinteger) else (100,):
        with pytest.raises(sa.OutOfRange, match=f"index {bad} in row 1 "):
            table.take(np.array([3, bad, bad], kind))


def test_a_mask_of_many_rows_may_keep_all_or_none(source):
    table = pieces_of(source, 1)
    require(table.filter(np.ones(ROWS, bool)), source)
    assert len(table.filter(np.zeros(ROWS, bool))) == 0


def at_the_end_of_a_page(content):
    """Returns a buffer with these bytes. Reading the byte after it ends the process."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    memory[page - len(content) : page] = content
    return pa.foreign_buffer(start + page - len(content), len(content), memory)


@pytest.mark.parametrize("length", [1, 7, 15, 16, 17, 31, 32, 33])
def test_no_byte_behind_the_strings_is_read(length):
    strings = [bytes([65 + row]) * length for row in range(5)]
    offsets = pa.py_buffer(np.arange(0, 6 * length, length, dtype=np.int32))
    array = pa.Array.from_buffers(pa.binary(), 5, [None, offsets, at_the_end_of_a_page(b"".join(strings))])
    column = sa.column(array, "host")
    assert column.take([4, 0, 3, 4, 4]).to_pylist() == [strings[row] for row in (4, 0, 3, 4, 4)]
    assert column.filter(np.array([False, True, False, True, True])).to_pylist() == strings[1:2] + strings[3:]
