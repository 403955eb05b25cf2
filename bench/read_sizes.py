#!/usr/bin/env python3
"""Measures the fixed cost and the cost per byte of reading an Arrow file by fitting a line to many sizes.

    read_sizes.py [--device D] [--mib 1,16,64,256,1024,2048] [--rows 65536,8192] [--rounds N]
                  [--pause SECONDS] [--folder F] [--out FILE.json] [--commit TEXT]

`--rows` are the rows of a batch. `--folder` should keep files in memory. In each round all files are read and
a pinned copy is made, so that other load on the machine affects all alike. The program prints medians and the
page faults of the process during a read. For each number of rows per batch it fits a line by least squares
through the tables of 64 MiB and more: its intercept is the time of an empty read, and its slope gives the
rate. `--pause` before each read and copy shows how an idle device behaves.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rates import add_result_arguments, write_result

import saeta as sa
from saeta.bench import data, limits

LEAST_OF_LINE = 64 << 20  # bytes of the smallest table that the line is fitted through


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def read(ctx: sa.Context, file: Path, pause: float) -> tuple[float, int]:
    """Reads a file. Returns the seconds and the page faults."""
    time.sleep(pause)
    before = faults()
    start = time.perf_counter()
    made = sa.read_ipc(file, ctx, copy=True)
    ctx.synchronize()
    seconds = time.perf_counter() - start
    del made
    return seconds, faults() - before


def line_through(points: list[tuple[int, float]]) -> dict[str, float] | None:
    """Fits the line. Returns the seconds of an empty read and GB/s, or None if all tables have one size."""
    points = [point for point in points if point[0] >= LEAST_OF_LINE]
    if len(points) < 2:
        return None
    slope, fixed = statistics.linear_regression(*zip(*points, strict=True))
    return {"fixed_seconds": fixed, "gb_per_s": 1e-9 / slope}


def measure(
    ctx: sa.Context, link: limits.Link, folder: Path, given: argparse.Namespace
) -> tuple[list[dict[str, Any]], float]:
    """Returns the reads of each file, and GB/s of the pinned copies between them."""
    files = []
    copies = []
    for mib in given.mib:
        table = data.numeric(mib << 20)
        for rows in given.rows:
            path = data.write(folder / f"{mib}-{rows}.arrow", table, rows)
            files.append({"rows": rows, "bytes": table.nbytes, "path": path, "reads": []})
    for _ in range(given.rounds + 1):
        for each in files:
            each["reads"].append(read(ctx, each["path"], given.pause))
        time.sleep(given.pause)
        copies.append(link.time())
    results = [
        {
            "rows": each["rows"],
            "bytes": each["bytes"],
            "seconds": statistics.median(seconds for seconds, _ in each["reads"][1:]),  # the first warms up
            "page_faults": statistics.median(count for _, count in each["reads"][1:]),
        }
        for each in files
    ]
    return results, link.rate(copies[1:])


def show(results: list[dict[str, Any]], lines: dict[int, dict[str, float] | None]) -> None:
    print(f"{'rows':>10}{'MiB':>8}{'ms':>10}{'GB/s':>8}{'faults':>8}")
    for each in results:
        rate = each["bytes"] / each["seconds"] / 1e9
        size = each["bytes"] / (1 << 20)
        print(
            f"{each['rows']:10}{size:8.0f}{each['seconds'] * 1e3:10.2f}{rate:8.1f}{each['page_faults']:8.0f}"
        )
    for rows, line in lines.items():
        if line is not None:
            print(
                f"{rows} rows a batch: {line['fixed_seconds'] * 1e3:.2f} ms and {line['gb_per_s']:.1f} GB/s"
            )


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device")
    arguments.add_argument("--mib", type=numbers, default=[1, 16, 64, 128])
    arguments.add_argument("--rows", type=numbers, default=[65536, 8192], help="of a batch")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--pause", type=float, default=0, help="seconds")
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    ctx = sa.context(given.device or sa.devices()[0].name)
    link = limits.Link(ctx, min(max(given.mib) << 20, 512 << 20), "in")
    with tempfile.TemporaryDirectory(prefix="saeta-sizes-", dir=given.folder) as folder:
        results, copied = measure(ctx, link, Path(folder), given)
    print(f"{ctx.device}: a pinned copy {copied:.1f} GB/s")
    lines = {
        rows: line_through([(each["bytes"], each["seconds"]) for each in results if each["rows"] == rows])
        for rows in given.rows
    }
    show(results, lines)
    write_result(
        given.out,
        "read_sizes",
        given.commit,
        device=ctx.device,
        pause=given.pause,
        pinned_copy_gb_per_s=copied,
        reads=results,
        lines={str(rows): line for rows, line in lines.items()},
    )


if __name__ == "__main__":
    main()
