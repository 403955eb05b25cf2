"""Loaders of files in stores: few and large requests, and the rows of files of this machine."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from loader_files import thirds, write_ipc, write_parquet

ROWS, COLUMNS = 200_000, 8
SHUFFLES = ("rows", "batches")


class Answer(NamedTuple):
    meta: dict[str, Any]
    range: tuple[int, int]
    content: bytes

    def bytes(self) -> bytes:
        return self.content


class Store:
    """Files of a folder, as a store of obstore has them. Counts requests and their bytes."""

    def __init__(self, folder):
        self.folder, self.asked = folder, []

    def head(self, key):
        return {"path": key, "size": (self.folder / key).stat().st_size, "e_tag": "1"}

    def get(self, key, *, options):
        content, given = (self.folder / key).read_bytes(), options["range"]
        first, last = (
            (max(0, len(content) - given["suffix"]), len(content)) if isinstance(given, dict) else given
        )
        last = min(last, len(content))
        self.asked.append(last - first)
        return Answer({"e_tag": "1", "size": len(content)}, (first, last), content[first:last])

    def list_with_delimiter(self, prefix):
        raise NotImplementedError

    list = list_with_delimiter


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
    return sa.loader(name, "host", filesystem=store, **options)


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
    local = sa.loader(store.folder / "a.arrow", "host", **options)
    with pytest.raises(sa.InvalidError, match=r"files is '.*' there"):
        local.load_state_dict(loader.state_dict())
    local = sa.loader(store.folder / "a.parquet", "host", **options)
    local.load_state_dict({**loader_of(store, "a.parquet").state_dict(), "batch": 7})
    assert rows_of(local) == rows_of(loader_of(store, "a.parquet"))[7:]
