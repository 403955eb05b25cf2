"""Slices of every type through every import and export path, compared with pyarrow.

The arrays are columns of one table, so each path runs once for all types. The expected rows are slices of
Python lists made from pyarrow's whole table, so that they do not depend on pyarrow's own handling of slices.
"""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import clean
from protocols import OnlyArray, OnlyDeviceArray, OnlyStream
from sim_devices import contexts_of

NULLS = ["some", "none", "all"]
# Each entry is a sequence of slices applied to each other: (first row, number of rows).
SLICES = [
    [(0, 67)],
    *[[(first, 20 + first)] for first in range(10)],
    [(3, 60), (5, 41)],
    [(8, 50), (1, 33), (7, 9)],
    [(66, 1)],
    [(5, 0)],
]
FEW_SLICES = [SLICES[0], SLICES[4], SLICES[9], SLICES[12], SLICES[14]]  # for the slower paths
DEAR = ("columns", "file", "IPC stream", "copied device array")

# Types that these libraries refuse or read incorrectly, also from pyarrow.
DUCKDB_REFUSES = ("float16", "decimal256", "tz=", "dense union", "dense_union", "unions", "dictionary of")
POLARS_REFUSES = ("decimal32", "decimal64", "decimal256", "interval", "list_view", "union", "run")
NANOARROW_REFUSES = ("decimal32", "decimal64", "view", "map", "run", "deep")
NANOARROW_DROPS_OFFSETS = ("float16", "decimal", "interval", "fixed_size_binary", "list of sparse union")

Steps = list[tuple[int, int]]


@functools.cache
def source(nulls: str) -> pa.Table:
    return pa.table(arrow_data.arrays(nulls=nulls) | arrow_data.nested_twice(nulls=nulls))


def compact(table: pa.Table) -> pa.Table:
    """Returns the same rows in arrays without offsets."""
    return pa.ipc.open_stream(written_by_pyarrow(table, stream=True)).read_all()


@functools.cache
def shown(nulls: str) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = source(nulls).to_pydict()
    return values


def cut(table: Any, steps: Steps) -> Any:
    for first, rows in steps:
        table = table.slice(first, rows)
    return table


def cut_rows(rows: list[Any], steps: Steps) -> list[Any]:
    for first, count in steps:
        rows = rows[first : first + count]
    return rows


def written_by_pyarrow(table: pa.Table, *, stream: bool) -> bytes:
    sink = io.BytesIO()
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def require_same(seen: pa.Table, nulls: str, steps: Steps, way: str) -> None:
    expected = cut(source(nulls), steps)
    assert seen.schema.types == expected.schema.types, way
    assert seen.num_rows == expected.num_rows, (way, steps)
    for name in expected.column_names:
        column = seen[name]
        column.validate(full=True)
        assert column.null_count == expected[name].null_count, (way, nulls, steps, name)
        assert column.equals(expected[name]), (way, nulls, steps, name)
        assert column.to_pylist() == cut_rows(shown(nulls)[name], steps), (way, nulls, steps, name)


def chunk_of(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


def record_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.record_batch([chunk_of(column) for column in table.columns], table.column_names)


def by_columns(table: pa.Table, ctx: sa.Context, copy: bool | None) -> sa.Table:
    arrays = {name: OnlyArray(chunk_of(table[name])) for name in table.column_names}
    return sa.table(
        {name: sa.from_arrow(each, ctx, copy=copy, as_column=True) for name, each in arrays.items()}, ctx
    )


def from_file(table: pa.Table, ctx: sa.Context, copy: bool | None) -> sa.Table:
    with tempfile.NamedTemporaryFile() as file:
        file.write(written_by_pyarrow(table, stream=False))
        file.flush()
        return sa.read_ipc(file.name, ctx, copy=copy)


def from_ipc_stream(table: pa.Table, ctx: sa.Context, copy: bool | None) -> sa.Table:
    return sa.read_ipc(io.BytesIO(written_by_pyarrow(table, stream=True)), ctx, copy=copy)


WAYS_IN: dict[str, Callable[[pa.Table, sa.Context, bool | None], sa.Table]] = {
    "table": lambda table, ctx, copy: sa.from_arrow(table, ctx, copy=copy),
    "array": lambda table, ctx, copy: sa.from_arrow(OnlyArray(record_batch(table)), ctx, copy=copy),
    "stream": lambda table, ctx, copy: sa.from_arrow(OnlyStream(table), ctx, copy=copy),
    "columns": by_columns,
    "file": from_file,
    "IPC stream": from_ipc_stream,
}


def through_ipc(table: sa.Table, format: str) -> pa.Table:  # noqa: A002
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/written.arrow"
        table.write_ipc(path, format=format, durable=False)
        opened = pa.ipc.open_file if format == "file" else pa.ipc.open_stream
        return opened(path).read_all()


def through_device_array(table: sa.Table, copy: bool | None) -> pa.Table:
    """Exports the table as a C Device array and imports it again on the same device."""
    if table.num_rows == 0:
        return table.to_arrow()  # a table without batches has no array
    given = table.combine_chunks()
    return sa.from_arrow(OnlyDeviceArray(given), table.context, copy=copy).to_arrow()


WAYS_OUT: dict[str, Callable[[sa.Table], pa.Table]] = {
    "to_arrow": lambda table: table.to_arrow(),
    "stream": lambda table: pa.RecordBatchReader.from_stream(OnlyStream(table)).read_all(),
    "columns": lambda table: pa.table({name: table[name].to_arrow() for name in table.column_names}),
    "device array": lambda table: through_device_array(table, None),
    "copied device array": lambda table: through_device_array(table, True),
    "file": lambda table: through_ipc(table, "file"),
    "IPC stream": lambda table: through_ipc(table, "stream"),
}


@pytest.fixture(params=["host", "host copied", "sim"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[sa.Context, bool | None]]:
    """A context, and the argument `copy` for imports."""
    if request.param == "sim":
        for ctx in contexts_of("sim"):
            yield ctx, None
    else:
        with clean("host") as ctx:
            yield ctx, True if request.param == "host copied" else None


@pytest.mark.parametrize("way", WAYS_IN)
def test_slices_are_imported_by_every_path(place, way):
    ctx, copy = place
    for nulls in NULLS:
        for steps in FEW_SLICES if way in DEAR else SLICES:
            table = WAYS_IN[way](cut(source(nulls), steps), ctx, copy)
            require_same(table.to_arrow(), nulls, steps, way)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_slices_are_exported_by_every_path(place, way):
    ctx, copy = place
    for nulls in NULLS:
        whole = sa.from_arrow(source(nulls), ctx, copy=copy)
        for steps in FEW_SLICES if way in DEAR else SLICES:
            require_same(WAYS_OUT[way](cut(whole, steps)), nulls, steps, way)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_slices_of_imported_slices_are_exported(place, way):
    ctx, copy = place
    for first in (1, 6, 11):
        there = sa.from_arrow(OnlyStream(source("some").slice(first)), ctx, copy=copy)
        for steps in FEW_SLICES[1:3]:
            require_same(WAYS_OUT[way](cut(there, steps)), "some", [(first, 67), *steps], way)


def takes(refused: tuple[str, ...]) -> list[str]:
    return [name for name in source("some").column_names if not any(word in name for word in refused)]


def rows_of_duckdb(table: Any) -> list[Any]:
    duckdb = pytest.importorskip("duckdb")
    rows: list[Any] = duckdb.from_arrow(pa.RecordBatchReader.from_stream(table)).fetchall()
    return rows


def rows_of_polars(table: Any) -> Any:
    return pytest.importorskip("polars").DataFrame(OnlyStream(table)).to_dict(as_series=False)


def rows_of_nanoarrow(table: Any) -> Any:
    return pytest.importorskip("nanoarrow").ArrayStream(OnlyStream(table)).read_all().to_pylist()


CONSUMERS: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "duckdb": (DUCKDB_REFUSES, rows_of_duckdb),
    "polars": (POLARS_REFUSES, rows_of_polars),
    "nanoarrow": (NANOARROW_REFUSES, rows_of_nanoarrow),
}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_libraries_read_the_same_slices_from_saeta_and_pyarrow(place, consumer):
    """The compared pyarrow arrays have no offsets: with offsets DuckDB refuses nested structs, and nanoarrow
    reads the wrong rows of unions."""
    ctx, copy = place
    refused, rows_of = CONSUMERS[consumer]
    if consumer == "nanoarrow" and ctx.device == "host":  # a slice of host memory is a view with an offset
        refused += NANOARROW_DROPS_OFFSETS
    names = takes(refused)
    assert len(names) > 50
    for nulls in ("some", "none"):
        given = source(nulls).select(names)
        whole = sa.from_arrow(given, ctx, copy=copy)
        for steps in FEW_SLICES:
            expected = rows_of(compact(cut(given, steps)))
            assert rows_of(sa.from_arrow(cut(given, steps), ctx, copy=copy)) == expected, (
                steps,
                "cut before",
            )
            assert rows_of(cut(whole, steps)) == expected, (steps, "cut here")


@pytest.mark.parametrize(
    "values",
    [
        {"id": [1, 2], "remark": [None, None]},
        {"tags": [[], [None, None], None]},
        {"x": [{"y": None}, {"y": None}]},
        {"x": [[{"y": None}], [], [{"y": None}, {"y": None}]]},
    ],
)
def test_null_columns_of_polars_are_imported(place, values):
    """polars exports null columns with one buffer, a null pointer. Arrow specifies none."""
    frame = pytest.importorskip("polars").DataFrame(values)
    ctx, copy = place
    for given in (frame, frame.slice(1)):
        expected = pa.RecordBatchReader.from_stream(given).read_all()
        seen = sa.from_arrow(given, ctx, copy=copy)
        assert seen.to_pylist() == expected.to_pylist()
        assert seen.to_arrow().equals(expected)
        assert rows_of_polars(seen) == given.to_dict(as_series=False)


def test_a_copied_slice_of_maps_has_its_own_entries(place):
    ctx, copy = place
    duckdb = pytest.importorskip("duckdb")
    prices = [[("eur", row), ("usd", -row)] if row else [("eur", 0)] for row in range(24)]
    whole = pa.table({"price": pa.array(prices, pa.map_(pa.string(), pa.int32()))})
    for first in range(12):
        mine = sa.from_arrow(whole.slice(first, 3), ctx, copy=copy)
        assert mine["price"].to_pylist() == prices[first : first + 3]
        assert mine.to_arrow()["price"].to_pylist() == prices[first : first + 3]
        assert duckdb.sql("select price from mine").fetchall() == [
            (dict(each),) for each in prices[first : first + 3]
        ]
