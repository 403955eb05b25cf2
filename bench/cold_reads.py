#!/usr/bin/env python3
"""Measures reads of files that are not in the page cache: buffered, with O_DIRECT, and by `read_ipc`.

    cold_reads.py [--folder F] [--mib SIZE] [--threads 1,4,16] [--rounds N] [--device D] [--out FILE.json]
                  [--commit TEXT]

The file is synced and dropped from the page cache before each read, and the program checks that it is gone.
File systems in memory (tmpfs) are refused. In each round the kinds of reads run one after the other. The
program prints medians in GB/s of the file's bytes. It also says whether the machine has GPUDirect Storage
(the kernel module nvidia-fs), which could bypass the host's memory.
"""

from __future__ import annotations

import argparse
import errno
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rates import add_result_arguments, write_result

import saeta as sa

CHUNK = 4 << 20
ROWS = 1 << 16


def make(path: Path, size: int) -> int:
    """Writes an Arrow file of random float64 and returns its size in bytes."""
    values = np.random.default_rng(1)
    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    with pa.ipc.new_file(path, schema) as writer:
        for _ in range(max(1, size // (ROWS * 8 * len(schema)))):
            columns = [pa.array(values.random(ROWS)) for _ in schema]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return path.stat().st_size


def drop(path: Path) -> None:
    """Drops the file from the page cache. Raises OSError if its pages stay there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        page = bytearray(mmap.PAGESIZE)
        size = os.fstat(descriptor).st_size
        for at in range(0, size, max(CHUNK, size // 64)):
            try:
                os.preadv(descriptor, [page], at, os.RWF_NOWAIT)
            except BlockingIOError:
                continue
            raise OSError(errno.EBUSY, "the file stays in memory, so it can't be read cold", str(path))
    finally:
        os.close(descriptor)


def read_raw(path: Path, size: int, threads: int, flags: int) -> None:
    """Reads every byte once. Each of the threads reuses one buffer, as the staging ring does."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    numbers = count()

    def work() -> None:
        memory = mmap.mmap(-1, CHUNK)
        while (at := next(numbers) * CHUNK) < size:
            os.preadv(descriptor, [memory], at)

    try:
        with ThreadPoolExecutor(threads) as pool:
            for each in [pool.submit(work) for _ in range(threads)]:
                each.result()
    finally:
        os.close(descriptor)


def ways(path: Path, size: int, threads: list[int], ctx: sa.Context) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for number in threads:
        for name, flags in (("page cache", 0), ("O_DIRECT", os.O_DIRECT)):
            found[f"{name}, {number} threads"] = partial(read_raw, path, size, number, flags)
    found["saeta.read_ipc"] = lambda: sa.read_ipc(path, ctx, copy=True)
    found["pyarrow, to the host"] = lambda: pa.ipc.open_file(pa.OSFile(str(path))).read_all()
    return found


def measure(path: Path, size: int, threads: list[int], rounds: int, ctx: sa.Context) -> dict[str, Any]:
    operations = ways(path, size, threads, ctx)
    seconds: dict[str, list[float]] = {name: [] for name in operations}
    missing = {}
    for _ in range(rounds):
        for name, read in operations.items():
            if name in missing:
                continue
            drop(path)
            start = time.perf_counter()
            try:
                kept = read()
            except OSError as failure:  # a file system without O_DIRECT
                missing[name] = str(failure)
                continue
            seconds[name].append(time.perf_counter() - start)
            del kept
    rates = {
        name: round(size / statistics.median(taken) / 1e9, 2) for name, taken in seconds.items() if taken
    }
    return {"gb_per_s": rates, "seconds": seconds, "missing": missing}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--folder", type=Path, help="on the disk to be measured; a temporary one without it"
    )
    arguments.add_argument("--mib", type=int, default=256, help="size of the file")
    arguments.add_argument("--threads", default="1,4,16")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--device")
    add_result_arguments(arguments)
    given = arguments.parse_args()
    ctx = sa.context(given.device) if given.device else sa.context()
    with tempfile.TemporaryDirectory(prefix="saeta-cold-", dir=given.folder) as folder:
        path = Path(folder) / "cold.arrow"
        size = make(path, given.mib << 20)
        threads = [int(each) for each in given.threads.split(",")]
        try:
            made = measure(path, size, threads, given.rounds, ctx)
        except OSError as failure:
            sys.exit(f"cold_reads: {failure}")
    direct = Path("/proc/driver/nvidia-fs").exists()
    for name, rate in made["gb_per_s"].items():
        print(f"{name:28} {rate:6.2f} GB/s")
    for name, why in made["missing"].items():
        print(f"{name:28} {why}")
    print("GPUDirect Storage: " + ("there" if direct else "not there (no module nvidia-fs)"))
    write_result(
        given.out,
        "cold_reads",
        given.commit,
        device=ctx.device,
        bytes=size,
        gpudirect_storage=direct,
        **made,
    )


if __name__ == "__main__":
    main()
