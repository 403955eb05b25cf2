#!/usr/bin/env python3
"""Transforms a data set on a local Ray cluster whose memory limits together are smaller than the data.

    examples/ray_pipeline.py [MIB]

The cluster reads Arrow IPC files by batches, computes a column of each batch on the best device, and writes
the result. Every process has a budget and Ray's object store has a limit. At the end the program compares the
written files with the expected rows.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BUDGET = 16 << 20  # bytes of each context in each process
STORE = 80 << 20  # bytes of Ray's object store, the smallest size that Ray accepts
PROCESSES = 3  # two workers and this one
BATCH_ROWS = 1 << 16
ROW_BYTES = 16
os.environ["SAETA_BUDGET"] = str(BUDGET)  # inherited by the processes of the cluster
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # sends no usage statistics

import ray  # noqa: E402
import ray.data  # noqa: E402

import saeta as sa  # noqa: E402
import saeta.ray  # noqa: E402

DEVICE = sa.devices()[0].name


def fares_of(trip: Any) -> Any:
    return trip % 997 / 8


def add_tip(batch: pa.Table) -> pa.Table:
    """The user's function: computes with CuPy on a GPU, with NumPy on the host."""
    table = saeta.ray.collate(DEVICE)(batch).combine_chunks()
    arrays = np if DEVICE == "host" else importlib.import_module("cupy")
    tip = arrays.from_dlpack(table["fare"]) * 0.25 + 1
    return table.append_column("tip", tip).to_arrow()


def write_source(folder: Path, rows: int) -> None:
    """Writes files of several batches each, in bounded memory."""
    firsts = range(0, rows, BATCH_ROWS)
    for number in range(0, len(firsts), 8):
        with sa.ipc_writer(folder / f"{number:05}.arrow", durable=False) as writer:
            for first in firsts[number : number + 8]:
                trip = np.arange(first, min(first + BATCH_ROWS, rows))
                writer.write(sa.table({"trip": trip, "fare": fares_of(trip)}, "host"))


def compare(folder: Path, rows: int) -> None:
    """Reads the result batch by batch and requires each row once, with the right values."""
    seen = np.zeros(rows, bool)
    with sa.scan_ipc(folder, "host") as scan:
        for batch in scan:
            trip, fare, tip = (np.from_dlpack(batch[name]) for name in ("trip", "fare", "tip"))
            assert not seen[trip].any(), "a row was written twice"
            seen[trip] = True
            assert np.array_equal(fare, fares_of(trip)), "fares differ"
            assert np.array_equal(tip, fare * 0.25 + 1), "tips differ"
    assert seen.all(), "rows are missing"


def main() -> None:
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else 256) << 20
    rows = size // ROW_BYTES
    allowed = STORE + PROCESSES * BUDGET
    assert size > allowed, f"{size} bytes fit into the {allowed} bytes of the cluster: choose more MIB"
    ray.init(
        "local",
        num_cpus=PROCESSES - 1,
        num_gpus=0 if DEVICE == "host" else 1,
        object_store_memory=STORE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # hides the execution plan
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "source"), Path(folder, "result")
        source.mkdir()
        write_source(source, rows)
        print(
            f"{size >> 20} MiB in {rows:,} rows, on {DEVICE}; {PROCESSES} processes may use "
            f"{BUDGET >> 20} MiB each and Ray's object store {STORE >> 20} MiB: {allowed >> 20} MiB together"
        )
        start = time.perf_counter()
        trips = saeta.ray.read_ipc(source, override_num_blocks=max(16, size // BUDGET))
        assert (trips.count(), trips.size_bytes()) == (rows, size), "wrong counts in the metadata"
        print(f"before it reads them, Ray knows that the files have {rows:,} rows and {size:,} bytes: exact")
        tipped = trips.map_batches(
            add_tip,
            batch_format="pyarrow",
            batch_size=BATCH_ROWS,
            num_gpus=0 if DEVICE == "host" else 0.5,
        )
        paths = saeta.ray.write_ipc(tipped, result, durable=False)
        seconds = time.perf_counter() - start
        print(
            f"read, transformed and written into {len(paths)} files in {seconds:.1f} s, "
            f"{size / seconds / 1e6:.0f} MB/s"
        )
        compare(result, rows)
        print("every row is there once, with its values")
    ray.shutdown()


if __name__ == "__main__":
    main()
