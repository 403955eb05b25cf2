"""Parquet files as data sets of Ray Data, each of whose tasks reads consecutive row groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("ray")

import ray
import ray.data
from ray.data.block import BlockAccessor

import saeta as sa
import saeta.ray
from loader_files import thirds
from ray_cluster import cluster, double
from saeta.ray import _parquet
from saeta.ray._files import Blocks
from saeta.ray._parquet import ParquetDatasource

DEFAULTS = {"columns": None, "filters": None, "schema": None, "index": False, "filesystem": None,
            "partitioning": "hive", "engine": None}  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Any:
    with cluster():
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows 0 to 59 in two folders, in row groups of ten rows, with a type that only the Arrow schema has."""
    made = tmp_path_factory.mktemp("files")
    for number, year in enumerate((2023, 2024)):
        place = made / f"year={year}"
        place.mkdir()
        rows = np.arange(number * 30, number * 30 + 30)
        times = pa.array(rows * 60, pa.timestamp("us", "Europe/Paris"))
        pq.write_table(pa.table({"a": rows, "at": times}), place / "a.parquet", row_group_size=10)
    return made


def source_of(folder, transform=None, **options):
    return ParquetDatasource(folder, **{**DEFAULTS, **options}, blocks=Blocks("host", transform))


def blocks_of(source, parts):
    return [list(task()) for task in source.get_read_tasks(parts)]


def rows_in(blocks):
    return [[row for block in of_task for row in block["a"].to_pylist()] for of_task in blocks]


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 6, 100])
def test_tasks_read_all_row_groups_once_and_in_order(folder, parts):
    found = source_of(folder).get_read_tasks(parts)
    assert len(found) == min(parts, 6)
    blocks = [block for task in found for block in task()]
    assert pa.concat_tables(blocks).equals(sa.read_parquet(folder, "host").to_arrow())
    for task in found:
        metadata = task.metadata
        of_task = list(task())
        assert metadata.num_rows == sum(block.num_rows for block in of_task)
        assert metadata.size_bytes == 16 * metadata.num_rows
        years = {year for block in of_task for year in block["year"].to_pylist()}
        assert {path.split("year=")[1][:4] for path in metadata.input_files} == set(map(str, years))
    assert source_of(folder).estimate_inmemory_data_size() == 16 * 60


def test_row_groups_that_can_not_match_are_not_read(folder):
    source = source_of(folder, filters=[("year", "=", 2024), ("a", ">=", 45)], columns=["at", "a"])
    (first, second) = source.get_read_tasks(9)
    assert first.metadata.num_rows is None, "how many rows match is known after reading"
    assert [block["a"].to_pylist() for block in first()] == [list(range(45, 50))]
    assert [block.schema.names for block in second()] == [["at", "a"]]
    (empty,) = blocks_of(source_of(folder, filters=[("a", ">", 99)]), 4)
    assert [(block.num_rows, block.schema.names) for block in empty] == [(0, ["a", "at", "year"])]


def test_columns_are_chosen_by_the_operations_that_follow(folder):
    source = source_of(folder, filters=[("a", "<", 3)])
    narrow = source.apply_projection({"at": "at", "year": "year"})
    assert narrow.get_projection_map() == {"at": "at", "year": "year"}
    assert narrow.apply_projection(None).get_projection_map() == {"at": "at", "year": "year"}
    assert source.get_projection_map() is None
    ((block,),) = blocks_of(narrow, 1)
    assert block.schema.names == ["at", "year"], "the filter's column is read, and is not in the block"
    assert block.num_rows == 3
    ((block,),) = blocks_of(source.apply_projection({}), 1)
    assert BlockAccessor.for_block(block).num_rows() == 3


def test_a_task_makes_blocks_of_a_size(folder, monkeypatch):
    monkeypatch.setattr(_parquet, "BLOCK_BYTES", 2 * source_of(folder)._groups[0].nbytes)
    (blocks,) = blocks_of(source_of(folder), 1)
    assert [block.num_rows for block in blocks] == [20, 20, 20]


def test_a_function_gets_tables_of_the_context_before_they_are_blocks(folder):
    seen = []

    def halve(table):
        assert isinstance(table, sa.Table)
        seen.append(table.device)
        return table[::2] if len(seen) % 2 else pa.table(table).slice(1)

    source = source_of(folder, transform=halve)
    assert not source.supports_projection_pushdown(), "the function may need the other columns"
    assert rows_in(blocks_of(source, 6))[:2] == [[0, 2, 4, 6, 8], list(range(11, 20))]
    assert seen == ["host"] * 6
    assert source.get_read_tasks(1)[0].metadata.num_rows is None


def test_arguments_are_checked_before_a_task_is_made(folder, tmp_path):
    with pytest.raises(sa.InvalidError, match="engine='fast'"):
        saeta.ray.read_parquet(folder, engine="fast")
    with pytest.raises(sa.MissingFileError):
        saeta.ray.read_parquet(tmp_path / "nothing.parquet")
    with pytest.raises(sa.ColumnNameError, match="b"):
        saeta.ray.read_parquet(folder, columns="b")
    (task,) = source_of(folder, engine="device").get_read_tasks(1)
    with pytest.raises(sa.UnsupportedError, match="engine='device'"):
        list(task())


def test_a_data_set_is_read_mapped_and_counted(running, folder):
    data = saeta.ray.read_parquet(folder, override_num_blocks=3)
    assert data.count() == 60
    doubled = data.map_batches(double, batch_format="pyarrow").sum("a")
    assert doubled == 60 * 59
    assert saeta.ray.read_parquet(folder, filters=[("a", "<", 10)]).select_columns(["a"]).sum("a") == 45
    table = pa.concat_tables(ray.get(data.to_arrow_refs()))
    assert str(table.schema.field("at").type) == "timestamp[us, tz=Europe/Paris]"


def test_a_function_runs_in_the_tasks(running, folder):
    data = saeta.ray.read_parquet(folder, transform=thirds, override_num_blocks=2)
    assert sorted(row["a"] for row in data.take_all()) == list(range(0, 60, 3))
