"""Arrow streams, scans that read ahead, Parquet, and sources that read byte ranges."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
import time
from collections import deque

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import arrow_data
import saeta as sa
from sim_devices import simulator
from threads import run_in_threads
from waiting import eventually


@pytest.fixture
def batched(tmp_path):
    path = tmp_path / "batched.arrow"
    table = arrow_data.table(100)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return path


def threads():
    return sum(thread.name == "saeta-scan" for thread in threading.enumerate())


# Streams whose next batch is produced while the previous one is uploaded.


def slow_reader(count, seconds=0.002, fail_at=None, seen=None):
    schema = pa.schema([("a", pa.int64())])

    def batches():
        for number in range(count):
            if seen is not None:
                seen.append(threading.get_ident())
            if seconds is not None:
                time.sleep(seconds)
            if number == fail_at:
                raise RuntimeError("the producer broke")
            yield pa.record_batch([pa.array(range(number * 10, number * 10 + 10))], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.parametrize("device", ["host", "sim"])
def test_a_slow_producer_works_during_the_upload(device):
    simulated = simulator().Device() if device == "sim" else None
    ctx = simulated.context if simulated else sa.context("host")
    seen = []
    table = sa.from_arrow(slow_reader(20, seen=seen), ctx, copy=None if simulated else True)
    assert table["a"].to_pylist() == list(range(200))
    assert table.num_batches == 20
    assert seen[0] == threading.get_ident(), "the first call decides whether a thread is used"
    assert set(seen[1:]) != {threading.get_ident()}
    assert not simulated or simulated.races == []


def test_a_fast_producer_is_called_on_the_same_thread(host):
    def asked_here():
        seen = []
        assert sa.from_arrow(slow_reader(20, seconds=None, seen=seen), host, copy=True).num_rows == 200
        return seen.count(threading.get_ident())

    # On a busy machine a slow call may start the thread, so one fast attempt of many is enough.
    assert any(asked_here() > 5 for _ in range(50))


@pytest.mark.parametrize("at", [0, 1, 5, 19])
def test_a_failing_producer_leaks_nothing(host, at):
    with pytest.raises(sa.Error, match="the producer broke"):
        sa.from_arrow(slow_reader(20, fail_at=at), host, copy=True)
    assert host.memory.statistics()["current"] == 0


def test_a_stream_that_exceeds_the_budget_ends(host):
    host.memory.limit = 1000
    with pytest.raises(sa.BudgetExceeded):
        sa.from_arrow(slow_reader(50), host, copy=True)
    assert host.memory.statistics()["current"] == 0


INTERRUPTED = """
import itertools, os, signal, threading, time
import pyarrow as pa
import saeta as sa

schema = pa.schema([("a", pa.int64())])
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
def batches():
    for number in itertools.count():
        if number == 10:  # a count instead of a time, because pyarrow's first array imports pandas
            threading.Timer(0.1, interrupt).start()
        time.sleep(0.01)
        yield pa.record_batch([pa.array([1])], schema)
try:
    sa.from_arrow(pa.RecordBatchReader.from_batches(schema, batches()), sa.context("host"))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0] < 5)
"""


def test_an_endless_stream_is_interrupted(run_python):
    done = run_python(INTERRUPTED)
    assert done.stdout == "interrupted True\n", done.stderr


def test_streams_of_other_libraries(anywhere, tmp_path):
    table = pa.table({"a": range(5000), "s": [f"row {i}" for i in range(5000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    scanner = ds.dataset(tmp_path / "a.parquet").scanner(batch_size=500)
    assert sa.from_arrow(scanner.to_reader(), anywhere).to_arrow().equals(table)
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql("select i, i * 2 as j from range(10000) t(i)")
    assert sa.from_arrow(found, anywhere)["j"].to_numpy().sum() == 99_990_000
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(tmp_path / "a.parquet")
    assert sa.from_arrow(frame, anywhere)["a"].to_numpy().sum() == 12_497_500


# Scans.


def test_a_scan_yields_the_batches_in_order(anywhere, batched):
    expected = arrow_data.table(100)
    for in_flight in (1, 2, 50):
        with sa.scan_ipc(batched, anywhere, in_flight=in_flight) as scan:
            assert (scan.num_batches, scan.schema.names) == (10, expected.column_names)
            parts = list(scan)
        assert [part.num_rows for part in parts] == [10] * 10
        assert sa.concat_tables(parts).to_arrow().equals(expected)
    assert threads() == 0


def test_a_scan_accepts_columns_batches_and_bytes(host, batched):
    expected = arrow_data.table(100).select(["string", "int8"]).slice(30, 40)
    for source in (batched, batched.read_bytes()):
        parts = list(sa.scan_ipc(source, host, columns=["string", "int8"], batches=(3, 7)))
        assert sa.concat_tables(parts).to_arrow().equals(expected)
        assert list(sa.scan_ipc(source, host, batches=slice(0, 0))) == []
    with pytest.raises(sa.InvalidError, match="in_flight"):
        sa.scan_ipc(batched, host, in_flight=0)
    with pytest.raises(FileNotFoundError):
        sa.scan_ipc(batched.parent / "missing", host)


def test_in_flight_limits_the_memory_of_a_scan(host, tmp_path):
    path = tmp_path / "big.arrow"
    rows, count = 100_000, 20
    table = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, rows * count)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    host.memory.reset_peak()
    total = 0
    with sa.scan_ipc(path, host, copy=True, window=rows * 8, in_flight=2) as scan:
        for batch in scan:
            if not total:  # gives the thread time to read ahead
                assert eventually(lambda: host.memory.statistics()["current"] >= 3 * rows * 8, collect=False)
            total += batch.num_rows
    assert total == rows * count
    # Two batches in flight, one being read and one in use.
    assert host.memory.statistics()["peak"] <= 4.5 * rows * 8
    del batch


@pytest.mark.parametrize("source", ["object", "file"])
def test_a_scan_continues_when_the_budget_has_room_again(host, tmp_path, source):
    path = tmp_path / "big.arrow"
    rows = 10_000
    table = pa.table({"a": np.arange(rows * 6)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    host.memory.limit = int(1.5 * rows * 8)
    seen = taken = 0
    with host.memory.window() as window, path.open("rb") as opened:
        for batch in sa.scan_ipc(
            opened if source == "object" else path, host, copy=True
        ):  # enumerate would keep a reference to the batch
            seen += int(batch["a"].to_numpy().sum())
            taken += 1
            if source == "object":  # windows of a file are smaller than the budget
                assert taken == 6 or eventually(
                    lambda so_far=taken: window.refused >= so_far, collect=False
                ), "no batch was refused"
            del batch
    assert seen == sum(range(rows * 6))
    held = []
    with pytest.raises(sa.BudgetExceeded), path.open("rb") as opened:
        held.extend(sa.scan_ipc(opened if source == "object" else path, host, copy=True))


def test_async_for(host, batched):
    async def read():
        return [batch.num_rows async for batch in sa.scan_ipc(batched, host)]

    assert asyncio.run(read()) == [10] * 10


def test_a_scan_that_is_closed_or_dropped_ends_its_thread(host, batched):
    scan = sa.scan_ipc(batched, host)
    first = next(scan)
    scan.close()
    assert threads() == 0
    with pytest.raises(sa.ClosedError):
        next(scan)
    assert first.num_rows == 10
    scan = sa.scan_ipc(batched, host)
    next(scan)
    del scan
    gc.collect()
    assert eventually(lambda: threads() == 0, collect=False)


def _counted(scan, taken):
    for batch in scan:
        taken.append(batch.num_rows)
        yield batch


def test_a_failure_is_raised_at_its_batch(host, batched):
    whole = bytearray(batched.read_bytes())
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, arrow_data.table(100).schema) as writer:
        writer.write_table(arrow_data.table(100), max_chunksize=10)
    whole = stream.getvalue()
    taken = []
    with pytest.raises(sa.FormatError, match="batch"):
        deque(_counted(sa.scan_ipc(whole[: len(whole) // 2], host), taken), maxlen=0)
    assert 0 < len(taken) < 10


def test_readers_are_context_managers(host, batched):
    with sa._ipc.open_file(batched) as reader:
        table = reader.next(host)
    with pytest.raises(sa.ClosedError):
        reader.next(host)
    with pytest.raises(sa.ClosedError):
        _ = reader.schema
    assert table.to_arrow().equals(arrow_data.table(100).slice(0, 10))


def test_to_batches(host, batched):
    table = sa.read_ipc(batched, host)
    assert [batch.num_rows for batch in table.to_batches()] == [10] * 10
    parts = table.to_batches(4)
    assert [batch.num_rows for batch in parts] == [4, 4, 2] * 10
    assert sa.concat_tables(parts).to_arrow().equals(table.to_arrow())
    with pytest.raises(sa.InvalidError, match="max_chunksize"):
        table.to_batches(0)


# Sources that read ranges.


class Seekable(io.RawIOBase):
    """A seekable file object without a descriptor, which returns few bytes per read."""

    def __init__(self, content):
        self.inner = io.BytesIO(content)
        self.calls = 0

    def seekable(self):
        return True

    def seek(self, *where):
        return self.inner.seek(*where)

    def tell(self):
        return self.inner.tell()

    def read(self, count=-1):
        self.calls += 1
        return self.inner.read(min(count, 1000) if count >= 0 else -1)


def test_file_objects_are_read_by_ranges(anywhere, batched, tmp_path):
    expected = arrow_data.table(100)
    content = batched.read_bytes()
    local = pa.fs.LocalFileSystem()
    for source in (
        Seekable(content),
        pa.BufferReader(content),
        local.open_input_file(str(batched)),
        pa.PythonFile(io.BytesIO(content), "r"),
    ):
        assert sa.read_ipc(source, anywhere).to_arrow().equals(expected)
    assert sa.read_ipc(str(batched), anywhere, filesystem=local).to_arrow().equals(expected)
    assert sa.read_ipc(batched.as_uri(), anywhere).to_arrow().equals(expected)
    with pytest.raises(FileNotFoundError):
        sa.read_ipc(str(tmp_path / "missing"), anywhere, filesystem=local)
    with pytest.raises(sa.TypeMismatch, match="filesystem"):
        sa.read_ipc(str(batched), anywhere, filesystem=7)


def test_only_the_requested_columns_are_read(host, tmp_path):
    rows = 200_000
    table = pa.table({f"c{i}": np.random.default_rng(i).random(rows) for i in range(10)})
    path = tmp_path / "wide.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows // 2)
    size = path.stat().st_size
    read = []

    def fill(offset, target):
        read.append(len(target))
        with path.open("rb") as file:
            file.seek(offset)
            assert file.readinto(target) == len(target)

    reader = sa._ipc.open_ranges(fill, "ranges", size, ["c3"])
    seen = reader.read_all(host)
    assert seen.to_arrow().equals(table.select(["c3"]))
    assert sum(read) < size / 5
    assert host.memory.statistics()["current"] >= rows * 8, "the batches in memory are charged"


def test_large_ranges_are_read_concurrently(host, tmp_path):
    table = pa.table({"a": np.random.default_rng(3).random(4_000_000)})
    path = tmp_path / "large.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    running, most = set(), 0
    lock, several = threading.Lock(), threading.Event()

    def fill(offset, target):
        nonlocal most
        with lock:
            running.add(offset)
            most = max(most, len(running))
        if most > 2:
            several.set()
        elif len(target) > 1 << 20 and not several.wait(60):
            several.set()  # the other reads need not wait for this one
        with path.open("rb") as file:
            file.seek(offset)
            assert file.readinto(target) == len(target)
        with lock:
            running.discard(offset)

    reader = sa._ipc.open_ranges(fill, "ranges", path.stat().st_size)
    assert reader.read_all(host).to_arrow().equals(table)
    assert most > 2


def test_an_error_of_the_object_is_propagated(host, batched):
    content = batched.read_bytes()

    def read(offset, target):
        if offset > 3000:
            raise ConnectionError("the network has gone")
        target[:] = content[offset : offset + len(target)]

    with pytest.raises(ConnectionError, match="the network has gone"):
        sa._ipc.open_ranges(read, "far", len(content)).read_all(host)


def test_an_object_that_returns_too_few_bytes_is_an_error(host, batched):
    class Short(Seekable):
        def read(self, count=-1):
            return b""

    with pytest.raises(sa.FileError, match="at offset"):
        sa.read_ipc(Short(batched.read_bytes()), host)


def test_fsspec(host, batched):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/in/batched.arrow", batched.read_bytes())
    expected = arrow_data.table(100)
    assert sa.read_ipc("/in/batched.arrow", host, filesystem=memory).to_arrow().equals(expected)
    assert sa.read_ipc("memory://in/batched.arrow", host).to_arrow().equals(expected)
    with memory.open("/in/batched.arrow", "rb") as file:
        assert sa.read_ipc(file, host).to_arrow().equals(expected)


def test_a_file_system_with_fsspecs_interface(host, batched):
    class Store:
        def info(self, path):
            if path != "there":
                raise FileNotFoundError(path)
            return {"size": batched.stat().st_size}

        def cat_file(self, path, start, end):
            return batched.read_bytes()[start:end]

    assert sa.read_ipc("there", host, filesystem=Store()).to_arrow().equals(arrow_data.table(100))
    with pytest.raises(FileNotFoundError):
        sa.read_ipc("elsewhere", host, filesystem=Store())


# Parquet.


@pytest.fixture
def parquet(tmp_path):
    table = pa.table(
        {
            "a": range(10_000),
            "s": [None if i % 7 == 0 else f"row {i % 50}" for i in range(10_000)],
            "l": [[i, i + 1] for i in range(10_000)],
            "d": pa.array([f"kind {i % 3}" for i in range(10_000)]).dictionary_encode(),
        }
    )
    path = tmp_path / "data.parquet"
    pq.write_table(table, path, row_group_size=1500)
    return path, table


def test_parquet(anywhere, parquet):
    path, table = parquet
    assert sa.read_parquet(path, anywhere).to_arrow().combine_chunks().equals(table.combine_chunks())
    assert (
        sa.read_parquet(str(path), anywhere, columns=["s", "a"]).to_arrow().equals(table.select(["s", "a"]))
    )
    kept = sa.read_parquet(path, anywhere, columns="a", filters=[("a", ">=", 9_000), ("s", "==", "row 3")])
    expected = [i for i in range(9_000, 10_000) if i % 50 == 3 and i % 7 != 0]
    assert kept["a"].to_pylist() == expected
    by_expression = sa.read_parquet(path, anywhere, columns="a", filters=ds.field("a") < 5)
    assert by_expression["a"].to_pylist() == [0, 1, 2, 3, 4]
    assert max(batch.num_rows for batch in sa.read_parquet(path, anywhere, batch_size=100).batches) <= 100


def test_parquet_of_folders_and_file_systems(host, parquet, tmp_path):
    path, _ = parquet
    assert sa.read_parquet(path.as_uri(), host, columns=["a"]).num_rows == 10_000
    assert sa.read_parquet([str(path), str(path)], host, columns="a").num_rows == 20_000
    local = pa.fs.LocalFileSystem()
    assert sa.read_parquet(str(path), host, filesystem=local).num_rows == 10_000


@pytest.mark.parametrize(("flavor", "chosen"), [("hive", "hive"), (None, ["d"])])
def test_parquet_has_the_columns_of_hive_partitions(host, parquet, tmp_path, flavor, chosen):
    table = parquet[1]
    ds.write_dataset(
        table, tmp_path / "parts", format="parquet", partitioning=["d"], partitioning_flavor=flavor
    )
    whole = sa.read_parquet(tmp_path / "parts", host, partitioning=chosen)
    assert whole.column_names == ["a", "s", "l", "d"]
    expected = dict(zip(range(10_000), table["d"].to_pylist(), strict=True))
    assert dict(zip(whole["a"].to_pylist(), whole["d"].to_pylist(), strict=True)) == expected
    kept = sa.read_parquet(tmp_path / "parts", host, partitioning=chosen, filters=[("d", "==", "kind 1")])
    assert sorted(kept["a"].to_pylist()) == [*range(1, 10_000, 3)]
    plain = sa.read_parquet(tmp_path / "parts", host, partitioning=None)
    assert plain.column_names == ["a", "s", "l"]


def test_errors_for_missing_or_invalid_parquet(host, parquet, tmp_path):
    path, _ = parquet
    with pytest.raises(FileNotFoundError):
        sa.read_parquet(tmp_path / "missing.parquet", host)
    with pytest.raises(sa.InvalidError, match=r"'x'.*'a'"):
        sa.read_parquet(path, host, columns=["x"])
    with pytest.raises(sa.InvalidError, match="batch_size"):
        sa.read_parquet(path, host, batch_size=0)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing that follows PAR1")
    with pytest.raises(sa.FormatError, match=r"bad\.parquet"):
        sa.read_parquet(tmp_path / "bad.parquet", host)


@pytest.mark.parametrize("again", [sa.from_arrow, sa.table])
def test_a_consumed_reader_is_an_error_instead_of_no_rows(host, again):
    """Otherwise the import would succeed with no rows."""
    reader = pa.table({"a": [1, 2]}).to_reader()
    assert sa.from_arrow(reader, host).num_rows == 2
    with pytest.raises(sa.ClosedError, match="already consumed"):
        again(reader, host)


def test_a_consumed_nanoarrow_stream_is_an_error(host):
    nanoarrow = pytest.importorskip("nanoarrow")
    stream = nanoarrow.ArrayStream(pa.table({"a": [1, 2]}))
    assert sa.from_arrow(stream, host).num_rows == 2
    with pytest.raises(sa.ClosedError, match="already consumed"):
        sa.from_arrow(stream, host)


@pytest.mark.parametrize("batch_size", [None, 70])
def test_threads_share_the_views_of_a_scan(tmp_path, host, batch_size):
    """Each row is yielded to one thread. Views are cheaper than a thread that reads ahead, so there is
    none."""
    path = tmp_path / "rows.arrow"
    rows = pa.table({"row": range(20_000)})
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=100)
    taken: list[list[int]] = [[], [], [], []]
    start = threading.Barrier(len(taken))
    before = threading.active_count()
    scan = sa.scan_ipc(path, host, batch_size=batch_size)

    def take(number: int) -> None:
        start.wait()
        for batch in scan:
            taken[number] += batch["row"].to_pylist()

    run_in_threads(len(taken), take)
    assert threading.active_count() == before
    assert sorted(row for found in taken for row in found) == list(range(20_000))
