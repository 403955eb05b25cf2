"""What the machine can do, measured in the same run: the yardsticks beside which shares stand."""

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
    """Plain copies one way of page-locked memory; on the host from memory to memory, by one thread.

    They keep their memory, so that they can take turns with what they are the limit of: what else the machine does is
    then the same for both."""

    def __init__(self, ctx: sa.Context, size: int, way: str) -> None:
        kind = "memcpy" if ctx.device == "host" else {"in": "host_to_device", "out": "device_to_host"}[way]
        self._size = size
        self._copies = _core._PlainCopies(ctx, size, kind)

    def time(self) -> float:
        """Seconds of one copy."""
        return self._copies.time()

    def rate(self, seconds: list[float]) -> float:
        """GB/s, the median of such copies."""
        return self._size / median(seconds) / 1e9

    def measure(self, rounds: int) -> float:
        """GB/s by itself."""
        return self.rate([self.time() for _ in range(rounds)])


def decoding(table: Any, codec: str, size: int, threads: int, rounds: int) -> float:
    """GB/s of values when every buffer is a task of its own for so many threads."""
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
        pa.decompress(*part, codec=codec)  # and let go, so that the next one finds warm memory

    with ThreadPoolExecutor(threads) as pool:

        def run() -> None:
            list(pool.map(decode, parts))

        return total / _median(run, rounds) / 1e9


def writing(folder: Path, size: int, threads: int, rounds: int) -> float:
    """GB/s of `pwrite` by so many threads into a new file, synced as `write_ipc` does."""
    content = np.random.default_rng(4).bytes(CHUNK)
    path = folder / "pwrite"

    def run() -> None:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda at: os.pwrite(descriptor, content, at), range(0, size, CHUNK)))
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
