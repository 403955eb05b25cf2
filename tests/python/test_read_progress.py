"""The progress of reads: one type, in batches, rows and bytes, for every function that reads."""

from __future__ import annotations

import asyncio
import sys
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
    table.write_ipc(folder / "a.arrow", batch_size=ROWS)
    table.write_ipc(folder / "a.arrows", batch_size=ROWS)
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
            lambda path, ctx, hook: list(sa.scan_parquet(path, ctx, progress=hook, batch_size=ROWS)),
            "a.parquet",
        ),
        (lambda path, ctx, hook: sa.read_parquet(path, ctx, progress=hook, batch_size=ROWS), "a.parquet"),
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
    assert totals(folder / "a.arrow", batch_size=300) == {17}


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


def totals_of(read):
    """Returns the last progress of a read, and the totals that every one told."""
    seen = []
    read(seen.append)
    return seen[-1], {(each.total_batches, each.total_rows) for each in seen}


ALL = BATCHES * ROWS


@pytest.mark.parametrize(
    ("read", "name", "batches", "rows"),
    [
        (lambda path, ctx, hook: sa.read_ipc(path, ctx, progress=hook, copy=True), "a.arrow", BATCHES, ALL),
        (lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook)), "a.arrow", BATCHES, ALL),
        (
            lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook, batch_size=300)),
            "a.arrow",
            17,
            ALL,
        ),
        (lambda path, ctx, hook: list(sa.scan_ipc(path, ctx, progress=hook)), "a.arrows", -1, -1),
        (lambda path, ctx, hook: sa.read_parquet(path, ctx, progress=hook), "a.parquet", -1, ALL),
        (
            lambda path, ctx, hook: list(sa.scan_parquet(path, ctx, progress=hook, batch_size=300)),
            "a.parquet",
            17,
            ALL,
        ),
        (
            lambda path, ctx, hook: sa.read_parquet(path, ctx, progress=hook, filters=[("a", ">", 7)]),
            "a.parquet",
            -1,
            -1,
        ),
    ],
)
def test_totals_are_told_where_they_are_known(host, folder, read, name, batches, rows):
    last, totals = totals_of(lambda hook: read(folder / name, host, hook))
    assert totals == {(batches, rows)}
    assert batches < 0 or last.batches == batches
    assert rows < 0 or last.rows == rows


def test_the_totals_of_writes(host, tmp_path):
    table = sa.table({"a": np.arange(10)}, host)
    for write in (
        lambda hook: table.write_ipc(tmp_path / "b.arrow", batch_size=4, progress=hook),
        lambda hook: table.write_parquet(tmp_path / "b.parquet", row_group_size=4, progress=hook),
    ):
        last, totals = totals_of(write)
        assert totals == {(3, 10)}
        assert (last.batches, last.rows) == (3, 10)


@pytest.mark.parametrize("shuffle", [False, "batches", "rows"])
@pytest.mark.parametrize("to", ["numpy", "table"])
def test_an_epoch_of_a_loader_tells_its_progress(host, folder, shuffle, to):
    seen = []
    with sa.loader(
        folder / "a.arrow", host, batch_size=300, shuffle=shuffle, columns="a", to=to, progress=seen.append
    ) as loader:
        for taken, _ in enumerate(loader, 1):
            assert seen[-1].batches == len(seen) == taken
        assert {(each.total_batches, each.total_rows) for each in seen} == {(17, ALL)}
        assert seen[-1].rows == ALL
        assert {one.rows - other.rows for other, one in pairwise(seen)} <= {300, ALL % 300}
        seen.clear()
        iterator = iter(loader)
        next(iterator)
        next(iterator)
    resumed = sa.loader(
        folder / "a.arrow", host, batch_size=300, shuffle=shuffle, columns="a", to=to, progress=seen.append
    )
    resumed.load_state_dict(loader.state_dict())
    seen.clear()
    rest = len(list(resumed))
    assert (seen[-1].batches, seen[-1].total_batches, seen[-1].total_rows) == (rest, 15, ALL - 600)
    assert seen[-1].rows <= ALL - 600


def test_each_rank_of_a_loader_counts_its_own_batches(host, folder):
    seen = []
    for _ in sa.loader(
        folder / "a.arrow", host, batch_size=300, rank=1, world_size=4, to="table", progress=seen.append
    ):
        pass
    assert (seen[-1].batches, seen[-1].total_batches, seen[-1].total_rows) == (5, 5, -1)


def test_with_a_transform_the_totals_are_not_known(host, folder):
    seen = []
    kept = sa.loader(
        folder / "a.arrow",
        host,
        batch_size=300,
        transform=lambda table: table.slice(0, 10),
        to="table",
        progress=seen.append,
    )
    rows = sum(batch.num_rows for batch in kept)
    assert (seen[-1].rows, seen[-1].total_rows) == (rows, -1)


@pytest.mark.parametrize("bar", [True, "rich", "tqdm"])
def test_a_bar_is_drawn_by_rich_or_tqdm(host, folder, capsys, bar):
    pytest.importorskip("rich" if bar is True else bar)
    for _ in sa.loader(folder / "a.arrow", host, batch_size=300, to="table", progress=bar):
        pass
    sa.read_ipc(folder / "a.arrow", host, progress=bar)
    if bar == "tqdm":
        assert "epoch 0" in capsys.readouterr().err


def test_without_rich_the_bar_is_tqdms(host, folder, capsys, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setitem(sys.modules, "rich", None)
    list(sa.scan_ipc(folder / "a.arrow", host, progress=True))
    assert "scanning" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(sa.MissingDependency, match="needs rich or tqdm"):
        sa.scan_ipc(folder / "a.arrow", host, progress=True)


def test_an_unknown_bar_is_refused(host, folder):
    with pytest.raises(sa.InvalidError, match=r"progress='tqmd': expected True.*did you mean 'tqdm'"):
        sa.scan_ipc(folder / "a.arrow", host, progress="tqmd")
