"""The progress of reads: one type, in batches, rows and bytes, for every function that reads."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest

import saeta as sa
from saeta import _ipc

pa = pytest.importorskip("pyarrow")
BATCHES, ROWS = 5, 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("progress")
    table = sa.table({"a": np.arange(BATCHES * ROWS), "s": ["x"] * (BATCHES * ROWS)}, "host")
    table.write_ipc(folder / "a.arrow", batch_rows=ROWS)
    table.write_ipc(folder / "a.arrows", batch_rows=ROWS)
    table.write_parquet(folder / "a.parquet", row_group_size=ROWS)
    return folder


def check(seen, rows=BATCHES * ROWS):
    assert all(type(each) is _ipc.Progress for each in seen)
    assert seen[-1].rows == rows
    assert seen[-1].bytes > 8 * rows
    for one, next_one in pairwise(seen):
        assert one.batches < next_one.batches
        assert one.rows < next_one.rows
        assert one.bytes < next_one.bytes


@pytest.mark.parametrize("budget", [None, "64MiB"])
@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook)), "a.arrow"),
        (lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook, copy=True)), "a.arrow"),
        (lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook)), "a.arrows"),
        (
            lambda path, ctx, hook: list(sa.scan_parquet(path, ctx, progress=hook, batch_rows=ROWS)),
            "a.parquet",
        ),
        (lambda path, ctx, hook: sa.read_parquet(path, ctx, progress=hook, batch_rows=ROWS), "a.parquet"),
    ],
)
def test_every_read_tells_how_far_it_has_come(host, folder, read, name, budget):
    seen = []
    with host.memory.child("reads", budget) as ctx:
        read(folder / name, ctx, seen.append)
    check(seen)
    assert len(seen) == BATCHES


def test_the_number_of_batches_is_told_where_it_is_known(host, folder):
    def totals(path, **options):
        seen = []
        list(sa.scan_ipc(path, host, progress=seen.append, **options))
        return {each.total_batches for each in seen}

    assert totals(folder / "a.arrow") == {BATCHES}
    assert totals(folder / "a.arrows") == {-1}
    assert totals(folder / "a.arrow", batch_rows=300) == {-1}


def test_progress_is_told_when_a_batch_is_taken(host, folder):
    seen = []
    with sa.scan_ipc(folder / "a.arrow", host, progress=seen.append) as scan:
        assert not seen
        next(scan)
        assert [each.batches for each in seen] == [1]

        async def take():
            return await anext(scan)

        asyncio.run(take())
        assert [each.batches for each in seen] == [1, 2]
    assert len(seen) == 2


def test_an_exception_of_the_callable_ends_the_read(host, folder):
    class Stop(Exception):  # noqa: N818
        pass

    def stop(_):
        raise Stop

    for read in (
        lambda: list(sa.scan_ipc(folder / "a.arrow", host, progress=stop)),
        lambda: list(sa.scan_parquet(folder / "a.parquet", host, progress=stop)),
        lambda: sa.read_parquet(folder / "a.parquet", host, progress=stop),
    ):
        with pytest.raises(Stop):
            read()


def test_a_bar_is_shown_and_removed(host, folder, run_python):
    pytest.importorskip("rich")
    program = f"""
import saeta as sa
for batch in sa.scan_ipc({str(folder / "a.arrow")!r}, "host", progress=True):
    pass
sa.read_parquet({str(folder / "a.parquet")!r}, "host", progress=True)
with sa.scan_parquet({str(folder / "a.parquet")!r}, "host", progress=True) as scan:
    next(scan)
print("done")
"""
    done = run_python(program)
    assert (done.returncode, done.stdout) == (0, "done\n")
