"""Parquet on a host with a budget: the same rows as without, and memory of pyarrow that stays below it."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import arrow_data
import saeta as sa
from saeta._parquet.limited import names_in
from sim_devices import contexts_of

ROWS = 20_000
REFUSED = {"interval", "dense_union", "sparse_union", "run_end_encoded", "dictionary of struct"}


@pytest.fixture
def limited(host):
    with host.memory.child("limited", "64MiB") as child:
        yield child


def held(ctx):
    now = ctx.memory.statistics()
    return {name: now[name] for name in ("current", "reserved", "external")}


NOTHING = {"current": 0, "reserved": 0, "external": 0}


def same(one, other):
    """Compares rows. Batches may be cut elsewhere."""
    assert one.schema.equals(other.schema)
    assert one.num_rows == other.num_rows
    assert one.to_arrow().schema.equals(other.to_arrow().schema, check_metadata=True)
    assert one.to_pylist() == other.to_pylist()


@pytest.fixture
def files(tmp_path):
    """Two files in folders of two years, with row groups of different sizes, one without rows."""
    for year, rows in ((2030, 900), (2031, 0), (2032, 1300)):
        folder = tmp_path / "data" / f"year={year}"
        folder.mkdir(parents=True)
        numbers = np.arange(rows)
        table = pa.table(
            {
                "n": numbers,
                "t": pa.array([f"text {i % 7}" if i % 5 else None for i in numbers], pa.string()),
                "d": pa.array([f"word {i % 3}" for i in numbers], pa.string()).dictionary_encode(),
                "l": pa.array([[i] * (i % 3) for i in numbers], pa.list_(pa.int32())),
                "s": pa.array(
                    [{"x": i, "y": str(i)} for i in numbers], pa.struct([("x", "i4"), ("y", "string")])
                ),
                "f": numbers / 2 if year == 2030 else pa.nulls(rows),
            }
        )
        pq.write_table(table, folder / "a.parquet", row_group_size=250 if year == 2030 else 1000)
    return tmp_path / "data"


CHOICES = {
    "all": {},
    "columns": {"columns": ["t", "n"]},
    "no columns": {"columns": []},
    "a partition alone": {"columns": "year"},
    "filters of a column that is read": {"columns": ["n", "d"], "filters": [("n", ">=", 850)]},
    "filters of other columns": {"columns": "l", "filters": [("t", "==", "text 3"), ("year", "<", 2032)]},
    "filters of a partition": {"filters": [("year", "==", 2032)]},
    "filters that leave nothing": {"columns": "n", "filters": [("n", "<", -1)]},
    "alternatives": {"filters": [[("n", "<", 3)], [("d", "=", "word 1"), ("n", ">", 1200)]]},
    "an expression": {"columns": ["f"], "filters": (ds.field("s", "x") > 10) & ds.field("t").is_valid()},
    "no partitions": {"partitioning": None},
    "small batches": {"batch_size": 7},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_budget_changes_no_rows(host, limited, files, choice):
    options = CHOICES[choice]
    expected = sa.read_parquet(files, host, **options)
    same(sa.read_parquet(files, limited, **options), expected)
    with sa.scan_parquet(files, limited, **options) as scan:
        assert scan.schema.equals(expected.schema)
        parts = list(scan)
    assert sum(part.num_rows for part in parts) == expected.num_rows
    if parts:
        same(sa.concat_tables(parts), expected)
    del parts
    gc.collect()
    assert held(limited) == NOTHING


@pytest.mark.parametrize("nulls", ["some", "all"])
def test_values_of_every_type_are_charged_and_equal(host, limited, tmp_path, nulls):
    arrays = {name: each for name, each in arrow_data.arrays(nulls=nulls).items() if name not in REFUSED}
    pq.write_table(pa.table(arrays), tmp_path / "a.parquet")
    for name in arrays:
        table = sa.read_parquet(tmp_path / "a.parquet", limited, columns=name)
        same(table, sa.read_parquet(tmp_path / "a.parquet", host, columns=name))
        assert held(limited)["external"] == 0, name
        assert held(limited)["current"] >= table.nbytes, name
    del table
    assert held(limited) == NOTHING


def test_indices_of_pandas_are_charged(limited, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": np.arange(ROWS)}, index=pd.Index(np.arange(ROWS) * 2, name="i"))
    frame.to_parquet(tmp_path / "a.parquet")
    table = sa.read_parquet(tmp_path / "a.parquet", limited, index=True)
    assert table.column_names == ["a", "i"]
    assert held(limited)["current"] >= table.nbytes == 16 * ROWS


def test_a_limit_above_a_child_binds(host, tmp_path):
    pq.write_table(pa.table({"a": np.arange(1 << 20)}), tmp_path / "a.parquet")
    with host.memory.child("outer", "4MiB") as outer, outer.memory.child("inner") as inner:
        assert inner.memory.statistics()["limit"] is None
        assert inner.memory.statistics()["remaining"] == 4 << 20
        with pytest.raises(sa.BudgetExceeded):
            sa.read_parquet(tmp_path / "a.parquet", inner)
        with sa.scan_parquet(tmp_path / "a.parquet", inner) as scan:
            assert max(part.num_rows for part in scan) == (4 << 20) // 8 // 8
    assert host.memory.child("free").memory.statistics()["remaining"] is None


def test_decoding_that_does_not_fit_names_the_file_and_the_bytes(host, tmp_path):
    pq.write_table(pa.table({"a": np.arange(1 << 20), "t": ["x"] * (1 << 20)}), tmp_path / "a.parquet")
    with host.memory.child("tiny", "1MiB") as tiny, sa.scan_parquet(tmp_path / "a.parquet", tiny) as scan:
        for _ in range(2):
            with pytest.raises(
                sa.BudgetExceeded, match=r"decoding \d+ rows of '.*a\.parquet' takes \d+ bytes"
            ) as no:
                next(scan)
            assert no.value.layer == "tiny"
            assert no.value.limit == 1 << 20 < no.value.requested
        assert held(tiny)["reserved"] == 0


def test_rows_that_are_larger_than_metadata_tell_are_refused_with_their_bytes(host, tmp_path):
    long = pa.array(["x" * 100_000] * 500).dictionary_encode().cast(pa.string())
    pq.write_table(pa.table({"t": long}), tmp_path / "a.parquet")
    with host.memory.child("small", "8MiB") as small:
        with pytest.raises(sa.BudgetExceeded, match=r"decoding 500 rows") as refused:
            sa.read_parquet(tmp_path / "a.parquet", small)
        assert refused.value.requested > 50_000_000
        del refused
        assert held(small) == NOTHING


def test_a_scan_charges_what_is_decoded_until_it_ends(limited, files):
    scan = sa.scan_parquet(files, limited, batch_size=100, in_flight=1)
    next(scan)
    assert held(limited)["reserved"] > 0
    scan.close()
    gc.collect()
    assert held(limited) == NOTHING
    with sa.scan_parquet(files, limited) as scan:
        assert sum(part.num_rows for part in scan) == 2200
        assert held(limited)["reserved"] == 0


def test_what_is_decoded_for_a_device_counts_in_the_budget_of_the_host(host, tmp_path):
    pq.write_table(pa.table({"a": np.arange(1 << 18)}), tmp_path / "a.parquet")
    for ctx in contexts_of("sim"):
        host.memory.limit = "64MiB"
        table = sa.read_parquet(tmp_path / "a.parquet", ctx)
        assert table["a"].to_pylist()[-1] == (1 << 18) - 1
        host.memory.limit = "64KiB"
        with pytest.raises(sa.BudgetExceeded, match="of host memory"):
            sa.read_parquet(tmp_path / "a.parquet", ctx)


def test_columns_of_an_expression_are_found():
    schema = pa.schema(
        [(f"c{number}", pa.int64()) for number in range(300)] + [("s", pa.struct([("x", "i4")]))]
    )
    expression = (ds.field("c7") > 1) | (ds.field("s", "x") == 2) | ds.field("c299").is_null()
    assert names_in(expression, schema) == ["c7", "c299", "s"]
    assert names_in(ds.scalar(True), schema) == []
    with pytest.raises(pa.ArrowInvalid, match="missing"):
        names_in(ds.field("missing") > 1, schema)


def test_names_that_occur_twice_are_refused(limited, tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(sa.Error, match="more than one column is named 'a'"):
        sa.read_parquet(tmp_path / "a.parquet", limited)


def test_files_of_a_file_system_are_read(limited, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    table = sa.table({"a": np.arange(ROWS)}, limited)
    memory = fsspec.filesystem("memory")
    table.write_parquet("/budget/a.parquet", filesystem=memory)
    assert sa.read_parquet("/budget/a.parquet", limited, filesystem=memory).equals(table)
    assert sa.read_parquet("memory://budget", limited).equals(table)
    local = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    table.write_parquet("a.parquet", filesystem=local)
    assert sa.read_parquet("a.parquet", limited, filesystem=local).equals(table)


PEAK = """if True:
    import pyarrow as pa, saeta as sa
    limit = {limit}
    ctx = sa.context("host").memory.child("limited", limit)
    rows = 0
    if {way!r} == "scan":
        with sa.scan_parquet({path!r}, ctx) as scan:
            for batch in scan:
                rows += batch.num_rows
    else:
        options = dict(columns=["a", "b"], batch_size=1000, to="numpy", window=limit // 16)
        with sa.loader({path!r}, ctx, **options) as loader:
            rows = sum(len(batch["a"]) for batch in loader)
    print(rows, pa.default_memory_pool().max_memory(), ctx.memory.statistics()["peak"])
"""


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize(("way", "limit"), [("scan", 16 << 20), ("scan", 64 << 20), ("loader", 64 << 20)])
def test_pyarrow_holds_less_than_the_budget(run_python, tmp_path, codec, groups, way, limit):
    """A file of 116 MB. pyarrow's own pool is measured in a process that has only read it."""
    rows = 1 << 21
    numbers = np.arange(rows)
    texts = pa.array([f"text {number % 977:06d} of several words" for number in range(1024)])
    table = pa.table(
        {"a": numbers, "b": np.random.default_rng(1).random(rows), "t": texts.take(pa.array(numbers % 1024))}
    )
    path = str(tmp_path / "a.parquet")
    pq.write_table(table, path, row_group_size=rows // groups, compression=codec)
    del table
    done = run_python(PEAK.format(path=path, way=way, limit=limit))
    assert done.returncode == 0, done.stderr
    read, pool, peak = map(int, done.stdout.split())
    assert read == rows
    assert pool < limit
    assert peak <= limit


CONVERTED = """if True:
    import sys
    import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    import saeta as sa

    folder = {folder!r}
    ctx = sa.context("host")
    ctx.memory.limit = {limit}
    first, second, third = (folder + name for name in ("/a.parquet", "/b.arrow", "/c.parquet"))
    with sa.scan_parquet(first, ctx) as scan, sa.ipc_writer(second, pending="2MiB") as writer:
        for batch in scan:
            writer.write(batch)
            del batch
    peaks = [ctx.memory.statistics()["peak"]]
    pool = pa.default_memory_pool().max_memory()
    ctx.memory.reset_peak()
    with sa.scan_ipc(second, ctx, window="1MiB", copy=True) as scan, sa.parquet_writer(third) as writer:
        for batch in scan:
            writer.write(batch)
            del batch
    peaks.append(ctx.memory.statistics()["peak"])
    print(pq.read_metadata(third).num_row_groups, pool, *peaks)
"""


def test_files_that_are_larger_than_the_budget_are_converted_both_ways(run_python, tmp_path):
    rows, limit = 1 << 21, 32 << 20
    numbers = np.arange(rows)
    texts = pa.array([f"text {number:06d} of several words" for number in range(1024)])
    table = pa.table({"a": numbers, "b": numbers / 3, "t": texts.take(pa.array(numbers % 1024))})
    assert table.nbytes > 3 * limit
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows)
    done = run_python(CONVERTED.format(folder=str(tmp_path), limit=limit))
    assert done.returncode == 0, done.stderr
    groups, pool, *peaks = map(int, done.stdout.split())
    assert groups > 1
    assert pool < limit
    assert max(peaks) <= limit
    assert pa.ipc.open_file(str(tmp_path / "b.arrow")).read_all().equals(table)
    assert pq.read_table(tmp_path / "c.parquet").equals(table)
