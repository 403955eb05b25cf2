#!/usr/bin/env python3
"""Compares reads from a simulated store with a plain pool of threads that fetches the same ranges.

    stores.py [--latency 5,25,100] [--rate 90] [--mib 512] [--rounds N] [--cases "whole read;scan"]
              [--requests N] [--copies] [--csv FILE.csv] [--out FILE.json] [--commit TEXT]

The store answers a request after `--latency` milliseconds and sends `--rate` MB/s on each connection, of
which there may be any number. It sleeps without the GIL and answers with a view of its memory, which takes no
processor; with `--copies` it copies the bytes once, as a client that receives them does.

The plain reader makes the rounds of requests that every reader has to make: one for the last 64 KiB of a
file, which have its footer and tell its size, and one for everything that is read. A later epoch has the
second one only. The plain reader is told where the ranges are, which others find in metadata. It is run with
several numbers of threads and sizes of requests. The best of them is then run in turns with the package.

Where the package computes, the plain reader is also run with the same work behind it: pyarrow decodes the
columns of Parquet, and numpy permutes the rows in windows, with a thread for each core.

The table has medians in milliseconds; "waits" is how long the requests of the plain reader take by
themselves. Shares are medians of pairs of runs. The default takes 3 minutes on two cores. Needs no GPU and no
network.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rates import add_result_arguments, write_result

import saeta as sa
from saeta._files.parquet_ranges import column_ranges
from saeta._files.stores.requests import REQUESTS

THREADS, PIECES = (64, 128), (1 << 20, 4 << 20, 8 << 20)  # of the plain reader
TRIALS = 3  # of each way of the plain reader
TAIL = 64 << 10  # bytes
WINDOW_ROWS = 1 << 18  # that numpy permutes together, as the loader does
COLUMNS = ["c1", "c6"]  # of sixteen, for reads of few columns


class Answer(NamedTuple):
    meta: dict[str, Any]
    range: tuple[int, int]
    content: Any

    def bytes(self) -> Any:
        return self.content


class SlowStore:
    """Objects in memory behind the methods of a store of obstore, with a delay for each request."""

    def __init__(self, latency: float, rate: float, *, copies: bool = False) -> None:
        self.latency, self.rate, self.copies = latency, rate, copies
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
        answer = content[begin:end].copy() if self.copies else content[begin:end]
        return Answer({"e_tag": "1", "size": len(content)}, (begin, end), answer)

    def list_with_delimiter(self, prefix: str | None) -> dict[str, Any]:
        raise NotImplementedError

    def list(self, prefix: str | None) -> list[Any]:
        raise NotImplementedError


Ranges = Sequence[tuple[int, int]]


@cache
def kept_memory(nbytes: int) -> np.ndarray[Any, Any]:
    """Returns memory that earlier calls have written to, as the package reuses it."""
    return np.ones(nbytes, np.uint8)


def pieces_of(ranges: Ranges, piece: int) -> list[tuple[int, int, int]]:
    """Cuts ranges (offset, bytes) into requests: offset, place in the target, and bytes."""
    pieces = []
    at = 0
    for offset, count in ranges:
        pieces += [
            (offset + first, at + first, min(piece, count - first)) for first in range(0, count, piece)
        ]
        at += count
    return pieces


class Way(NamedTuple):
    """How the plain reader reads."""

    threads: int
    piece: int  # bytes


class Case(NamedTuple):
    """A call of the package, and what the plain reader does instead of it."""

    run: Callable[[SlowStore], Any]
    key: str
    ranges: Ranges
    opens: bool = True
    compute: Callable[[np.ndarray[Any, Any]], Any] | None = None  # with the fetched bytes


def fetch(store: SlowStore, case: Case, way: Way, *, computes: bool = False) -> None:
    """Reads the ranges of a case into memory by a plain pool of threads."""
    if case.opens:
        store.get(case.key, options={"range": {"suffix": TAIL}})
    target = kept_memory(sum(count for _, count in case.ranges))

    def one(each: tuple[int, int, int]) -> None:
        offset, into, size = each
        content = store.get(case.key, options={"range": (offset, offset + size)}).bytes()
        np.copyto(target[into : into + size], content)

    with ThreadPoolExecutor(way.threads) as pool:
        list(pool.map(one, pieces_of(case.ranges, way.piece)))
    if computes and case.compute is not None:
        case.compute(target)


def waits(store: SlowStore, case: Case, way: Way) -> float:
    """Returns the seconds that the requests of the plain reader take by themselves."""
    opening = store.latency + TAIL / store.rate if case.opens else 0.0
    ends = [0.0] * way.threads
    for _, _, size in pieces_of(case.ranges, way.piece):
        first = min(range(way.threads), key=ends.__getitem__)
        ends[first] += store.latency + size / store.rate
    return opening + max(ends)


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


def permuted(content: np.ndarray[Any, Any]) -> None:
    """Permutes the rows of a file of sixteen columns in windows, with a thread for each core."""
    values = content[: len(content) // 128 * 128].view(np.int64)
    order = np.random.default_rng(3).permutation(WINDOW_ROWS)
    columns = [values[at : at + WINDOW_ROWS] for at in range(0, len(values) - WINDOW_ROWS + 1, WINDOW_ROWS)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(lambda column: column.take(order, mode="clip"), columns):
            pass


def cases_of(arrow: bytes, parquet: bytes) -> dict[str, Case]:
    metadata = pq.read_metadata(io.BytesIO(parquet))
    groups = column_ranges(metadata, range(metadata.num_row_groups), COLUMNS)
    of_columns = [each for group in groups for each in group]
    whole = [(0, len(arrow))]
    few = body_ranges(arrow, COLUMNS)

    def decoded(_: np.ndarray[Any, Any]) -> Any:
        return pq.read_table(pa.BufferReader(parquet), columns=COLUMNS)

    return {
        "whole read": Case(lambda store: sa.read_ipc("a.arrow", "host", filesystem=store), "a.arrow", whole),
        "two columns": Case(
            lambda store: sa.read_ipc("a.arrow", "host", columns=COLUMNS, filesystem=store), "a.arrow", few
        ),
        "scan": Case(use_scan, "a.arrow", whole),
        "loader": Case(use_loader, "a.arrow", whole),
        "later epoch of a loader": Case(SecondEpoch(), "a.arrow", whole, opens=False),
        "loader that mixes rows": Case(use_mixing_loader, "a.arrow", whole, compute=permuted),
        "Parquet, two columns": Case(
            lambda store: sa.read_parquet("a.parquet", "host", columns=COLUMNS, filesystem=store),
            "a.parquet",
            of_columns,
            compute=decoded,
        ),
        "Parquet scan, two columns": Case(use_parquet_scan, "a.parquet", of_columns, compute=decoded),
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

    A share is the median of pairs of runs, which other programs of the machine slow down alike.
    """
    case.run(store)
    tried: dict[Way, list[float]] = {Way(*way): [] for way in product(THREADS, PIECES)}
    for _ in range(TRIALS):
        for way, seconds in tried.items():
            seconds.append(timed(store, partial(fetch, store, case, way)).seconds)
    best = min(tried, key=lambda way: min(tried[way]))
    own, plain, computing = [], [], []
    for _ in range(rounds):
        plain.append(timed(store, partial(fetch, store, case, best)))
        own.append(timed(store, partial(case.run, store)))
        if case.compute is not None:
            computing.append(timed(store, partial(fetch, store, case, best, computes=True)))
    return {
        "ms": 1e3 * median(each.seconds for each in own),
        "plain_ms": 1e3 * median(each.seconds for each in plain),
        "share": median(first.seconds / second.seconds for first, second in zip(plain, own, strict=True)),
        "computing_ms": 1e3 * median(each.seconds for each in computing) if computing else None,
        "computing_share": median(
            first.seconds / second.seconds for first, second in zip(computing, own, strict=True)
        )
        if computing
        else None,
        "waits_ms": 1e3 * waits(store, case, best),
        "cpu_ms": 1e3 * median(each.cpu_seconds for each in own),
        "plain_cpu_ms": 1e3 * median(each.cpu_seconds for each in plain),
        "computing_cpu_ms": 1e3 * median(each.cpu_seconds for each in computing) if computing else None,
        "requests": median(each.requests for each in own),
        "plain_requests": median(each.requests for each in plain),
        "plain_threads": best.threads,
        "plain_mib": best.piece >> 20,
        "gb_per_s": sum(count for _, count in case.ranges) / median(each.seconds for each in own) / 1e9,
    }


HEADER = (
    f"{'':34}{'Saeta':>13}{'plain reader':>28}{'and computing':>20}   requests\n"
    f"{'latency  case':34}{'ms':>7}{'cpu':>6}{'ms':>7}{'cpu':>6}{'waits':>7}{'share':>8}"
    f"{'ms':>7}{'cpu':>6}{'share':>7}   (plain: threads, MiB)"
)


def line_of(latency: float, name: str, found: dict[str, Any]) -> str:
    line = (
        f"{latency:4.0f} ms  {name:25}{found['ms']:7.0f}{found['cpu_ms']:6.0f}{found['plain_ms']:7.0f}"
        f"{found['plain_cpu_ms']:6.0f}{found['waits_ms']:7.0f}{found['share']:8.0%}"
    )
    if found["computing_ms"] is None:
        line += " " * 20
    else:
        line += f"{found['computing_ms']:7.0f}{found['computing_cpu_ms']:6.0f}{found['computing_share']:7.0%}"
    return (
        f"{line}   {found['requests']:.0f} ({found['plain_requests']:.0f}: {found['plain_threads']}, "
        f"{found['plain_mib']})"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--latency", default="5,25,100", help="milliseconds of a request")
    arguments.add_argument("--rate", type=float, default=90, help="MB/s of a connection")
    arguments.add_argument("--mib", type=int, default=512, help="of the Arrow file")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--cases", help="some of the cases, by their names")
    arguments.add_argument("--requests", type=int, help="of the package at once")
    arguments.add_argument("--copies", action="store_true", help="the store copies what it sends")
    arguments.add_argument("--csv", type=Path, help="a file for the table")
    add_result_arguments(arguments)
    given = arguments.parse_args()
    if given.requests:
        REQUESTS.limit(given.requests)
    arrow, parquet = contents(given.mib)
    cases = cases_of(arrow, parquet)
    if given.cases:
        cases = {name: cases[name] for name in given.cases.split(";")}
    results = []
    print(HEADER)
    for latency in map(float, given.latency.split(",")):
        store = SlowStore(latency / 1e3, given.rate * 1e6, copies=given.copies)
        store.put("a.arrow", arrow)
        store.put("a.parquet", parquet)
        for name, case in cases.items():
            found = measure(store, case, given.rounds)
            results.append({"latency_ms": latency, "case": name, **found})
            print(line_of(latency, name, found), flush=True)
            if given.csv is not None:
                write_csv(given.csv, results)
    write_result(given.out, "stores", given.commit, rate=given.rate, mib=given.mib, results=results)


def write_csv(path: Path, results: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(results[0]))
        writer.writeheader()
        for each in results:
            writer.writerow({key: round(at, 3) if isinstance(at, float) else at for key, at in each.items()})


if __name__ == "__main__":
    main()
