#!/usr/bin/env python3
"""Shares a table with three other processes, one of which is killed. No memory is leaked.

    examples/share.py [ROWS]

The producer keeps the table in host memory. Each consumer receives a token of some hundred bytes, opens the
table without a copy, and sums a column. One consumer is killed while it has the table open. The memory is
freed when the last consumer has dropped the table.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import Connection

import numpy as np

import saeta as sa


def consume(token: sa.SharedTable, results: Connection) -> None:
    """Opens the table, sends the sum, and keeps the table open until the producer replies."""
    table = sa.open_shared(token)
    fares = np.from_dlpack(table["fare"])  # a view of the shared memory
    results.send((os.getpid(), float(fares.sum()), fares.flags.writeable))
    results.recv()


def held_bytes() -> int:
    found = sa.context("host").memory.statistics()
    return int(found["current"] or 0) + int(found["reserved"] or 0)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    before = held_bytes()
    table = sa.table({"fare": np.arange(rows) / 8, "tip": np.ones(rows)}, "host")
    token = table.share()
    total = (rows - 1) * rows / 16

    context = multiprocessing.get_context("spawn")
    consumers = []
    for _ in range(3):
        here, there = context.Pipe()
        process = context.Process(target=consume, args=(token, there))
        process.start()
        consumers.append((process, here))
    for _, results in consumers:
        number, seen, writeable = results.recv()
        assert (seen, writeable) == (total, False)
        print(f"process {number} of 3 opened {table.num_rows} rows and sees {seen}")

    del table, token
    gc.collect()
    assert held_bytes() > before, "the consumers keep the memory"

    killed, _ = consumers.pop()
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    print("one of them was killed")
    for process, results in consumers:
        results.send("end")
        process.join()

    deadline = time.monotonic() + 30
    while held_bytes() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    print(f"bytes that are still held: {held_bytes() - before}")
    assert held_bytes() == before


if __name__ == "__main__":
    main()
