"""Plants small bugs (scripts/mutations.py) in a copy of the tree, builds what they need and runs the tests on them.

Part of scripts/mutants.py, which says how it is used.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mutations import Mutation, draw, mutations_below, read_equivalent

UNIT, CONFORMANCE, SCHEDULES = "saeta_unit_tests", "saeta_conformance_tests", "saeta_schedules"
PROGRAMS = (UNIT, CONFORMANCE, SCHEDULES)
SKIPPED = 77  # tests/support/main.cpp
NOT_SELECTED = 2
SHORTEST_LIMIT = 10.0  # seconds that a step of the tests gets at least
LIMIT_FACTOR = 5  # times what it takes without a bug
MOST_MEMORY = 12 << 30  # bytes: a bug that allocates for ever must not take the machine along
TEST = re.compile(r"^TEST(?:_P|_F)?\((\w+),", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+?)(?:,| \()", re.MULTILINE)


@dataclass
class Step:
    """One run of a test program."""

    name: str
    command: list[str]
    limit: float = SHORTEST_LIMIT
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    bug: Mutation
    outcome: str  # found, survived, does not compile
    how: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--sample", type=int, help="how many bugs; all without it")
    parser.add_argument("--seed", default="0", help="draws the sample; 'commit' is the hash of HEAD")
    parser.add_argument(
        "--seconds",
        type=float,
        help="no further bug is tried after so many seconds, which count from when the tree is built",
    )
    parser.add_argument("--sources-only", action="store_true", help="no headers, which take long to build")
    parser.add_argument(
        "--quick", action="store_true", help="no conformance tests, whose programs take long to build"
    )
    parser.add_argument("--at-least", type=float, default=0, help="percent of the bugs that must be found")
    parser.add_argument("--python", action="store_true", help="run the tests of the Python package, too")
    parser.add_argument("--list", action="store_true", help="print the bugs and stop")


def seed_of(root: Path, text: str) -> str:
    if text != "commit":
        return text
    done = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else "no git"


class Workshop:
    """A copy of the tree with its build, in which one bug stands at a time."""

    def __init__(self, root: Path, work: Path, with_python: bool, quick: bool) -> None:
        self.root = root
        self.tree = work / "tree"
        self.build_folder = work / "build-tests"
        self.with_python = with_python
        self.quick = quick
        self.planted: Mutation | None = None

    def configure(self) -> None:
        off = ["CUDA", "BENCH", "EXAMPLES", "RMM"] + ([] if self.with_python else ["PYTHON"])
        command = [
            "cmake",
            "-S",
            self.tree,
            "-B",
            self.build_folder,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Debug",
        ]
        command += ["-DCMAKE_CXX_FLAGS_DEBUG=-O1"] + [f"-DSAETA_{part}=OFF" for part in off]
        if shutil.which("ccache"):
            command += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"configuration failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")

    def build(self) -> str | None:
        """None, or what the compiler says."""
        targets = [name for name in PROGRAMS if not (self.quick and name == CONFORMANCE)]
        targets += ["all"] if self.with_python else []
        jobs = os.environ.get("JOBS") or str(os.cpu_count() or 2)
        done = subprocess.run(
            ["cmake", "--build", self.build_folder, "-j", jobs, "--target", *targets],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return None
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        return errors[0] if errors else done.stdout[-300:]

    def restore(self) -> None:
        if self.planted is not None:
            shutil.copyfile(self.root / self.planted.path, self.tree / self.planted.path)
            self.planted = None

    def plant(self, bug: Mutation) -> None:
        """Takes out the bug before it, too, so that one build does for both."""
        self.restore()
        bug.apply(self.tree)
        self.planted = bug

    def program(self, name: str) -> str:
        return str(self.build_folder / "bin" / name)


def suites_in(folder: Path) -> list[str]:
    names = set()
    for path in folder.rglob("*.cpp") if folder.is_dir() else []:
        names |= set(TEST.findall(path.read_text(encoding="utf-8")))
    return sorted(names)


def filter_of(suites: list[str], besides: list[str]) -> str:
    """A filter of GoogleTest for suites, parametrised or not; all of them when there is none."""
    chosen = ":".join(f"{suite}.*:*/{suite}.*" for suite in suites) or "*"
    return f"--gtest_filter={chosen}-" + ":".join(["*cuda*", *besides])


def steps_for(shop: Workshop, folder: str, besides: list[str]) -> list[Step]:
    """The tests that know the folder best come first."""
    part = folder.removeprefix("saeta/").split("/")[0].removeprefix("saeta")
    steps = []
    for kind, program in (("unit", UNIT), ("conformance", CONFORMANCE)):
        suites = suites_in(shop.tree / "tests" / kind / part) if part else []
        if suites:
            steps.append(Step(f"{kind} tests of {part}", [shop.program(program), filter_of(suites, besides)]))
    steps.append(Step("random programs", [shop.program(SCHEDULES), "--count", "300"]))
    steps.append(Step("all conformance tests", [shop.program(CONFORMANCE), filter_of([], besides)]))
    steps.append(Step("all unit tests", [shop.program(UNIT), filter_of([], besides)]))
    if shop.with_python:
        tests = next(
            name for name in ("python", "interop") if (shop.tree / "tests" / name / "conftest.py").exists()
        )
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu"]
        steps.append(
            Step(
                "Python tests",
                [*command, str(shop.tree / "tests" / tests)],
                environment={"PYTHONPATH": str(shop.build_folder / "python")},
            )
        )
    return [step for step in steps if not (shop.quick and step.command[0] == shop.program(CONFORMANCE))]


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(step: Step, fail_fast: bool = True) -> tuple[int | None, str]:
    """Exit code, None for a run that did not end, and what it printed."""
    environment = {**os.environ, **step.environment, "GTEST_FAIL_FAST": "1" if fail_fast else "0"}
    environment["GTEST_BRIEF"] = "1"
    try:
        done = subprocess.run(
            step.command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=step.limit,
            env=environment,
            preexec_fn=limit_memory,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def failing_already(shop: Workshop) -> list[str]:
    """Tests that fail without a bug: they find nothing and are left out."""
    failing: set[str] = set()
    for program in (UNIT,) if shop.quick else (UNIT, CONFORMANCE):
        step = Step("as it is", [shop.program(program), filter_of([], [])], limit=600)
        code, text = run(step, fail_fast=False)
        if code not in (0, SKIPPED):
            names = set(FAILED.findall(text))
            if not names:
                sys.exit(f"{program} fails without a bug, in no test that it names:\n{text[-2000:]}")
            failing |= names
    return sorted(failing)


def measure(steps: list[Step]) -> dict[str, float]:
    """Seconds that a run of each program may take, from a run of its tests without a bug."""
    limits = {}
    for step in steps:
        step.limit = 600
        begun = time.monotonic()
        code, text = run(step)
        if code not in (0, SKIPPED, NOT_SELECTED):
            sys.exit(f"{step.name} fails without a bug:\n{text[-2000:]}")
        limits[step.command[0]] = max(SHORTEST_LIMIT, LIMIT_FACTOR * (time.monotonic() - begun))
    return limits


def judge(shop: Workshop, bug: Mutation, steps: list[Step]) -> Verdict:
    shop.plant(bug)
    complaint = shop.build()
    if complaint is not None:
        return Verdict(bug, "does not compile", complaint)
    for step in steps:
        code, text = run(step)
        if code is None:
            return Verdict(bug, "found", f"{step.name}: hangs")
        if code < 0:
            return Verdict(bug, "found", f"{step.name}: crashes (signal {-code})")
        if code not in (0, SKIPPED, NOT_SELECTED):
            named = FAILED.search(text)
            lines = text.splitlines()
            return Verdict(
                bug, "found", f"{step.name}: {named[1] if named else (lines[1:2] or [str(code)])[0]}"
            )
    return Verdict(bug, "survived", "")


def summary(verdicts: list[Verdict]) -> str:
    count = Counter(verdict.outcome for verdict in verdicts)
    tried = count["found"] + count["survived"]
    share = 100 * count["found"] / tried if tried else 100
    return (
        f"{count['found']} of {tried} bugs found ({share:.0f} %), {count['survived']} survived, "
        f"{count['does not compile']} do not compile"
    )


def chosen_bugs(root: Path, chosen: argparse.Namespace) -> list[Mutation]:
    found: list[Mutation] = []
    for folder in chosen.folder:
        if not (root / folder).exists():
            sys.exit(f"there is no {folder}")
        found += mutations_below(root, folder.rstrip("/"), chosen.sources_only)
    equivalent = read_equivalent(root / "tests" / "mutants" / "equivalent.txt")
    left = [bug for bug in found if (bug.path, bug.text(root), bug.change(root)) not in equivalent]
    print(
        f"{len(found)} bugs below {', '.join(chosen.folder)}, {len(found) - len(left)} of them known to be equivalent"
    )
    seed = seed_of(root, chosen.seed)
    drawn = left if chosen.sample is None else draw(left, chosen.sample, seed)
    print(f"{len(drawn)} are tried (--seed {seed})", flush=True)
    return drawn


def plant(root: Path, work: Path, chosen: argparse.Namespace) -> int:
    begun = time.monotonic()
    bugs = chosen_bugs(root, chosen)
    if chosen.list:
        for bug in bugs:
            print(f"{bug.path}:{bug.line} | {bug.text(root)} | {bug.change(root)}")
        return 0
    shop = Workshop(root, work, chosen.python, chosen.quick)
    shop.configure()
    complaint = shop.build()
    if complaint is not None:
        sys.exit(f"the tree as it is does not build: {complaint}")
    besides = failing_already(shop)
    for name in besides:
        print(f"left out, because it fails without a bug: {name}")
    limits = measure(steps_for(shop, "saeta", besides))
    print(f"the tree as it is is built and tested after {time.monotonic() - begun:.0f} s", flush=True)
    begun = time.monotonic()
    plans: dict[str, list[Step]] = {}
    verdicts: list[Verdict] = []
    try:
        for bug in bugs:
            if chosen.seconds is not None and time.monotonic() - begun > chosen.seconds:
                print(
                    f"stopped after {chosen.seconds:.0f} s: {len(bugs) - len(verdicts)} bugs were not tried"
                )
                break
            part = "/".join(bug.path.split("/")[:2])
            if part not in plans:
                plans[part] = steps_for(shop, part, besides)
                for step in plans[part]:
                    step.limit = limits[step.command[0]]
            verdicts.append(judge(shop, bug, plans[part]))
            last = verdicts[-1]
            print(f"{last.outcome:16} {bug.path}:{bug.line} {bug.change(root)}: {last.how[:120]}", flush=True)
            if last.outcome == "survived":
                print(bug.patch(root), flush=True)
    finally:
        shop.restore()
    print(summary(verdicts))
    tried = [v for v in verdicts if v.outcome != "does not compile"]
    found = [v for v in tried if v.outcome == "found"]
    return 1 if tried and 100 * len(found) < chosen.at_least * len(tried) else 0
