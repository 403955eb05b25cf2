#!/usr/bin/env python3
"""Measures page-locking the pages of a cached file in place and copying them to a GPU, without a CPU copy.

    registered_pages.py [--mib SIZE] [--windows 1,4,16,64] [--threads 1,4,16] [--beside 1,2] [--rounds N]
                        [--folder F] [--out FILE.json] [--commit TEXT]

The staging ring copies a file's pages into page-locked chunks, and these CPU copies slow down the device's
copies (docs/decisions/whole-reads.md). This program measures the alternative with the driver API alone. A
file in `--folder`, which should keep it in memory, is mapped anew in each round. Each thread takes the next
window of it, registers it (cuMemHostRegister, read-only), copies it, waits, and unregisters it.

The program prints medians in GB/s: for registering and unregistering alone, for both with the copy, and for
one plain copy of page-locked memory. Then `--beside` threads do the same while the staging ring reads an
Arrow file, to see whether both together are faster than either. Needs a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rates import add_result_arguments, write_result

import saeta as sa
from saeta.bench import data, limits

READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY


class Driver:
    """The driver API through ctypes, in the primary context of the first device."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as missing:
            raise SystemExit(f"no driver of a GPU: {missing}") from None
        self._context = ctypes.c_void_p()
        self("cuInit", ctypes.c_uint(0))
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ctypes.c_int(0))

    def __call__(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise SystemExit(f"{name}: CUDA error {result}")

    def enter(self) -> None:
        """Makes the context current. Each thread calls this once."""
        self("cuCtxSetCurrent", self._context)

    def new_stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))
        return made

    def allocate(self, size: int) -> int:
        made = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(size))
        return made.value


def take_window(driver: Driver, source: int, size: int, target: int | None, stream: ctypes.c_void_p) -> None:
    """Registers `size` bytes, copies them to `target` unless it is None, and unregisters them."""
    first, length = ctypes.c_void_p(source), ctypes.c_size_t(size)
    driver("cuMemHostRegister_v2", first, length, ctypes.c_uint(READ_ONLY))
    if target is not None:
        driver("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(target), first, length, stream)
        driver("cuStreamSynchronize", stream)
    driver("cuMemHostUnregister", first)


@contextmanager
def mapped(file: int, size: int) -> Iterator[int]:
    """Maps the file, and yields the address. The page tables are still empty."""
    with mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ) as pages:
        yield np.frombuffer(pages, np.uint8).ctypes.data  # the mapping can't close while an array exists


def round_of(driver: Driver, file: int, size: int, window: int, threads: int, target: int | None) -> float:
    """Returns the seconds for the whole file, without mapping it. If `target` is None, nothing is copied."""
    with mapped(file, size) as first:
        windows = itertools.count(0, window)  # next() on it is atomic under the GIL

        def work(stream: ctypes.c_void_p) -> None:
            driver.enter()
            for at in iter(lambda: next(windows), None):
                if at >= size:
                    return
                to = None if target is None else target + at
                take_window(driver, first + at, min(window, size - at), to, stream)

        streams = [driver.new_stream() for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            start = time.perf_counter()
            list(pool.map(work, streams))
            seconds = time.perf_counter() - start
        for stream in streams:
            driver("cuStreamDestroy_v2", stream)
    return seconds


def measure(driver: Driver, file: int, size: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    driver.enter()
    target = driver.allocate(size)
    results = []
    for window, threads in itertools.product(given.windows, given.threads):
        seen: dict[str, list[float]] = {"registered": [], "copied": []}
        for _ in range(given.rounds + 1):  # the first is a warm-up
            for what, to in (("registered", None), ("copied", target)):
                seen[what].append(round_of(driver, file, size, window << 20, threads, to))
        rates = {what: size / statistics.median(seconds[1:]) / 1e9 for what, seconds in seen.items()}
        results.append({"window_mib": window, "threads": threads, **rates})
        print(
            f"{window:4} MiB {threads:3} threads: {rates['registered']:6.1f} registered "
            f"{rates['copied']:6.1f} copied",
            flush=True,
        )
    driver("cuMemFree_v2", ctypes.c_uint64(target))
    return results


def beside_reads(
    driver: Driver, ctx: sa.Context, path: Path, file: int, size: int, window: int, threads: int, rounds: int
) -> dict[str, float]:
    """Returns GB/s of repeated reads of `path`, of the windows that threads copy meanwhile, and of both.

    The threads start again at the beginning of their file until the reads have finished.
    """
    copied = [0] * threads
    stop = threading.Event()
    target = driver.allocate(window * max(1, threads))
    with mapped(file, size) as first, ThreadPoolExecutor(max(1, threads)) as pool:

        def work(number: int) -> None:
            driver.enter()
            stream = driver.new_stream()
            for at in itertools.cycle(range(number * window, size - window + 1, threads * window)):
                if stop.is_set():
                    break
                take_window(driver, first + at, window, target + number * window, stream)
                copied[number] += window
            driver("cuStreamDestroy_v2", stream)

        working = [pool.submit(work, number) for number in range(threads)]
        try:
            values = sa.read_ipc(path, ctx, copy=True).nbytes  # warm-up; also starts the threads
            before = sum(copied)
            start = time.perf_counter()
            for _ in range(rounds):
                sa.read_ipc(path, ctx, copy=True)
            seconds = time.perf_counter() - start
            registered = sum(copied) - before
        finally:
            stop.set()
        for each in working:
            each.result()
    driver("cuMemFree_v2", ctypes.c_uint64(target))
    rates = {"read": values * rounds / seconds / 1e9, "registered": registered / seconds / 1e9}
    return {**rates, "both": sum(rates.values())}


def measure_beside(
    driver: Driver, ctx: sa.Context, folder: Path, file: int, size: int, given: argparse.Namespace
) -> list[dict[str, Any]]:
    path = data.write(folder / "read.arrow", data.numeric(size), 1 << 16)
    results = []
    for threads, window in [(0, 4), *itertools.product(given.beside, given.windows)]:
        rates = beside_reads(driver, ctx, path, file, size, window << 20, threads, 5 * given.rounds)
        results.append({"window_mib": window, "threads": threads, **rates})
        print(
            f"{window:4} MiB {threads:3} threads beside reads: {rates['read']:6.1f} read "
            f"{rates['registered']:6.1f} registered {rates['both']:6.1f} together",
            flush=True,
        )
    return results


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--mib", type=int, default=1024)
    arguments.add_argument("--windows", type=numbers, default=[1, 4, 16, 64], help="MiB")
    arguments.add_argument("--threads", type=numbers, default=[1, 4, 16])
    arguments.add_argument("--beside", type=numbers, default=[1, 2], help="threads")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    driver = Driver()
    size = given.mib << 20
    ctx = sa.context("cuda:0")
    link = limits.Link(ctx, min(size, 512 << 20), "in").measure(given.rounds)
    print(f"GB/s; a plain copy of page-locked memory {link:.1f}")
    with (
        tempfile.TemporaryDirectory(prefix="saeta-pages-", dir=given.folder) as folder,
        tempfile.TemporaryFile(dir=given.folder) as file,
    ):
        some = np.random.default_rng(5).bytes(1 << 20)
        for _ in range(given.mib):
            file.write(some)
        file.flush()
        whole = os.fstat(file.fileno()).st_size
        results = measure(driver, file.fileno(), whole, given)
        beside = measure_beside(driver, ctx, Path(folder), file.fileno(), whole, given)
    write_result(
        given.out,
        "registered_pages",
        given.commit,
        bytes=size,
        pinned_copy_gb_per_s=link,
        results=results,
        beside_reads=beside,
    )


if __name__ == "__main__":
    main()
