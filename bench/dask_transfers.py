#!/usr/bin/env python3
"""Times transfers of tables between two workers of a local Dask cluster, beside those of pyarrow's tables.

    bench/dask_transfers.py [--mib 16 64 256] [--repeats 9] [--columns 8]

One worker has a table, and the other adds up its values. The time is what the client sees, from the request
to the result, without that of the same request where the table is already. Beside it stands the time that the
processors worked for both workers, which says more on a busy machine. The kinds take turns:

saeta             a table of several allocations, as `saeta.dask` sends it: gathered first
saeta, packed     a table in one piece of memory, as files and messages leave it
pyarrow           a table of pyarrow, as distributed sends it: an IPC stream
pyarrow, pickled  a table of pyarrow inside of an object, which is pickled with buffers out of band
array             an array of NumPy, which nobody converts: what distributed and its sockets take alone
nothing           a number

"alone" is the time of serialising and restoring in one process, without sockets.

DASK_DISTRIBUTED__COMM__SHARD=1GiB lets Dask send bodies of more than 64 MiB undivided.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import dask
import distributed
import numpy as np
import pyarrow as pa
from distributed.protocol import deserialize, serialize

import saeta as sa
import saeta.dask

KINDS = ("saeta", "saeta, packed", "pyarrow", "pyarrow, pickled", "array", "nothing")
SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}


class Holder:
    """An object of a user, which distributed pickles."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table


def make(kind: str, columns: int, nbytes: int) -> Any:
    if kind == "nothing":
        return 0
    if kind == "array":
        return np.arange(nbytes // 8)
    rows = nbytes // columns // 8
    values = {f"c{number}": np.arange(rows) + number for number in range(columns)}
    if kind.startswith("saeta"):
        table = sa.table(values, "host")
        return sa.unpack(*table.pack()) if "packed" in kind else table
    return pa.table(values) if kind == "pyarrow" else Holder(pa.table(values))


def add_up(given: Any) -> int:
    if isinstance(given, int | np.ndarray):
        return int(np.sum(given))
    if isinstance(given, sa.Table):
        return sum(int(np.from_dlpack(each).sum()) for each in given.columns)
    table = given.table if isinstance(given, Holder) else given
    return sum(int(each.chunk(0).to_numpy().sum()) for each in table.columns)


def processor_seconds(client: distributed.Client) -> float:
    return sum(client.run(time.process_time).values())


def seconds_of(client: distributed.Client, worker: str, table: Any) -> tuple[float, float, int]:
    """Returns the time that passes, that of the processors, and the result."""
    worked = processor_seconds(client)
    start = time.perf_counter()
    found = client.submit(add_up, table, workers=[worker], allow_other_workers=False, pure=False).result()
    passed = time.perf_counter() - start
    return passed, processor_seconds(client) - worked, found


def measure(client: distributed.Client, mib: int, columns: int, repeats: int) -> dict[str, Any]:
    one, other = sorted(client.run(os.getpid))
    passed: dict[str, list[float]] = {kind: [] for kind in KINDS}
    worked: dict[str, list[float]] = {kind: [] for kind in KINDS}
    results = {kind: set() for kind in KINDS}
    for _ in range(repeats + 1):  # the first is not counted
        for kind in KINDS:
            table = client.submit(make, kind, columns, mib << 20, workers=[one], pure=False)
            distributed.wait(table)
            first = seconds_of(client, other, table)
            again = seconds_of(client, other, table)
            passed[kind].append(first[0] - again[0])
            worked[kind].append(first[1] - again[1])
            results[kind].add(first[2])
            del table
    assert len(set.union(*(results[kind] for kind in KINDS[:4]))) == 1
    return {
        "mebibytes": mib,
        "milliseconds": {kind: median_ms(times) for kind, times in passed.items()},
        "of the processors": {kind: median_ms(times) for kind, times in worked.items()},
        "alone": {kind: median_ms(alone(make(kind, columns, mib << 20), repeats)) for kind in KINDS},
    }


def alone(given: Any, repeats: int) -> list[float]:
    """Times the serialisation of distributed, which offers "dask" before "pickle" to every object."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        header, frames = serialize(given, on_error="raise")
        deserialize(header, [memoryview(each) for each in frames])
        times.append(time.perf_counter() - start)
    return times


def median_ms(times: list[float]) -> float:
    return round(statistics.median(times[1:]) * 1e3, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description="times transfers between workers of Dask")
    parser.add_argument("--mib", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--columns", type=int, default=8)
    given = parser.parse_args()
    with (
        dask.config.set(SETTINGS),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="8GiB", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        print(distributed.__version__, f"saeta {sa.__version__}", f"pyarrow {pa.__version__}")
        for mib in given.mib:
            print(json.dumps(measure(client, mib, given.columns, given.repeats), indent=2))


if __name__ == "__main__":
    main()
