"""Scans with windows yield the same rows as a whole read, for files of other writers and all window sizes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of
from threads import run_in_threads

WINDOWS = (1, "100KiB", "1GiB")


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def by_pyarrow(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(path).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(path).read_all()


def written(path: Path, table: pa.Table, rows: int, compression: str | None = None) -> Path:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def scanned(path: Path, device: sa.Context, **options: object) -> pa.Table:
    with sa.scan_ipc(path, device, copy=True, **options) as scan:
        schema = pa.schema(scan.schema)
        parts = [part.to_arrow() for part in scan]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def same(seen: pa.Table, expected: pa.Table) -> bool:
    """Compares values. The dictionaries may differ."""
    return seen.equals(expected) or seen.to_pydict() == expected.to_pydict()


def test_every_file_of_the_corpora(device, shared_data):
    files = sorted(
        path
        for path in (shared_data / "others").iterdir()
        if path.suffix in (".arrow", ".arrows", ".feather")
    )
    files += sorted((shared_data / "golden").rglob("*.arrow_file"))
    files += sorted((shared_data / "golden").rglob("*.stream"))
    assert files
    for path in files:
        try:
            expected = sa.read_ipc(path, device, copy=True).to_arrow()
        except sa.UnsupportedError:
            continue
        three_batches = 3 * (expected.nbytes // max(1, len(sa.ipc.inspect(path)["batch_rows"])) + 1)
        for window in (*WINDOWS, three_batches):
            assert same(scanned(path, device, window=window), expected), (path, window)
        assert same(scanned(path, device, window=1, batch_size=5), expected), path


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_every_type_by_windows_of_one_batch_three_and_all(device, tmp_path, compression):
    table = arrow_data.table(120)
    path = written(tmp_path / "a.arrow", table, 10, compression)
    for window in (1, "30KiB", "1GiB"):
        assert same(scanned(path, device, window=window), table)
        assert same(scanned(path, device, window=window, batch_size=7), table)
    some = table.column_names[::-2]
    assert same(scanned(path, device, columns=some, batches=(2, 9)), table.select(some).slice(20, 70))


def test_thousands_of_small_batches_and_thousands_of_columns(device, tmp_path):
    small = pa.table({"a": np.arange(20_000), "b": [str(i) for i in range(20_000)]})
    path = written(tmp_path / "small.arrow", small, 8)
    assert scanned(path, device).equals(small)
    lengths = [part.num_rows for part in sa.scan_ipc(path, device, copy=True, batch_size=4096)]
    assert lengths == [4096] * 4 + [3616]
    wide = pa.table({f"c{i}": np.arange(3) + i for i in range(2000)})
    path = written(tmp_path / "wide.arrow", wide, 1)
    assert scanned(path, device, window="40KiB").equals(wide)


def test_dictionaries_may_grow_and_be_replaced_between_windows(device, tmp_path):
    words = pa.dictionary(pa.int8(), pa.string())
    lists = pa.list_(words)
    batches = []
    for values in (["a"], ["a", "b"], ["a", "b", "c"], ["x"], ["x", "y"], ["a"]):
        column = pa.DictionaryArray.from_arrays(pa.array([0, None, len(values) - 1], pa.int8()), values)
        nested = pa.ListArray.from_arrays([0, 1, 1, 3], column)
        batches.append(pa.record_batch([column, nested], schema=pa.schema({"words": words, "lists": lists})))
    for deltas in (True, False):
        path = tmp_path / "words.arrows"
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
        with pa.ipc.new_stream(path, batches[0].schema, options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)
        expected = pa.Table.from_batches(batches).to_pydict()
        for window in WINDOWS:
            assert scanned(path, device, window=window).to_pydict() == expected
            assert scanned(path, device, window=window, batch_size=4).to_pydict() == expected


def test_files_of_polars_and_pandas(device, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": range(5000), "b": [f"text number {i}" for i in range(5000)]})
    frame.write_ipc(tmp_path / "polars.arrow", compression="zstd", record_batch_size=700)
    frame.write_ipc(tmp_path / "plain.arrow", compression="uncompressed")
    for name in ("polars.arrow", "plain.arrow"):
        expected = by_pyarrow(tmp_path / name)
        assert scanned(tmp_path / name, device, window="16KiB").to_pydict() == expected.to_pydict()
    frame.to_pandas().to_feather(tmp_path / "pandas.feather")
    assert scanned(tmp_path / "pandas.feather", device, window="16KiB").num_rows == 5000


MIB = 1 << 20


@pytest.mark.parametrize(
    "sizes",
    [
        [[MIB] * 19 + [10] * 20_000],
        [[MIB] * 19, [10] * 20_000],
        [[10] * 20_000 + [MIB] * 19],
        [[10] * 20_000, [MIB] * 19, [10] * 20_000],
        [[100 << 10] * 40 + [10] * 20_000 + [100 << 10] * 40],
    ],
    ids=["first_rows", "first_batch", "last_rows", "middle_batch", "both_ends"],
)
def test_the_window_limits_memory_wherever_rows_are_large(device, tmp_path, sizes):
    letters = b"x" * MIB
    batches = [pa.record_batch({"s": pa.array([letters[:size] for size in each])}) for each in sizes]
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    with device.memory.record() as recording:
        assert scanned(path, device, window=MIB).num_rows == sum(map(len, sizes))
    read = [each["bytes"] for each in recording.records() if each["event"] == "allocate"]
    # Parts of a batch and single rows may need twice the window.
    assert max(read) <= 2 * MIB + (64 << 10)


def test_batches_are_views_that_outlive_the_scan(device, tmp_path):
    table = pa.table({"a": np.arange(10_000)})
    path = written(tmp_path / "a.arrow", table, 1000)
    with sa.scan_ipc(path, device, copy=True) as scan:
        kept = [part for number, part in enumerate(scan) if number % 3 == 1]
    assert [part["a"].to_pylist()[0] for part in kept] == [1000, 4000, 7000]


def test_batches_are_dropped_in_any_order(device, tmp_path):
    table = pa.table({"a": np.arange(10_000)})
    path = written(tmp_path / "a.arrow", table, 100)
    held: dict[int, sa.Table] = {}
    random = Random(1)
    with sa.scan_ipc(path, device, copy=True, window="4KiB") as scan:
        for number, part in enumerate(scan):
            held[number] = part
            if len(held) == 20:
                for dropped in random.sample(sorted(held), 15):
                    del held[dropped]
        for number, part in held.items():
            assert part["a"].to_pylist() == list(range(100 * number, 100 * number + 100))
    assert len(held) > 5


def test_threads_can_share_a_scan_and_each_batch_is_yielded_once(device, tmp_path):
    table = pa.table({"a": np.arange(40_000)})
    path = written(tmp_path / "a.arrow", table, 100)
    found: list[int] = []
    with sa.scan_ipc(path, device, copy=True, window="64KiB") as scan:

        def take(_: int) -> None:
            for part in scan:
                found.extend(part["a"].to_pylist())

        run_in_threads(4, take)
    assert sorted(found) == list(range(40_000))


def test_two_scans_at_once_and_one_that_is_slow(device, tmp_path):
    table = pa.table({"a": np.arange(30_000), "b": np.arange(30_000) / 7})
    path = written(tmp_path / "a.arrow", table, 500)
    first = sa.scan_ipc(path, device, copy=True, window="64KiB")
    second = sa.scan_ipc(path, device, copy=True, window="64KiB", in_flight=5)
    seen = [next(first).to_arrow() for _ in range(7)]
    assert pa.concat_tables(part.to_arrow() for part in second).equals(table)
    seen += [part.to_arrow() for part in first]
    assert pa.concat_tables(seen).equals(table)


@pytest.mark.parametrize("source", ["file", "object", "view"])
def test_batch_size_regroups_batches(host, tmp_path, source):
    table = arrow_data.table(100)
    path = written(tmp_path / "a.arrow", table, 10)
    with path.open("rb") as opened:
        options = {"copy": True} if source == "file" else {}
        scan = sa.scan_ipc(opened if source == "object" else path, host, batch_size=33, **options)
        tables = list(scan)
        assert [table.num_batches for table in tables] == [1, 1, 1, 1]
        parts = [table.to_arrow() for table in tables]
    assert [part.num_rows for part in parts] == [33, 33, 33, 1]
    assert same(pa.concat_tables(parts), table)


def test_invalid_options_are_refused(host, tmp_path):
    path = written(tmp_path / "a.arrow", pa.table({"a": [1]}), 1)
    for window in (0, -1, True, 1.5, 1 << 63):
        with pytest.raises(sa.InvalidError, match="window"):
            sa.scan_ipc(path, host, window=window)
    with pytest.raises(sa.InvalidError, match="bytes"):
        sa.scan_ipc(path, host, window="many bytes")
    for rows in (0, -1, True, 1.5, 1 << 63):
        with pytest.raises(sa.InvalidError, match="batch_size"):
            sa.scan_ipc(path, host, batch_size=rows)


def test_a_file_that_shrinks_is_an_error_with_its_offset(device, tmp_path):
    table = pa.table({"a": np.arange(400_000)})
    path = written(tmp_path / "a.arrow", table, 20_000)
    scan = sa.scan_ipc(path, device, copy=True, window="160KiB", in_flight=1)
    next(scan)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(sa.FileError, match="offset"):
        list(scan)
    assert list(scan) == []
