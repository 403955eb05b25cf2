#!/usr/bin/env python3
"""Compares reads from a simulated store with a plain pool of threads that fetches the same ranges.

    stores.py [--latency 5,25,100] [--rate 90] [--mib 512] [--rounds N] [--cases "whole read,scan,..."]
              [--requests N] [--out FILE.json] [--commit TEXT]

The store answers a request after `--latency` milliseconds and sends `--rate` MB/s on each connection, of
which there may be any number. It sleeps without the GIL and copies the bytes once. The plain reader knows all
ranges beforehand, and fetches them with the number of threads and the size of requests that are best for it:
it is run with several, in turns with the calls of the package. Needs no GPU and no network.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rates import add_result_arguments, write_result

import saeta as sa
from saeta._files.parquet_ranges import column_ranges
from saeta._files.stores.requests import REQUESTS

THREADS, PIECES = (64, 128), (4 << 20, 8 << 20)  # of the plain reader
BATCH_ROWS = 1 << 20
COLUMNS = ["c1", "c6"]  # of sixteen, for reads of few columns


class Answer(NamedTuple):
    meta: dict[str, Any]
    range: tuple[int, int]
    content: Any

    def bytes(self) -> Any:
        return self.content


class SlowStore:
    """Objects in memory behind the methods of a store of obstore, with a delay for each request."""

    def __init__(self, latency: float, rate: float) -> None:
        self.latency, self.rate = latency, rate
        self.objects: dict[str, np.ndarray[Any, Any]] = {}
        self.requests = 0

    def put(self, key: str, content: bytes) -> None:
        self.objects[key] = np.frombuffer(content, np.uint8)

    def head(self, key: str) -> dict[str, Any]:
        time.sleep(self.latency)
        return {"path": key, "size": len(self.objects[key]), "e_tag": "1"}

    def get(self, key: str, *, options: dict[str, Any]) -> Answer:
        content = self.objects[key]
        given = options["range"]
        begin, end = (len(content) - given["suffix"], len(content)) if isinstance(given, dict) else given
        self.requests += 1
        time.sleep(self.latency + (end - begin) / self.rate)
        return Answer({"e_tag": "1", "size": len(content)}, (begin, end), content[begin:end].copy())

    def list_with_delimiter(self, prefix: str | None) -> dict[str, Any]:
        raise NotImplementedError

    def list(self, prefix: str | None) -> list[Any]:
        raise NotImplementedError


Ranges = Sequence[tuple[int, int]]


@cache
def kept_memory(nbytes: int) -> np.ndarray[Any, Any]:
    """Returns memory that earlier calls have written to, as the package reuses it."""
    return np.ones(nbytes, np.uint8)


def fetch(store: SlowStore, key: str, ranges: Ranges, threads: int, piece: int) -> None:
    """Reads ranges (offset, bytes) into memory by a plain pool of threads."""
    store.head(key)
    target = kept_memory(sum(count for _, count in ranges))
    pieces = []
    at = 0
    for offset, count in ranges:
        for first in range(0, count, piece):
            size = min(piece, count - first)
            pieces.append((offset + first, at + first, size))
        at += count

    def one(each: tuple[int, int, int]) -> None:
        offset, into, size = each
        content = store.get(key, options={"range": (offset, offset + size)}).bytes()
        np.copyto(target[into : into + size], content)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, pieces))


class Case(NamedTuple):
    run: Callable[[SlowStore], Any]
    key: str
    ranges: Ranges  # that the plain reader fetches


def use_scan(store: SlowStore) -> None:
    with sa.scan_ipc("a.arrow", "host", filesystem=store) as scan:
        for batch in scan:
            assert batch.num_rows


def loader_of(store: SlowStore, shuffle: Any = "batches", batch_size: int = 65536) -> sa.Loader[sa.Table]:
    return sa.loader(
        "a.arrow",
        "host",
        batch_size=batch_size,
        shuffle=shuffle,
        to="table",
        read_options=sa.ReadOptions(filesystem=store),
    )


def use_loader(store: SlowStore) -> None:
    with loader_of(store) as batches:
        for batch in batches:
            assert batch.num_rows


def use_mixing_loader(store: SlowStore) -> None:
    with loader_of(store, "rows", 8192) as batches:
        for batch in batches:
            assert batch.num_rows


class SecondEpoch:
    """A later epoch of a loader, whose files are open."""

    def __init__(self) -> None:
        self._open: tuple[SlowStore, sa.Loader] | None = None

    def __call__(self, store: SlowStore) -> None:
        if self._open is None or self._open[0] is not store:
            self._open = store, loader_of(store)
        for batch in self._open[1]:
            assert batch.num_rows


def use_parquet_scan(store: SlowStore) -> None:
    with sa.scan_parquet("a.parquet", "host", columns=COLUMNS, filesystem=store) as scan:
        for batch in scan:
            assert batch.num_rows


def table(mib: int) -> pa.Table:
    rows = (mib << 20) // (16 * 8)
    numbers = np.random.default_rng(7)
    return pa.table({f"c{number}": numbers.integers(0, 1 << 40, rows) for number in range(16)})


def contents(mib: int) -> tuple[bytes, bytes]:
    """Returns an Arrow file with batches of 8 MiB, and a Parquet file without compression."""
    rows = table(mib)
    arrow, parquet = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_file(arrow, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1 << 16)
    pq.write_table(rows, parquet, row_group_size=1 << 18, compression="none", use_dictionary=False)
    return arrow.getvalue(), parquet.getvalue()


def cases_of(arrow: bytes, parquet: bytes) -> dict[str, Case]:
    metadata = pq.read_metadata(io.BytesIO(parquet))
    groups = column_ranges(metadata, range(metadata.num_row_groups), COLUMNS)
    of_columns = [each for group in groups for each in group]
    whole = [(0, len(arrow))]
    few = body_ranges(arrow, COLUMNS)
    return {
        "whole read": Case(lambda store: sa.read_ipc("a.arrow", "host", filesystem=store), "a.arrow", whole),
        "two columns": Case(
            lambda store: sa.read_ipc("a.arrow", "host", columns=COLUMNS, filesystem=store), "a.arrow", few
        ),
        "scan": Case(use_scan, "a.arrow", whole),
        "loader": Case(use_loader, "a.arrow", whole),
        "loader that mixes rows": Case(use_mixing_loader, "a.arrow", whole),
        "later epoch of a loader": Case(SecondEpoch(), "a.arrow", whole),
        "Parquet, two columns": Case(
            lambda store: sa.read_parquet("a.parquet", "host", columns=COLUMNS, filesystem=store),
            "a.parquet",
            of_columns,
        ),
        "Parquet scan, two columns": Case(use_parquet_scan, "a.parquet", of_columns),
    }


def body_ranges(arrow: bytes, columns: Sequence[str]) -> Ranges:
    """Returns where columns of an Arrow file are: their buffers, which views of the bytes tell."""
    base = pa.py_buffer(arrow)
    with pa.ipc.open_file(base) as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    buffers = [batch.column(name).buffers()[1] for batch in batches for name in columns]
    return [(buffer.address - base.address, buffer.size) for buffer in buffers]


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float  # of the process, which is the store as well
    requests: int


def timed(store: SlowStore, action: Callable[[], Any]) -> Run:
    before, begin, cpu = store.requests, time.perf_counter(), time.process_time()
    kept = action()
    run = Run(time.perf_counter() - begin, time.process_time() - cpu, store.requests - before)
    del kept
    return run


def measure(store: SlowStore, case: Case, rounds: int) -> dict[str, Any]:
    """Returns medians of the package's call and of the best plain reader, which run in turns.

    The share is the median of pairs of runs, which other programs of the machine slow down alike.
    """
    pairs: dict[tuple[int, int], list[tuple[Run, Run]]] = {way: [] for way in product(THREADS, PIECES)}
    for _ in range(rounds):
        for (threads, piece), of_way in pairs.items():
            first = timed(store, lambda: fetch(store, case.key, case.ranges, threads, piece))  # noqa: B023
            of_way.append((first, timed(store, lambda: case.run(store))))
    best = min(pairs, key=lambda way: median(each.seconds for each, _ in pairs[way]))
    nbytes = sum(count for _, count in case.ranges)
    own = [each for of_way in pairs.values() for _, each in of_way]
    plain = [each for each, _ in pairs[best]]
    return {
        "gb_per_s": nbytes / median(each.seconds for each in own) / 1e9,
        "plain_gb_per_s": nbytes / median(each.seconds for each in plain) / 1e9,
        "share": median(first.seconds / second.seconds for first, second in pairs[best]),
        "cpu_s": median(each.cpu_seconds for each in own),
        "plain_cpu_s": median(each.cpu_seconds for each in plain),
        "requests": median(each.requests for each in own),
        "plain_requests": median(each.requests for each in plain),
        "plain_threads": best[0],
        "plain_mib": best[1] >> 20,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--latency", default="5,25,100", help="milliseconds of a request")
    arguments.add_argument("--rate", type=float, default=90, help="MB/s of a connection")
    arguments.add_argument("--mib", type=int, default=512, help="of the Arrow file")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--cases", help="some of the cases, by their names")
    arguments.add_argument("--requests", type=int, help="of the package at once")
    add_result_arguments(arguments)
    given = arguments.parse_args()
    if given.requests:
        REQUESTS.limit(given.requests)
    arrow, parquet = contents(given.mib)
    cases = cases_of(arrow, parquet)
    if given.cases:
        cases = {name: cases[name] for name in given.cases.split(",")}
    results = []
    for latency in map(float, given.latency.split(",")):
        store = SlowStore(latency / 1e3, given.rate * 1e6)
        store.put("a.arrow", arrow)
        store.put("a.parquet", parquet)
        for name, case in cases.items():
            found = measure(store, case, given.rounds)
            results.append({"latency_ms": latency, "case": name, **found})
            way = f"{found['plain_threads']} threads, {found['plain_mib']} MiB"
            print(
                f"{latency:5.0f} ms  {name:26} {found['gb_per_s']:5.2f} GB/s, plain "
                f"{found['plain_gb_per_s']:5.2f} ({way}): {found['share']:4.0%}; processor "
                f"{found['cpu_s'] * 1e3:4.0f} ms, plain {found['plain_cpu_s'] * 1e3:4.0f}; requests "
                f"{found['requests']:.0f}, plain {found['plain_requests']:.0f}",
                flush=True,
            )
    write_result(given.out, "stores", given.commit, rate=given.rate, mib=given.mib, results=results)


if __name__ == "__main__":
    main()
