#!/usr/bin/env python3
"""Converts result files of the benchmarks in this folder to lines of the tables in bench/results.

    summary.py RESULT.json... [--into TABLE.csv]

A line has a benchmark, its commit, a case, a quantity with its unit, and a value: the median if there are
several samples. The program prints all lines. With `--into` it instead updates those lines that TABLE already
has. A table has a line for each number that a page quotes or a program reads; append new lines by hand.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

QUANTITIES = {
    "p50_ns": ("time", "ns"),
    "microseconds": ("time", "us"),
    "milliseconds": ("time", "ms"),
    "seconds": ("time", "s"),
    "seconds_p50": ("time", "s"),
    "link": ("time of a plain copy", "ms"),
    "gb_per_s": ("rate", "GB/s"),
    "gb_per_second": ("rate", "GB/s"),
    "GB/s": ("rate", "GB/s"),
    "large_copies_gb_per_second": ("rate of large copies", "GB/s"),
    "limits": ("limit", "GB/s"),
    "ratio": ("ratio", "1"),
    "moved": ("size", "bytes"),
    "wrong late writes": ("wrong late writes", "rounds"),
    "wrong early releases": ("wrong early releases", "rounds"),
}
"""The fields of result files that hold measured values, each with its quantity and unit."""
COUNTS = ("threads", "pinned", "pass", "mebibytes", "mib", "columns")
"""Fields whose numbers are part of the case's name, like texts beside a measured field and names above it."""
UNNAMED = ("results", "ways", "median")
"""Fields whose names are not part of the case's name."""

TABLES = Path(__file__).resolve().parent / "results"

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Line:
    """A line of a table; the fields are its columns."""

    benchmark: str
    commit: str
    case: str
    quantity: str
    unit: str
    value: str

    @property
    def key(self) -> Key:
        return self.benchmark, self.case, self.quantity


def measured(
    node: Any, case: tuple[str, ...] = (), quantity: tuple[str, str] | None = None
) -> Iterator[tuple[tuple[str, ...], tuple[str, str], list[float]]]:
    """Yields case, quantity with unit, and samples of every measured value below a node of a result file."""
    if isinstance(node, dict):
        texts = [
            f"{name} {item}" if name in COUNTS else item
            for name, item in node.items()
            if isinstance(item, str) or (name in COUNTS and isinstance(item, int))
        ]
        for name, item in node.items():
            below = [] if name in UNNAMED or name in QUANTITIES else [name]
            yield from measured(item, (*case, *texts, *below), QUANTITIES.get(name, quantity))
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        for item in node:
            yield from measured(item, case, quantity)
    elif quantity and node and isinstance(node, list):
        yield case, quantity, node
    elif quantity and isinstance(node, int | float):
        yield case, quantity, [node]


def summary(result: dict[str, Any]) -> dict[Key, Line]:
    """Returns the lines of a result file: medians, and the 10th percentile if there are several samples."""
    lines = []
    for case, (quantity, unit), samples in measured(
        {name: node for name, node in result.items() if not isinstance(node, str)}
    ):
        values = {quantity: statistics.median(samples)}
        if len(samples) > 1:
            values[f"{quantity}, 10th percentile"] = statistics.quantiles(samples, n=10)[0]
        for name, value in values.items():
            lines.append(
                Line(result["benchmark"], result["commit"], "; ".join(case), name, unit, f"{value:.6g}")
            )
    return {line.key: line for line in lines}


def read(path: Path) -> dict[Key, Line]:
    """Reads the lines of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [Line(**row) for row in csv.DictReader(file)]
    return {line.key: line for line in lines}


def numbers(lines: dict[Key, Line], benchmark: str, quantity: str) -> dict[str, float]:
    """Returns the values of a quantity that a benchmark measured, by case."""
    return {
        line.case: float(line.value)
        for line in lines.values()
        if (line.benchmark, line.quantity) == (benchmark, quantity)
    }


def write(lines: Iterable[Line], file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in fields(Line))
    writer.writerows(astuple(line) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes lines of the tables in bench/results.")
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument("--into", type=Path, metavar="TABLE.csv", help="renew its lines, print none")
    options = parser.parse_args()
    fresh: dict[Key, Line] = {}
    for path in options.results:
        fresh |= summary(json.loads(path.read_text(encoding="utf-8")))
    if options.into is None:
        write(fresh.values(), sys.stdout)
        return
    table = read(options.into)
    renewed = {key: fresh[key] for key in table if key in fresh}
    with options.into.open("w", encoding="utf-8", newline="") as file:
        write((table | renewed).values(), file)
    print(f"{len(renewed)} of {len(table)} lines renewed")


if __name__ == "__main__":
    main()
