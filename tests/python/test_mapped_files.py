"""Columns that view a memory-mapped file while another program rewrites or truncates it: conversion to Python
checks the values again and raises an error instead of crashing.

The tests change the files in a new process, because a failure would crash it.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

REWRITTEN = [name for name in {**arrow_data.arrays(1), **arrow_data.nested(1)} if name != "null"]
CUT = [
    "int64",
    "bool",
    "string",
    "large_binary",
    "string_view",
    "binary_view",
    "list",
    "list_view",
    "map",
    "struct",
    "dense_union",
    "sparse_union",
    "list of dictionary",
    "deep",
]
# Types whose values hold offsets or indices. Rewritten bytes may point out of bounds.
HOLD_OFFSETS = [
    "string",
    "large_string",
    "string_view",
    "list",
    "list_view",
    "map",
    "dense_union",
    "list of dictionary",
    "deep",
]

PROGRAM = """
import random, sys
import saeta as sa

def read(column, table, seen):
    for show in (column.to_pylist, lambda: repr(column), lambda: repr(table), lambda: column[-1]):
        try:
            show()
        except sa.Error as failure:
            seen.add(type(failure).__name__)
            assert "column 'x'" in str(failure) or isinstance(failure, sa.InvalidError), failure

def rewrite(path, size, show):
    for seed in range(12):
        chance = random.Random(seed)
        with open(path, "r+b") as file:
            file.write(chance.randbytes(size) if seed % 3 else bytes([255 * (seed % 2)]) * size)
        show()

def cut(path, size, show):
    for left in (size // 2, 4096, 100, 0):
        with open(path, "r+b") as file:
            file.truncate(left)
        show()

change = {"rewrite": rewrite, "cut": cut}[sys.argv[1]]
for path in sys.argv[2:]:
    print(path.rpartition("/")[2], end=":", flush=True)
    table = sa.read_ipc(path, "host")
    assert sa.context("host").memory.statistics()["external"] > 0, "a view"
    seen = set()
    change(path, len(open(path, "rb").read()), lambda: read(table["x"], table, seen))
    print(*seen, flush=True)
    del table
"""


def changed(folder, names, rows, change):
    """Returns the set of error names for each array, or a text if the array crashed the process."""
    arrays = {**arrow_data.arrays(rows), **arrow_data.nested(rows)}
    paths = []
    for number, name in enumerate(names):
        paths.append(folder / str(number))
        table = pa.table({"x": arrays[name]})
        with pa.ipc.new_file(paths[-1], table.schema) as writer:
            writer.write_table(table)
    command = [sys.executable, "-c", PROGRAM, change, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ)
    seen = {}
    for line in done.stdout.splitlines():
        number, _, errors = line.partition(":")
        seen[names[int(number)]] = set(errors.split())
    if done.returncode != 0:
        seen[names[len(done.stdout.splitlines()) - 1]] = f"ended with {done.returncode}: {done.stderr}"
    return seen


@pytest.fixture(scope="module")
def after_rewrite(tmp_path_factory):
    return changed(tmp_path_factory.mktemp("rewritten"), REWRITTEN, 600, "rewrite")


@pytest.fixture(scope="module")
def after_cut(tmp_path_factory):
    return changed(tmp_path_factory.mktemp("cut"), CUT, 24_000, "cut")


@pytest.mark.parametrize("name", REWRITTEN)
def test_reading_a_rewritten_file_gives_values_or_an_error(after_rewrite, name):
    assert after_rewrite[name] <= {"FormatError", "InvalidError", "OutOfRange", "OutOfMemory"}


@pytest.mark.parametrize("name", HOLD_OFFSETS)
def test_offsets_and_views_out_of_bounds_are_refused(after_rewrite, name):
    assert "FormatError" in after_rewrite[name]


@pytest.mark.parametrize("name", CUT)
def test_reading_a_truncated_file_gives_an_error(after_cut, name):
    assert "FormatError" in after_cut[name]


def test_a_list_that_is_partly_out_of_bounds_is_refused(host):
    offsets = np.array([0, 6, 10], np.int32)
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.int64()), 2, [None, pa.py_buffer(offsets)], children=[pa.array(range(10))]
    )
    column = sa.from_arrow(lists, host, copy=False)
    assert column.to_pylist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    offsets[2] = 11  # the first item of the second list is still in bounds
    with pytest.raises(sa.FormatError, match="5 values at 6 of an array of type int64 with 10"):
        column.slice(1, 1).to_pylist()


def test_a_file_may_be_truncated_after_the_values_that_are_read(host, tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(1024, dtype="i8").tobytes())
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 8192, access=mmap.ACCESS_READ)
        values = np.frombuffer(mapped, "i8", 512)
        column = sa.column(values, host, name="n")
        assert column.address == values.ctypes.data, "not a view"
        file.truncate(4096)
        assert column.to_pylist() == list(range(512))
        assert column[511] == 511
