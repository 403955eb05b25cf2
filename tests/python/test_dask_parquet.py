"""Parquet files as tasks of Dask, each of which reads consecutive row groups."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa

pytest.importorskip("distributed")

import dask

import saeta.dask


@pytest.fixture
def folder(tmp_path):
    """Rows 0 to 59 in two folders, in row groups of ten rows of 80 bytes."""
    for number, year in enumerate((2023, 2024)):
        place = tmp_path / f"year={year}"
        place.mkdir()
        rows = pa.table({"n": range(number * 30, number * 30 + 30)})
        pq.write_table(rows, place / "a.parquet", row_group_size=10, compression="none", use_dictionary=False)
    return tmp_path


def values(tasks: list[Any]) -> list[list[int]]:
    return [part["n"].to_pylist() for part in dask.compute(*tasks, scheduler="synchronous")]


def size_of_group(folder: Any) -> int:
    return int(pq.read_metadata(folder / "year=2023" / "a.parquet").row_group(0).total_byte_size)


def test_files_become_tasks_of_consecutive_row_groups(folder):
    most = 2 * size_of_group(folder)
    tasks = saeta.dask.read_parquet(folder, blocksize=most, device="host")
    assert values(tasks) == [list(range(20)), list(range(20, 40)), list(range(40, 60))]
    parts = dask.compute(*tasks, scheduler="synchronous")
    whole = sa.read_parquet(folder, "host")
    assert {str(part.schema) for part in parts} == {str(whole.schema)}
    assert parts[1]["year"].to_pylist() == [2023] * 10 + [2024] * 10
    assert values(saeta.dask.read_parquet(folder, device="host")) == [list(range(60))]
    assert len(saeta.dask.read_parquet(folder, blocksize=1, device="host")) == 6


def test_row_groups_that_can_not_match_have_no_task(folder):
    chosen = [("year", "=", 2024), ("n", ">=", 45)]
    tasks = saeta.dask.read_parquet(folder, filters=chosen, columns="n", blocksize=1, device="host")
    assert values(tasks) == [list(range(45, 50)), list(range(50, 60))]
    (empty,) = saeta.dask.read_parquet(folder, filters=[("n", ">", 99)], device="host")
    assert empty.compute(scheduler="synchronous").schema.names == ["n", "year"]


def test_arguments_are_checked_before_a_task_is_made(folder):
    with pytest.raises(sa.InvalidError, match="engine='fast'"):
        saeta.dask.read_parquet(folder, engine="fast")
    with pytest.raises(sa.TypeMismatch, match=r"expected distributed\.Client"):
        saeta.dask.read_parquet(folder, "host")
    with pytest.raises(sa.InvalidError, match="blocksize"):
        saeta.dask.read_parquet(folder, blocksize=0)
    with pytest.raises(sa.MissingFileError):
        saeta.dask.read_parquet(folder / "none.parquet")


def test_the_engine_is_that_of_the_context_of_the_task(folder):
    (task,) = saeta.dask.read_parquet(folder, engine="device", device="host")
    with pytest.raises(sa.UnsupportedError, match="engine='device'"):
        task.compute(scheduler="synchronous")
