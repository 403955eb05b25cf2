"""Common parts of the programs that compare rates: measuring operations in turns, printing, result files."""

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

COPY = "copy of bytes"  # the default limit: operations without a limit of their own are compared with it


@dataclass(frozen=True)
class Operation:
    """An operation to be measured.

    Attributes:
        moved: bytes that one call moves over the link, or reads and writes in memory.
        limit: name of the operation whose rate is the upper limit of this one. The table shows the share of
            that limit, if the limit was measured.
    """

    run: Callable[[], Any]
    moved: int
    limit: str = COPY


@dataclass
class Rates:
    """The measured seconds of each operation, one number per round."""

    operations: Mapping[str, Operation]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, rounds: int, synchronize: Callable[[], Any], rest: float = 0.0) -> Rates:
        """Runs every operation once in each round, with the device idle before and after it.

        The first round is a warm-up and not counted. `rest` is a pause in seconds before each operation, in
        which the memory of the previous one can be freed in the background.
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
        """Returns the bytes per second of an operation: the median of the rounds."""
        return self.operations[name].moved / statistics.median(self.seconds[name])

    def show(self) -> list[dict[str, Any]]:
        """Prints median, 10th and 90th percentile of each operation. Returns entries of the result file."""
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
    """Returns a plain copy from the first GPU to the last one (or within the only one), already allocated."""
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
    """Adds the options `--out` and `--commit`, which `write_result` needs."""
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--commit", default="unknown")


def write_result(path: Path | None, benchmark: str, commit: str, **content: Any) -> None:
    """Writes a result file if a path is given. It begins with machine, versions, commit and command."""
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
