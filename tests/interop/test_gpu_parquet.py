"""Parquet decoded on a GPU: the same tables as pyarrow gives, of many writers; filters, partitions, windows,
and the memory that decoding takes."""

from __future__ import annotations

import datetime
import itertools
import logging
import zoneinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import parquet_collection
import saeta as sa
from parquet_collection import COLLECTION, ON_HOST, skip_unreadable

pytestmark = pytest.mark.gpu

pytest.importorskip("pylibcudf")


@pytest.fixture
def ctx() -> sa.Context:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    return sa.context("cuda:0")


def rows_of(table: sa.Table) -> tuple[pa.Schema, str]:
    """Returns the schema and the values as text, in which NaN equals itself."""
    shown = table.to_arrow()
    return shown.schema, repr(shown.to_pydict())


def require_same(one: sa.Table, other: sa.Table) -> None:
    (schema, values), (expected_schema, expected) = rows_of(one), rows_of(other)
    assert schema.equals(expected_schema, check_metadata=True), f"{schema}\n{expected_schema}"
    assert values == expected


@pytest.mark.parametrize("name", [name for name in COLLECTION if name not in ON_HOST])
def test_both_engines_read_the_same(ctx, tmp_path, name):
    path = tmp_path / "a.parquet"
    COLLECTION[name](path)
    for index in (False, True):
        expected = sa.read_parquet(path, ctx, engine="host", index=index)
        require_same(sa.read_parquet(path, ctx, engine="device", index=index), expected)
    with sa.scan_parquet(path, ctx, engine="device", window=2000, in_flight=3, index=True) as scan:
        parts = list(scan)
    if expected.num_rows:
        require_same(sa.concat_tables(parts), expected)
    else:
        assert parts == []


@pytest.mark.parametrize("name", sorted(ON_HOST))
def test_what_cudf_can_not_give_back_is_read_by_pyarrow(ctx, tmp_path, caplog, name):
    skip_unreadable(name)
    path = tmp_path / "a.parquet"
    COLLECTION[name](path)
    with pytest.raises(sa.UnsupportedError, match=r"column '.*' of type"):
        sa.read_parquet(path, ctx, engine="device")
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        require_same(sa.read_parquet(path, ctx), sa.read_parquet(path, ctx, engine="host"))
    assert len(caplog.records) == 1


@pytest.fixture
def rides(tmp_path):
    """Rides of ten days, in row groups of a day, with every kind of column that a filter compares."""
    days = [datetime.date(2024, 1, 1 + number // 100) for number in range(1000)]
    cities = [None if number % 9 == 0 else f"city {number % 7}" for number in range(1000)]
    table = pa.table(
        {
            "id": np.arange(1000),
            "fare": [None if number % 11 == 0 else number / 4 for number in range(1000)],
            "city": cities,
            "kind": pa.array([f"k{number % 3}" for number in range(1000)]).dictionary_encode(),
            "day": days,
            "at": pa.array(
                [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number) for number in range(1000)],
                pa.timestamp("us"),
            ),
            "zoned": pa.array(
                [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number) for number in range(1000)],
                pa.timestamp("ms", "Europe/Paris"),
            ),
            "paid": [None if number % 5 == 0 else number % 2 == 0 for number in range(1000)],
            "small": pa.array([number % 100 for number in range(1000)], pa.uint8()),
        }
    )
    pq.write_table(table, tmp_path / "rides.parquet", row_group_size=100)
    return tmp_path / "rides.parquet"


FILTERS: list[Any] = [
    [("id", ">=", 950)],
    [("id", "<", 0)],
    [("fare", ">", 100.25), ("city", "=", "city 3")],
    [[("fare", "<=", 3)], [("city", "==", "city 1"), ("id", ">", 900)]],
    [("city", "!=", "city 2")],
    [("city", "in", ["city 1", "city 2"])],
    [("city", "not in", ["city 1", "city 2"])],
    [("city", "<", "city 2")],
    [("kind", "in", {"k1"})],
    [("day", "=", datetime.date(2024, 1, 4))],
    [("at", ">", datetime.datetime(2024, 1, 20))],
    [("zoned", "<", datetime.datetime(2024, 1, 5, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")))],
    [("paid", "=", True)],
    [("paid", "!=", True)],
    [("small", "in", [1, 2, 99])],
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_choose_the_rows_that_pyarrow_chooses(ctx, rides, filters):
    for columns in (None, ["fare", "id"]):
        expected = sa.read_parquet(rides, ctx, engine="host", filters=filters, columns=columns)
        require_same(sa.read_parquet(rides, ctx, engine="device", filters=filters, columns=columns), expected)
    with sa.scan_parquet(rides, ctx, engine="device", filters=filters, columns="id", window=2000) as scan:
        numbers = [number for part in scan for number in part["id"].to_pylist()]
    assert numbers == expected["id"].to_pylist()


def test_filters_that_do_not_map_are_applied_by_pyarrow(ctx, rides):
    expression = pyarrow.dataset.field("id") > 990
    with pytest.raises(sa.UnsupportedError, match="expression"):
        sa.read_parquet(rides, ctx, engine="device", filters=expression)
    assert sa.read_parquet(rides, ctx, filters=expression)["id"].to_pylist() == list(range(991, 1000))


def test_several_files_with_folders_and_columns_in_another_order(ctx, tmp_path):
    for year, month in itertools.product((2023, 2024), (1, 2)):
        folder = tmp_path / f"year={year}" / f"month=m{month}"
        folder.mkdir(parents=True)
        for number in range(2):
            table = pa.table({"n": range(number, number + 5), "word": [f"{year}", None, "a", "b", "c"]})
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=2)
    for options in (
        {},
        {"columns": ["month", "n"]},
        {"columns": "year"},
        {"partitioning": None},
        {"filters": [("year", "=", 2024)]},
        {"filters": [[("year", "=", 2024), ("n", ">", 3)], [("month", "=", "m1"), ("word", "=", "a")]]},
        {
            "schema": pa.schema(
                [("n", pa.int64()), ("word", pa.string()), ("year", pa.int64()), ("month", pa.string())]
            )
        },
    ):
        expected = sa.read_parquet(tmp_path, ctx, engine="host", **options)
        require_same(sa.read_parquet(tmp_path, ctx, engine="device", **options), expected)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), mixed / "1.parquet")
    pq.write_table(pa.table({"b": ["z", None], "a": [3, 4]}), mixed / "2.parquet")
    pq.write_table(pa.table({"b": pa.nulls(2), "a": [3, 4]}), mixed / "3.parquet")
    for columns in (["a", "b"], ["b"]):
        expected = sa.read_parquet(mixed, ctx, engine="host", columns=columns)
        require_same(sa.read_parquet(mixed, ctx, engine="device", columns=columns), expected)


def test_a_file_that_cudf_refuses_is_read_by_pyarrow(ctx, tmp_path, monkeypatch, caplog):
    import pylibcudf

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)

    class Refusing:
        ParquetReaderOptions = pylibcudf.io.parquet.ParquetReaderOptions

        @staticmethod
        def read_parquet(*_: Any) -> Any:
            raise RuntimeError("unsupported page")

    monkeypatch.setattr(pylibcudf.io, "parquet", Refusing)
    with pytest.raises(sa.FormatError, match="unsupported page"):
        sa.read_parquet(path, ctx, engine="device")
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        assert sa.read_parquet(path, ctx)["n"].to_pylist() == [1, 2, 3]
    assert "unsupported page" in caplog.text


@pytest.fixture
def large(tmp_path):
    generator = np.random.default_rng(7)
    table = pa.table(
        {
            "a": generator.integers(0, 1 << 40, 2_000_000),
            "b": generator.random(2_000_000),
            "word": pa.array([f"w{number % 1000}" for number in range(2_000_000)]),
        }
    )
    pq.write_table(table, tmp_path / "large.parquet", row_group_size=100_000)
    return tmp_path / "large.parquet"


def test_a_scan_holds_its_windows_and_what_decoding_takes(ctx, large):
    window, in_flight = 8 << 20, 2
    with ctx.memory.child("scan", 1 << 30) as child:
        with sa.scan_parquet(large, child, window=window, in_flight=in_flight, engine="device") as scan:
            rows = sum(batch.num_rows for batch in scan)
        child.synchronize()
        assert rows == 2_000_000
        statistics = child.memory.statistics()
        assert statistics["current"] == 0
        # The windows ahead, what decoding each takes beside its values, and the one of the loop.
        assert 0 < statistics["peak"] <= (3 * in_flight + 1) * window


def test_a_window_that_the_budget_refused_can_be_requested_again(ctx, large):
    with ctx.memory.child("small", 40 << 20) as small:
        scan = sa.scan_parquet(large, small, window="8MiB", engine="device")
        taken: list[sa.Table] = []
        with scan:
            with pytest.raises(sa.BudgetExceeded) as refusal:
                taken.extend(scan)
            assert refusal.value.limit == 40 << 20
            rows = sum(batch.num_rows for batch in taken)
            taken.clear()
            for batch in scan:
                rows += batch.num_rows
                del batch
        assert rows == 2_000_000
        with pytest.raises(sa.BudgetExceeded):
            sa.read_parquet(large, small, engine="device")
        small.synchronize()
        assert small.memory.statistics()["current"] == 0


def test_a_row_group_larger_than_the_window_comes_in_parts(ctx, large, tmp_path):
    path = tmp_path / "one.parquet"
    pq.write_table(pq.read_table(large), path, row_group_size=1 << 22)
    with sa.scan_parquet(path, ctx, window="8MiB", engine="device") as scan:
        parts = list(scan)
    assert len(parts) > 2
    assert sa.concat_tables(parts).to_arrow().equals(pq.read_table(path))


def test_a_scan_cuts_batches_of_a_number_of_rows(ctx, large):
    with sa.scan_parquet(large, ctx, batch_size=300_000, window="8MiB", engine="device") as scan:
        assert [batch.num_rows for batch in scan] == [300_000] * 6 + [200_000]


def test_rmm_has_its_resource_back_after_a_read_and_after_a_closed_scan(ctx, large):
    import rmm

    before = rmm.mr.get_current_device_resource()
    sa.read_parquet(large, ctx, engine="device")
    assert rmm.mr.get_current_device_resource() is before
    scan = sa.scan_parquet(large, ctx, window="8MiB", engine="device")
    next(scan)
    assert rmm.mr.get_current_device_resource() is not before
    buffer = rmm.DeviceBuffer(size=1 << 20)  # of this thread, which does not decode
    scan.close()
    assert rmm.mr.get_current_device_resource() is before
    del buffer


def test_a_scan_that_is_left_ends_its_threads(ctx, large):
    import threading

    scan = sa.scan_parquet(large, ctx, window="8MiB", in_flight=4, engine="device")
    next(scan)
    scan.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("saeta-parquet")]
    with pytest.raises(sa.ClosedError):
        next(scan)


@pytest.mark.parametrize("shuffle", ["rows", "batches", False])
def test_a_loader_yields_the_same_batches_with_both_engines(ctx, large, shuffle):
    def batches(engine: str) -> list[Any]:
        options: dict[str, Any] = {
            "shuffle": shuffle,
            "window": "16MiB",
            "columns": ["a", "b"],
            "to": "table",
        }
        with sa.loader(
            large, ctx, batch_size=70_000, read_options=sa.ReadOptions(engine=engine), **options
        ) as loader:
            return [batch.to_arrow() for batch in loader]

    for one, other in zip(batches("device"), batches("host"), strict=True):
        assert one.equals(other)


def test_columns_of_text_and_dictionaries_reach_a_loader(ctx, tmp_path):
    parquet_collection.COLLECTION["pyarrow: dictionary"](tmp_path / "a.parquet")

    def codes(engine: str) -> list[Any]:
        with sa.loader(
            tmp_path, ctx, batch_size=100, to="table", read_options=sa.ReadOptions(engine=engine)
        ) as loader:
            return [batch["x"].to_pylist() for batch in loader]

    assert codes("device") == codes("host")


def test_tasks_of_dask_decode_on_the_device(ctx, large):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    import saeta.dask

    tasks = saeta.dask.read_parquet(large, blocksize="8MiB", device="cuda:0", engine="device")
    assert len(tasks) > 2
    parts = dask.compute(*tasks, scheduler="synchronous")
    assert sa.concat_tables(parts).to_arrow().equals(pq.read_table(large))
