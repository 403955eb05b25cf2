"""Scans exported as Arrow C streams, and imports of pyarrow's datasets and scanners, which have no C
stream."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def write(path, source, rows, opened=pa.ipc.new_file):
    with opened(path, source.schema) as writer:
        writer.write_table(source, max_chunksize=rows)
    return path


@pytest.fixture
def batched(tmp_path):
    return write(tmp_path / "batched.arrow", arrow_data.table(60), 20)


@pytest.fixture
def numbers(tmp_path):
    return write(tmp_path / "numbers.arrow", pa.table({"a": range(90), "b": np.arange(90.0)}), 30)


def test_a_scan_is_a_stream_of_its_batches(ctx, batched):
    with sa.scan_ipc(batched, ctx) as scan:
        reader = pa.RecordBatchReader.from_stream(scan)
        seen = pa.Table.from_batches(reader, reader.schema)
    assert [len(batch) for batch in seen.to_batches()] == [20, 20, 20]
    assert seen.equals(arrow_data.table(60))
    assert seen.schema.equals(arrow_data.table(60).schema, check_metadata=True)


def test_the_stream_continues_after_the_batches_already_iterated(host, numbers):
    with sa.scan_ipc(numbers, host) as scan:
        assert next(scan).num_rows == 30
        assert pa.table(scan)["a"].to_pylist() == list(range(30, 90))


def test_the_stream_reads_batches_lazily(host, numbers):
    with sa.scan_ipc(numbers, host, in_flight=1) as scan:
        reader = pa.RecordBatchReader.from_stream(scan)
        assert reader.read_next_batch()["a"][0].as_py() == 0
        assert next(scan)["a"][0] == 30
        assert reader.read_next_batch()["a"][0].as_py() == 60


@pytest.mark.parametrize("opened", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_a_scan_without_rows_or_columns_is_a_stream_of_its_schema(host, tmp_path, opened):
    source = arrow_data.table(60)
    path = write(tmp_path / "none.arrow", source.slice(0, 0), 20, opened)
    assert pa.table(sa.scan_ipc(path, host)).schema.equals(source.schema, check_metadata=True)
    path = write(tmp_path / "rows.arrow", source, 20, opened)
    reader = pa.RecordBatchReader.from_stream(sa.scan_ipc(path, host, columns=[]))
    assert [(len(batch), batch.num_columns) for batch in reader] == [(20, 0)] * 3


def test_duckdb_polars_and_pandas_import_a_scan(ctx, numbers):
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    scan = sa.scan_ipc(numbers, ctx)  # noqa: F841 - the query names it
    assert duckdb.sql("select count(*), sum(a) from scan where b >= 45").fetchall() == [
        (45, sum(range(45, 90)))
    ]
    assert polars.DataFrame(sa.scan_ipc(numbers, ctx)).sum().row(0) == (4005, 4005.0)
    assert sa.from_arrow(sa.scan_ipc(numbers, ctx), ctx).num_rows == 90
    assert sa.table(sa.scan_ipc(numbers, ctx), "host")["a"].to_pylist() == list(range(90))


def test_each_batch_keeps_its_dictionary_when_it_is_replaced(host, tmp_path):
    first, second = (pa.array(words).dictionary_encode() for words in (["a", "b"], ["c", "a"]))
    with pa.ipc.new_stream(tmp_path / "words", pa.schema([("w", first.type)])) as writer:
        for each in (first, second):
            writer.write_batch(pa.record_batch([each], ["w"]))
    assert pa.table(sa.scan_ipc(tmp_path / "words", host))["w"].to_pylist() == ["a", "b", "c", "a"]


def test_the_stream_of_a_scan_honours_the_requested_schema(host, tmp_path):
    source = pa.table({"a": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2))})
    path = write(tmp_path / "lists", source, 1)
    alike = sa.from_arrow(source, host)
    for wanted in (source.schema, pa.schema([("a", pa.list_(pa.float64()))])):
        shown = pa.RecordBatchReader.from_stream(alike, schema=wanted).schema
        assert pa.RecordBatchReader.from_stream(sa.scan_ipc(path, host), schema=wanted).schema == shown
    with pytest.raises(sa.InvalidError, match="requested_schema has 0 fields"):
        pa.RecordBatchReader.from_stream(sa.scan_ipc(path, host), schema=pa.schema([]))


def test_closing_a_scan_ends_its_stream(host, numbers):
    scan = sa.scan_ipc(numbers, host)
    reader = pa.RecordBatchReader.from_stream(scan)
    reader.read_next_batch()
    scan.close()
    with pytest.raises(Exception, match="the scan is closed"):
        reader.read_next_batch()
    with pytest.raises(sa.ClosedError, match="the scan is closed"):
        scan.__arrow_c_stream__()
    with pytest.raises(sa.ClosedError):
        sa.from_arrow(scan, host)


def test_an_exhausted_scan_is_an_error_not_an_empty_stream(host, numbers):
    scan = sa.scan_ipc(numbers, host)
    late = pa.RecordBatchReader.from_stream(scan)
    assert pa.table(scan).num_rows == 90
    with pytest.raises(sa.ClosedError, match="at its end: scan the source again"):
        scan.__arrow_c_stream__()
    with pytest.raises(Exception, match="at its end"):
        late.read_next_batch()
    assert list(scan) == []


def test_an_error_of_a_batch_reaches_the_consumer_with_its_text(host, batched):
    cut = batched.parent / "cut.arrow"
    write(cut, arrow_data.table(60), 20, pa.ipc.new_stream)
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with pytest.raises(Exception, match=r"cut\.arrow"):
        pa.table(sa.scan_ipc(cut, host))


def test_a_stream_keeps_its_scan_alive(host, numbers):
    reader = pa.RecordBatchReader.from_stream(sa.scan_ipc(numbers, host))
    gc.collect()
    assert reader.read_all().num_rows == 90


@pytest.fixture
def dataset(tmp_path):
    ds.write_dataset(
        pa.table({"a": range(90), "b": ["x", "y", "z"] * 30}),
        tmp_path / "set",
        format="parquet",
        max_rows_per_group=30,
        max_rows_per_file=30,
    )
    return ds.dataset(tmp_path / "set")


def test_datasets_and_scanners_of_pyarrow_are_imported(ctx, dataset):
    for source in (dataset, dataset.scanner(), dataset.filter(ds.field("a") >= 0)):
        for taken in (sa.from_arrow, sa.table):
            table = taken(source, ctx)
            assert (table.device, sorted(table["a"].to_pylist())) == (ctx.device, list(range(90)))
    some = dataset.scanner(columns=["b"], filter=ds.field("a") < 2)
    assert sa.table(some, ctx).to_pydict() == {"b": ["x", "y"]}
    schema = sa.schema([("a", "int64"), ("b", "string")])
    assert sa.table(dataset, ctx, schema=schema).schema == schema
    assert sa.from_arrow(ds.dataset(pa.table({"a": [1]})), ctx, as_column=True).type.name.startswith("struct")


def test_an_unreadable_dataset_raises_saetas_error(host, dataset):
    gone = dataset.files[1]
    Path(gone).unlink()
    with pytest.raises(sa.Error, match="parquet"):
        sa.from_arrow(dataset, host)
