"""Which tests look for a small bug, in which order, and what they say of it. Part of scripts/mutants.py.

The quick tests of the bug's folder come first, then the random programs, all other quick tests and at last
what takes long. A failure counts when the test fails again by itself: a test that fails now and then finds
nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mutation_build import CONFORMANCE, SCHEDULES, UNIT, Build

SKIPPED = 77  # tests/support/main.cpp
LONG = 0.5  # seconds; tests that take more come last
SHORTEST_LIMIT = 30.0  # seconds that a step gets at least
LIMIT_FACTOR = 5  # times what it takes without a bug
# A bug that allocates or writes for ever must not take the machine along: the system ends it first when
# memory runs out (a limit would have to allow the addresses that simulated devices reserve), and its files
# end at 4 GiB, in blocks of 512 bytes. That limit is soft: tests set their own.
GUARDED = 'echo 1000 >/proc/self/oom_score_adj; ulimit -c 0; ulimit -S -f 8388608; exec "$@"'
SUITE = re.compile(r"^TEST(?:_P|_F)?\((\w+),", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+?)(?:,| \()", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    """One test of GoogleTest and the most seconds that it took without a bug."""

    program: str
    name: str
    seconds: float

    @property
    def suite(self) -> str:
        """Without the names of parameters: `backends/storm.runs/sim` is of `storm`."""
        return self.name.split(".")[0].split("/")[-1]


@dataclass(frozen=True)
class Step:
    """One run of a program: some of its tests, or its own arguments."""

    name: str
    program: str
    limit: float
    tests: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def run(
    command: list[str], environment: dict[str, str], limit: float, folder: Path | None = None
) -> tuple[int | None, str]:
    """Exit code, None for a run that did not end, and what it printed. Leaves no process behind."""
    started = subprocess.Popen(
        ["sh", "-c", GUARDED, "sh", *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        text = started.communicate(timeout=limit)[0]
        return started.returncode, text
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def environment_of(build: Build, beside: Path) -> dict[str, str]:
    paths = {
        "LD_LIBRARY_PATH": str(beside / "lib"),
        "PYTHONPATH": str(build.folder / "python"),
        "SAETA_BUILD": str(build.folder),
    }
    folders = dict.fromkeys(("TMPDIR", "TEST_TMPDIR"), f"{beside}/")
    return {**paths, **folders, "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1"}


def measure(build: Build, work: Path, jobs: int) -> list[Test]:
    """The tests that pass without a bug. A later run takes them from a file, program by program, if
    nothing was built since."""
    file = work / "tests.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    tests = []
    for program in [name for name in build.programs if name != SCHEDULES]:
        version = [path.stat().st_mtime_ns for path in [*build.libraries(), Path(build.program(program))]]
        if known.get(program, {}).get("version") != version:
            known[program] = {"version": version, "seconds": measure_program(build, program, work, jobs)}
            file.write_text(json.dumps(known), encoding="utf-8")
        tests += [Test(program, name, seconds) for name, seconds in known[program]["seconds"].items()]
    return tests


def measure_program(build: Build, program: str, work: Path, jobs: int) -> dict[str, float]:
    """With as many copies at a time as there will be bugs; says which tests fail."""
    with ThreadPoolExecutor(jobs) as pool:
        copies = list(
            pool.map(partial(run_without_bug, build, program), [work / f"copy-{n}" for n in range(jobs)])
        )
    longest = {}
    for name in sorted({name for copy in copies for name in copy}):
        times = [seconds for copy in copies if (seconds := copy.get(name)) is not None]
        if len(times) == len(copies):
            longest[name] = max(times)
        else:
            print(f"left out, because it fails without a bug: {name}", flush=True)
    return longest


def run_without_bug(build: Build, program: str, beside: Path) -> dict[str, float | None]:
    """Seconds of each test that is not skipped, None for one that fails."""
    beside.mkdir(parents=True, exist_ok=True)
    report = beside / f"{program}.json"
    report.unlink(missing_ok=True)
    command = [build.program(program), "--gtest_filter=-*cuda*", f"--gtest_output=json:{report}"]
    text = run(command, {**environment_of(build, beside), "GTEST_FAIL_FAST": "0"}, 600)[1]
    if not report.exists():
        sys.exit(f"{program} does not come to its end without a bug:\n{text[-2000:]}")
    times: dict[str, float | None] = {}
    for suite in json.loads(report.read_text(encoding="utf-8"))["testsuites"]:
        for test in suite["testsuite"]:
            if test["result"] == "COMPLETED":
                name = f"{suite['name']}.{test['name']}"
                times[name] = None if "failures" in test else float(test["time"].rstrip("s"))
    return times


def suites_in(folder: Path) -> set[str]:
    paths = folder.rglob("*.cpp") if folder.is_dir() else []
    return {name for path in paths for name in SUITE.findall(path.read_text(encoding="utf-8"))}


def steps_for(build: Build, tests: list[Test], part: str) -> list[Step]:
    """`part` names a folder of the library as those of the tests do, such as `budget`."""
    near = {
        program: suites_in(build.root / "tests" / folder / part)
        for program, folder in ((UNIT, "unit"), (CONFORMANCE, "conformance"))
    }
    steps = []

    def add(name: str, chosen: Iterable[Test]) -> None:
        for program in near:
            selected = [test for test in chosen if test.program == program]
            limit = max(SHORTEST_LIMIT, LIMIT_FACTOR * sum(test.seconds for test in selected))
            if selected:
                steps.append(
                    Step(f"{name}, {program}", program, limit, tuple(test.name for test in selected))
                )

    def add_programs(name: str, *arguments: str) -> None:
        steps.append(Step(name, SCHEDULES, 120.0, arguments=arguments))

    quick = [test for test in tests if test.seconds < LONG]
    add("tests of its folder", [test for test in quick if test.suite in near[test.program]])
    add_programs("random programs", "--count", "100")
    add("quick tests", [test for test in quick if test.suite not in near[test.program]])
    add_programs(
        "random programs against odds", "--count", "200", "--devices", "2", "--captures", "--faults", "2"
    )
    add("long tests", [test for test in tests if test.seconds >= LONG])
    return steps


def python_step(build: Build) -> Step:
    command = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu")
    return Step(
        "Python tests", sys.executable, 600.0, arguments=(*command, str(build.root / "tests" / "python"))
    )


def failure_of(build: Build, step: Step, beside: Path) -> str | None:
    """What the step says of the bug whose libraries and programs lie below `beside`; None when it passes."""
    environment = environment_of(build, beside)
    while True:
        code, text = run(command_of(build, step, beside), environment, step.limit)
        if code in (0, SKIPPED):
            return None
        if code is None:
            return "hangs"
        failed = FAILED.search(text)
        if code != 1 or failed is None or not step.tests:
            return f"exit code {code}: {next((line for line in text.splitlines()[1:] if line.strip()), '')}"
        alone = replace(step, tests=(failed[1],))
        if run(command_of(build, alone, beside), environment, step.limit)[0] != 0:
            return failed[1]
        step = replace(step, tests=tuple(name for name in step.tests if name != failed[1]))
        if not step.tests:
            return None


def command_of(build: Build, step: Step, beside: Path) -> list[str]:
    if step.program not in build.programs:
        return [step.program, *step.arguments]
    program = build.program(step.program, beside)
    if not step.tests:
        return [program, *step.arguments]
    flags = beside / "flags"  # thousands of names are too long for a command line
    flags.write_text("--gtest_filter=" + ":".join(step.tests) + "\n", encoding="utf-8")
    return [program, f"--gtest_flagfile={flags}"]
