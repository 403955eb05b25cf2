"""Runs all jobs at one number of threads, in a process of its own: a process has one context per device.

Reads one JSON object from standard input. Writes JSON objects to standard output, one per line: first the
limits, then one for each result.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import saeta as sa
from saeta.bench import data, limits, peers
from saeta.bench.jobs import Job, Work, all_jobs

LIMIT_BYTES = 512 << 20


def main() -> None:
    asked = json.load(sys.stdin)
    threads = asked["threads"]
    pa.set_cpu_count(threads)
    ctx = sa.context(asked["device"])
    found, missing = peers.find_peers(ctx.device)
    folder = Path(asked["folder"])
    size = min(LIMIT_BYTES, asked["bytes"])
    links = {way: limits.Link(ctx, size, way) for way in ("in", "out")}
    known = {way: link.measure(asked["rounds"]) for way, link in links.items()}
    for limit, durable in (("write", True), ("cached write", False)):
        known[limit] = limits.writing(folder, size, threads, asked["rounds"], durable=durable)
    sample = data.mixed(size)
    cores = os.cpu_count() or 1
    for codec in ("lz4", "zstd"):
        known[codec] = min(known["in"], limits.decoding(sample, codec, size, cores, asked["rounds"]))
    del sample
    _say({"limits": known, "missing": missing, "device": ctx.device})
    for job in all_jobs(Work(ctx, folder, asked["bytes"], found)):
        if asked["only"] is not None and asked["only"] not in job.name:
            continue
        _measure(ctx, job, asked, known, links.get(job.limit))


def _measure(
    ctx: sa.Context, job: Job, asked: dict[str, Any], known: dict[str, float], link: limits.Link | None = None
) -> None:
    """Measures a job and its peers.

    `link` is the job's limit, if it is a copy; its copies alternate with the job.
    """
    runs = dict(job.runs)
    if not (asked["peers"] or job.threaded_peers):
        runs = {"saeta": runs["saeta"]}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    copied: list[float] = []
    failed: dict[str, str] = {}
    for number in range(-1, asked["rounds"]):  # the first round warms up and is checked
        forward = bool(number % 2)  # alternates the order, so that no contender always follows the same one
        if link is not None and forward:
            copied.append(link.time())
        for name in runs if forward else reversed(runs):
            if name in failed:
                continue
            try:
                taken = _run_once(ctx, job, name, check=number < 0 and asked["check"])
            except Exception as failure:  # a peer that fails is reported with the reason
                if name == "saeta":
                    raise
                failed[name] = f"{type(failure).__name__}: {failure}"
                continue
            if number >= 0:
                seconds[name].append(taken)
        if link is not None and not forward:
            copied.append(link.time())
        gc.collect()
    limit = known[job.limit] if link is None else link.rate(copied)
    for name, taken_all in seconds.items():
        described = {
            "job": job.name,
            "peer": name,
            "threads": asked["threads"],
            "bytes": job.bytes,
            "limit": job.limit,
            "limit_gb_per_s": limit,
            "bar": job.bar if name == "saeta" else None,
            "seconds_bar": job.seconds_bar if name == "saeta" else None,
        }
        if name in failed:
            _say({"result": {**described, "failed": failed[name]}})
        else:
            _say({"result": {**described, "seconds": taken_all}})


def _run_once(ctx: sa.Context, job: Job, name: str, *, check: bool) -> float:
    """Runs a contender once. Returns the seconds."""
    job.before.get(name, _do_nothing)()
    start = time.perf_counter()
    result = job.runs[name]()
    if name == "saeta":
        ctx.synchronize()
    taken = time.perf_counter() - start
    if name == "saeta" and check and not job.check(result):
        raise SystemExit(f"{job.name}: the values are not those of the source")
    return taken


def _do_nothing() -> None:
    pass


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
