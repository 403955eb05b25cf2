"""Measures the limits of the machine in the same run: copies, decoding and writing."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa
from saeta import _core
from saeta.bench.data import buffers_of

CHUNK = 4 << 20


class Link:
    """Plain copies in one direction, from or to page-locked memory.

    On the host they go from memory to memory, in one thread.

    The memory is kept, so that copies can alternate with the job that they limit. Other load on the machine
    then affects both equally.
    """

    def __init__(self, ctx: sa.Context, size: int, way: str) -> None:
        kind = "memcpy" if ctx.device == "host" else {"in": "host_to_device", "out": "device_to_host"}[way]
        self._size = size
        self._copies = _core._PlainCopies(ctx, size, kind)

    def time(self) -> float:
        """Returns the seconds of one copy."""
        return self._copies.time()

    def rate(self, seconds: list[float]) -> float:
        """Returns the median rate of such copies in GB/s."""
        return self._size / median(seconds) / 1e9

    def measure(self, rounds: int) -> float:
        """Returns the median rate of `rounds` copies in GB/s."""
        return self.rate([self.time() for _ in range(rounds)])


def decoding(table: Any, codec: str, size: int, threads: int, rounds: int) -> float:
    """Returns GB/s of decoded values, with each chunk of a buffer as a task for `threads` threads."""
    parts = []
    total = 0
    for buffer in buffers_of(table):
        for first in range(0, buffer.size, CHUNK):
            part = buffer.slice(first, min(CHUNK, buffer.size - first))
            parts.append((pa.compress(part, codec=codec), part.size))
            total += part.size
            if total >= size:
                break
        if total >= size:
            break

    def decode(part: tuple[Any, int]) -> None:
        pa.decompress(*part, codec=codec)  # the result is dropped, so that the next one reuses warm memory

    with ThreadPoolExecutor(threads) as pool:

        def run() -> None:
            list(pool.map(decode, parts))

        return total / _median(run, rounds) / 1e9


def writing(folder: Path, size: int, threads: int, rounds: int, *, durable: bool) -> float:
    """Returns GB/s of `pwrite` by `threads` threads into a new file, synced or not as in `write_ipc`."""
    content = np.random.default_rng(4).bytes(CHUNK)
    path = folder / "pwrite"

    def run() -> None:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda at: os.pwrite(descriptor, content, at), range(0, size, CHUNK)))
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    try:
        return -(-size // CHUNK) * CHUNK / _median(run, rounds) / 1e9
    finally:
        path.unlink(missing_ok=True)


def _median(run: Any, rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return median(seconds)
