"""Large compressed batches of other writers, which are decoded in parts of their rows."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

import saeta as sa
from arrow_data import arrays, nested, nested_twice

MIB = 1 << 20
CODECS = ["lz4", "zstd"]
ROWS = 3_000_000  # 72 MB of values
UNDIVIDED = ("view", "run_end_encoded", "dense_union")


def packed(table, codec):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=max(table.num_rows, 1))
    return sink.getvalue()


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(5)
    numbers = pa.array(random.integers(0, 1 << 30, ROWS))
    names = pa.array([f"name {i}" for i in range(4096)]).take(pa.array(random.integers(0, 4096, ROWS)))
    fares = pa.array(random.integers(0, 5000, ROWS).astype(np.float32), mask=random.random(ROWS) < 0.1)
    return pa.table({"id": numbers, "name": names, "fare": fares})


@pytest.fixture(scope="module", params=CODECS)
def content(request, frame):
    return packed(frame, request.param)


def expect_parts(scan, table):
    """Takes a scan's tables one after the other, so that none of them stays in memory."""
    seen = parts = 0
    for part in scan:
        there = pa.RecordBatchReader.from_stream(part).read_all()
        assert there.equals(table.slice(seen, part.num_rows).combine_chunks()), seen
        seen += part.num_rows
        parts += 1
        del part, there
    assert seen == table.num_rows
    assert parts > 1


def test_a_batch_larger_than_the_budget_is_scanned(content, frame, host):
    with host.memory.child("small", "32MiB") as small, sa.scan_ipc(content, small) as scan:
        expect_parts(scan, frame)


def test_few_columns_in_batches_of_rows_from_a_file(content, frame, host, tmp_path):
    path = tmp_path / "one.arrow"
    path.write_bytes(content)
    options = {"columns": ["fare", "name"], "batch_size": 100_000, "copy": True}
    with host.memory.child("small", "24MiB") as small, sa.scan_ipc(path, small, **options) as scan:
        expect_parts(scan, frame.select(["fare", "name"]))


@pytest.mark.parametrize("codec", CODECS)
def test_every_divided_type(host, codec):
    for name, array in (arrays(500) | nested(500) | nested_twice(500)).items():
        if any(word in str(array.type) for word in UNDIVIDED) or pa.types.is_null(array.type):
            continue
        table = pa.table({name: pa.concat_arrays([array] * (24 * MIB // max(array.nbytes, 1)))})
        with host.memory.child("small", "20MiB") as small, sa.scan_ipc(packed(table, codec), small) as scan:
            expect_parts(scan, table)


def expect_refusal(scan, reason):
    with pytest.raises(sa.BudgetExceeded, match=reason):
        next(scan)


def test_a_batch_of_views_names_the_reason(host):
    table = pa.table(
        {"n": np.arange(2_000_000), "x": pa.array(["a long text indeed"] * 2_000_000, pa.string_view())}
    )
    reason = r"read as a whole because of column 'x' of string_view"
    with host.memory.child("small", "8MiB") as small, sa.scan_ipc(packed(table, "zstd"), small) as scan:
        expect_refusal(scan, reason)


def test_a_wide_batch_names_its_decoders(host):
    table = pa.table({f"c{i}": np.arange(300_000) * i for i in range(40)})
    with host.memory.child("small", "16MiB") as small, sa.scan_ipc(packed(table, "zstd"), small) as scan:
        expect_refusal(scan, r"a decoder in memory for each of its buffers.*batch_size=")


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_broken_bytes_end_the_scan(content, host, at):
    broken = bytearray(content)
    place = int(len(broken) * at)
    broken[place : place + 100_000] = b"\xff" * 100_000
    with (
        host.memory.child("small", "32MiB") as small,
        sa.scan_ipc(bytes(broken), small, validate="utf8") as scan,
    ):
        seen = []
        with pytest.raises(sa.FormatError, match="batch 0") as caught:
            seen.extend(part.num_rows for part in scan)
        assert "column" in str(caught.value)
        assert sum(seen) < ROWS
        with pytest.raises(StopIteration):
            next(scan)


def test_a_loader_reads_a_batch_larger_than_the_budget(content, frame, host, tmp_path):
    path = tmp_path / "one.arrow"
    path.write_bytes(content)
    options = {"columns": ["id", "name"], "to": "table", "batch_size": 8192}
    with (
        host.memory.child("small", "32MiB") as small,
        sa.loader(path, small, window="4MiB", **options) as loader,
    ):
        seen = 0
        for batch in loader:
            expected = frame.select(["id", "name"]).slice(seen, batch.num_rows).combine_chunks()
            assert pa.table(batch).equals(expected)
            seen += batch.num_rows
            del batch
        assert seen == ROWS


def test_a_loader_decodes_a_batch_once(content, tmp_path):
    path = tmp_path / "one.arrow"
    path.write_bytes(content)

    def read_bytes():
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read_bytes()
    with sa.loader(path, "host", window="4MiB", to="numpy", batch_size=8192, columns=["id"]) as loader:
        assert sum(len(batch["id"]) for batch in loader) == ROWS
    assert read_bytes() - before < 1.2 * len(content)


def test_a_batch_in_a_store_is_scanned(content, frame, host):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/one.arrow", content)
    with (
        host.memory.child("small", "32MiB") as small,
        sa.scan_ipc("/one.arrow", small, filesystem=store) as scan,
    ):
        expect_parts(scan, frame)


def test_a_loader_of_a_broken_batch_reports_it_when_it_reads(content, tmp_path):
    path = tmp_path / "one.arrow"
    start = content.index(b"\x04\x22\x4d\x18" if b"\x04\x22\x4d\x18" in content else b"\x28\xb5\x2f\xfd")
    path.write_bytes(content[: start - 8] + b"\xff" * 7 + b"\x7f" + content[start:])
    with (
        sa.loader(path, "host", window="4MiB", to="numpy", batch_size=8192, columns=["id"]) as loader,
        pytest.raises(sa.FormatError, match="bytes when decoded"),
    ):
        next(iter(loader))
