"""Stores, with real servers in this process: S3 of moto, ranges over HTTP, and a proxy that fails."""

from __future__ import annotations

import io
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import saeta as sa
from loader_options import grouped
from saeta import ipc
from saeta._files.stores import obstores, retries
from saeta._files.stores.requests import MOST_AT_ONCE, REQUESTS
from waiting import eventually

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")
from store_servers import (  # noqa: E402 - needs moto
    Proxy,
    RangeServer,
    moto_server,
    object_names,
    put_object,
    serving,
    unfinished_uploads,
)

BUCKET = "trips"
ROWS = 60_000
TABLE = pa.table(
    {
        "n": pa.array(range(ROWS)),
        "x": np.random.default_rng(1).random(ROWS),
        "s": [f"row {number % 1000}" if number % 7 else None for number in range(ROWS)],
    }
)
BIG = pa.table({"a": np.random.default_rng(2).integers(0, 256, 20 << 20, dtype="u1")})  # several requests


def ipc_bytes(table: pa.Table, rows: int = 10_000, **options: Any) -> bytes:
    target = io.BytesIO()
    with pa.ipc.new_file(target, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return target.getvalue()


def parquet_bytes(table: pa.Table, rows: int = 10_000) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, row_group_size=rows)
    return target.getvalue()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with moto_server() as url:
        put_object(url, BUCKET, b"")
        put_object(url, f"{BUCKET}/day/0.arrow", ipc_bytes(TABLE.slice(0, 30_000)))
        put_object(url, f"{BUCKET}/day/1.arrow", ipc_bytes(TABLE.slice(30_000)))
        put_object(url, f"{BUCKET}/day/_SUCCESS", b"")
        put_object(url, f"{BUCKET}/zstd.arrow", ipc_bytes(TABLE, compression="zstd"))
        put_object(url, f"{BUCKET}/big.arrow", ipc_bytes(BIG, 8 << 20))
        for number in range(2):
            part = TABLE.slice(number * 30_000, 30_000)
            put_object(url, f"{BUCKET}/pq/kind={number}/a.parquet", parquet_bytes(part))
        yield url
    obstores._of_environment.cache_clear()  # and its connections


@pytest.fixture(autouse=True)
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The credentials and the endpoint of the store, and attempts that follow each other at once."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1e-6)
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 1e-6)
    for name, value in OPTIONS.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    if "s3" in request.fixturenames:
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3"))
    yield
    assert eventually(lambda: REQUESTS.running == 0), "a thread is left"
    REQUESTS.reset()


OPTIONS = {"access_key_id": "testing", "secret_access_key": "t0psecret", "region": "us-east-1"}


def options_of(url: str) -> dict[str, Any]:
    return {**OPTIONS, "endpoint": url, "client_options": {"allow_http": True}}


def store_of(url: str) -> Any:
    options = {**OPTIONS, "endpoint": url, "client_options": {"allow_http": True}}
    return obstore.store.S3Store(BUCKET, **options, retry_config=obstores.RETRIES)


def pyarrow_s3(url: str) -> Any:
    return pyarrow.fs.S3FileSystem(
        access_key="testing", secret_key="t0psecret", region="us-east-1", endpoint_override=url
    )


@pytest.fixture
def proxy(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    # The client of obstore would send requests again before the package does.
    monkeypatch.setattr(obstores, "RETRIES", {**obstores.RETRIES, "max_retries": 0})
    server = Proxy(s3)
    with serving(server):
        yield server


@pytest.fixture
def ranges() -> Iterator[RangeServer]:
    server = RangeServer()
    with serving(server):
        yield server


WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "environment": lambda url: {},
    "storage_options": lambda url: {"storage_options": options_of(url)},
}
PLACES: dict[str, Callable[[str], Any]] = {"obstore": store_of, "pyarrow": pyarrow_s3}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["day", "day/", "day/*.arrow", "*/*.arrow", "zstd.arrow"])
def test_an_s3_url_is_read(s3: str, host: sa.Context, way: str, source: str) -> None:
    given, url = WAYS[way](s3), f"s3://{BUCKET}/{source}"
    assert sa.read_ipc(url, host, **given).to_arrow().equals(TABLE)
    with sa.scan_ipc(url, host, columns=["s", "n"], **given) as scan:
        assert pa.Table.from_batches([b for batch in scan for b in batch.to_arrow().to_batches()]).equals(
            TABLE.select(["s", "n"])
        )


@pytest.mark.parametrize("place", PLACES)
def test_a_path_in_a_store_is_read(s3: str, host: sa.Context, place: str) -> None:
    store, root = PLACES[place](s3), "" if place == "obstore" else f"{BUCKET}/"
    for path in ("day", "day/*.arrow", "day/?.arrow"):
        assert sa.read_ipc(root + path, host, filesystem=store).to_arrow().equals(TABLE)
    assert ipc.inspect(f"{root}day/0.arrow", filesystem=store)["batch_rows"] == [10_000] * 3
    for columns in (None, ["x"]):
        read = sa.read_parquet(f"{root}pq", host, columns=columns, filesystem=store).to_arrow()
        expected = TABLE.append_column(
            "kind", pa.array([0, 1], pa.int32()).take([n // 30_000 for n in range(ROWS)])
        )
        assert read.equals(expected if columns is None else TABLE.select(columns))
    with pytest.raises(sa.MissingFileError):
        sa.read_ipc(f"{root}nothing.arrow", host, filesystem=store)
    with pytest.raises(sa.MissingFileError):
        sa.read_parquet(f"{root}nothing.parquet", host, filesystem=store)


def test_filters_and_columns_of_parquet_in_a_store(s3: str, host: sa.Context) -> None:
    url = f"s3://{BUCKET}/pq"
    kept = sa.read_parquet(url, host, columns=["s"], filters=[("n", ">=", 55_000), ("kind", "=", 1)])
    assert kept.to_arrow().equals(TABLE.slice(55_000).select(["s"]))
    with sa.scan_parquet(url, host, columns="n", batch_size=7_000) as scan:
        assert [row for batch in scan for row in batch["n"].to_pylist()] == list(range(ROWS))


@pytest.mark.parametrize("limit", [None, "1MiB"])
def test_few_columns_keep_the_batches_of_the_file(host: sa.Context, limit: str | None) -> None:
    """They are read in windows, where the budget has room for these."""
    rows = pa.table({"n": range(4000), "s": [str(n) for n in range(4000)], "x": np.arange(4000) / 2})
    target, sizes = io.BytesIO(), [1000, 1, 999, 0, 2000]
    with pa.ipc.new_file(target, rows.schema) as writer:
        at = 0
        for size in sizes:
            writer.write_batch(
                pa.record_batch(rows.slice(at, size).combine_chunks().to_pydict(), rows.schema)
            )
            at += size
    store = obstore.store.MemoryStore()
    obstore.put(store, "a.arrow", target.getvalue())
    told: list[tuple[int, int]] = []
    with host.memory.child("few", limit) as share:
        read = sa.read_ipc(
            "a.arrow", share, columns=["x", "s"], filesystem=store,
            progress=lambda each: told.append((each.batches, each.rows)),
        )  # fmt: skip
        assert read.to_arrow().equals(rows.select(["x", "s"]))
        assert [each.num_rows for each in read.batches] == sizes
        assert told[-1] == (5, 4000)
        with sa.scan_ipc("a.arrow", share, columns="n", filesystem=store) as scan:
            assert [each.num_rows for each in scan] == sizes
        two = sa.read_ipc("a.arrow", share, columns="n", batches=(1, 3), filesystem=store)
        assert [each.num_rows for each in two.batches] == sizes[1:3]
        del read, two
    both = sa.read_ipc(["a.arrow", "a.arrow"], host, columns="s", filesystem=store)
    assert both["s"].to_pylist() == rows["s"].to_pylist() * 2


def test_several_ranges_are_requested_at_once(s3: str, proxy: Proxy, host: sa.Context) -> None:
    proxy.faults = [None, None] + ["held"] * 5  # after the ends of the file
    done = threading.Thread(target=lambda: [proxy.held.acquire() for _ in range(5)] and proxy.release.set())
    done.start()
    assert sa.read_ipc("big.arrow", host, filesystem=store_of(proxy.url)).to_arrow().equals(BIG)
    done.join()
    assert proxy.most_at_once >= 5


@pytest.mark.parametrize("fault", [503, 429, 500, "reset", "truncated"])
@pytest.mark.parametrize("place", PLACES)
def test_failures_that_pass_are_not_seen(proxy: Proxy, host: sa.Context, fault: Any, place: str) -> None:
    store, root = PLACES[place](proxy.url), "" if place == "obstore" else f"{BUCKET}/"
    proxy.faults = [fault, None, fault, fault]
    assert sa.read_ipc(f"{root}day", host, filesystem=store).to_arrow().equals(TABLE)
    assert not proxy.faults
    proxy.faults = [fault, fault]
    assert sa.read_parquet(f"{root}pq", host, columns=["n"], filesystem=store)["n"].to_pylist() == [
        *range(ROWS)
    ]
    assert not proxy.faults


def test_a_store_that_always_refuses_is_a_file_error(proxy: Proxy, host: sa.Context) -> None:
    proxy.faults = [503] * 1000
    with pytest.raises(sa.FileError, match=r"can't read 'big\.arrow'.*503"):
        sa.read_ipc("big.arrow", host, filesystem=store_of(proxy.url))
    assert REQUESTS.most < MOST_AT_ONCE
    assert eventually(lambda: REQUESTS.running == 0)
    proxy.faults = [403] * 1000
    with pytest.raises(sa.FileError):
        sa.read_ipc("big.arrow", host, filesystem=store_of(proxy.url))
    asked = 1000 - len(proxy.faults)
    assert asked <= 4, "a refusal is not asked for again"


def test_a_slow_connection_is_waited_for(proxy: Proxy, host: sa.Context) -> None:
    proxy.latency, proxy.rate = 0.001, 200e6
    assert sa.read_ipc("day/0.arrow", host, filesystem=store_of(proxy.url)).num_rows == 30_000


def test_closing_a_scan_ends_its_wait(proxy: Proxy, host: sa.Context) -> None:
    scan = sa.scan_ipc("big.arrow", host, filesystem=store_of(proxy.url))
    proxy.faults = ["held"] * 1000
    failures: list[BaseException] = []

    def take() -> None:
        try:
            next(scan)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=take)
    thread.start()
    proxy.held.acquire()
    scan.close()
    thread.join()
    assert isinstance(failures[0], sa.ClosedError)
    proxy.faults = []
    proxy.release.set()


# A file that changes.


@pytest.mark.parametrize("knows_conditions", [True, False])
def test_a_file_that_changes_while_it_is_read_is_refused(
    ranges: RangeServer, host: sa.Context, knows_conditions: bool
) -> None:
    ranges.knows_conditions = knows_conditions
    ranges.files["a.arrow"] = ipc_bytes(BIG, 8 << 20)
    with sa.scan_ipc(f"{ranges.url}/a.arrow", host) as scan:
        ranges.files["a.arrow"] = bytes(len(ranges.files["a.arrow"]))
        with pytest.raises(
            sa.FileError, match=r"'a\.arrow' has changed since it was opened, when its ETag was"
        ):
            list(scan)


def test_an_object_that_changes_in_s3_is_refused(s3: str, host: sa.Context) -> None:
    put_object(s3, f"{BUCKET}/changing.arrow", ipc_bytes(BIG, 8 << 20))
    with sa.scan_ipc(f"s3://{BUCKET}/changing.arrow", host) as scan:
        put_object(s3, f"{BUCKET}/changing.arrow", ipc_bytes(BIG.slice(1), 8 << 20))
        with pytest.raises(sa.FileError, match="has changed since it was opened"):
            list(scan)


# HTTP.


def test_ranges_over_http(ranges: RangeServer, host: sa.Context) -> None:
    content = ipc_bytes(BIG, 8 << 20)
    ranges.files.update({"a.arrow": content, "b.parquet": parquet_bytes(TABLE)})
    assert sa.read_ipc(f"{ranges.url}/a.arrow", host).to_arrow().equals(BIG)
    asked = [(first, last) for method, _, first, last in ranges.requests if method == "GET"]
    assert all(0 <= first <= last < len(content) for first, last in asked), "never all of the file"
    assert sum(last + 1 - first for first, last in asked) < len(content) + (1 << 20), "each byte once"
    assert sa.read_parquet(f"{ranges.url}/b.parquet", host).to_arrow().equals(TABLE)
    with pytest.raises(sa.MissingFileError, match=r"can't open 'c\.arrow'"):
        sa.read_ipc(f"{ranges.url}/c.arrow", host)


def test_only_the_columns_that_are_read_are_requested(ranges: RangeServer, host: sa.Context) -> None:
    table = pa.table({f"c{number}": np.random.default_rng(number).random(1 << 18) for number in range(10)})
    ranges.files["wide.arrow"] = content = ipc_bytes(table, 1 << 17)
    ranges.files["wide.parquet"] = parquet = parquet_bytes(table, 1 << 17)
    assert (
        sa.read_ipc(f"{ranges.url}/wide.arrow", host, columns=["c3"]).to_arrow().equals(table.select(["c3"]))
    )
    assert (
        sum(last + 1 - first for method, _, first, last in ranges.requests if method == "GET")
        < len(content) / 4
    )
    ranges.requests.clear()
    assert (
        sa.read_parquet(f"{ranges.url}/wide.parquet", host, columns=["c3"])
        .to_arrow()
        .equals(table.select(["c3"]))
    )
    asked = [last + 1 - first for method, _, first, last in ranges.requests if method == "GET"]
    assert sum(asked) < len(parquet) / 4


def test_many_small_files_are_opened_at_once(ranges: RangeServer, host: sa.Context) -> None:
    files = [f"{number}.arrow" for number in range(20)]
    for number, name in enumerate(files):
        ranges.files[name] = ipc_bytes(TABLE.slice(number * 3_000, 3_000))
    urls = [f"{ranges.url}/{name}" for name in files]
    assert sa.read_ipc(urls, host).to_arrow().equals(TABLE)
    assert len(ranges.requests) == 2 * len(files), "one for the size, one for the content"


# The loader.


@pytest.mark.parametrize("shuffle", [False, "batches", "rows"])
@pytest.mark.parametrize("source", ["day", "pq"])
def test_a_loader_reads_from_a_store(s3: str, tmp_path: Any, shuffle: Any, source: str) -> None:
    given = {"batch_size": 7_000, "columns": ["n"], "to": "numpy", "shuffle": shuffle, "window": "64KiB"}

    def rows(files: Any, **place: Any) -> list[int]:
        with sa.loader(files, "host", **grouped({**given, **place})) as batches:
            return [row for batch in batches for row in batch["n"].tolist()]

    from_store = rows(f"s3://{BUCKET}/{source}")
    assert sorted(from_store) == list(range(ROWS))
    assert (from_store == list(range(ROWS))) == (shuffle is False)
    assert rows(source, filesystem=store_of(s3)) == from_store
    assert rows(f"s3://{BUCKET}/{source}", storage_options=options_of(s3)) == from_store
    local = [f"{tmp_path}/{number}" for number in range(2)]
    for number, path in enumerate(local):
        key = f"day/{number}.arrow" if source == "day" else f"pq/kind={number}/a.parquet"
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(bytes(store_of(s3).get(key).bytes()))
    assert rows(local) == from_store, "the order does not depend on where the files are"


def test_a_loader_of_a_store_is_pickled_with_its_place_and_resumes(s3: str) -> None:
    import cloudpickle

    with sa.loader(
        "day",
        "host",
        batch_size=7_000,
        columns=["n"],
        to="numpy",
        shuffle="rows",
        read_options=sa.ReadOptions(filesystem=store_of(s3)),
    ) as loader:
        batches = iter(loader)
        first = [next(batches)["n"].tolist() for _ in range(3)]
        sent = cloudpickle.dumps(loader)
        rest = [batch["n"].tolist() for batch in batches]
    with pickle.loads(sent) as again:
        assert [batch["n"].tolist() for batch in again] == rest
    assert sorted(row for batch in first + rest for row in batch) == list(range(ROWS))


def test_compressed_batches_of_a_store_are_loaded(s3: str) -> None:
    with sa.loader(
        f"s3://{BUCKET}/zstd.arrow", "host", batch_size=9_000, columns=["n"], to="numpy"
    ) as batches:
        assert [row for batch in batches for row in batch["n"].tolist()] == list(range(ROWS))


# Options.


def test_options_are_for_urls_and_stand_alone(s3: str, host: sa.Context) -> None:
    options = options_of(s3)
    with pytest.raises(sa.InvalidError, match="filesystem and storage_options: give one of them"):
        sa.read_ipc("day", host, filesystem=store_of(s3), storage_options=options)
    with pytest.raises(sa.InvalidError, match="storage_options is for a URL, and 'day' is a path"):
        sa.read_ipc("day", host, storage_options=options)
    with pytest.raises(sa.TypeMismatch, match="storage_options is of type list, expected a mapping"):
        sa.read_ipc(f"s3://{BUCKET}/day", host, storage_options=[])  # type: ignore[arg-type]
    with pytest.raises(
        sa.InvalidError, match=r"can't open 's3://trips' with storage_options: .*no_such_option"
    ):
        sa.read_ipc(f"s3://{BUCKET}/day", host, storage_options={"no_such_option": 1})


def test_options_of_other_urls_are_for_fsspec(host: sa.Context) -> None:
    table = sa.table({"a": [1, 2]}, host)
    table.write_ipc("memory://options/a.arrow", storage_options={"skip_instance_cache": True})
    assert sa.read_ipc("memory://options/a.arrow", host, storage_options={}).equals(table)


def test_a_store_that_can_not_be_used_is_refused(host: sa.Context) -> None:
    with pytest.raises(
        sa.TypeMismatch, match=r"expected one of pyarrow\.fs, of fsspec or a store of obstore"
    ):
        sa.read_ipc("a.arrow", host, filesystem=object())


def test_secrets_are_neither_logged_nor_shown_nor_pickled(
    s3: str, host: sa.Context, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(sa.Error) as raised:
        sa.read_ipc(f"s3://{BUCKET}/nothing.arrow", host)
    sa.read_ipc(f"s3://{BUCKET}/day", host)
    with sa.loader(f"s3://{BUCKET}/day", "host", batch_size=10, to="numpy") as loader:
        sent = pickle.dumps(loader)
    assert b"t0psecret" not in sent
    assert "t0psecret" not in caplog.text + str(raised.value)


def test_profiles_need_boto3(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, s3: str) -> None:
    import sys

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = testing\naws_secret_access_key = t0psecret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert sa.read_ipc(f"s3://{BUCKET}/day", "host").num_rows == ROWS
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert obstores.store_of(f"s3://{BUCKET}/day", None) is None, "pyarrow reads ~/.aws itself"


# Writing.


@pytest.mark.parametrize("place", [*WAYS, *PLACES])
def test_a_table_is_written_to_s3(s3: str, host: sa.Context, place: str) -> None:
    given = WAYS[place](s3) if place in WAYS else {"filesystem": PLACES[place](s3)}
    target = {"obstore": "out/a.arrow", "pyarrow": f"{BUCKET}/out/a.arrow"}.get(
        place, f"s3://{BUCKET}/out/a.arrow"
    )
    table = sa.from_arrow(BIG, host)
    assert table.write_ipc(target, **given) > BIG.nbytes
    assert sa.read_ipc(f"s3://{BUCKET}/out/a.arrow", host).to_arrow().equals(BIG)
    with sa.ipc_writer(target, **given) as writer:
        writer.write(table[:10])
        writer.write(table[10:20])
    assert sa.read_ipc(f"s3://{BUCKET}/out/a.arrow", host).to_arrow().equals(BIG.slice(0, 20))
    assert unfinished_uploads(s3, BUCKET) == []


class Stopped(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("before", [False, True], ids=["new", "replaced"])
def test_an_upload_that_fails_leaves_nothing(s3: str, host: sa.Context, before: bool) -> None:
    url = f"s3://{BUCKET}/failed-{before}.arrow"
    small = sa.table({"a": [1, 2]}, host)
    if before:
        small.write_ipc(url)
    with suppress(Stopped), sa.ipc_writer(url) as writer:
        for _ in range(3):
            writer.write(sa.from_arrow(BIG, host))
        writer.flush()
        assert unfinished_uploads(s3, BUCKET) == [f"failed-{before}.arrow"]
        assert (f"failed-{before}.arrow" in object_names(s3, BUCKET)) == before, "not visible before its end"
        raise Stopped
    assert eventually(lambda: unfinished_uploads(s3, BUCKET) == [])
    if before:
        assert sa.read_ipc(url, host).equals(small)
    else:
        assert f"failed-{before}.arrow" not in object_names(s3, BUCKET)


def test_a_writer_that_is_dropped_leaves_nothing(s3: str, host: sa.Context) -> None:
    writer = sa.ipc_writer(f"s3://{BUCKET}/dropped.arrow")
    writer.write(sa.from_arrow(BIG, host))
    writer.flush()
    with pytest.warns(ResourceWarning, match="was not closed"):
        del writer
    assert eventually(lambda: unfinished_uploads(s3, BUCKET) == [])
    assert "dropped.arrow" not in object_names(s3, BUCKET)


def test_a_target_that_refuses_is_a_file_error(s3: str, host: sa.Context) -> None:
    table = sa.table({"a": [1]}, host)
    with pytest.raises(sa.FileError, match=r"can't (create|finish|write).*'a\.arrow'"):
        table.write_ipc("s3://no-such-bucket/a.arrow")


@pytest.mark.parametrize("kind", ["MemoryStore", "LocalStore"])
def test_stores_of_this_machine(host: sa.Context, tmp_path: Any, kind: str) -> None:
    store = obstore.store.MemoryStore() if kind == "MemoryStore" else obstore.store.LocalStore(tmp_path)
    table = sa.from_arrow(TABLE, host)
    table.write_ipc("deep/a.arrow", filesystem=store)
    assert sa.read_ipc("deep", host, filesystem=store).to_arrow().equals(TABLE)
    with suppress(Stopped), sa.ipc_writer("deep/b.arrow", filesystem=store) as writer:
        writer.write(sa.from_arrow(BIG, host))
        writer.flush()
        raise Stopped
    assert sa.read_ipc("deep", host, filesystem=store).to_arrow().equals(TABLE)
