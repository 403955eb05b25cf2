"""Several Parquet files read as one table or one scan: forms of the source, schemas, partitions and
memory."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of


@pytest.fixture
def folder(tmp_path):
    """A folder with rows 0 to 9 in "0.parquet", 10 to 19 in "1.parquet" and 20 to 29 in "deep/2.parquet"."""
    for number, name in enumerate(("0.parquet", "1.parquet", "deep/2.parquet", "_hidden/3.parquet")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        first = number * 10
        pq.write_table(pa.table({"n": range(first, first + 10)}), path, row_group_size=4)
    (tmp_path / "notes.txt").write_text("no table")
    return tmp_path


def values(table):
    return table["n"].to_pylist()


WAYS = {
    "folder": lambda folder: folder,
    "glob": lambda folder: f"{folder}/**/[0-2].parquet",
    "paths": lambda folder: [folder / "0.parquet", folder / "1.parquet", folder / "deep" / "2.parquet"],
    "mixed": lambda folder: (f"{folder}/[01].parquet", (folder / "deep").as_uri()),
    "url": lambda folder: folder.as_uri(),
}


@pytest.mark.parametrize("way", WAYS)
def test_several_files_can_be_given_in_every_form(anywhere, folder, way):
    assert values(sa.read_parquet(WAYS[way](folder), anywhere)) == list(range(30))
    with sa.scan_parquet(WAYS[way](folder), anywhere) as scan:
        assert list(itertools.chain.from_iterable(map(values, scan))) == list(range(30))


def test_a_scan_yields_tables_of_any_number_of_rows(anywhere, folder):
    for rows in (1, 4, 7, 29, 30, 100):
        with sa.scan_parquet(folder, anywhere, batch_size=rows) as scan:
            parts = [values(part) for part in scan]
        assert list(itertools.chain.from_iterable(parts)) == list(range(30))
        assert {len(part) for part in parts[:-1]} <= {rows}
    with sa.scan_parquet(folder, anywhere, filters=[("n", ">", 17)], batch_size=5) as scan:
        assert list(itertools.chain.from_iterable(map(values, scan))) == list(range(18, 30))


def test_a_scan_equals_a_whole_read_for_every_type(anywhere, tmp_path):
    path = tmp_path / "a.parquet"
    table = arrow_data.table(200)
    kept = [name for name in table.column_names if _is_written(table.select([name]), path)]
    pq.write_table(table.select(kept), path, row_group_size=70)
    whole = sa.read_parquet(path, anywhere).to_arrow()
    with sa.scan_parquet(path, anywhere, batch_size=33) as scan:
        assert pa.schema(scan.schema) == whole.schema
        assert pa.concat_tables(part.to_arrow() for part in scan).to_pydict() == whole.to_pydict()
    assert len(kept) > 10


def _is_written(table, path):
    try:
        pq.write_table(table, path)
        sa.read_parquet(path, "host")
    except (pa.ArrowException, sa.Error):
        return False
    return True


def test_files_without_an_arrow_schema_have_the_types_that_pyarrow_reads(anywhere, tmp_path):
    """The files lack the Arrow schema that pyarrow and Saeta store in the metadata."""
    keys = pa.array([bytes(range(16)), None], pa.uuid())
    documents = pa.array(["{}", None], pa.json_())
    pq.write_table(pa.table({"key": keys, "document": documents}), tmp_path / "1.parquet", store_schema=False)
    expected = pq.read_table(tmp_path / "1.parquet")
    assert expected.schema.types == [pa.uuid(), pa.json_()]
    assert sa.read_parquet(tmp_path / "1.parquet", anywhere).to_arrow().equals(expected)
    with sa.scan_parquet(tmp_path / "1.parquet", anywhere) as scan:
        assert [batch.to_arrow().equals(expected) for batch in scan] == [True]


def test_a_scan_is_a_stream_and_an_asynchronous_iterator(host, folder):
    assert pa.table(sa.scan_parquet(folder, host, columns="n"))["n"].to_pylist() == list(range(30))

    async def read():
        return [row async for part in sa.scan_parquet(folder, host) for row in values(part)]

    assert asyncio.run(read()) == list(range(30))
    scan = sa.scan_parquet(folder, host)
    assert scan.num_batches == -1
    next(scan)
    scan.close()
    with pytest.raises(sa.ClosedError):
        next(scan)


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def test_a_batch_that_the_budget_refused_can_be_requested_again(device, tmp_path):
    rows = 1_000_000
    pq.write_table(pa.table({"n": np.arange(rows)}), tmp_path / "a.parquet", row_group_size=50_000)
    held, seen, refused = [], [], 0
    with (
        device.memory.child("small", rows * 6) as small,
        sa.scan_parquet(tmp_path, small, batch_size=50_000) as scan,
    ):
        while len(seen) + sum(part.num_rows for part in held) < rows:
            try:
                held.append(next(scan))
            except sa.BudgetExceeded:
                refused += 1
            if refused == 2:  # once more in vain, and then there is room
                seen += [value for part in held for value in values(part)]
                held.clear()
        seen += [value for part in held for value in values(part)]
        del held
    assert refused >= 2
    assert seen == list(range(rows))


def test_the_memory_of_a_scan_does_not_grow_with_the_files(device, tmp_path):
    for number in range(8):
        pq.write_table(pa.table({"n": np.arange(100_000)}), tmp_path / f"{number}.parquet")
    rows = 0
    with (
        device.memory.child("small", 3_000_000) as small,
        sa.scan_parquet(tmp_path, small, batch_size=10_000, in_flight=1) as scan,
    ):
        for part in scan:
            rows += part.num_rows
            del part
    assert rows == 800_000


def test_sources_without_files_are_a_missing_file_error(host, tmp_path):
    for source, text in (
        (f"{tmp_path}/no*.parquet", "no file matches"),
        (tmp_path, r"has no files that end in \.parquet"),
        ([tmp_path / "none.parquet", tmp_path / "other.parquet"], r"none\.parquet"),
    ):
        for read in (sa.read_parquet, sa.scan_parquet):
            with pytest.raises(sa.MissingFileError, match=text):
                read(source, host)
    with pytest.raises(sa.TypeMismatch, match="expected a path"):
        sa.read_parquet(3, host)


def test_a_schema_that_differs_names_the_file_and_the_column(host, tmp_path):
    first, other = tmp_path / "0.parquet", tmp_path / "1.parquet"
    pq.write_table(pa.table({"n": [1], "s": ["x"]}), first)
    for schema, text in (
        (pa.schema([("n", pa.int64()), ("t", pa.string())]), r"column 1 is 't' \(string\), expected 's'"),
        (pa.schema([("s", pa.string()), ("n", pa.int64())]), r"column 0 is 's'"),
        (pa.schema([("n", pa.int32()), ("s", pa.string())]), r"'n' \(int32\), expected 'n' \(int64\)"),
        (pa.schema([("n", pa.int64())]), r"column 1 is missing, expected 's'"),
        (pa.schema([("n", pa.int64()), ("s", pa.string()), ("u", pa.int8())]), "expected no such column"),
    ):
        pq.write_table(schema.empty_table(), other)
        for read in (sa.read_parquet, sa.scan_parquet):
            with pytest.raises(sa.TypeMismatch, match=text) as raised:
                read([first, other], host)
            assert str(other) in str(raised.value)
    pq.write_table(pa.table({"s": ["y"], "n": [2]}), other)
    assert sa.read_parquet(tmp_path, host, columns="n")["n"].to_pylist() == [1, 2]
    pq.write_table(pa.table({"s": ["y"]}), other)
    with pytest.raises(sa.TypeMismatch, match="column 0 is missing, expected 'n'"):
        sa.read_parquet(tmp_path, host, columns="n")


def test_a_given_schema_decides_about_nullability(host, tmp_path):
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    plain, filled = tmp_path / "0.parquet", tmp_path / "1.parquet"
    pq.write_table(pa.table({"n": [0, 1]}), plain)
    pq.write_table(pa.table({"n": [2, 3]}, schema=strict), filled)
    assert values(sa.read_parquet([plain, filled], host)) == [0, 1, 2, 3]
    assert values(sa.read_parquet([filled, plain], host)) == [2, 3, 0, 1]
    meant = sa.Schema({"n": "int64"})
    table = sa.read_parquet([filled, plain], host, schema=meant)
    assert values(table) == [2, 3, 0, 1]
    assert table.schema.field("n").nullable
    with pytest.raises(sa.TypeMismatch, match="not null"):
        sa.scan_parquet(plain, host, schema=strict)
    assert not sa.scan_parquet(filled, host, schema=strict).schema.field("n").nullable


def test_partitions_have_their_columns(host, tmp_path):
    for year in (2020, 2021):
        path = tmp_path / f"year={year}"
        path.mkdir()
        pq.write_table(pa.table({"n": [year]}), path / "a.parquet")
    for source in (tmp_path, f"{tmp_path}/*/*.parquet", tmp_path.as_uri()):
        table = sa.read_parquet(source, host, partitioning="hive", filters=[("year", ">", 2020)])
        assert (table["n"].to_pylist(), table["year"].to_pylist()) == ([2021], [2021])
    meant = pa.schema([("n", pa.int64())])
    table = sa.read_parquet(tmp_path, host, partitioning="hive", schema=meant)
    assert table.column_names == ["n", "year"]
    names = sa.read_parquet(tmp_path, host, partitioning=["y"], columns=["y"])
    assert names["y"].to_pylist() == ["year=2020", "year=2021"]
