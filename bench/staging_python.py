#!/usr/bin/env python3
"""Measures reads with different options of the staging ring: threads and page-locked memory.

    staging_python.py [--device D] [--mib SIZE] [--rounds N] [--passes N] [--threads 8,16]
                      [--pinned 32MiB,96MiB] [--folder F] [--out FILE.json] [--commit TEXT]

Every combination is measured in its own process (SAETA_STAGING_THREADS and SAETA_STAGING_PINNED), with the
same files in `--folder`, which should keep them in memory. Each pass runs all combinations once, so that
other load on the machine affects all alike. The program prints medians in GB/s of values, and for comparison
the rate of a plain copy from page-locked memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from rates import add_result_arguments, write_result

import saeta as sa
from saeta.bench import data, limits

NUMERIC = "numeric.arrow"
MIXED = {name: f"mixed-{name}.arrow" for name in ("plain", "lz4", "zstd")}
NUMERIC_ROWS = 1 << 16  # rows of a batch
MIXED_ROWS = 1 << 18


def jobs(ctx: sa.Context, folder: Path, size: int) -> dict[str, tuple[int, Callable[[], Any]]]:
    numeric = data.numeric(size)
    table: sa.Table = sa.from_arrow(numeric, ctx, copy=True)
    mixed = sa.read_ipc(folder / MIXED["plain"], ctx, copy=True).nbytes

    def read(name: str) -> tuple[int, Callable[[], Any]]:
        return mixed, lambda: sa.read_ipc(folder / MIXED[name], ctx, copy=True)

    return {
        "read_ipc": (numeric.nbytes, lambda: sa.read_ipc(folder / NUMERIC, ctx, copy=True)),
        "mixed": read("plain"),
        "mixed, LZ4": read("lz4"),
        "mixed, ZSTD": read("zstd"),
        "from_arrow": (numeric.nbytes, lambda: sa.from_arrow(numeric, ctx, copy=True)),
        "to_arrow, warm": (numeric.nbytes, table.to_arrow),
    }


def work(device: str, folder: Path, size: int, rounds: int) -> None:
    """Measures one combination, in its own process."""
    ctx = sa.context(device)
    rates = {"copy in": limits.Link(ctx, min(size, 512 << 20), "in").measure(rounds)}
    for name, (values, run) in jobs(ctx, folder, size).items():
        seconds = []
        for _ in range(rounds + 1):  # the first is a warm-up
            start = time.perf_counter()
            made = run()
            ctx.synchronize()
            seconds.append(time.perf_counter() - start)
            del made
        rates[name] = values / statistics.median(seconds[1:]) / 1e9
    print(json.dumps(rates))


def measure(
    device: str, folder: Path, given: argparse.Namespace, options: dict[str, str]
) -> dict[str, float]:
    asked = [
        "--device",
        device,
        "--folder",
        str(folder),
        "--mib",
        str(given.mib),
        "--rounds",
        str(given.rounds),
    ]
    done = subprocess.run(
        [sys.executable, __file__, "--worker", *asked],
        env={**os.environ, **options},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


def compare(given: argparse.Namespace, device: str, folder: Path) -> list[dict[str, Any]]:
    size = given.mib << 20
    data.write(folder / NUMERIC, data.numeric(size), NUMERIC_ROWS)
    mixed = data.mixed(size)
    for name, file in MIXED.items():
        data.write(folder / file, mixed, MIXED_ROWS, None if name == "plain" else name)
    names = ("SAETA_STAGING_THREADS", "SAETA_STAGING_PINNED")
    combinations = list(product(*(asked.split(",") for asked in (given.threads, given.pinned))))
    passes: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for values in combinations * given.passes:
        rates = measure(device, folder, given, dict(zip(names, values, strict=True)))
        if not passes:
            print(f"{'threads pinned':30}" + "".join(f"{job:>16}" for job in rates))
        show(values, rates)
        passes.setdefault(values, []).append(rates)
    results = []
    for values, seen in passes.items():
        results += [
            {"threads": values[0], "pinned": values[1], "pass": number, "gb_per_s": rates}
            for number, rates in enumerate(seen, 1)
        ]
        if given.passes > 1:
            medians = {job: statistics.median(rates[job] for rates in seen) for job in seen[0]}
            show(("median", *values), medians)
    return results


def show(name: tuple[str, ...], rates: dict[str, float]) -> None:
    print(f"{' '.join(name):30}" + "".join(f"{rate:16.1f}" for rate in rates.values()), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device")
    arguments.add_argument("--mib", type=int, default=64, help="of each table")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--passes", type=int, default=1)
    arguments.add_argument("--threads", default="0", help="0: as many as the machine has, at most 16")
    arguments.add_argument("--pinned", default="32MiB,96MiB,288MiB", help="of the staging ring")
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    arguments.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    device = given.device or sa.devices()[0].name
    if given.worker:
        work(device, given.folder, given.mib << 20, given.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="saeta-staging-", dir=given.folder) as folder:
        results = compare(given, device, Path(folder))
    write_result(
        given.out,
        "staging_python",
        given.commit,
        device=device,
        bytes=given.mib << 20,
        results=results,
    )


if __name__ == "__main__":
    main()
