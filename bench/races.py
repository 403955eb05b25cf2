#!/usr/bin/env python3
"""Counts data races in hand-overs of arrays between libraries: an array is read before it is written, or its
memory is reused while another library still reads it.

    bench/races.py [--rounds 100] [--out FILE.json] [--commit TEXT]

"late writer": the producer queues a kernel that spins for about 2 ms, then the write of an array. The
consumer imports the array and sums it at once on its own stream.

"early release": the consumer imports a finished array on one stream and sums it on a second stream, behind a
spinning kernel. Meanwhile array and view are dropped, and the producer allocates new arrays with another
value.

Only documented calls are used, without manual synchronisation. A round counts as wrong if the sum is not that
of the array. Needs a GPU, torch and CuPy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import cupy
import numpy as np
import torch
from rates import add_result_arguments, write_result

import saeta as sa

SIZE = 1 << 20
SPIN_CYCLES = 4_000_000  # about 2 ms
OLD, NEW = 1, 3  # the values of arrays; their sums differ

spin = cupy.RawKernel(
    'extern "C" __global__ void spin(long long cycles)'
    "{ long long begin = clock64(); while (clock64() - begin < cycles) {} }",
    "spin",
)


class Torch:
    """torch as producer and as consumer of arrays."""

    def __init__(self) -> None:
        self.own, self.taking, self.reading = (torch.cuda.Stream() for _ in range(3))

    def made(self, value: int, late: bool = False) -> Any:
        with torch.cuda.stream(self.own):
            array = torch.full((SIZE,), OLD if late else value, dtype=torch.int64, device="cuda:0")
            if late:
                self.own.synchronize()
                torch.cuda._sleep(SPIN_CYCLES)
                array.fill_(value)
            return array

    def handing(self) -> AbstractContextManager[Any]:
        """Makes the stream that wrote the array the current one while a consumer imports it."""
        return torch.cuda.stream(self.own)

    def finish(self) -> None:
        self.own.synchronize()

    def summed(self, source: Any, take: Callable[[Any], Any] | None, late: bool) -> Callable[[], int]:
        """Imports the array and queues its sum. Returns a function that waits for the sum."""
        with torch.cuda.stream(self.taking):
            view = (take or torch.from_dlpack)(source)
        self.reading.wait_stream(self.taking)
        with torch.cuda.stream(self.reading):
            if not late:
                torch.cuda._sleep(SPIN_CYCLES)
            total = view.sum()

        def result() -> int:
            self.reading.synchronize()
            return int(total)

        return result


class Cupy:
    """CuPy as producer and as consumer of arrays."""

    def __init__(self) -> None:
        self.own, self.taking, self.reading = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))

    def made(self, value: int, late: bool = False) -> Any:
        with self.own:
            array = cupy.full(SIZE, OLD if late else value, cupy.int64)
            if late:
                self.own.synchronize()
                spin((1,), (1,), (np.int64(SPIN_CYCLES),))
                array.fill(value)
            return array

    def handing(self) -> AbstractContextManager[Any]:
        return self.own

    def finish(self) -> None:
        self.own.synchronize()

    def summed(self, source: Any, take: Callable[[Any], Any] | None, late: bool) -> Callable[[], int]:
        with self.taking:
            view = (take or cupy.from_dlpack)(source)
        self.reading.wait_event(self.taking.record())
        with self.reading:
            if not late:
                spin((1,), (1,), (np.int64(SPIN_CYCLES),))
            total = view.sum()

        def result() -> int:
            self.reading.synchronize()
            return int(total.get())

        return result


class Saeta:
    """Saeta as producer. For a late write torch writes the column on its own stream, under a use token."""

    def __init__(self) -> None:
        self.ctx = sa.context("cuda:0")
        self.own = torch.cuda.Stream()

    def made(self, value: int, late: bool = False) -> Any:
        column = sa.column(np.full(SIZE, OLD if late else value), self.ctx, name="a")
        if late:
            self.finish()
            with torch.cuda.stream(self.own), sa.use(self.own, writes=column) as token:
                view = torch.as_tensor(token.array(column, "i8"), device="cuda:0")
                torch.cuda._sleep(SPIN_CYCLES)
                view.fill_(value)
        return column

    def handing(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def finish(self) -> None:
        self.ctx.synchronize()


MAKERS = {"saeta": Saeta, "torch": Torch, "CuPy": Cupy}
TAKERS = {"torch": Torch, "CuPy": Cupy}
# Producer, consumer, and the consumer's import function (None: from_dlpack).
PAIRS: list[tuple[str, str, Callable[[Any], Any] | None]] = [
    ("saeta", "torch", None),
    ("saeta", "CuPy", None),
    ("saeta", "CuPy", cupy.asarray),
    ("torch", "CuPy", None),
    ("torch", "CuPy", cupy.asarray),
    ("CuPy", "torch", None),
]


def wrong_late_writes(maker: Any, taker: Any, take: Callable[[Any], Any] | None, rounds: int) -> int:
    wrong = 0
    for _ in range(rounds):
        array = maker.made(NEW, late=True)
        with maker.handing():
            total = taker.summed(array, take, late=True)
        wrong += total() != NEW * SIZE
    return wrong


def wrong_early_releases(maker: Any, taker: Any, take: Callable[[Any], Any] | None, rounds: int) -> int:
    wrong = 0
    for _ in range(rounds):
        array = maker.made(OLD)
        maker.finish()
        with maker.handing():
            total = taker.summed(array, take, late=False)
        del array
        again = [maker.made(NEW) for _ in range(3)]
        wrong += total() != OLD * SIZE
        del again
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="counts hand-overs that go wrong")
    parser.add_argument("--rounds", type=int, default=100)
    add_result_arguments(parser)
    given = parser.parse_args()
    lines = []
    for made_by, taken_by, take in PAIRS:
        maker, taker = MAKERS[made_by](), TAKERS[taken_by]()
        way = "DLPack" if take is None else "CUDA Array Interface"
        lines.append(
            {
                "from": made_by,
                "to": taken_by,
                "way": way,
                "rounds": given.rounds,
                "wrong late writes": wrong_late_writes(maker, taker, take, given.rounds),
                "wrong early releases": wrong_early_releases(maker, taker, take, given.rounds),
            }
        )
        print(json.dumps(lines[-1]))
    write_result(given.out, "races", given.commit, size=SIZE * 8, results=lines)


if __name__ == "__main__":
    main()
