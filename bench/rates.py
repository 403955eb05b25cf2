"""What programs that compare rates have in common: operations in turns, their table and their file."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import saeta as sa

COPY = "copy of bytes"  # the operation whose rate is the limit of those that name none


@dataclass(frozen=True)
class Operation:
    """What is measured.

    Attributes:
        moved: bytes that the memory or the link must move.
        limit: the operation whose rate is the limit of this one. If it is not measured, no share is shown.
    """

    run: Callable[[], Any]
    moved: int
    limit: str = COPY


@dataclass
class Rates:
    """Seconds of each operation, a number a round."""

    operations: Mapping[str, Operation]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, rounds: int, synchronize: Callable[[], Any], rest: float = 0.0) -> Rates:
        """Runs all operations in turns, each with the device idle before and after it.

        The first round is not counted. `rest` is how many seconds pass before each of them, in which the
        last one's memory can be freed in the background.
        """
        self.seconds = {name: [] for name in self.operations}
        for turn in range(rounds + 1):
            for name, operation in self.operations.items():
                time.sleep(rest)
                synchronize()
                start = time.perf_counter()
                made = operation.run()
                synchronize()
                took = time.perf_counter() - start
                del made
                if turn > 0:
                    self.seconds[name].append(took)
        return self

    def rate(self, name: str) -> float:
        """Bytes a second: the median of the rounds."""
        return self.operations[name].moved / statistics.median(self.seconds[name])

    def show(self) -> list[dict[str, Any]]:
        """Prints median, 10th and 90th percentile of each operation. Returns the lines of the result file."""
        width = max(map(len, self.operations)) + 2
        print(f"{'operation':{width}}{'ms':>9}{'GB/s':>9}{'p10':>9}{'p90':>9}{'of the limit':>14}")
        for name, operation in self.operations.items():
            tenths = statistics.quantiles(self.seconds[name], n=10)
            low, high = operation.moved / tenths[-1], operation.moved / tenths[0]
            middle = statistics.median(self.seconds[name])
            limited = operation.limit in self.operations
            share = f"{self.rate(name) / self.rate(operation.limit):14.0%}" if limited else ""
            print(
                f"{name:{width}}{middle * 1e3:9.3f}{self.rate(name) / 1e9:9.1f}{low / 1e9:9.1f}"
                f"{high / 1e9:9.1f}{share}"
            )
        return [
            {
                "operation": name,
                "bytes": operation.moved,
                "seconds": self.seconds[name],
                "gb_per_s": self.rate(name) / 1e9,
            }
            for name, operation in self.operations.items()
        ]


def copy_between_gpus(nbytes: int) -> Callable[[], None]:
    """A plain copy from the first GPU to the last one, or within the only one, into memory that is there."""
    import cupy

    source = cupy.ones(nbytes, dtype="u1")
    with cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1):
        target = cupy.empty_like(source)
    cupy.cuda.Device(0).synchronize()

    def run() -> None:
        target.data.copy_from_device(source.data, nbytes)
        cupy.cuda.Device(0).synchronize()

    return run


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where and for which commit `write_result` writes."""
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--commit", default="unknown")


def write_result(path: Path | None, benchmark: str, commit: str, **content: Any) -> None:
    """Writes a result file with what identifies the run, if a path is given."""
    if path is None:
        return
    result = {
        "benchmark": benchmark,
        "commit": commit,
        "command": shlex.join(sys.argv),
        "devices": sa.info()["devices"],
        **content,
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
