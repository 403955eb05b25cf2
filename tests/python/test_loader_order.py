"""The row order of a training loader: each row once per epoch, independent of the number of ranks, and
unchanged after a resume at any batch."""

from __future__ import annotations

import pickle
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise, product, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saeta as sa
from loader_files import files_of_rows, flat, rows_of, write_ipc, write_parquet
from loader_options import grouped
from property_settings import examples
from saeta._loader.loader import VERSION
from saeta._loader.order import VIEWED_BYTES, Order
from saeta._loader.records import Batch, Rank
from sim_devices import DEVICES, contexts_of

COUNTS = (700, 0, 301)  # rows per file
ROWS = sum(COUNTS)
SHUFFLES = (False, "batches", "rows")


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


@pytest.fixture
def files(tmp_path):
    return files_of_rows(tmp_path, COUNTS, 97)


def loader_of(files, ctx="host", **options):
    return sa.loader(files, ctx, **grouped({"batch_size": 32, "window": "2KiB", "to": "table", **options}))


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("window", [1, 500, "2KiB", "1MiB"])
def test_each_epoch_has_each_row_once_and_another_order(files, ctx, shuffle, window):
    with loader_of(files, ctx, shuffle=shuffle, window=window) as loader:
        epochs = [rows_of(loader) for _ in range(3)]
    for epoch in epochs:
        assert sorted(flat(epoch)) == list(range(ROWS))
        assert [len(batch) for batch in epoch] == [32] * (ROWS // 32) + [ROWS % 32]
    if shuffle:
        assert len({tuple(flat(epoch)) for epoch in epochs}) == 3
    else:
        assert epochs == [epochs[0]] * 3
        assert flat(epochs[0]) == list(range(ROWS))


def unit_of(row: int) -> int:
    """Returns the first of the rows that are read together with `row` if windows are small."""
    file = 0 if row < COUNTS[0] else COUNTS[0]
    batch = file + (row - file) // 97 * 97
    return batch + (row - batch) // 64 * 64


def test_rows_are_shuffled_only_within_their_window(files):
    with loader_of(files, shuffle="rows", window="1MiB") as loader:
        epoch = flat(rows_of(loader))
    assert sum(row == place for place, row in enumerate(epoch)) < 10
    with loader_of(files, shuffle="rows", window=1) as loader:
        epoch = rows_of(loader)
    assert all(len(set(map(unit_of, batch))) <= 3 for batch in epoch), "a window is a batch, and units are"
    moved = sum(batch != sorted(batch) for batch in epoch)
    assert moved == len(epoch), "not one of the batches keeps its order"


def test_the_order_depends_only_on_the_seed_and_the_epoch(files, ctx):
    one = rows_of(loader_of(files, ctx, shuffle="rows", seed=5))
    again = loader_of(files, ctx, shuffle="rows", seed=5, prefetch=7)
    assert rows_of(again) == one
    again.set_epoch(0)
    assert rows_of(again) == one
    assert rows_of(loader_of(files, ctx, shuffle="rows", seed=-6)) != one
    if ctx.device != "host":
        assert rows_of(loader_of(files, "host", shuffle="rows", seed=5)) == one


def test_the_order_is_the_same_in_every_release(files):
    loader = loader_of(files, shuffle="rows", seed=0, batch_size=8, window="1MiB")
    assert next(rows for rows in rows_of(loader)) == GOLDEN
    loader = loader_of(files, shuffle="rows", seed=0, batch_size=8, window="4KiB")
    assert loader.state_dict()["lanes"] == 8
    assert rows_of(loader)[:3] == GOLDEN_LANES


GOLDEN = [111, 469, 57, 461, 206, 998, 923, 843]
GOLDEN_LANES = [
    [822, 800, 798, 824, 812, 828, 821, 816],
    [235, 214, 238, 229, 230, 232, 240, 241],
    [431, 433, 446, 418, 423, 432, 421, 439],
]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("window", ["2KiB", "1MiB"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_batches_of_ranks_interleave_to_those_of_one(
    tmp_path, shuffle, world_size, drop_last, window, compression
):
    files = files_of_rows(tmp_path, COUNTS, 97, partial(write_ipc, compression=compression))
    options = {"shuffle": shuffle, "drop_last": drop_last, "window": window}
    alone = rows_of(loader_of(files, **options))
    loaders = [loader_of(files, rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    parts = [rows_of(loader) for loader in loaders]
    assert {len(part) for part in parts} == {len(loaders[0])}
    together = list(chain.from_iterable(zip(*parts, strict=True)))
    if drop_last:
        assert together == alone[: len(alone) // world_size * world_size]
    else:
        assert together[: len(alone)] == alone
        assert together[len(alone) :] == alone[: len(together) - len(alone)]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("worlds", [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_a_resume_at_any_batch_equals_no_interruption(files, shuffle, worlds):
    before, after = worlds
    options = {"shuffle": shuffle, "batch_size": 64}
    whole = rows_of(loader_of(files, **options))
    second = loader_of(files, **options)
    second.set_epoch(1)
    next_epoch = rows_of(second)
    for taken in range(len(loader_of(files, world_size=before, **options)) + 1):
        first = loader_of(files, world_size=before, **options)
        batches = iter(first)
        for _ in range(taken):
            next(batches)
        state = first.state_dict()
        assert state["batch"] == min(taken * before, len(whole))
        first.close()
        ranks = [loader_of(files, rank=rank, world_size=after, **options) for rank in range(after)]
        for rank in ranks:
            rank.load_state_dict(pickle.loads(pickle.dumps(state)))
        rest = list(chain.from_iterable(zip(*(rows_of(rank) for rank in ranks), strict=True)))
        left = whole[taken * before :]
        assert rest[: len(left)] == left
        following = list(chain.from_iterable(zip(*(rows_of(rank) for rank in ranks), strict=True)))
        assert following[: len(whole)] == next_epoch


def test_a_state_counts_yielded_batches_not_those_read_ahead(files):
    loader = loader_of(files, prefetch=5)
    batches = iter(loader)
    next(batches)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (0, 1)
    assert len(list(batches)) == len(loader) - 1
    assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (1, 0)
    assert len(pickle.dumps(loader.state_dict())) < 500


def test_an_abandoned_epoch_restarts(files):
    loader = loader_of(files, shuffle="batches")
    begun = iter(loader)
    first = rows_of([next(begun)])
    assert rows_of(loader)[:1] == first
    assert loader.epoch == 1
    list(begun)  # the abandoned iterator does not change the state
    assert loader.epoch == 1


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_an_iterator_continues_when_the_loader_gets_another_state(files, ctx, batch, shuffle):
    loader = loader_of(files, ctx, shuffle=shuffle)
    whole = rows_of(loader)
    loader.set_epoch(0)
    state = loader.state_dict()
    begun = iter(loader)
    found = rows_of([next(begun), next(begun)])
    if batch is None:
        loader.set_epoch(5)
    else:
        loader.load_state_dict({**state, "epoch": 5, "batch": batch})
    found += rows_of([next(begun)])
    moved = loader.state_dict()
    assert (moved["epoch"], moved["batch"]) == (5, batch or 0)
    found += rows_of(begun)
    assert found == whole
    assert loader.state_dict() == moved, "an older iterator must not change the state"
    assert len(rows_of(loader)) == len(whole) - (batch or 0)


def test_set_epoch_keeps_the_batch_of_a_loaded_state(files):
    loader = loader_of(files)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    other = loader_of(files)
    other.load_state_dict(state)
    other.set_epoch(0)
    assert len(list(other)) == len(other) - 1
    other.load_state_dict(state)
    other.set_epoch(4)
    assert len(list(other)) == len(other)
    assert other.epoch == 5


def test_the_error_for_a_state_of_another_order_names_the_difference(files, tmp_path):
    state = loader_of(files, shuffle="rows").state_dict()
    for options, name in [
        ({"batch_size": 16}, "batch_size is 32 there and 16 here"),
        ({"seed": 9}, "seed is 0 there and 9 here"),
        ({"shuffle": "batches"}, "shuffle is 'rows' there and 'batches' here"),
        ({"window": 77}, "window is 2048 there and 77 here"),
    ]:
        with pytest.raises(sa.InvalidError, match=name):
            loader_of(files, **{"shuffle": "rows", **options}).load_state_dict(state)
    with pytest.raises(sa.InvalidError, match="rows is 1001 there and 700 here; files is"):
        loader_of(files[:1], shuffle="rows").load_state_dict(state)
    with pytest.raises(
        sa.InvalidError, match=r"version 1, of an order of rows without lanes.*begin the epoch again"
    ):
        loader_of(files, shuffle="rows").load_state_dict({**state, "version": 1})
    for bad in ({}, None, {**state, "version": 3}, {**state, "batch": -1}, {**state, "batch": 10_000}):
        with pytest.raises(sa.InvalidError):
            loader_of(files, shuffle="rows").load_state_dict(bad)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_parquet_files_have_the_same_order(tmp_path, ctx, shuffle):
    files = files_of_rows(tmp_path, COUNTS, 97, write_parquet)
    alone = rows_of(loader_of(tmp_path, ctx, shuffle=shuffle))
    assert sorted(flat(alone)) == list(range(ROWS))
    parts = [rows_of(loader_of(files, ctx, shuffle=shuffle, rank=rank, world_size=2)) for rank in range(2)]
    assert [each for pair in zip_longest(*parts) for each in pair][: len(alone)] == alone


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_table_is_permuted_as_a_whole(files, ctx, shuffle):
    table = sa.concat_tables([sa.read_ipc(file, ctx, combine_chunks=False) for file in files])
    for window in (1, "1MiB"):
        alone = rows_of(loader_of(table, None, shuffle=shuffle, window=window))
        assert sorted(flat(alone)) == list(range(ROWS))
        three = [
            rows_of(loader_of(table, ctx, shuffle=shuffle, window=window, rank=rank, world_size=3))
            for rank in range(3)
        ]
        assert list(chain.from_iterable(zip(*three, strict=True)))[: len(alone)] == alone
    if shuffle == "rows":
        assert len(set(alone[0]) & set(range(97))) < 20


@pytest.mark.parametrize("write", [write_ipc, partial(write_ipc, compression="lz4"), write_parquet])
def test_the_last_step_of_ranks_repeats_the_first_batches_of_a_single_window(tmp_path, ctx, write):
    (file,) = files_of_rows(tmp_path, [100], 100, write)
    batches = [list(range(first, first + 10)) for first in range(0, 100, 10)]
    for rank in range(3):
        rows = rows_of(loader_of(file, ctx, batch_size=10, window="1MiB", rank=rank, world_size=3))
        assert rows == [batches[(rank + 3 * step) % 10] for step in range(4)]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("world_size", [4, 7])
def test_ranks_without_a_last_batch_repeat_the_first_batches(files, shuffle, world_size):
    options = {"batch_size": 77, "shuffle": shuffle, "world_size": world_size}  # 13 batches
    alone = rows_of(loader_of(files, batch_size=77, shuffle=shuffle))
    assert len(alone) == ROWS // 77
    last = [rows_of(loader_of(files, rank=rank, **options))[-1] for rank in range(world_size)]
    begin = len(alone) // world_size * world_size
    assert last == (alone[begin:] + alone)[:world_size]


@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33])
def test_few_rows(tmp_path, rows):
    files = files_of_rows(tmp_path, [rows], 10)
    for shuffle in SHUFFLES:
        assert sorted(flat(rows_of(loader_of(files, shuffle=shuffle)))) == list(range(rows))
        dropped = loader_of(files, shuffle=shuffle, drop_last=True)
        assert len(dropped) == rows // 32
        assert len(rows_of(dropped)) == rows // 32
        ranks = [loader_of(files, shuffle=shuffle, rank=rank, world_size=5) for rank in range(5)]
        assert [len(rank) for rank in ranks] == [-(-rows // 32) and 1] * 5
        assert [len(rows_of(rank)) for rank in ranks] == [-(-rows // 32) and 1] * 5


@settings(**examples(60))
@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=3),
    batch_rows=st.integers(1, 90),
    batch_size=st.integers(1, 70),
    window=st.integers(1, 4000),
    shuffle=st.sampled_from(SHUFFLES),
    world_size=st.integers(1, 4),
    resumed=st.integers(0, 30),
    drop_last=st.booleans(),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    least_view=st.sampled_from([0, VIEWED_BYTES]),
)
def test_any_combination_of_options_yields_each_row_once(
    counts, batch_rows, batch_size, window, shuffle, world_size, resumed, drop_last, compression, least_view
):
    with TemporaryDirectory() as folder, patch("saeta._loader.order.VIEWED_BYTES", least_view):
        write = partial(write_ipc, compression=compression)
        files = files_of_rows(Path(folder), counts, batch_rows, write)
        options = {
            "batch_size": batch_size,
            "window": window,
            "shuffle": shuffle,
            "seed": batch_rows,
            "drop_last": drop_last,
        }
        alone = rows_of(loader_of(files, **options))
        rows = sum(counts)
        assert len(set(flat(alone))) == (rows // batch_size * batch_size if drop_last else rows)
        begin = min(resumed, len(alone))
        state = {**loader_of(files, **options).state_dict(), "batch": begin}
        parts = []
        for rank in range(world_size):
            loader = loader_of(files, rank=rank, world_size=world_size, **options)
            loader.load_state_dict(state)
            parts.append(rows_of(loader))
        together = list(chain.from_iterable(zip(*parts, strict=True)))
        expected = alone[begin:]
        if drop_last:
            assert together == expected[: len(expected) // world_size * world_size]
        else:
            assert together[: len(expected)] == expected
            left = len(together) - len(expected)
            assert together[len(expected) :] == (alone * (left + 1))[:left]


BATCHES = [
    *(Batch(500, 4000, False), Batch(40, 320, True), Batch(0, 0, False), Batch(70, 563, False)),
    *(Batch(129, 1032, False), Batch(1, 8, False)),
    *(Batch(20, 160, True) if number % 5 == 4 else Batch(100, 800, False) for number in range(30)),
]

# Hashes of the plans for all settings. Saved states depend on this order: if a hash changes, increase
# loader.VERSION.
PLANS = {False: "146a6b137720be5f", "batches": "31e771437e1d83c7", "rows": "f12dba424e080ca5"}


def order_of(batches, shuffle, window, **options):
    given = {"batch_size": 48, "seed": 7, "drop_last": False, **options}
    return Order(batches, shuffle=shuffle, window=window, **given)


def plan(shuffle, window, drop_last, most_rows, size, epoch, begin, rank):
    order = order_of(BATCHES, shuffle, window, drop_last=drop_last, most_rows=most_rows, batch_size=size)
    loads = order.loads(epoch, Rank(begin, *rank))
    plain = [
        [
            tuple(map(tuple, each.spans)),
            each.taken and (sum(span.rows for span in each.spans), *each.taken),
            each.turns,
        ]
        for each in loads
    ]
    return [order.lanes, order.steps(begin, rank[1]), *plain]


def rows_of_plan(plan):
    """Returns the rows that a plan reads, in order and independent of the division into loads."""
    lanes, steps, *loads = plan
    found = [lanes, steps]
    for spans, taken, turns in loads:
        if taken is not None or turns is not None:
            found.append((spans, taken, turns))
            continue
        for batch, first, rows in spans:
            before = found[-1]
            if isinstance(before, tuple) and before[0] == batch and before[1] + before[2] == first:
                found[-1] = (batch, before[1], before[2] + rows)
            else:
                found.append((batch, first, rows))
    return found


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_order_of_a_seed_never_changes(shuffle):
    settings = product(
        (1000, 8900, None), (False, True), (None, 96), (48, 5), (0, 3), (0, 4), ((0, 1), (0, 3), (2, 3))
    )
    plans = [rows_of_plan(plan(shuffle, *each)) for each in settings]
    if shuffle:
        assert {each[0] for each in plans} == {1, 2, 8}, "orders with lanes and without are looked at"
    assert sha256(repr(plans).encode()).hexdigest()[:16] == PLANS[shuffle]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_loads_in_order_are_as_large_as_the_window_allows(world_size, whole):
    window = 2000
    batches = [Batch(100, 700 + 10 * number, whole) for number in range(20)]
    order = order_of(batches, False, window, batch_size=30)

    def nbytes(load):
        """Returns the bytes that a load reads. A compressed batch is read as a whole, once."""
        if whole:
            return sum(batches[each].nbytes for each in {span.batch for span in load.spans})
        return sum(batches[span.batch].nbytes * span.rows // 100 for span in load.spans)

    def least(load):
        """Returns the bytes that the first rows of this load would have added to the previous load."""
        first = batches[load.spans[0].batch].nbytes
        return first if whole or world_size == 1 else first * 30 // 100

    for rank in range(world_size):
        loads = list(order.loads(0, Rank(0, rank, world_size)))
        assert all(nbytes(load) <= window for load in loads)
        for load, following in pairwise(loads):
            assert nbytes(load) + least(following) > window, "the following rows fit too"
            if whole:
                assert load.spans[-1].batch != following.spans[0].batch, "the batch is read twice"


def test_spans_of_a_plan_are_limited_by_the_window_and_parts_of_batches():
    order = order_of(BATCHES[:6], False, 1000)
    assert [tuple(map(tuple, load.spans)) for load in order.loads(0, Rank(0, 0, 1))] == [
        ((0, 0, 128),),
        ((0, 128, 128),),
        ((0, 256, 128),),
        ((0, 384, 116),),
        ((1, 0, 40), (3, 0, 70)),
        ((4, 0, 128),),
        ((4, 128, 1), (5, 0, 1)),
    ]
    assert VERSION == 2
