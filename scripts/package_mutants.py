#!/usr/bin/env python3
"""Plants small bugs in the Python package and lets its tests find them.

    package_mutants.py [--folder python/saeta python/src] [--sample-each N] [--seed TEXT] [--jobs N]
                       [--build DIR] [--again FILE] [--out FILE] [--at-least PERCENT] [--list]

The bugs of python/src are those of scripts/mutations.py; those of python/saeta are of the same kinds,
found in the syntax tree. Every file of tests is run once with coverage of both languages (kept in
build/mutants/package: delete it when the package has changed). A bug is then tried on the files of tests
that reach its line, the quick ones first. Nothing is written into the tree or the build (DIR, build/single,
configured by `cmake --preset dev -B build/single -DSAETA_UNITY=OFF`): a bug lies in a folder of links to the
build. Survivors are printed as patches. Those of tests/mutants/equivalent.txt change nothing that can be
seen, and are not tried. Nor are those in lines that no test runs here, if tests/mutants/elsewhere.txt says
for the file what it takes to run them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from mutation_build import CompileError
from mutation_run import FOUND, NOT_COMPILED, SURVIVED, Share, Verdict, listed
from mutation_tests import run
from mutations import Mutation, draw, mutations_below, read_equivalent
from package_coverage import Reach, Survey, counted_line
from package_overlay import Modules, environment_of, make_overlay, replace_file
from python_mutations import python_mutations_below

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants" / "package"
VENV = ROOT / ".deps" / "venv" / "bin" / "python"
PYTHON = VENV if VENV.exists() else Path(sys.executable)
FOLDERS = ["python/saeta", "python/src"]
TESTS = ["tests/python", "tests/interop"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py::.+?|\S+\.py)(?: - .*)?$", re.MULTILINE)
# Many lines run whenever the package is imported. Tests that take longer are not tried on a bug there; those
# that take longest come last.
LONGEST_TRIAL = 420.0  # seconds


class Trial:
    def __init__(self, build: Path, reach: Reach) -> None:
        self.build = build
        self.reach = reach
        self.modules = Modules(ROOT, build)
        self.verdicts: list[Verdict] = []
        self._print = threading.Lock()
        self._alone: dict[str, bool] = {}  # whether a test passes without a bug

    def judge(self, bug: Mutation, overlay: Path) -> Verdict:
        tests = self._tests_for(bug)
        if not tests:
            return Verdict(bug, SURVIVED, "no test reaches the line")
        make_overlay(self.build, overlay)
        try:
            self._plant(bug, overlay)
        except CompileError as complaint:
            return Verdict(bug, NOT_COMPILED, str(complaint))
        seconds = sum(self.reach.seconds[test] for test in tests)
        while True:
            code, text = self._run([*tests, *self._without_broken()], overlay, 60 + 3 * seconds)
            if code in (0, 5):
                return Verdict(bug, SURVIVED, f"{len(tests)} files of tests pass in {seconds:.0f} s")
            failed = FAILED.search(text)
            if code is None or failed is None:
                return Verdict(bug, FOUND, "hangs" if code is None else f"exit code {code}")
            if self._alone.get(failed[1]) is False:
                return Verdict(bug, SURVIVED, f"{failed[1]} fails without a bug and can't be left out")
            if self._passes_alone(failed[1]):
                return Verdict(bug, FOUND, failed[1])

    def _run(self, arguments: list[str], folder: Path, seconds: float) -> tuple[int | None, str]:
        command = [str(PYTHON), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu"]
        return run([*command, *arguments], environment_of(folder), seconds, ROOT)

    def _without_broken(self) -> list[str]:
        return [f"--deselect={test}" for test, passes in list(self._alone.items()) if not passes]

    def _passes_alone(self, test: str) -> bool:
        """A test that fails without a bug finds none."""
        if test not in self._alone:
            self._alone[test] = self._run([test], self.build, LONGEST_TRIAL)[0] == 0
        return self._alone[test]

    def _tests_for(self, bug: Mutation) -> list[str]:
        chosen: list[str] = []
        left = LONGEST_TRIAL
        for test in self.reach.tests_for(bug.path, counted_line(ROOT / bug.path, bug.line)):
            left -= self.reach.seconds[test]
            if left > 0 or not chosen:
                chosen.append(test)
        return chosen

    def _plant(self, bug: Mutation, overlay: Path) -> None:
        if bug.path.endswith(".py"):
            name = bug.path.removeprefix("python/saeta/")
            replace_file(overlay / "python" / "saeta" / name, bug.changed(ROOT))
            return
        source = overlay / "changed" / Path(bug.path).name
        source.parent.mkdir()
        source.write_text(bug.changed(ROOT), encoding="utf-8")
        self.modules.link(self.modules.compile(bug.path, source, overlay / "changed"), overlay)

    def note(self, verdict: Verdict) -> None:
        bug = verdict.bug
        with self._print:
            self.verdicts.append(verdict)
            print(f"{verdict.outcome:16} {bug.path}:{bug.line} {bug.change(ROOT)[:100]}: {verdict.how[:140]}")
            if verdict.outcome == SURVIVED:
                print(bug.patch(ROOT))
            sys.stdout.flush()

    def try_all(self, bugs: list[Mutation], wanted: int, jobs: int) -> None:
        """Bugs of one folder in the order of the draw until `wanted` of them have told something."""
        waiting, lock, left = iter(bugs), threading.Lock(), [wanted]

        def work(number: int) -> None:
            while True:
                with lock:
                    bug = next(waiting, None) if left[0] > 0 else None
                    left[0] -= 1
                if bug is None:
                    return
                verdict = self.judge(bug, WORK / f"worker-{number}")
                self.note(verdict)
                if verdict.outcome == NOT_COMPILED:
                    with lock:
                        left[0] += 1

        with ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(work, number) for number in range(jobs)]:
                done.result()


def bugs_of(folder: str, arguments: argparse.Namespace) -> list[Mutation]:
    in_python = folder.startswith("python/saeta")
    found = (
        python_mutations_below(ROOT, folder)
        if in_python
        else mutations_below(ROOT, folder, sources_only=True)
    )
    equivalent = read_equivalent(ROOT / "tests" / "mutants" / "equivalent.txt")
    left = [bug for bug in found if (bug.path, bug.text(ROOT), bug.change(ROOT)) not in equivalent]
    print(f"{len(found)} bugs below {folder}, {len(found) - len(left)} known to be equivalent", flush=True)
    if arguments.again is not None:
        survivors = set(json.loads(arguments.again.read_text(encoding="utf-8"))["survivors"])
        left = [bug for bug in left if listed(ROOT, bug) in survivors]
    return draw(left, len(left), arguments.seed)


def read_elsewhere(listing: Path) -> list[str]:
    """The files in which lines need what this machine may lack: patterns of paths, each with a reason."""
    patterns = []
    for number, line in enumerate(listing.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, reason = line.partition(" | ")
        if not reason.strip():
            raise ValueError(f"{listing.name}:{number}: expected path | what the lines need")
        patterns.append(pattern.strip())
    return patterns


def can_be_found(reach: Reach, elsewhere: list[str], bug: Mutation) -> bool:
    listed_there = any(fnmatch(bug.path, pattern) for pattern in elsewhere)
    return not listed_there or reach.runs(bug.path, counted_line(ROOT / bug.path, bug.line))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", nargs="+", default=FOLDERS)
    parser.add_argument("--sample-each", type=int, default=40, help="how many bugs of each folder")
    parser.add_argument("--seed", default="0", help="draws the sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many bugs at a time")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "single", help="a build of this tree by Ninja"
    )
    parser.add_argument(
        "--again", type=Path, help="only the survivors that --out wrote into this file before"
    )
    parser.add_argument("--out", type=Path, help="a file for the results, in JSON")
    parser.add_argument(
        "--at-least", type=float, default=0, help="percent of each folder's bugs that must be found"
    )
    parser.add_argument("--list", action="store_true", help="print the bugs and stop")
    arguments = parser.parse_args()
    bugs = {folder: bugs_of(folder, arguments) for folder in arguments.folder}
    if arguments.list:
        for drawn in bugs.values():
            print("\n".join(listed(ROOT, bug) for bug in drawn[: arguments.sample_each]))
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    reach = Survey(ROOT, arguments.build.absolute(), WORK, PYTHON).reach(TESTS, arguments.jobs)
    trial = Trial(arguments.build.absolute(), reach)
    elsewhere = read_elsewhere(ROOT / "tests" / "mutants" / "elsewhere.txt")
    enough = True
    for drawn in bugs.values():
        drawn = [bug for bug in drawn if can_be_found(reach, elsewhere, bug)]
        trial.try_all(drawn, arguments.sample_each, arguments.jobs)
    for folder in bugs:
        counts = Counter(verdict.outcome for verdict in trial.verdicts if verdict.bug.path.startswith(folder))
        share = Share(folder, counts)
        enough = enough and share.percent >= arguments.at_least
        print(share)
    if arguments.out is not None:
        survivors = [listed(ROOT, verdict.bug) for verdict in trial.verdicts if verdict.outcome == SURVIVED]
        arguments.out.write_text(json.dumps({"survivors": survivors}, indent=1) + "\n", encoding="utf-8")
    for overlay in WORK.glob("worker-*"):
        shutil.rmtree(overlay, ignore_errors=True)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
