"""Loaders of files in stores: few and large requests, and the rows of files of this machine."""

from __future__ import annotations

import threading
from itertools import chain, zip_longest

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from counted_store import Store
from loader_files import thirds, write_ipc, write_parquet
from loader_options import grouped

ROWS, COLUMNS = 200_000, 8
SHUFFLES = ("rows", "batches")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A file of 16 MB with batches of 200 KB, and the same rows as Parquet."""
    folder = tmp_path_factory.mktemp("store")
    rows = pa.table(
        {"row": np.arange(ROWS), **{f"c{each}": np.arange(ROWS) * each for each in range(COLUMNS)}}
    )
    write_ipc(rows, folder / "a.arrow", 2500)
    write_parquet(rows, folder / "a.parquet", 2500)
    return Store(folder)


def loader_of(store, name="a.arrow", **options):
    options = {"batch_size": 100, "window": "2MiB", "shuffle": "rows", "to": "numpy", **options}
    return sa.loader(name, "host", **grouped({"filesystem": store, **options}))


def rows_of(batches):
    return [batch["row"].tolist() for batch in batches]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("transform", [None, lambda table: table])
def test_batches_are_read_as_a_whole(store, shuffle, transform):
    """Parts of batches would be a request for each column."""
    loader = loader_of(store, shuffle=shuffle, transform=transform)
    store.asked.clear()
    rows = list(chain.from_iterable(rows_of(loader)))
    assert sorted(rows) == list(range(ROWS))
    assert len(store.asked) < 2 * ROWS / 2500, "about one for each batch, or for several"
    assert sum(store.asked) < 1.2 * (store.folder / "a.arrow").stat().st_size
    assert loader.lanes > 1


@pytest.mark.parametrize("name", ["a.arrow", "a.parquet"])
def test_ranks_read_their_own_batches(store, name):
    alone = rows_of(loader_of(store, name))
    store.asked.clear()
    ranks = [rows_of(loader_of(store, name, rank=rank, world_size=4)) for rank in range(4)]
    assert list(chain.from_iterable(zip(*ranks, strict=True)))[: len(alone)] == alone
    assert sum(store.asked) < 1.4 * (store.folder / name).stat().st_size


def test_a_function_gets_all_rows_from_ranks(store):
    ranks = [rows_of(loader_of(store, transform=thirds, rank=rank, world_size=4)) for rank in range(4)]
    rows = [row for step in zip_longest(*ranks, fillvalue=[]) for batch in step for row in batch]
    assert sorted(rows) == list(range(0, ROWS, 3))


def test_a_state_goes_on_where_the_files_are(store):
    """The order of a store is another one, so its states are refused for files of this machine."""
    loader = loader_of(store)
    batches = iter(loader)
    taken = rows_of(next(batches) for _ in range(7))
    resumed = loader_of(store)
    resumed.load_state_dict(loader.state_dict())
    assert taken + rows_of(resumed) == rows_of(loader_of(store))
    options = {"batch_size": 100, "window": "2MiB", "shuffle": "rows", "to": "numpy"}
    local = sa.loader(store.folder / "a.arrow", "host", **grouped(options))
    with pytest.raises(sa.InvalidError, match=r"files is '.*' there"):
        local.load_state_dict(loader.state_dict())
    local = sa.loader(store.folder / "a.parquet", "host", **grouped(options))
    local.load_state_dict({**loader_of(store, "a.parquet").state_dict(), "batch": 7})
    assert rows_of(local) == rows_of(loader_of(store, "a.parquet"))[7:]


class LateMetadata(Store):
    """Metadata of batches come when the bodies of some were requested."""

    def __init__(self, folder):
        super().__init__(folder)
        self.bodies = threading.Event()
        self.in_time = True

    def get(self, key, *, options):
        given = options["range"]
        nbytes = 1 << 20 if isinstance(given, dict) else given[1] - given[0]
        if nbytes < 10_000:
            self.in_time &= self.bodies.wait(60)
        elif not isinstance(given, dict) and given[0]:
            self.bodies.set()
        return super().get(key, options=options)


@pytest.mark.parametrize("shuffle", [*SHUFFLES, False])
def test_bodies_are_requested_before_the_sizes_of_batches_are_known(store, shuffle):
    late = LateMetadata(store.folder)
    loader = loader_of(late, shuffle=shuffle)
    assert rows_of(loader) == rows_of(loader_of(store, shuffle=shuffle))
    assert late.in_time
    nbytes = (store.folder / "a.arrow").stat().st_size
    assert sum(late.asked) < 1.2 * nbytes, "what was guessed is what was needed"


@pytest.mark.parametrize("first", [300, 7000])
def test_sizes_that_were_not_guessed_change_no_order(store, tmp_path, first):
    """Batches of strings have other bytes for as many rows, and the first one has other rows."""
    sizes = [first, *[1000, 10, 2500] * 20]
    rows = pa.table({"row": np.arange(sum(sizes)), "s": [str(row) * (row % 50) for row in range(sum(sizes))]})
    with pa.ipc.new_file(tmp_path / "b.arrow", rows.schema) as writer:
        for number, size in enumerate(sizes):
            writer.write_batch(rows.slice(sum(sizes[:number]), size).combine_chunks().to_batches()[0])
    options = {"window": "1MiB", "to": "table", "shuffle": "rows"}
    known = loader_of(Store(tmp_path), "b.arrow", **options)
    batches = len(known)
    guessed = [batch["row"].to_pylist() for batch in loader_of(Store(tmp_path), "b.arrow", **options)]
    assert guessed == [batch["row"].to_pylist() for batch in known]
    assert len(guessed) == batches
    assert sorted(chain.from_iterable(guessed)) == list(range(sum(sizes)))


def test_a_loader_that_is_resumed_asks_for_what_is_left(store):
    """Its state tells where it goes on, so nothing is guessed."""
    loader = loader_of(store, shuffle="batches")
    batches = iter(loader)
    for _ in range(1900):
        next(batches)
    state = loader.state_dict()
    batches.close()
    resumed = loader_of(store, shuffle="batches")
    resumed.load_state_dict(state)
    store.asked.clear()
    assert len(list(resumed)) == 100
    assert sum(store.asked) < (store.folder / "a.arrow").stat().st_size / 4


def test_a_loader_that_is_closed_before_its_sizes_are_known_says_so(store):
    loader = loader_of(store)
    loader.close()
    for asked in (len, iter, lambda it: it.lanes, lambda it: it.state_dict()):
        with pytest.raises(sa.ClosedError, match="the loader is closed"):
            asked(loader)
    assert repr(loader) == "<saeta.Loader of batches of 100, closed>"
    assert "closed" in loader._repr_html_()
