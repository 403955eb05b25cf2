#!/usr/bin/env python3
"""Compares a scan of a file and a new loader over it, each in a plain Python loop, with a whole read.

    scans.py [--device D] [--mib 16,64,256,1024,4096] [--rows N] [--rounds N] [--folder F]
             [--out FILE.json] [--commit TEXT]

The files have batches of 65,536 rows (`--rows`) and are in `--folder`, which should keep them in memory. In
each round a whole read, a scan whose batches become tensors, and a new loader of matrices with shuffled rows
run one after the other. The program prints medians, and the time of the whole read relative to each.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rates import Operation, Rates, add_result_arguments, write_result

import saeta as sa
from saeta.bench import data

BATCH_SIZE = 65536  # rows of a loader's batch


def whole(ctx: sa.Context, file: Path) -> Any:
    return sa.read_ipc(file, ctx, copy=True)


def scan(ctx: sa.Context, file: Path) -> None:
    with sa.scan_ipc(file, ctx, copy=True) as batches:
        for batch in batches:
            batch[0].to_torch()


def load(ctx: sa.Context, file: Path) -> None:
    with sa.loader(file, ctx, batch_size=BATCH_SIZE, shuffle="rows", matrix=True, dtype="float64") as batches:
        for _ in batches:
            pass


WAYS: dict[str, Callable[[sa.Context, Path], Any]] = {"whole read": whole, "scan": scan, "new loader": load}


def measure(ctx: sa.Context, file: Path, size: int, rounds: int) -> Rates:
    operations = {
        name: Operation(lambda way=way: way(ctx, file), size, "whole read") for name, way in WAYS.items()
    }
    return Rates(operations).measure(rounds, ctx.synchronize)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device")
    arguments.add_argument(
        "--mib", type=lambda text: [int(each) for each in text.split(",")], default=[16, 64, 256]
    )
    arguments.add_argument("--rows", type=int, default=65536, help="of a batch of the file")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    ctx = sa.context(given.device or sa.devices()[0].name)
    results: list[dict[str, Any]] = []
    for mib in given.mib:
        table = data.numeric(mib << 20)
        with tempfile.TemporaryDirectory(prefix="saeta-scans-", dir=given.folder) as folder:
            file = data.write(Path(folder) / "a.arrow", table, given.rows)
            size = table.nbytes
            del table
            measured = measure(ctx, file, size, given.rounds)
        print(f"{ctx.device}, {mib} MiB")
        results += [{"mib": mib, **line} for line in measured.show()]
    write_result(given.out, "scans", given.commit, device=ctx.device, rows=given.rows, results=results)


if __name__ == "__main__":
    main()
