#!/usr/bin/env python3
"""Transforms a data set on a Dask cluster of two workers whose budgets together are smaller than the data.

    examples/dask_pipeline.py [MEBIBYTES]

A worker reads each partition into its context, applies the user's function (on a GPU if there is one), and
writes the result. At the end the program compares all rows with the expected ones, and the sizes that the
scheduler knows with those of the tables.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np

import saeta as sa
import saeta.dask

WORKERS = 2
BATCH_ROWS = 32_768
ROW_BYTES = 16
FARES = 1_000
LIMIT = 1 << 30  # memory limit of a worker process in bytes, tables included
DEVICE = None if importlib.util.find_spec("torch") else "host"  # the function for a GPU needs torch


def write_source(folder: Path, nbytes: int) -> int:
    """Writes files with many batches. Returns the number of rows."""
    random = np.random.default_rng(11)
    batches = -(-nbytes // (BATCH_ROWS * ROW_BYTES))
    files = 3
    for number in range(files):
        with sa.ipc_writer(folder / f"part-{number}.arrow", durable=False) as writer:
            for batch in range(number, batches, files):
                rides = np.arange(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
                fares = random.integers(0, FARES, BATCH_ROWS) / 8
                writer.write(sa.table({"ride": rides, "fare": fares}, "host"))
    return batches * BATCH_ROWS


def add_total(table: sa.Table) -> sa.Table:
    """The user's function: runs on the table's device."""
    if table.device == "host":
        fare: Any = np.from_dlpack(table["fare"])
    else:
        import torch

        fare = torch.from_dlpack(table["fare"])
    return table.append_column("total", fare * 1.25 + 2)


def write_part(table: sa.Table, path: str) -> dict[str, Any]:
    used = saeta.dask.worker_context(table.device).memory.statistics()
    return {
        "bytes": table.write_ipc(path, durable=False),
        "device": table.device,
        "process": os.getpid(),
        "peak": used["peak"],
    }


def require_equal(source: Path, result: Path, rows: int) -> None:
    """Compares batch by batch, so that this process does not need memory for all rows."""
    seen = 0
    with sa.scan_ipc(source, "host") as before, sa.scan_ipc(result, "host") as after:
        for expected, found in zip(before, after, strict=True):
            assert found.equals(add_total(expected)), f"rows from {seen} on differ"
            seen += found.num_rows
    assert seen == rows


def require_exact_sizes(client: distributed.Client, table: Any) -> None:
    expected = client.submit(lambda each: each.nbytes, table).result()
    weight = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[table.key].nbytes)
    assert weight == expected, (weight, expected)
    print(f"the scheduler, and so the dashboard, knows a partition as {weight:,} bytes: exact")


def main() -> None:
    nbytes = (int(sys.argv[1]) if len(sys.argv) > 1 else 64) << 20
    budget = nbytes // 4
    settings = {
        "saeta.budget.host": budget,
        "saeta.budget.device": budget,
        "distributed.worker.memory.target": budget / 2 / LIMIT,  # Dask spills tables beyond this fraction
    }
    with (
        tempfile.TemporaryDirectory() as name,
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            memory_limit=LIMIT,
            dashboard_address="127.0.0.1:0",
            local_directory=name,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        source, result = Path(name, "source"), Path(name, "result")
        source.mkdir()
        result.mkdir()
        rows = write_source(source, nbytes)
        print(
            f"{nbytes >> 20} MiB in {rows:,} rows; {WORKERS} workers may use {budget >> 20} MiB each: "
            f"{WORKERS * budget >> 20} MiB together"
        )
        start = time.perf_counter()
        parts = saeta.dask.read_ipc(source, client, device=DEVICE, blocksize=2 << 20, copy=True)
        paths = [str(result / f"part-{number:05}.arrow") for number in range(len(parts))]
        totals = client.map(add_total, parts, pure=False)
        written = client.map(write_part, totals, paths, pure=False)
        require_exact_sizes(client, totals[0])
        del parts, totals
        seen = client.gather(written)
        seconds = time.perf_counter() - start

        for process in sorted({each["process"] for each in seen}):
            own = [each for each in seen if each["process"] == process]
            peak = max(each["peak"] for each in own)
            assert peak <= budget, (peak, budget)
            print(
                f"worker {process} on {own[0]['device']}: {len(own)} partitions, at most "
                f"{peak / (1 << 20):.1f} of its {budget >> 20} MiB"
            )
        print(
            f"read, transformed and written into {len(seen)} files in {seconds:.1f} s, "
            f"{nbytes / seconds / 1e6:.0f} MB/s"
        )
        require_equal(source, result, rows)
        print("every row is there, with its values")


if __name__ == "__main__":
    main()
