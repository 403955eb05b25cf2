"""The budget of a host context: read, converted and copied data are charged, views of foreign memory are
not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa

ROWS = 100_000
NUMBERS = {"a": np.arange(ROWS), "b": np.arange(ROWS, dtype="f4")}


@pytest.fixture
def small(host):
    with host.memory.child("small", "1MiB") as child:
        yield child


@pytest.fixture
def file(tmp_path):
    pq.write_table(pa.table({**NUMBERS, "s": ["x"] * ROWS}), tmp_path / "a.parquet", row_group_size=10_000)
    return tmp_path / "a.parquet"


def held(ctx):
    return {name: ctx.memory.statistics()[name] for name in ("current", "external")}


def test_a_parquet_file_is_charged_until_its_table_is_freed(host, file):
    with host.memory.child("large", "64MiB") as large:
        table = sa.read_parquet(file, large, columns=["a", "b"])
        assert table.nbytes == 12 * ROWS
        assert held(large)["current"] >= table.nbytes
        assert held(large)["external"] == 0
        del table
        assert held(large) == {"current": 0, "external": 0}


def test_a_parquet_file_that_can_not_fit_is_refused_before_it_is_read(small, file, monkeypatch):
    monkeypatch.setattr("saeta._files.parquet._scanner", None)
    with pytest.raises(sa.BudgetExceeded) as refused:
        sa.read_parquet(file, small, columns=["a", "b"])
    assert refused.value.requested == 12 * ROWS


@pytest.mark.parametrize("options", [{}, {"columns": "s"}, {"filters": [("a", ">=", 0)]}], ids=str)
def test_a_parquet_file_that_does_not_fit_leaks_nothing(host, file, options):
    with host.memory.child("tiny", "100KiB") as tiny:
        with pytest.raises(sa.BudgetExceeded):
            sa.read_parquet(file, tiny, **options)
        assert held(tiny) == {"current": 0, "external": 0}


def test_a_scan_and_a_loader_of_parquet_are_charged_by_batches(small, file):
    with sa.scan_parquet(file, small, columns="a") as scan:
        batch = next(scan)
        assert held(small)["current"] >= batch.nbytes > 0
        del batch
        assert sum(len(each) for each in scan) < ROWS
    with sa.loader(file, small, columns="a", batch_size=1000, window="100KiB", to="numpy") as loader:
        assert sum(len(each["a"]) for each in loader) == ROWS
    with (
        sa.loader(file, small, columns=["a", "b"], batch_size=1000, window="64MiB", to="numpy") as loader,
        pytest.raises(sa.BudgetExceeded, match=f"refused {12 * ROWS} bytes"),
    ):
        next(iter(loader))


BROUGHT = {
    "Python values": lambda ctx: sa.column(list(range(ROWS)), ctx, name="a"),
    "Python values of a type": lambda ctx: sa.column(list(range(ROWS)), ctx, name="a", type="int32"),
    "a table of Python values": lambda ctx: sa.table({"a": ["xyz"] * ROWS}, ctx),
    "a NumPy array of another type": lambda ctx: sa.column(np.arange(ROWS), ctx, name="a", type="int32"),
    "a NumPy array of text": lambda ctx: sa.table({"a": np.array(["xyz"] * ROWS)}, ctx),
    "a copy": lambda ctx: sa.from_arrow(pa.table({"a": NUMBERS["a"]}), ctx, copy=True),
    "a copied array": lambda ctx: sa.from_dlpack(NUMBERS["a"], ctx, copy=True),
}


@pytest.mark.parametrize("way", BROUGHT)
def test_converted_and_copied_data_are_charged(small, way):
    made = BROUGHT[way](small)
    assert held(small)["current"] >= made.nbytes >= 4 * ROWS
    assert held(small)["external"] == 0
    with small.memory.child("tiny", "100KiB") as tiny, pytest.raises(sa.BudgetExceeded):
        BROUGHT[way](tiny)


VIEWED = {
    "a NumPy array": lambda ctx: sa.table({"a": NUMBERS["a"]}, ctx),
    "a NumPy array of times": lambda ctx: sa.table({"a": NUMBERS["a"].view("M8[us]")}, ctx),
    "a table of pyarrow": lambda ctx: sa.from_arrow(pa.table({"a": NUMBERS["a"]}), ctx),
}


@pytest.mark.parametrize("way", VIEWED)
def test_viewed_data_are_external(small, way):
    made = VIEWED[way](small)
    assert held(small) == {"current": 0, "external": made.nbytes}
