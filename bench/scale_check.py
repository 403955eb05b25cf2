#!/usr/bin/env python3
"""Checks bench/scale_model.py against measurements, and writes the tables of docs/scale.md.

    scale_check.py local [--rounds N] [--file-mib N] [--folder DIR] [--out FILE.json] [--commit TEXT]
    scale_check.py recorded [--peers FILE.json]
    scale_check.py scheduler [--tasks N]
    scale_check.py page [--check]

`local` starts worker processes on this machine, each with one reading thread. It measures small runs of one
worker, and how processes that copy files share the cores. From these the model predicts larger runs, more
workers, skew, an exchange of shared tables, and tables larger than the budget. These runs are measured in
turns with the small ones. The machine should be otherwise idle.

`recorded` compares the model with results of one and of two GPUs from bench/results. `--peers` gives another
result of bench/peers.py for two GPUs.

`scheduler` runs empty tasks on two Dask workers. It reports the CPU time per task of the scheduler and the
client, which are one process.

`page` writes the tables of docs/scale.md from bench/results. With --check it compares them instead, and fails
if they differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scale_constants import H100, LIMITS, LINKS, ROOT
from scale_model import GB, Cluster, Estimate, Job, Link, estimate
from summary import TABLES, Key, Line, numbers, read, summary

PAGE = ROOT / "docs" / "scale.md"
TWO_GPUS = read(TABLES / "h200-x2.csv")
TOLERANCE = 0.15
NUMERIC_COLUMNS = 8
"""Columns of the numeric files of bench/movement.py, with values of 8 bytes."""
FRESH = 29.8 * GB
"""Bytes per second that 16 threads write into fresh memory; from docs/decisions/host-pool.md."""
WORKERS = (10, 1_000, 100_000)
GPUS, PER_GPU, TOTAL, BUDGET, SKEW = 8, 80 * GB, 64e12, 70 * GB, 1.2


@dataclass(frozen=True)
class Row:
    """A predicted and a measured value, in GB/s, in seconds or in bytes."""

    what: str
    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """The relative error of the prediction; positive if it is too high."""
        return (self.predicted - self.measured) / self.measured if self.measured else self.predicted

    @property
    def holds(self) -> bool:
        return abs(self.off) <= TOLERANCE


def rate_of(
    links: dict[str, Link], stage: str, size: float, gpus: int = 1, columns: int = 1, batches: float = 1.0
) -> float:
    """Returns the GB/s of one worker in a stage, as predicted by the model."""
    job = Job(size, part=size, columns=columns, batches=batches, exchanged=0.0, written=1.0)
    return size / estimate(Cluster(1, links, gpus=gpus), job).stages[stage] / GB


def shape_of(job: str) -> tuple[float, int, float]:
    """Returns bytes, columns and batches of a job of bench/movement.py, if its rate depends on them."""
    if "10,000 columns of 4 KiB" in job:
        return 10_000 * 4096, 10_000, 1.0
    named = re.search(r"numeric, batches of (\d+)Ki", job)
    if named is None:
        return GB, 1, 1.0
    return GB, NUMERIC_COLUMNS, GB / NUMERIC_COLUMNS / 8 / (int(named[1]) << 10)


def on_one_gpu() -> list[Row]:
    """Compares rates measured on an H100 with predictions from plain copies on the same machine."""
    links = {
        "in": ("read", {name: LINKS[name].link for name in ("pcie in", "planning")}),
        "out": ("write", {"pcie out": Link("gpu", LIMITS["out"])}),
        "write": (
            "write",
            {"pcie out": Link("gpu", LIMITS["out"]), "storage write": Link("host", LIMITS["write"])},
        ),
        "fresh": ("write", {"pcie out": Link("gpu", LIMITS["out"]), "writing": Link("worker", FRESH)}),
    }
    for codec in ("lz4", "zstd"):
        links[codec] = (
            "read",
            {"pcie in": Link("gpu", LIMITS["in"]), "reading": Link("worker", LIMITS[codec])},
        )
    rows = []
    for case, rate in numbers(H100, "movement", "rate").items():
        job, peer, _, limit = case.split("; ")
        if peer == "saeta":
            stage, limiting = links["fresh" if "fresh" in job else limit]
            size, columns, batches = shape_of(job)
            rows.append(Row(job, rate_of(limiting, stage, size, columns=columns, batches=batches), rate))
    return rows


def on_two_gpus(lines: dict[Key, Line]) -> list[Row]:
    """Compares results of bench/peers.py: reads onto both GPUs, and a copy of a table between them."""
    rates = numbers(lines, "peers", "rate")
    one, both = (rates[f"torch: pinned memory to {gpus}"] * GB for gpus in ("one GPU", "both GPUs"))
    links = {"pcie in": Link("gpu", one), "host memory": Link("host", both)}
    rows = []
    for number, name in (
        (1, "place: files onto one GPU"),
        (2, "place: files onto both GPUs"),
        (2, "place by bytes: files onto both GPUs"),
    ):
        rows.append(Row(name, rate_of(links, "read", GB, number), rates[name]))
    peer = rates["torch: one tensor, into memory that is there"]
    rows.append(Row("a read table to the other GPU", peer, rates["saeta: a read table"]))
    return rows


def shown(rows: list[Row], unit: str) -> str:
    """Formats the rows as a Markdown table."""
    lines = [f"| | model, {unit} | measured, {unit} | off by | within 15% |", "|---|---|---|---|---|"]
    for row in rows:
        verdict = "yes" if row.holds else "**no**"
        lines.append(
            f"| {row.what} | {row.predicted:,.2f} | {row.measured:,.2f} | {row.off:+.0%} | {verdict} |"
        )
    return "\n".join(lines)


def constants_table() -> str:
    lines = ["| link | one for each | GB/s | a message, us | | source |", "|---|---|---|---|---|---|"]
    for name, each in LINKS.items():
        rate = "" if each.link.rate == float("inf") else f"{each.link.rate / GB:,.1f}"
        message = f"{each.link.message * 1e6:,.1f}" if each.link.message else ""
        level = each.link.level
        lines.append(f"| {name} | {level} | {rate} | {message} | {each.kind} | {each.source} |")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    return f"{seconds:,.1f}" if seconds < 1000 else f"{seconds:,.0f}"


def at_scale(workers: int, *, total: float | None, part: float | None) -> tuple[Cluster, Job, Estimate]:
    """Estimates the job of the tables in docs/scale.md. If `part` is None, each GPU has one part."""
    links = {name: each.link for name, each in LINKS.items()}
    cluster = Cluster(workers, links, gpus=GPUS, budget=BUDGET, host_memory=1000 * GB)
    size = PER_GPU * cluster.units if total is None else total
    job = Job(size, part=size / cluster.units if part is None else part, skew=SKEW)
    return cluster, job, estimate(cluster, job)


def scale_table() -> str:
    head = "workers | data, TB | a part, GB | read | exchange | spill | scheduler | job | ends first | then"
    lines = [f"| {head} |", "|" + "---|" * len(head.split("|"))]
    for total, part in ((None, 1 * GB), (None, None), (TOTAL, 1 * GB)):
        for workers in WORKERS:
            _, job, made = at_scale(workers, total=total, part=part)
            stages = made.stages
            times = (
                stages["read"],
                stages["exchange"],
                stages["spill"] + stages["return"],
                stages["schedule"],
                made.seconds,
            )
            first, then = list(made.busy())[:2]
            cells = [
                f"{workers:,}",
                f"{job.size / 1e12:,.1f}",
                f"{job.part / GB:,.2f}".rstrip("0").rstrip("."),
            ]
            lines.append("| " + " | ".join([*cells, *map(duration, times), first, then]) + " |")
    return "\n".join(lines)


def recorded_rows(quantity: str) -> list[Row]:
    """Returns the predicted and measured values of the run of `local` in bench/results/host.csv."""
    cases = numbers(read(TABLES / "host.csv"), "scale_check", quantity)
    names = [case.removesuffix("; measured") for case in cases if case.endswith("; measured")]
    return [Row(name, cases[f"{name}; predicted"], cases[f"{name}; measured"]) for name in names]


def local_tables(seconds: list[Row], moved: list[Row]) -> str:
    gigabytes = [Row(row.what, row.predicted / GB, row.measured / GB) for row in moved]
    return "\n\n".join(
        (
            shown(seconds, "s"),
            "Bytes that left the budget of a worker and came back:",
            shown(gigabytes, "GB"),
        )
    )


def conditions(result: dict[str, Any]) -> str:
    """Describes the conditions of a run of `local` in a sentence for docs/scale.md."""
    machine = result["machine"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, load average {result['load']:.1f} before the "
        f"run. As many processes as there are cores copied {result['parallel']:.2f} times as many bytes as "
        f"one. Files of {result['file_bytes'] >> 20} MiB, medians of {result['rounds']} rounds:"
    )


def with_tables(page: str) -> str:
    tables = {
        "rates": constants_table(),
        "scale": scale_table(),
        "one GPU": shown(on_one_gpu(), "GB/s"),
        "two GPUs": shown(on_two_gpus(TWO_GPUS), "GB/s"),
        "local": local_tables(recorded_rows("time"), recorded_rows("size")),
    }
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"{PAGE} has no place '{begin.strip()}'")
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def local(options: argparse.Namespace) -> None:
    import scale_workers
    from rates import write_result

    made = scale_workers.measure(options.rounds, options.file_mib << 20, options.folder)
    seconds, moved = ([Row(*row) for row in rows] for rows in (made.rows, made.moved))
    print(conditions(made.context), local_tables(seconds, moved), sep="\n\n")
    write_result(
        options.out,
        "scale_check",
        options.commit,
        **made.context,
        seconds=[dataclasses.asdict(row) for row in seconds],
        moved=[dataclasses.asdict(row) for row in moved],
    )


def recorded(options: argparse.Namespace) -> None:
    peers = options.peers and summary(json.loads(options.peers.read_text(encoding="utf-8")))
    print(shown(on_one_gpu() + on_two_gpus(peers or TWO_GPUS), "GB/s"))


def nothing(number: int) -> int:
    return number


def scheduler(options: argparse.Namespace) -> None:
    try:
        import distributed
    except ImportError as failure:
        raise SystemExit(f"not measured: {failure}") from failure
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        for tasks in (options.tasks // 10 + 1, options.tasks):  # the first number is a warm-up
            start = time.process_time()
            assert sum(client.gather(client.map(nothing, range(tasks), pure=False))) == sum(range(tasks))
            seconds = time.process_time() - start
    print(
        f"distributed {distributed.__version__}: {seconds / tasks * 1e3:.2f} ms for each of {tasks:,} tasks"
    )


def page(options: argparse.Namespace) -> None:
    before = PAGE.read_text(encoding="utf-8")
    fresh = with_tables(before)
    if not options.check:
        PAGE.write_text(fresh, encoding="utf-8")
    elif fresh != before:
        raise SystemExit(f"{PAGE} has other tables: run bench/scale_check.py page")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Checks the scale model against measurements.")
    commands = parser.add_subparsers(required=True)
    here = commands.add_parser("local", help="workers on this machine")
    here.add_argument("--rounds", type=int, default=7)
    here.add_argument("--file-mib", type=int, default=32)
    here.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    here.add_argument("--out", type=Path, metavar="FILE.json")
    here.add_argument("--commit", default="unknown")
    here.set_defaults(run=local)
    there = commands.add_parser("recorded", help="results from GPUs")
    there.add_argument("--peers", type=Path, metavar="FILE.json", help="another result of bench/peers.py")
    there.set_defaults(run=recorded)
    central = commands.add_parser("scheduler", help="tasks of Dask")
    central.add_argument("--tasks", type=int, default=2000)
    central.set_defaults(run=scheduler)
    write = commands.add_parser("page", help="the tables of docs/scale.md")
    write.add_argument("--check", action="store_true", help="compare instead of writing")
    write.set_defaults(run=page)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parse()
    chosen.run(chosen)
