#!/usr/bin/env python3
"""Predicts how long a job takes on N workers with M GPUs each: bytes over each link, spilled bytes, and the
link that is the bottleneck.

    scale_model.py [--workers N] [--gpus M] [--per-host N] [--per-unit GB | --total GB] [--part GB]
                   [--columns N] [--batches N] [--exchanged SHARE] [--written SHARE] [--skew FACTOR]
                   [--budget GB] [--host-memory GB] [--set LINK=GB/S ...] [--json]

A job reads a data set, exchanges a share of it between all units, uses it and writes a share of it. A unit
holds a part of the data under one budget: a GPU, or a worker without GPUs. The stages run one after another,
and a stage takes as long as its busiest link. `estimate` adds up the stages and the busy time of each link.
The scheduler runs concurrently with all stages.

Rates come from bench/scale_constants.py, which says for each whether it was measured. docs/scale.md explains
the model and its results; bench/scale_check.py checks it against measurements.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["gpu", "worker", "host", "cluster"]

GB = 1e9
# Spilling begins when more than HIGH of a budget is in use, and ends at LOW (docs/guides/spilling.md).
LOW, HIGH = 0.65, 0.85
STAGES = ("read", "exchange", "spill", "return", "write")


@dataclass(frozen=True)
class Link:
    """A resource that bytes or messages keep busy: one for each GPU, worker or host, or one for all."""

    level: Level
    rate: float
    """Bytes per second of one link."""
    message: float = 0.0
    """Seconds for each message, in addition to the time of its bytes."""


@dataclass(frozen=True)
class Cluster:
    """Workers on hosts. Links that are missing from `links` take no time."""

    workers: int
    links: Mapping[str, Link]
    gpus: int = 0
    """GPUs of each worker; 0 for workers that hold their data in host memory."""
    per_host: int = 1
    parallel: float = math.inf
    """How many workers of a host can run at full speed at the same time."""
    budget: float = math.inf
    """Bytes that a unit may hold."""
    host_memory: float = 0.0
    """Bytes of spilled tables that a host keeps in memory; the others go to its storage."""

    @property
    def units_of_worker(self) -> int:
        return max(self.gpus, 1)

    @property
    def units(self) -> int:
        return self.workers * self.units_of_worker

    @property
    def hosts(self) -> int:
        return math.ceil(self.workers / self.per_host)

    def units_of(self, level: Level) -> int:
        """How many units share one link of this level."""
        sizes = {
            "gpu": 1,
            "worker": self.units_of_worker,
            "host": min(self.per_host, self.workers) * self.units_of_worker,
            "cluster": self.units,
        }
        return sizes[level]


@dataclass(frozen=True)
class Job:
    """The processing of a data set. Sizes are bytes."""

    size: float
    part: float = 1e9
    """Bytes that one task processes."""
    columns: float = 1.0
    """Columns of a part."""
    batches: float = 1.0
    """Record batches of a part. Each has a piece of each column."""
    exchanged: float = 1.0
    """The share of the data set that all units exchange with each other, each with each."""
    written: float = 0.0
    held: float = 1.0
    """The share of its data that a unit wants to hold at the same time."""
    passes: int = 1
    """How often the held data is used after it has been read."""
    skew: float = 1.0
    """The largest unit's data, divided by the mean of all units. The other units share the rest equally."""
    tasks: float | None = None
    """Tasks of the scheduler; None: one for each part, and another one if there is an exchange."""


@dataclass(frozen=True)
class Load:
    """The bytes that a stage sends over a link, and the time that they take."""

    stage: str
    link: str
    size: float
    """Bytes over all links of this name together."""
    seconds: float
    """Busy time of the busiest of these links."""


@dataclass(frozen=True)
class Estimate:
    loads: tuple[Load, ...]
    stages: Mapping[str, float]
    """Seconds of each stage."""
    seconds: float

    def busy(self) -> dict[str, float]:
        """Returns the busy seconds of the busiest link of each name, the bottleneck first."""
        total: dict[str, float] = {}
        for load in self.loads:
            total[load.link] = total.get(load.link, 0.0) + load.seconds
        return dict(sorted(total.items(), key=lambda each: -each[1]))

    def size(self, link: str, *stages: str) -> float:
        """Returns the bytes over the links of this name in the given stages, or in all stages."""
        return sum(load.size for load in self.loads if load.link == link and load.stage in (stages or STAGES))


def heaviest(total: float, units: int, of: int, skew: float) -> float:
    """Returns how much of `total` the unit with the most data and `of - 1` other units have together."""
    most = total * min(max(skew, 1.0), units) / units
    return most if of <= 1 else most + (of - 1) * (total - most) / max(units - 1, 1)


def spilled(held: float, budget: float, passes: int) -> tuple[float, float]:
    """Returns the bytes that a unit spills and reads back when it uses `held` bytes in order, `passes` times.

    If all bytes fit into the budget, some tables are spilled once, because spilling begins before the budget
    is full. Otherwise every pass reads everything back: the least recently used table is spilled first, and
    in a sequential pass that is the one that is needed next. At the end the bytes beyond the budget remain
    spilled.
    """
    if held <= HIGH * budget:
        return 0.0, 0.0
    if held <= budget:
        left = held - LOW * budget
        return left, left if passes else 0.0
    back = passes * held
    return back + held - (LOW + HIGH) / 2 * budget, back


def estimate(cluster: Cluster, job: Job) -> Estimate:
    """Predicts how long the job takes, and how busy each link is."""
    flows = _Flows(cluster, job)
    share = job.size / cluster.units
    parts = job.size / job.part

    flows.add("read", job.size, ("storage", "host memory", "device memory"))
    flows.add("read", job.size, ("pcie in",), messages=parts * job.columns * job.batches)
    flows.add("read", 0.0, ("planning",), messages=parts * job.columns)
    flows.add("read", job.size, ("reading",), messages=parts)

    moved = job.size * job.exchanged
    inside = cluster.units_of("host") - 1
    outside = cluster.units - 1 - inside
    near, far = moved * inside / cluster.units, moved * outside / cluster.units
    flows.add("exchange", near, ("peer", "sharing", "opening"), messages=parts * job.exchanged * inside)
    flows.add("exchange", far, ("network",), messages=parts * job.exchanged * outside)
    flows.add("exchange", far, ("pcie out", "pcie in"))
    flows.add("exchange", 2 * far, ("host memory",))

    most = share * min(max(job.skew, 1.0), cluster.units)
    rest = (job.size - most) / max(cluster.units - 1, 1)
    heavy = spilled(most * job.held, cluster.budget, job.passes)
    light = spilled(rest * job.held, cluster.budget, job.passes)
    for stage, direction, number in (("spill", "out", 0), ("return", "in", 1)):
        total = heavy[number] + (cluster.units - 1) * light[number]
        skew = heavy[number] * cluster.units / total if total else 1.0
        at_host = heaviest(total, cluster.units, cluster.units_of("host"), skew)
        filed = max(0.0, 1.0 - cluster.host_memory / at_host) if at_host else 0.0
        tier = "storage write" if stage == "spill" else "storage"
        flows.add(stage, total, (f"pcie {direction}", "host memory"), skew=skew)
        flows.add(stage, total * filed, (tier, "spilling" if stage == "spill" else "returning"), skew=skew)

    flows.add("write", job.size * job.written, ("pcie out", "host memory", "storage write"))
    flows.add("write", job.size * job.written, ("writing",), messages=parts if job.written else 0.0)

    tasks = parts * (2 if job.exchanged else 1) if job.tasks is None else job.tasks
    flows.add("schedule", 0.0, ("scheduler",), messages=tasks)
    stages = {stage: flows.seconds(stage) for stage in (*STAGES, "schedule")}
    seconds = max(sum(stages[stage] for stage in STAGES), stages["schedule"])
    return Estimate(tuple(flows.loads), stages, seconds)


class _Flows:
    """Collects the loads of a job."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self._cluster, self._skew = cluster, job.skew
        self.loads: list[Load] = []

    def add(
        self,
        stage: str,
        size: float,
        links: tuple[str, ...],
        *,
        messages: float = 0.0,
        skew: float | None = None,
    ) -> None:
        """Adds bytes and messages, summed over all units, to those of the links that the cluster has."""
        for name in links:
            link = self._cluster.links.get(name)
            if link is not None and (size or messages):
                seconds = self._busiest(link, size, messages, self._skew if skew is None else skew)
                self.loads.append(Load(stage, name, size, seconds))

    def _busiest(self, link: Link, size: float, messages: float, skew: float) -> float:
        cluster = self._cluster

        def seconds(of: int) -> float:
            units = cluster.units
            return (
                heaviest(size, units, of, skew) / link.rate
                + heaviest(messages, units, of, skew) * link.message
            )

        alone = seconds(cluster.units_of(link.level))
        if link.level != "worker":
            return alone
        # Workers of a host share its cores. While the smaller ones run, the cores are divided among all;
        # afterwards the largest one runs alone.
        beside = min(cluster.per_host, cluster.workers)
        others = (seconds(cluster.units_of("host")) - alone) / max(beside - 1, 1)
        shorter = min(others, alone) if beside > 1 else alone
        return shorter * max(1.0, beside / cluster.parallel) + (alone - shorter)

    def seconds(self, stage: str) -> float:
        """Returns how long a stage takes. Links of workers are used in sequence, all others concurrently."""
        own, links = 0.0, 0.0
        for load in self.loads:
            if load.stage == stage:
                if self._cluster.links[load.link].level == "worker":
                    own += load.seconds
                else:
                    links = max(links, load.seconds)
        return max(own, links)


def overridden(links: Mapping[str, Link], given: list[str]) -> dict[str, Link]:
    """Returns the links with the rates that `given` overrides, such as "network=25" in GB/s."""
    made = dict(links)
    for each in given:
        name, _, rate = each.partition("=")
        if name not in made:
            raise SystemExit(f"--set {each}: there is no link {name!r}, but {', '.join(map(repr, made))}")
        made[name] = dataclasses.replace(made[name], rate=float(rate) * GB)
    return made


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Says how long a job takes on N workers with M GPUs each.")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--gpus", type=int, default=8, help="of each worker; default: 8")
    parser.add_argument("--per-host", type=int, default=1, help="workers of each host; default: 1")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--per-unit", type=float, default=80.0, metavar="GB", help="of each GPU; default: 80")
    size.add_argument("--total", type=float, metavar="GB", help="of the whole data set")
    parser.add_argument("--part", type=float, default=1.0, metavar="GB", help="of one task; default: 1")
    parser.add_argument("--columns", type=int, default=1, help="of a part; default: 1")
    parser.add_argument("--batches", type=int, default=1, help="of a part; default: 1")
    parser.add_argument(
        "--exchanged", type=float, default=1.0, metavar="SHARE", help="default: 1, everything"
    )
    parser.add_argument("--written", type=float, default=0.0, metavar="SHARE", help="default: 0")
    parser.add_argument("--passes", type=int, default=1, help="uses of the data that is held; default: 1")
    parser.add_argument(
        "--skew", type=float, default=1.2, metavar="FACTOR", help="largest to mean; default: 1.2"
    )
    parser.add_argument("--budget", type=float, default=70.0, metavar="GB", help="of each GPU; default: 70")
    parser.add_argument("--host-memory", type=float, default=1000.0, metavar="GB", help="for spilled tables")
    parser.add_argument("--set", action="append", default=[], metavar="LINK=GB/S", help="another rate")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    return parser.parse_args(arguments)


def described(cluster: Cluster, made: Estimate) -> str:
    """Formats the estimate as text."""
    lines = [f"{cluster.workers:,} workers on {cluster.hosts:,} hosts, {cluster.units:,} units"]
    lines += [f"  {stage:10}{seconds:14,.3f} s" for stage, seconds in made.stages.items() if seconds]
    lines.append(f"  {'the job':10}{made.seconds:14,.3f} s")
    lines.append(f"{'link':16}{'bytes in all':>16}{'busy for':>16}")
    for name, seconds in made.busy().items():
        lines.append(f"{name:16}{made.size(name) / GB:13,.1f} GB{seconds:14,.3f} s")
    return "\n".join(lines)


def main() -> int:
    from scale_constants import LINKS

    options = parse()
    links = overridden({name: each.link for name, each in LINKS.items()}, options.set)
    cluster = Cluster(
        options.workers,
        links,
        gpus=options.gpus,
        per_host=options.per_host,
        budget=options.budget * GB,
        host_memory=options.host_memory * GB,
    )
    job = Job(
        (options.per_unit * cluster.units if options.total is None else options.total) * GB,
        part=options.part * GB,
        columns=options.columns,
        batches=options.batches,
        exchanged=options.exchanged,
        written=options.written,
        passes=options.passes,
        skew=options.skew,
    )
    made = estimate(cluster, job)
    if options.json:
        print(json.dumps(dataclasses.asdict(made), indent=1))
        return 0
    print(described(cluster, made))
    for name, rate in (each.split("=") for each in options.set):
        print(f"given: {name} {rate} GB/s")
    for name in made.busy():
        if LINKS[name].kind != "measured":
            print(f"{LINKS[name].kind}: {name} ({LINKS[name].source})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
