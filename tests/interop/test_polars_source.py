"""A Saeta scan as a polars IO source: the function `scan_saeta` of docs/guides/polars.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from code_blocks import program

pl = pytest.importorskip("polars")

FILES = 3
ROWS = 10  # per batch; each file has two batches


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("trips")
    for day in range(FILES):
        rows = 2 * ROWS
        trips = pa.table(
            {
                "day": pa.array([day] * rows, pa.int16()),
                "fare": pa.array([None if i % 7 == 0 else i / 2 for i in range(rows)]),
                "city": pa.array([None if i % 5 == 0 else f"city {i % 4}" for i in range(rows)]),
                "zones": pa.array([[i, i + 1] if i % 3 else None for i in range(rows)]),
                "kind": pa.array([f"k{i % 3}" for i in range(rows)]).dictionary_encode(),
                "flag": pa.array([i % 2 == 0 for i in range(rows)]),
                "when": pa.array(range(rows), pa.timestamp("us")),
            }
        )
        with pa.ipc.new_file(made / f"{day}.arrow", trips.schema) as writer:
            writer.write_table(trips, max_chunksize=ROWS)
        pq.write_table(trips, made / f"{day}.parquet", row_group_size=ROWS)
    return made


class Scans:
    """Wraps a scan and records the requested columns, and the number of batches read from each scan."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.columns: list[Any] = []
        self.taken: list[int] = []

    def __call__(self, files: Any, ctx: Any, **named: Any) -> Any:
        self.columns.append(named.get("columns"))
        self.taken.append(0)
        number = len(self.taken) - 1
        scan = self.original(files, ctx, **named)
        outer = self

        class Counted:
            schema = scan.schema

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *exception: object) -> None:
                scan.close()

            def __iter__(self) -> Any:
                for batch in scan:
                    outer.taken[number] += 1
                    yield batch

        return Counted()


FORMATS = {"arrow": (sa.scan_ipc, pl.scan_ipc), "parquet": (sa.scan_parquet, pl.scan_parquet)}


@pytest.fixture(params=FORMATS)
def format_of(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scans(format_of: str) -> Scans:
    return Scans(FORMATS[format_of][0])


@pytest.fixture(scope="module")
def scan_saeta() -> Iterator[Any]:
    names: dict[str, Any] = {}
    exec(program("docs/guides/polars.md"), names)
    yield names["scan_saeta"]
    names.clear()  # frees the page's tables: later tests check host memory


QUERIES = {
    "everything": lambda trips: trips,
    "some columns": lambda trips: trips.select("city", "day"),
    "a filter": lambda trips: trips.filter(pl.col("fare") > 3).select("day", "fare"),
    "a filter of a category": lambda trips: trips.filter(pl.col("kind") == "k1"),
    "rows": lambda trips: trips.head(ROWS + 3),
    "no rows": lambda trips: trips.head(0),
    "rows of a filter": lambda trips: trips.filter(pl.col("flag")).head(7),
    "a filter of rows": lambda trips: trips.head(13).filter(pl.col("flag")),
    "the last rows": lambda trips: trips.tail(4),
    "a slice": lambda trips: trips.slice(5, ROWS),
    "a count": lambda trips: trips.select(pl.len()),
    "groups": lambda trips: trips.group_by("city").agg(pl.col("fare").sum()).sort("city"),
    "itself": lambda trips: trips.join(trips.select("when", "fare"), on="when").sort(
        "day", "when", "fare_right"
    ),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("query", QUERIES)
def test_queries_have_the_results_of_polars_own_scan(scan_saeta, folder, format_of, query, engine):
    ours, theirs = FORMATS[format_of]
    expected = QUERIES[query](theirs(folder / f"*.{format_of}")).collect()
    found = QUERIES[query](scan_saeta(ours, folder)).collect(engine=engine)
    assert found.schema == expected.schema
    assert found.equals(expected)


def test_only_the_columns_of_a_query_are_read(scan_saeta, scans, folder):
    trips = scan_saeta(scans, folder).filter(pl.col("day") == 1).select(pl.col("fare").sum())
    assert trips.collect().height == 1
    assert [sorted(each) for each in scans.columns if each is not None] == [["day", "fare"]]


def test_reading_stops_after_enough_rows(scan_saeta, scans, folder):
    assert scan_saeta(scans, folder).head(ROWS + 1).collect(engine="in-memory").height == ROWS + 1
    assert scans.taken == [0, 2]  # polars used the first scan only for its schema


def test_an_error_of_the_scan_reaches_the_query(scan_saeta, format_of, folder, tmp_path):
    for each in folder.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    lazy = scan_saeta(FORMATS[format_of][0], tmp_path)
    (tmp_path / f"1.{format_of}").write_bytes(b"no longer what it was")
    with pytest.raises(Exception, match=rf"1\.{format_of}"):
        lazy.collect()
