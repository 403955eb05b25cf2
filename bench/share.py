#!/usr/bin/env python3
"""Times sharing a table of many columns with another process, which opens and drops it.

    bench/share.py [--device host] [--columns 100] [--rows 1000]

"new" shares a table for the first time; creating the table is not timed. "again" shares a table that is
already shared. "open" maps the memory, creates the columns and drops them, in a process that has not opened
the table. "still open" opens the same token while the process still has the table. The results are checked.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import saeta as sa

ROUNDS = 300


def microseconds(work: Callable[[int], object]) -> float:
    """Returns the median time of many runs."""
    times = []
    for number in range(ROUNDS):
        start = time.perf_counter()
        kept = work(number)
        times.append(time.perf_counter() - start)
        del kept
    return round(sorted(times)[ROUNDS // 2] * 1e6, 1)


def consume(pipe: Connection) -> None:
    """Runs in the other process: opens the tables that arrive and returns how long each takes."""
    token: sa.SharedTable = pickle.loads(pipe.recv_bytes())
    found = sa.open_shared(token)
    assert found["c1"].to_pylist() == list(range(1, len(found) + 1))
    seconds = {"still open": microseconds(lambda _: sa.open_shared(token))}
    del found
    seconds["open, trusted"] = microseconds(lambda _: sa.open_shared(token, validate=False))
    seconds["open, checked"] = microseconds(lambda _: sa.open_shared(token))
    pipe.send(seconds)
    pipe.close()


def measure(device: str, columns: int, rows: int) -> dict[str, Any]:
    ctx = sa.context(device) if device == "host" else sa.context(device, exportable_pool=True)

    def made(start: int) -> sa.Table:
        values = {f"c{i}": np.arange(start + i, start + i + rows) for i in range(columns)}
        return sa.unpack(*sa.table(values, ctx).pack())

    tables = [made(0) for _ in range(ROUNDS)]
    seconds = {"share, new": microseconds(lambda number: tables[number].share())}
    token = tables[0].share()
    seconds["share, again"] = microseconds(lambda _: tables[0].share())
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    other = spawn.Process(target=consume, args=(theirs,))
    other.start()
    ours.send_bytes(pickle.dumps(token))
    seconds |= ours.recv()
    other.join()
    return {
        "device": device,
        "columns": columns,
        "rows": rows,
        "bytes of a token": len(pickle.dumps(token)),
        "microseconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="times sharing")
    parser.add_argument("--device", default="host")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000)
    given = parser.parse_args()
    print(json.dumps(measure(given.device, given.columns, given.rows), indent=2))


if __name__ == "__main__":
    main()
