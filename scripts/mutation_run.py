"""Tries small bugs (scripts/mutations.py), several at a time, and counts what the tests find of each folder.

Part of scripts/mutants.py, which says how it is used.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutation_build import CONFORMANCE, SCHEDULES, UNIT, Build, CompileError, CostlyError
from mutation_tests import Step, failure_of, measure, python_step, steps_for
from mutations import Mutation, draw, mutations_below, read_equivalent

FOUND, SURVIVED, NOT_COMPILED, COSTLY = "found", "survived", "does not compile", "costly"


@dataclass(frozen=True)
class Verdict:
    bug: Mutation
    outcome: str
    how: str

    @property
    def judged(self) -> bool:
        return self.outcome in (FOUND, SURVIVED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", action="extend", nargs="+", default=[])
    parser.add_argument("--sample", type=int, help="how many bugs; all without it")
    parser.add_argument("--sample-each", type=int, help="how many bugs of each folder right below saeta/")
    parser.add_argument(
        "--again", type=Path, help="only the survivors that --out wrote into this file before"
    )
    parser.add_argument("--seed", default="0", help="draws the sample; 'commit' is the hash of HEAD")
    parser.add_argument(
        "--seconds", type=float, help="no further bug is tried after so many, building not counted"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="how many bugs at a time")
    parser.add_argument("--build", type=Path, help="a build of this tree by Ninja; one of its own without it")
    parser.add_argument("--out", type=Path, help="a file for the results, in JSON")
    parser.add_argument("--sources-only", action="store_true", help="no headers")
    parser.add_argument(
        "--most-objects", type=int, default=40, help="bugs of a header that more include are left out"
    )
    parser.add_argument("--quick", action="store_true", help="no conformance tests")
    parser.add_argument(
        "--at-least", type=float, default=0, help="percent of each folder's bugs that must be found"
    )
    parser.add_argument("--python", action="store_true", help="run the tests of the Python package, too")
    parser.add_argument("--list", action="store_true", help="print the bugs and stop")


def listed(root: Path, bug: Mutation) -> str:
    """As tests/mutants/equivalent.txt names it."""
    return f"{bug.path} | {bug.text(root)} | {bug.change(root)}"


def seed_of(root: Path, text: str) -> str:
    if text != "commit":
        return text
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "no git"


def part_of(bug: Mutation) -> str:
    """The folder right below saeta/ that holds it."""
    return bug.path.split("/")[1]


class Queue:
    """The bugs of each folder in the order of the draw. One that tells nothing, since it does not compile,
    is replaced."""

    def __init__(self, bugs: Iterable[Mutation], wanted: int | None) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Mutation]] = {}
        for bug in bugs:
            self._waiting.setdefault(part_of(bug), deque()).append(bug)
        self._open = {part: len(left) if wanted is None else wanted for part, left in self._waiting.items()}
        self.size = sum(min(self._open[part], len(left)) for part, left in self._waiting.items())

    def take(self) -> Mutation | None:
        """From the folder of which most are left to try."""
        with self._lock:
            ready = [part for part, left in self._waiting.items() if left and self._open[part] > 0]
            if not ready:
                return None
            part = max(ready, key=lambda name: self._open[name])
            self._open[part] -= 1
            return self._waiting[part].popleft()

    def replace(self, bug: Mutation) -> None:
        with self._lock:
            self._open[part_of(bug)] += 1


def queue_of(root: Path, chosen: argparse.Namespace) -> Queue:
    found: list[Mutation] = []
    for folder in chosen.folder:
        if not (root / folder).exists():
            sys.exit(f"there is no {folder}")
        found += mutations_below(root, folder.rstrip("/"), chosen.sources_only)
    equivalent = read_equivalent(root / "tests" / "mutants" / "equivalent.txt")
    left = [bug for bug in found if (bug.path, bug.text(root), bug.change(root)) not in equivalent]
    print(
        f"{len(found)} bugs below {', '.join(chosen.folder)}, {len(found) - len(left)} known to be equivalent"
    )
    if chosen.again is not None:
        survivors = {bug["bug"] for bug in json.loads(chosen.again.read_text(encoding="utf-8"))["survivors"]}
        left = [bug for bug in left if listed(root, bug) in survivors]
    seed = seed_of(root, chosen.seed)
    drawn = draw(left, len(left) if chosen.sample is None else chosen.sample, seed)
    queue = Queue(drawn, chosen.sample_each)
    print(f"{queue.size} are tried (--seed {seed})", flush=True)
    return queue


def judge(build: Build, bug: Mutation, steps: list[Step], beside: Path) -> Verdict:
    shutil.rmtree(beside, ignore_errors=True)
    try:
        build.make(bug, beside)
    except CompileError as complaint:
        return Verdict(bug, NOT_COMPILED, str(complaint))
    except CostlyError as reason:
        return Verdict(bug, COSTLY, str(reason))
    for step in steps:
        failure = failure_of(build, step, beside)
        if failure is not None:
            return Verdict(bug, FOUND, f"{step.name}: {failure}")
    return Verdict(bug, SURVIVED, "")


class Run:
    """Workers that take bugs from the queue until it is empty or the time is over."""

    def __init__(self, build: Build, work: Path, steps: dict[str, list[Step]], until: float | None) -> None:
        self.build = build
        self.work = work
        self.steps = steps
        self.until = until
        self.verdicts: list[Verdict] = []
        self._print = threading.Lock()

    def try_all(self, queue: Queue, jobs: int) -> None:
        with ThreadPoolExecutor(jobs) as pool:
            for worker in [
                pool.submit(self._work, queue, self.work / f"worker-{number}") for number in range(jobs)
            ]:
                worker.result()

    def _work(self, queue: Queue, beside: Path) -> None:
        while self.until is None or time.monotonic() < self.until:
            bug = queue.take()
            if bug is None:
                return
            verdict = judge(self.build, bug, self.steps[part_of(bug)], beside)
            if not verdict.judged:
                queue.replace(bug)
            self._note(verdict)

    def _note(self, verdict: Verdict) -> None:
        bug, root = verdict.bug, self.build.root
        with self._print:
            self.verdicts.append(verdict)
            print(f"{verdict.outcome:16} {bug.path}:{bug.line} {bug.change(root)}: {verdict.how[:140]}")
            if verdict.outcome == SURVIVED:
                print(bug.patch(root))
            sys.stdout.flush()


@dataclass(frozen=True)
class Share:
    """What was found of one folder."""

    folder: str
    counts: Counter[str]

    @property
    def tried(self) -> int:
        return self.counts[FOUND] + self.counts[SURVIVED]

    @property
    def percent(self) -> float:
        return 100 * self.counts[FOUND] / self.tried if self.tried else 100.0

    def __str__(self) -> str:
        left = ", ".join(
            f"{self.counts[name]} {name}" for name in (NOT_COMPILED, COSTLY) if self.counts[name]
        )
        return f"{self.folder:16} {self.counts[FOUND]:4} of {self.tried:4} found ({self.percent:.0f} %)" + (
            f", not counted: {left}" if left else ""
        )


def shares_of(verdicts: list[Verdict]) -> list[Share]:
    counts: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counts.setdefault(f"saeta/{part_of(verdict.bug)}", Counter())[verdict.outcome] += 1
    return [Share(folder, counts[folder]) for folder in sorted(counts)]


def write_results(root: Path, out: Path, shares: list[Share], verdicts: list[Verdict]) -> None:
    bugs = [
        {
            "bug": listed(root, verdict.bug),
            "line": verdict.bug.line,
            "outcome": verdict.outcome,
            "how": verdict.how,
        }
        for verdict in sorted(verdicts, key=lambda verdict: verdict.bug)
    ]
    results = {
        "folders": {share.folder: {**share.counts, "percent": round(share.percent, 1)} for share in shares},
        "survivors": [bug for bug in bugs if bug["outcome"] == SURVIVED],
        "bugs": bugs,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def plant(root: Path, work: Path, chosen: argparse.Namespace) -> int:
    begun = time.monotonic()
    queue = queue_of(root, chosen)
    if chosen.list:
        while (bug := queue.take()) is not None:
            print(listed(root, bug))
        return 0
    programs = [UNIT, SCHEDULES] if chosen.quick else [UNIT, CONFORMANCE, SCHEDULES]
    folder = (chosen.build or work / "build-tests").absolute()
    build = Build(root, folder, programs, chosen.most_objects)
    build.prepare(chosen.python, chosen.jobs)
    print(f"the tree is built after {time.monotonic() - begun:.0f} s", flush=True)
    tests = measure(build, work, chosen.jobs)
    parts = {part_of(bug) for bug in mutations_below(root, "saeta")}
    steps = {part: steps_for(build, tests, part) for part in parts}
    if chosen.python:
        for each in steps.values():
            each.append(python_step(build))
    print(f"{len(tests)} tests pass without a bug after {time.monotonic() - begun:.0f} s", flush=True)
    until = None if chosen.seconds is None else time.monotonic() + chosen.seconds
    trial = Run(build, work / f"run-{os.getpid()}", steps, until)
    try:
        trial.try_all(queue, chosen.jobs)
    finally:
        shutil.rmtree(trial.work, ignore_errors=True)
    shares = shares_of(trial.verdicts)
    if chosen.out is not None:
        write_results(root, chosen.out, shares, trial.verdicts)
    total = Share("all", sum((share.counts for share in shares), Counter()))
    for share in [*shares, total]:
        print(share)
    print(f"the end after {time.monotonic() - begun:.0f} s")
    return 1 if any(share.percent < chosen.at_least for share in shares) else 0
