"""Lanes of a loader: ranks read what is theirs, in windows that fit, and together yield what one does."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import chain
from math import gcd
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saeta as sa
from loader_files import files_of_rows, flat, rows_of, write_ipc, write_parquet
from loader_options import grouped
from property_settings import examples
from saeta._loader.order import LANES, Order
from saeta._loader.readings import spans_to_read
from saeta._loader.records import Batch, Rank

ROWS = 1600
SHUFFLES = ("rows", "batches")
EVERY = (*SHUFFLES, False)
WRITERS = [write_ipc, partial(write_ipc, compression="lz4"), write_parquet]


def order_of(batches, **options):
    return Order(
        batches,
        **{"batch_size": 4, "window": 6000, "shuffle": "rows", "seed": 1, "drop_last": False, **options},
    )


def uniform(rows, of_batch, whole=False):
    return [Batch(min(of_batch, rows - first), 8 * min(of_batch, rows - first), whole)
            for first in range(0, rows, of_batch)]  # fmt: skip


def batches_of(order, batches, loads):
    """Returns the batches that loads have, as lists of the numbers of their rows in the source."""
    starts = np.cumsum([0, *(batch.rows for batch in batches)])
    size, found, stream = order.batch_size, [], []
    for load in loads:
        rows = np.concatenate([np.arange(first, first + count) + starts[batch]
                               for batch, first, count in load.spans])  # fmt: skip
        if load.taken is not None:
            rows = sa.table({"n": rows}, "host")._take_permuted(*load.taken)["n"].to_numpy()
        if load.taken is None and load.turns is None:
            stream += rows.tolist()
            continue
        parts = [rows[first : first + size].tolist() for first in range(0, len(rows), size)]
        found += parts if load.turns is None else [parts[turn] for turn in load.turns]
    return found + [stream[first : first + size] for first in range(0, len(stream), size)]


def of_rank(order, batches, epoch, begin, rank, world_size):
    return batches_of(order, batches, order.loads(epoch, Rank(begin, rank, world_size)))


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_any_number_of_ranks_yields_what_one_rank_does(shuffle, whole, drop_last):
    batches = uniform(ROWS - 3, 30, whole)
    order = order_of(batches, shuffle=shuffle, drop_last=drop_last, window=7000)
    assert order.lanes == (4 if whole else 48)
    alone = of_rank(order, batches, 2, 0, 0, 1)
    assert len(alone) == order.batches
    assert len(set(flat(alone))) == sum(map(len, alone)) == (ROWS - 3) // 4 * 4 + (0 if drop_last else 1)
    for world_size in range(1, 66):
        ranks = [of_rank(order, batches, 2, 0, rank, world_size) for rank in range(world_size)]
        together = list(chain.from_iterable(zip(*ranks, strict=True)))
        if drop_last:
            assert together == alone[: len(alone) // world_size * world_size]
        else:
            assert together == alone + alone[: len(together) - len(alone)]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_an_epoch_goes_on_at_any_batch_with_another_number_of_ranks(shuffle):
    batches = uniform(603, 20)
    order = order_of(batches, shuffle=shuffle, batch_size=3, window=2000)
    assert order.lanes == 16
    alone = of_rank(order, batches, 0, 0, 0, 1)
    worlds = (1, 2, 3, 5, 8, 16, 23)
    for begin in range(order.batches + 1):
        world_size = worlds[begin % len(worlds)]
        ranks = [of_rank(order, batches, 0, begin, rank, world_size) for rank in range(world_size)]
        together = list(chain.from_iterable(zip(*ranks, strict=True)))
        assert together[: order.batches - begin] == alone[begin:]


@settings(**examples(150))
@given(
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.booleans()), min_size=1, max_size=40),
    batch_size=st.integers(1, 12),
    window=st.integers(1, 9000),
    shuffle=st.sampled_from(SHUFFLES),
    world_size=st.integers(1, 65),
    resumed=st.integers(0, 500),
    drop_last=st.booleans(),
)
def test_every_row_comes_once_and_windows_fit(
    sizes, batch_size, window, shuffle, world_size, resumed, drop_last
):
    batches = [Batch(rows, rows * width, whole) for rows, width, whole in sizes]
    order = order_of(batches, shuffle=shuffle, batch_size=batch_size, window=window, drop_last=drop_last)
    alone = of_rank(order, batches, 1, 0, 0, 1)
    rows = sum(batch.rows for batch in batches)
    assert (
        len(set(flat(alone))) == len(flat(alone)) == (rows // batch_size * batch_size if drop_last else rows)
    )
    assert [len(batch) for batch in alone[:-1]] == [batch_size] * (len(alone) - 1)
    begin = min(resumed, order.batches)
    ranks = [of_rank(order, batches, 1, begin, rank, world_size) for rank in range(world_size)]
    together, left = list(chain.from_iterable(zip(*ranks, strict=True))), alone[begin:]
    if drop_last:
        assert together == left[: len(left) // world_size * world_size]
    else:
        assert together[: len(left)] == left
        assert together[len(left) :] == (alone * (len(together) + 1))[: len(together) - len(left)]
    if order.lanes > 1:
        for rank in range(world_size):
            loads = order.loads(1, Rank(begin, rank, world_size))
            for wanted in spans_to_read(loads, batches):
                read = sum(
                    batches[span.batch].nbytes * span.rows / batches[span.batch].rows for span in wanted
                )
                assert read <= window


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_ranks_whose_number_divides_the_lanes_read_the_data_once(shuffle, whole, world_size):
    batches = uniform(40_000, 40, whole)
    order = order_of(batches, shuffle=shuffle, batch_size=8, window=60_000)
    assert order.lanes == 48
    read = 0
    for rank in range(world_size):
        for wanted in spans_to_read(order.loads(0, Rank(0, rank, world_size)), batches):
            read += sum(span.rows for span in wanted)
    assert 40_000 <= read <= 1.1 * 40_000
    window = 60_000 // 48 // 8
    assert read <= 40_000 + 40 * (order.lanes if whole else 0) + window * world_size


@pytest.mark.parametrize("world_size", [5, 6, 16, 32, 64])
def test_other_ranks_read_the_lanes_that_they_share(world_size):
    batches = uniform(40_000, 40)
    order = order_of(batches, batch_size=8, window=60_000)
    loads = order.loads(0, Rank(0, 1, world_size))
    read = sum(span.rows for load in loads for span in load.spans)
    assert read <= 40_000 / gcd(world_size, order.lanes) * 1.05 + 48 * 8 * 20


@pytest.mark.parametrize(
    ("batches", "batch_size", "window", "lanes"),
    [
        (uniform(100_000, 1000), 10, 200_000, 48),
        (uniform(100_000, 1000), 10, 800_000, 1),  # one window has all rows, which are permuted together
        (uniform(100_000, 1000), 200, 200_000, 24),  # a window of a lane has four batches
        (uniform(100_000, 1000), 1000, 200_000, 8),  # or two
        (uniform(100_000, 1000), 25_000, 200_000, 1),
        (
            uniform(100_000, 1000, whole=True),
            10,
            200_000,
            8,
        ),  # no batch is read twice by a tenth of the lanes
        (uniform(100_000, 1000, whole=True), 10, 36_000, 4),  # two batches of each lane fit
        (uniform(100_000, 1000, whole=True), 10, 8000, 1),
        (uniform(3000, 100), 10, 20_000, 24),  # of 300 batches
        ([], 10, 100, 1),
    ],
)
def test_the_number_of_lanes_follows_from_sizes(batches, batch_size, window, lanes):
    assert order_of(batches, batch_size=batch_size, window=window).lanes == lanes
    assert order_of(batches, batch_size=batch_size, window=window, shuffle=False).lanes == 1
    assert order_of(batches, batch_size=batch_size, window=None).lanes == 1


def test_lanes_are_divided_by_usual_numbers_of_ranks():
    assert LANES[0] == 48
    assert all(LANES[0] % ranks == 0 for ranks in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48))
    assert all(lanes % 8 == 0 for lanes in LANES if lanes >= 8)


def test_a_round_of_heavy_rows_fits_too():
    batches = [*uniform(20_000, 100), Batch(100, 80_000, False), *uniform(20_000, 100)]
    order = order_of(batches, window=90_000, batch_size=4)
    assert order.lanes > 1
    worst = 0
    for epoch in range(5):
        for load in order.loads(epoch, Rank(0, 0, 1)):
            read = sum(
                batches[span.batch].nbytes * span.rows // batches[span.batch].rows for span in load.spans
            )
            worst = max(worst, read)
    assert 10_000 < worst <= 90_000, "6,144 bytes without heavy rows"


def loader_of(files, **options):
    return sa.loader(
        files,
        "host",
        **grouped({"batch_size": 8, "window": "16KiB", "to": "table", "shuffle": "rows", **options}),
    )


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffle", EVERY)
def test_ranks_interleave_to_one_loader(tmp_path, write, shuffle):
    files = files_of_rows(tmp_path, [2500, 1501], 50, write)
    alone_loader = loader_of(files, shuffle=shuffle)
    assert (alone_loader._plan.order.lanes > 1) == bool(shuffle)
    alone = rows_of(alone_loader)
    assert sorted(flat(alone)) == list(range(4001))
    for world_size in (2, 5, 8):
        ranks = [rows_of(loader_of(files, shuffle=shuffle, rank=rank, world_size=world_size))
                 for rank in range(world_size)]  # fmt: skip
        together = list(chain.from_iterable(zip(*ranks, strict=True)))
        assert together[: len(alone)] == alone


@pytest.mark.parametrize("to", ["numpy", "jax", "table"])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_each_column_has_the_rows_of_its_batch(tmp_path, to, shuffle):
    rows = pa.table({"n": np.arange(3000), "s": [f"{n}" * (n % 7) for n in range(3000)]})
    path = write_ipc(rows, tmp_path / "a.arrow", 100)
    loader = loader_of(path, shuffle=shuffle, to=to, columns=["n"] if to == "jax" else None)
    assert loader._plan.order.lanes > 1
    seen = []
    for batch in loader:
        numbers = np.asarray(batch["n"]) if to != "table" else batch["n"].to_numpy()
        seen += numbers.tolist()
        if to == "table":
            assert batch["s"].to_pylist() == [f"{n}" * (n % 7) for n in numbers.tolist()]
        elif to == "numpy":
            values, offsets = batch["s"]
            assert bytes(values[offsets[0] : offsets[-1]]) == b"".join(
                b"%d" % n * (n % 7) for n in numbers.tolist()
            )
    assert sorted(seen) == list(range(3000))


def read_bytes():
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("rchar:")).split()[1])


ROWS_OF_FILE = 800_000
TEXT = [f"{number * 2_654_435_761 % 4_294_967_296:x}" * 3 for number in range(ROWS_OF_FILE)]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffle", EVERY)
def test_eight_ranks_read_a_file_once(tmp_path, monkeypatch, write, shuffle):
    """Rows in the order of a compressed file are the exception: each rank decodes what it has a part of."""
    monkeypatch.setattr("saeta._loader.order.VIEWED_BYTES", 1 << 60)  # views are read without a system call
    rows = pa.table({"row": np.arange(ROWS_OF_FILE), "half": np.arange(ROWS_OF_FILE) / 2, "text": TEXT})
    path = write(rows, tmp_path / "a", 5000)
    ranks = [loader_of(path, shuffle=shuffle, batch_size=1000, window="8MiB", rank=rank, world_size=8)
             for rank in range(8)]  # fmt: skip
    before = read_bytes()
    with loader_of(path, shuffle=False, window="8MiB") as in_order:
        assert sum(batch.num_rows for batch in in_order) == ROWS_OF_FILE
    size = read_bytes() - before  # of small compressed batches some bytes are read twice
    before = read_bytes()
    seen = [batch["row"] for rank in ranks for batch in rank]
    read = read_bytes() - before
    assert sorted(chain.from_iterable(column.to_pylist() for column in seen)) == list(range(ROWS_OF_FILE))
    if shuffle or write is write_ipc:
        # Of batches of 0.1 MB the reader reads the more twice the smaller the windows are.
        assert 0.8 * size < read <= (1.2 if shuffle else 1.1) * size
    else:
        assert read > 3 * size


RANK = """
import json, sys
import saeta as sa
rank, ranks = int(sys.argv[1]), 8
loader = sa.loader(sys.argv[2], "host", batch_size=16, window="32KiB", shuffle="rows", to="numpy", rank=rank,
                   world_size=ranks, columns="row", drop_last=sys.argv[3] == "drop")
batches = iter(loader)
first = [next(batches)["row"].tolist() for _ in range(int(sys.argv[4]))]
state = loader.state_dict()
loader.close()
again = sa.loader(sys.argv[2], "host", batch_size=16, window="32KiB", shuffle="rows", to="numpy", rank=rank,
                  world_size=ranks, columns="row", drop_last=sys.argv[3] == "drop")
again.load_state_dict(state)
print(json.dumps([first, [batch["row"].tolist() for batch in again], state["lanes"]]))
"""


def test_eight_processes_yield_each_row_once(tmp_path):
    files_of_rows(tmp_path, [6000, 10_384], 64)  # 1024 batches
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path), "keep", "37"], stdout=subprocess.PIPE
        )
        for rank in range(8)
    ]
    ranks = [json.loads(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    seen = [row for first, rest, _ in ranks for batch in (*first, *rest) for row in batch]
    assert sorted(seen) == list(range(16_384))
    assert {lanes for _, _, lanes in ranks} == {48}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffle", EVERY)
@pytest.mark.parametrize("world_size", [1, 4])
def test_a_loader_holds_as_many_windows_as_the_page_says(tmp_path, write, shuffle, world_size):
    window, prefetch = 48 << 10, 2
    files = files_of_rows(tmp_path, [60_000], 200, write)
    compressed = write is not write_ipc
    with sa.context("host").memory.child("training") as share:
        loader = loader_of(
            files,
            batch_size=16,
            window=window,
            shuffle=shuffle,
            prefetch=prefetch,
            world_size=world_size,
            rank=0,
        )
        loader.close()
        with sa.loader(
            files,
            share,
            batch_size=16,
            window=window,
            shuffle=shuffle,
            world_size=world_size,
            to="table",
            read_options=sa.ReadOptions(prefetch=prefetch),
        ) as batches:
            assert (batches.lanes > 1) == bool(shuffle)
            for _ in batches:
                pass
        peak = share.memory.statistics()["peak"]
        del batches, loader
    assert peak <= (prefetch + 4 + compressed) * window
    if not (write is write_ipc and not shuffle):
        assert peak > window / 4


@pytest.mark.parametrize(("batch_size", "window_batches"), [(8192, 4), (1000, 32), (5000, 6), (7, 4681)])
def test_windows_of_permuted_rows_fill_a_power_of_two(batch_size, window_batches):
    """A window with one row more would compute nearly every second number in vain."""
    batches = [Batch(65_536, 65_536 * 8, False)] * 64
    order = order_of(batches, window=48 * 40_960 * 8, batch_size=batch_size)
    assert (order.lanes, order._window_batches) == (48, window_batches)
    in_turns = order_of(batches, window=48 * 40_960 * 8, batch_size=batch_size, shuffle="batches")
    assert in_turns._window_batches == 40_960 // batch_size
