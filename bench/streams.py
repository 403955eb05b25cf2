#!/usr/bin/env python3
"""Measures data that passes through the device in parts: scans, pipelines with a writer, and mini-batches.

    streams.py [--quick] [--device D] [--batches N] [--window SIZE] [--rounds N] [--only GROUP,...]
               [--folder F] [--out FILE.json] [--commit TEXT]

The files hold 16 columns of random float32 in `--batches` batches of 64Ki rows (977: 3.8 GiB), the same rows
in batches of 8Ki rows, and half as many bytes of strings, nulls and other types, plain and compressed. All
contenders of a group run one after the other in each round, together with plain copies from pinned memory
(P); every second round runs in reverse order. A run ends when all work on the device has finished; between
batches the device is not waited for. Values are compared with the source before anything is measured. Slow
peers read the first eighth of the rows. A bar is a target, such as a share of P. The exit code is 1 if a job
of Saeta failed; a missed bar does not count as a failure. `--quick` takes seconds; its rates mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rates import add_result_arguments, write_result
from streams import loaders, scans, small
from streams.measure import LINK, Contender, Result, Results, measure
from streams.work import Work, make_files, silence_torch

import saeta as sa
from saeta._core import _parse_bytes
from saeta.bench.run import PACKAGES

GROUPS: dict[str, Callable[[Work], list[Contender]]] = {
    "reads": scans.reads,
    "codecs": scans.codecs,
    "pipeline": scans.pipeline,
    "loader": loaders.from_files,
    "table": loaders.from_table,
    "small": small.small,
}
NAME_WIDTH = 52


def compare_with_bars(result: Result, others: Results) -> list[dict[str, Any]]:
    """Returns each bar with the measured value, or None if the contender that it refers to has no result."""
    found = []
    for bar in result.contender.bars:
        value = bar.measure(result, others)
        found.append(
            {
                "bar": bar.text,
                "value": value,
                "shown": "nothing to compare with" if value is None else bar.show(value),
                "met": None if value is None else bar.is_met(value),
            }
        )
    return found


def describe(group: str, result: Result, others: Results) -> dict[str, Any]:
    contender = result.contender
    made: dict[str, Any] = {"group": group, "job": contender.name, "ours": contender.ours}
    if result.failed is not None:
        return made | {"failed": result.failed}
    link = others.get(LINK)
    return made | {
        "bytes": contender.bytes,
        "rows": contender.rows,
        "seconds": result.samples,
        "gb_per_s": result.rate / 1e9,
        "of_p": None if link is None else result.rate / link.rate,
        "rows_per_s": contender.rows / result.seconds,
        "peak_bytes": result.peak,
        "bars": compare_with_bars(result, others),
    }


def show_header() -> None:
    print(
        f"{'job':{NAME_WIDTH}}{'ms':>10}{'GB/s':>8}{'least':>8}{'most':>8}{'of P':>7}{'M rows/s':>10}"
        f"{'peak MiB':>10}"
    )


def show(line: dict[str, Any]) -> None:
    """Prints the result of a job, and a line for each of its bars."""
    if "failed" in line:
        print(f"{line['job']:{NAME_WIDTH}} failed: {line['failed']}")
        return
    rates = [line["bytes"] / seconds / 1e9 for seconds in line["seconds"]]
    share = "" if line["of_p"] is None else f"{line['of_p']:.0%}"
    peak = "" if line["peak_bytes"] is None else f"{line['peak_bytes'] / (1 << 20):.1f}"
    rows = f"{line['rows_per_s'] / 1e6:.1f}" if line["rows"] else ""
    milliseconds = line["bytes"] / line["gb_per_s"] / 1e6
    print(
        f"{line['job']:{NAME_WIDTH}}{milliseconds:10.3f}{line['gb_per_s']:8.2f}{min(rates):8.2f}"
        f"{max(rates):8.2f}{share:>7}{rows:>10}{peak:>10}".rstrip()
    )
    for bar in line["bars"]:
        outcome = {True: ": met", False: ": MISSED", None: ""}[bar["met"]]
        print(f"    bar: {bar['bar']}; {bar['shown']}{outcome}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--batches", type=int, help="of 64Ki rows; default 977, 4 with --quick")
    parser.add_argument("--window", help="default 128MiB, 4MiB with --quick")
    parser.add_argument("--rounds", type=int, help="default 5, 2 with --quick")
    parser.add_argument("--only", help=f"groups with commas between: {', '.join(GROUPS)}")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    add_result_arguments(parser)
    options = parser.parse_args()
    options.batches = options.batches or (4 if options.quick else 977)
    options.window = _parse_bytes(options.window or ("4MiB" if options.quick else "128MiB"))
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.groups = options.only.split(",") if options.only else list(GROUPS)
    if unknown := [each for each in options.groups if each not in GROUPS]:
        parser.error(f"--only {unknown[0]}: expected some of {', '.join(GROUPS)}")
    return options


def run(work: Work, options: argparse.Namespace) -> list[dict[str, Any]]:
    lines = []
    for group in options.groups:
        results = measure(GROUPS[group](work), options.rounds, work.ctx, work.synchronize)
        found = [describe(group, each, results) for each in results.values()]
        lines += found
        print(f"\n{group}")
        for line in found:
            show(line)
        del results
        gc.collect()
    return lines


def main() -> int:
    options = parse()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    ctx = sa.context(options.device)
    silence_torch()
    with tempfile.TemporaryDirectory(prefix="saeta-streams-", dir=options.folder) as folder:
        work = Work(ctx, Path(folder), options.batches, options.window)
        make_files(work)
        print(
            f"streams on {ctx.device}, {work.bytes / (1 << 30):.2f} GiB in {options.batches} batches of "
            f"64Ki rows, windows of {options.window / (1 << 20):g} MiB, medians of {options.rounds} rounds"
        )
        show_header()
        lines = run(work, options)
    for reason in work.missing:
        print(f"not measured: {reason}")
    packages = sa.info()["packages"]
    write_result(
        options.out,
        "streams",
        options.commit,
        versions={name: packages.get(name) for name in PACKAGES} | {"saeta": sa.__version__},
        device=ctx.device,
        batches=options.batches,
        window=options.window,
        rounds=options.rounds,
        missing=work.missing,
        results=lines,
    )
    return int(any(each["ours"] and "failed" in each for each in lines))


if __name__ == "__main__":
    sys.exit(main())
