"""Reads of Arrow files in stores: where the bytes of requests go, and the memory that they take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from counted_store import Store
from loader_files import write_ipc
from saeta._files.stores import ranges
from saeta._ipc import FetchedBytes

ROWS, BATCH = 400_000, 50_000
TABLE = pa.table({name: np.random.default_rng(3).integers(0, 1 << 40, ROWS) for name in "abcd"})
SMALL = 100_000  # bytes: the ends of the file, and metadata


@pytest.fixture
def store(tmp_path) -> Store:
    """A file of 13 MB in batches of 1.6 MB, which are two to a request."""
    write_ipc(TABLE, tmp_path / "a.arrow", BATCH)
    return Store(tmp_path)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of answers that wait in memory of their own."""
    sizes: list[int] = []

    class Fetched(FetchedBytes):  # type: ignore[misc] # a class of the library
        def add(self, offset, content):
            is_kept = super().add(offset, content)
            sizes.append(len(content) * is_kept)
            return is_kept

    monkeypatch.setattr(ranges, "FetchedBytes", Fetched)
    return sizes


def test_bodies_are_fetched_into_the_memory_of_columns(host, store, kept):
    read = sa.read_ipc("a.arrow", host, filesystem=store)
    assert read.to_arrow().equals(TABLE)
    assert sum(kept) < SMALL + ranges.USUAL_ENDS.front + ranges.USUAL_ENDS.back
    assert host.memory.statistics()["current"] == TABLE.nbytes, "and nothing else is kept of them"
    with sa.scan_ipc("a.arrow", host, filesystem=store) as scan:
        assert pa.concat_tables(batch.to_arrow() for batch in scan).equals(TABLE)
    assert host.memory.statistics()["current"] == TABLE.nbytes


def test_each_byte_is_requested_once(host, store):
    sa.read_ipc("a.arrow", host, filesystem=store)
    assert sum(store.asked) == (store.folder / "a.arrow").stat().st_size


def test_a_small_budget_leaves_bodies_with_the_store(host, store, kept):
    """What is fetched ahead takes no more of a budget than it leaves free."""
    with host.memory.child("small", TABLE.nbytes * 4 // 3) as share:
        read = sa.read_ipc("a.arrow", share, filesystem=store)
        assert read.to_arrow().equals(TABLE)
        assert share.memory.statistics()["refused"] == 0
        del read
    assert TABLE.nbytes // 4 < sum(kept) < TABLE.nbytes


def test_a_scan_that_is_left_keeps_nothing(host, store, monkeypatch):
    with sa.scan_ipc("a.arrow", host, filesystem=store) as scan:
        first = next(scan)
    assert host.memory.statistics()["current"] == first.nbytes
    answer, go_on = store.get, threading.Event()

    def slow(key: str, *, options: dict[str, Any]) -> Any:
        if not isinstance(options["range"], dict) and options["range"][0] > TABLE.nbytes // 4:
            go_on.wait(60)  # while the thread that reads ahead has the memory of these batches
        return answer(key, options=options)

    monkeypatch.setattr(store, "get", slow)
    scan = sa.scan_ipc("a.arrow", host, filesystem=store)
    next(scan)
    (reading,) = (thread for thread in threading.enumerate() if thread.name == "saeta-scan")
    del scan  # does not wait for a thread that may be inside a call of the source
    reading.join()
    assert host.memory.statistics()["current"] == first.nbytes
    go_on.set()


def test_fetched_bytes_are_found_where_they_join():
    fetched = FetchedBytes()
    assert fetched.add(10, memoryview(b"abcde"))
    assert fetched.add(15, memoryview(b"fgh"))
    target = bytearray(6)
    assert fetched.copy(11, memoryview(target))
    assert target == b"bcdefg"
    for first, count in ((9, 2), (17, 2), (18, 1), (0, 1)):
        assert not fetched.copy(first, memoryview(bytearray(count)))
    assert fetched.copy(100, memoryview(bytearray()))
    assert fetched.add(15, memoryview(b"FGH")), "they replace the others"
    fetched.remove(10, 15)
    assert not fetched.copy(14, memoryview(bytearray(2)))
    assert fetched.copy(15, memoryview(target)[:3])
    assert target[:3] == b"FGH"


def test_bytes_are_released_with_those_who_asked_for_them():
    content = bytes(range(200))
    file = ranges.RangeFile("a store", len(content), lambda at, count: content[at : at + count])
    one, other = file.ahead([(0, 100)]), file.ahead([(50, 100)])
    target = memoryview(bytearray(100))
    file.fill(20, target)
    assert target == content[20:120]
    one.close()
    assert file.fetched.copy(60, target[:80]), "the other has asked for these as well"
    other.close()
    assert not file.fetched.copy(60, target[:80])
    assert not file.fetched.copy(0, target[:10])
