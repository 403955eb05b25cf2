"""Profiles of reads: parts that add up, limits, and which part is named."""

from __future__ import annotations

import io
import json
import time

import numpy as np
import pytest

import saeta as sa
from code_blocks import BLOCKS
from command import saeta
from saeta._report.read_report import PARTS, ReadReport
from sim_devices import DEVICES, contexts_of, simulator

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 200_000


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


@pytest.fixture(scope="module")
def numbers():
    random = np.random.default_rng(5)
    return pa.table(
        {
            "fare": random.random(ROWS),
            "riders": pa.array(random.integers(0, 9, ROWS), mask=random.random(ROWS) < 0.1),
            "kind": pa.array(random.choice(["day", "night", "none"], ROWS)),
        }
    )


def written(table, folder, compression=None, batch_rows=50_000):
    path = folder / f"a-{compression}.arrow"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def check(report, rows=ROWS):
    assert report.rows == rows
    assert tuple(report.parts) == PARTS or set(report.parts) == set(PARTS)
    assert all(seconds >= 0 for seconds in report.parts.values())
    assert sum(report.parts.values()) == pytest.approx(report.seconds)
    assert sum(report.shares.values()) == pytest.approx(1)
    assert report.gb_per_s == pytest.approx(report.nbytes / report.seconds / 1e9)
    assert report.bound in PARTS
    assert 0 < report.bound_share <= 1
    assert all(rate > 0 for rate in report.limits.values())
    assert report.explain() in str(report)
    assert report.threads >= 1
    copies = "copy" if report.device == "host" else "link"
    assert set(report.limits) <= {"file", copies}


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files(ctx, numbers, tmp_path, compression):
    path = written(numbers, tmp_path, compression)
    report = sa.profile_read(path, ctx, rounds=1)
    check(report)
    assert report.format == "ipc"
    assert report.source == str(path)
    assert report.nbytes == sa.read_ipc(path, ctx, copy=True if ctx.device == "host" else None).nbytes
    size = path.stat().st_size
    assert 0.9 * size < report.file_bytes < 1.5 * size
    assert {"file"} < set(report.limits)
    assert (report.parts["decode"] > 0) == (compression is not None)
    assert report.parts["file"] > 0
    assert (report.parts["link"] > 0) == (report.device != "host")


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_parquet_files(ctx, numbers, tmp_path, compression):
    path = tmp_path / "a.parquet"
    pq.write_table(numbers, path, compression=compression, row_group_size=50_000)
    report = sa.profile_read(path, ctx, rounds=1)
    check(report)
    assert report.format == "parquet"
    assert report.parts["decode"] > 0
    assert report.file_bytes == pytest.approx(path.stat().st_size, rel=0.1)
    part = sa.profile_read(path, ctx, rounds=1, columns="kind")
    check(part)
    assert part.file_bytes < report.file_bytes / 4


def test_parquet_under_a_limited_budget_is_timed_too(numbers, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(numbers, path)
    with sa.context("host").memory.child("small", "64MiB") as small:
        report = sa.profile_read(path, small, rounds=1)
    check(report)
    assert report.parts["decode"] > 0


def test_chosen_columns_read_fewer_bytes(numbers, tmp_path):
    path = written(numbers, tmp_path)
    whole = sa.profile_read(path, "host", rounds=1)
    part = sa.profile_read(path, "host", rounds=1, columns=["fare"])
    check(part)
    assert part.nbytes == 8 * ROWS
    assert part.file_bytes < whole.file_bytes / 2


def test_folders_lists_and_bytes(numbers, tmp_path):
    first, second = (written(numbers, tmp_path, codec) for codec in (None, "lz4"))
    check(sa.profile_read(tmp_path, "host", rounds=1), 2 * ROWS)
    several = sa.profile_read([first, second], "host", rounds=1)
    check(several, 2 * ROWS)
    assert several.source == f"{first} and 1 more"
    held = sa.profile_read(first.read_bytes(), "host", rounds=1)
    check(held)
    assert (held.cached, held.source) == (None, "bytes")
    assert "file" not in held.limits


def test_a_table_without_rows(tmp_path):
    path = written(pa.table({"a": pa.array([], "int64")}), tmp_path)
    check(sa.profile_read(path, "host", rounds=1), 0)


def test_files_out_of_the_page_cache_are_read_again(numbers, tmp_path):
    path = written(numbers, tmp_path)
    path.read_bytes()
    warm = sa.profile_read(path, "host", rounds=1)
    cold = sa.profile_read(path, "host", rounds=2, cold=True)
    check(cold)
    assert warm.cached in (None, 1)
    assert warm.cached is None or cold.cached <= warm.cached
    assert warm.cached is None or "page cache" in str(warm)


def test_the_slow_link_of_a_simulated_device_is_named(numbers, tmp_path):
    device = simulator().Device(seconds_per_mib=0.2)  # far more than anything else takes on a busy machine
    report = sa.profile_read(written(numbers, tmp_path), device.context, rounds=1, columns="fare")
    check(report)
    assert report.bound == "link"
    assert report.limits["link"] < 0.006
    assert report.parts["link"] > 0.5 * report.seconds
    assert report.link_bytes / report.limits["link"] / 1e9 > 0.7 * report.seconds, "no other copy beside it"
    assert report.explain().startswith("bound by the link")
    assert device.races == []


def test_a_slow_source_is_named(numbers, tmp_path):
    memory = pytest.importorskip("fsspec.implementations.memory")

    class Slow(memory.MemoryFileSystem):
        protocol = "slow"
        cachable = False

        def cat_file(self, path, start=None, end=None, **words):
            time.sleep(0.05)
            return super().cat_file(path, start, end, **words)

    files = Slow()
    files.pipe_file("/a.arrow", written(numbers, tmp_path).read_bytes())
    report = sa.profile_read("/a.arrow", "host", rounds=1, filesystem=files)
    check(report)
    assert report.bound == "file"
    assert "file" not in report.limits
    assert report.explain().startswith("bound by the source: reading takes")


def test_the_decoding_of_zstd_is_named(tmp_path):
    random = np.random.default_rng(6)
    skewed = pa.table({"a": random.zipf(1.3, 3_000_000).clip(0, 1 << 40).astype("int64")})
    path = written(skewed, tmp_path, "zstd", 3_000_000 // 16)
    report = sa.profile_read(path, "host", rounds=1)
    check(report, 3_000_000)
    assert report.bound == "decode"
    assert report.explain().startswith("bound by decoding: it takes")


def test_what_is_read_once_or_has_two_formats_is_refused(numbers, tmp_path):
    pq.write_table(numbers, tmp_path / "a.parquet")
    written(numbers, tmp_path)
    with pytest.raises(sa.InvalidError, match="has both Arrow IPC and Parquet files"):
        sa.profile_read(tmp_path, "host")
    with pytest.raises(sa.InvalidError, match="'BytesIO' may be read only once"):
        sa.profile_read(io.BytesIO(), "host")
    with pytest.raises(sa.InvalidError, match="expected a number of reads from 1 on"):
        sa.profile_read(tmp_path / "a.parquet", "host", rounds=0)
    with pytest.raises(sa.MissingFileError):
        sa.profile_read(tmp_path / "none.arrow", "host")


def report_of(**given):
    parts = {**dict.fromkeys(PARTS, 0.0), "file": 0.4, "copy": 0.3, "other": 0.3}
    alone = {part: parts[part] for part in PARTS if part != "other"}
    plain = {
        "source": "a.arrow",
        "device": "cuda:0",
        "format": "ipc",
        "rows": 1,
        "nbytes": 10**9,
        "file_bytes": 10**9,
        "link_bytes": 10**9,
        "cached": 1.0,
        "threads": 16,
        "seconds": 1.0,
        "parts": parts,
        "limits": {"file": 2.0, "link": 1.25},
        "alone": alone,
    }
    return ReadReport(**(plain | {"alone": alone | given.pop("alone", {})} | given))


@pytest.mark.parametrize(
    ("alone", "words"),
    [
        ({"link": 0.8}, "bound by the link: 1.00 GB/s, 80% of the 1.25 GB/s of a plain copy"),
        (
            {"file": 0.92},
            "bound by the file (100% in the page cache): reading takes 40% of the time, at 1.00 GB/s, 50% of "
            "the 2.00 GB/s of its bytes alone",
        ),
        ({"decode": 0.7}, "bound by decoding: it takes 70% of the time of all threads"),
        ({"copy": 0.6}, "bound by the processor's copies in memory: they take 60% of the time"),
        ({"kernels": 0.5}, "bound by kernels: they run for 50% of the time, after the last copy"),
        (
            {},
            "bound by no part alone: file takes 40% of the time; the rest is planning, Python, and threads "
            "that wait",
        ),
    ],
)
def test_one_sentence_says_what_bounds_a_read(alone, words):
    assert report_of(alone=alone).explain() == words


def test_a_device_that_holds_up_its_copies_is_not_taken_for_the_link():
    slow = report_of(alone={"link": 0.9}, limits={"link": 10.0})
    assert slow.bound == "link"
    assert slow.explain() == (
        "bound by the device: threads wait for its copies and kernels for 90% of the time, at 1.00 GB/s, 10% "
        "of the 10.00 GB/s of a plain copy"
    )


def test_the_guide_shows_what_the_command_prints(numbers, tmp_path):
    (block,) = (
        each.text for each in BLOCKS if (each.page, each.language) == ("docs/guides/slow.md", "console")
    )
    command, *shown = block.splitlines()
    assert command == "$ saeta profile trips.arrow"
    path = written(numbers, tmp_path, "lz4")
    printed = saeta("profile", path, "--device", "host").stdout.splitlines()
    names = [line.split()[0] for line in shown[3:-2]]
    assert names == [line.split()[0] for line in printed[3:-2]] == ["part", *PARTS]
    assert shown[3] == printed[3]
    assert shown[-1].startswith("bound by decoding: it takes")


def test_the_command_prints_the_report(numbers, tmp_path):
    path = written(numbers, tmp_path, "lz4")
    shown = saeta("profile", path, "--device", "host", "--rounds", 1)
    assert shown.returncode == 0
    for word in (str(path), "200,000 rows", *PARTS, "limit, GB/s", "bound by"):
        assert word in shown.stdout
    found = json.loads(saeta("profile", path, "--device", "host", "--columns", "fare,kind", "--json").stdout)
    assert set(found["parts"]) == set(PARTS)
    assert found["explanation"].startswith("bound by")
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert saeta("profile", "-", "--device", "host").returncode == 2
    assert saeta("profile", tmp_path / "none.arrow", "--device", "host").returncode == 3
