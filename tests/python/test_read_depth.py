"""Limits the number of Python functions and files that reads, loads and shares pass through."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import pytest

import saeta as sa

PACKAGE = Path(sa.__file__).parent


@pytest.fixture
def path(host, tmp_path):
    path = tmp_path / "a.arrow"
    sa.write_ipc(sa.concat_tables([sa.table({"a": [1, 2]}, host)] * 3), path)
    return path


def functions_of(work):
    """Returns the package's functions that `work` calls, each with its file."""
    work()  # the first call imports modules
    functions = []

    def note(frame, event, _argument):
        file = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in file.parents:
            functions.append((str(file.relative_to(PACKAGE)), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return functions


def test_a_read_passes_through_four_files_once_each(host, path):
    functions = functions_of(lambda: sa.read_ipc(path, host))
    files = [file for file, _ in groupby(file for file, _ in functions)]
    assert files[0] == "ipc.py"
    assert len(files) == len(set(files)) <= 4, functions


def test_a_scan_passes_at_most_fifteen_functions(host, path):
    def scan():
        with sa.scan_ipc(path, host, copy=True) as batches:
            assert sum(batch.num_rows for batch in batches) == 6

    functions = functions_of(scan)
    assert ("_files/scan.py", "scan_ipc") in functions
    assert len(set(functions)) <= 15, functions


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 38), ({"shuffle": "rows"}, 47), ({"shuffle": "rows", "matrix": True}, 49), ({"to": "table"}, 31)],
    ids=str,
)
def test_the_first_batch_of_a_loader_passes_at_most_nine_files(host, path, options, most):
    iterators = []  # their ends are not counted

    def load():
        iterators.append(iter(sa.loader(path, host, **{"batch_size": 2, "to": "numpy", **options})))
        next(iterators[-1])

    functions = functions_of(load)
    iterators.clear()
    stays = [file for file, _ in groupby(file for file, _ in functions)]
    assert len(set(functions)) <= most, functions
    assert len(set(stays)) <= 9, functions
    assert len(stays) <= 25, stays


def test_sharing_and_opening_a_table_pass_at_most_fifteen_functions_each(host):
    tables = [sa.table({"a": [number]}, host) for number in range(2)]
    tokens, opened = [], []
    functions = functions_of(lambda: tokens.append(tables[len(tokens)].share()))
    assert ("_share/tables.py", "share") in functions
    assert len(set(functions)) <= 15, functions
    functions = functions_of(lambda: opened.append(sa.open_shared(tokens[len(opened)])))
    assert ("_share/tables.py", "open_shared") in functions
    assert len(set(functions)) <= 15, functions
    for each in (opened, tokens, tables):
        each.clear()
