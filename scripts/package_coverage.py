"""Which file of tests reaches which line of the Python package, in both languages.

Part of package_mutants.py. Python's lines are counted by coverage.py, those of C++ by gcov in modules that
are compiled for it. Both count what subprocesses of the tests do. What a process does that is killed is not
seen.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutation_tests import run
from package_overlay import Modules, environment_of, make_overlay

LONGEST_FILE = 900.0  # seconds
FARTHEST = 12  # lines


def counted_line(path: Path, line: int) -> int:
    """The line that coverage.py counts for a line of Python: the first one of its statement."""
    if path.suffix != ".py":
        return line
    first = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            first = max(first, node.lineno)
    return first or line


def install_tools(python: Path, folder: Path, *packages: str) -> None:
    """Installs packages into a folder for PYTHONPATH, apart from those that the tests run with."""
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--target",
        str(folder),
        *packages,
    ]
    subprocess.run(command, check=True)
    # Python runs it in every process that finds it: those that tests start are counted, too.
    site = folder / "sitecustomize.py"
    site.write_text("import coverage\n\ncoverage.process_startup()\n", encoding="utf-8")


def write_settings(folder: Path) -> Path:
    """Writes the settings of coverage.py, which collects its data in the folder. Returns their path."""
    settings = folder / "coveragerc"
    settings.write_text(
        f"[run]\ndata_file = {folder}/data\nparallel = true\ncore = ctrace\npatch = subprocess, _exit\n"
        "include = */python/saeta/*\nconcurrency = thread\n",
        encoding="utf-8",
    )
    return settings


@dataclass
class Reach:
    """`lines`: the files of tests of each `path:line`. `seconds`: what each took while lines were counted.
    `missed`: the lines that are code, and that no test runs."""

    lines: dict[str, list[str]]
    seconds: dict[str, float]
    missed: set[str]

    def runs(self, path: str, line: int) -> bool:
        """Whether a test runs the line, or the part of a statement that begins before it."""
        known = (f"{path}:{each}" for each in range(line, 0, -1))
        return next(
            (place in self.lines for place in known if place in self.lines or place in self.missed), False
        )

    def tests_for(self, path: str, line: int) -> list[str]:
        """Those that reach much of the file first, because every import reaches some of its lines.

        Among these, and among the others, the quick ones come first.
        """
        reached = Counter(
            test for place, tests in self.lines.items() if place.startswith(f"{path}:") for test in tests
        )
        much = (min(reached.values(), default=0) + max(reached.values(), default=0)) / 2
        return sorted(self._near(path, line), key=lambda test: (reached[test] < much, self.seconds[test]))

    def _near(self, path: str, line: int) -> list[str]:
        """Tests of the line, or of the nearest one: gcov loses count of lines around an exception."""
        for distance in range(FARTHEST):
            near = {*self.lines.get(f"{path}:{line - distance}", [])}
            near.update(self.lines.get(f"{path}:{line + distance}", []))
            if near:
                return sorted(near)
        return []


class Survey:
    """Runs every file of tests once, and keeps what was learned in `work`."""

    def __init__(self, root: Path, build: Path, work: Path, python: Path) -> None:
        self.root = root
        self.modules = Modules(root, build)
        self.build = build
        self.work = work
        self.python = python
        self.overlay = work / "counted"

    def reach(self, folders: list[str], jobs: int) -> Reach:
        """Looks again at files of tests that changed. Delete the folder after a change of the package."""
        kept = self.work / "reach.json"
        known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        tests = {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for folder in folders
            for path in sorted((self.root / folder).rglob("test_*.py"))
        }
        fresh = {test: entry for test, entry in known.items() if entry["version"] == tests.get(test)}
        new = [test for test in tests if test not in fresh]
        if new:
            install_tools(self.python, self.work / "pip", "coverage")
            if not self.overlay.exists():
                self._count_modules(jobs)
            with ThreadPoolExecutor(jobs) as pool:
                for test, (seconds, counts) in zip(new, pool.map(self._counts_of, new), strict=True):
                    fresh[test] = {
                        "version": tests[test],
                        "seconds": seconds,
                        "lines": sorted(place for place, count in counts.items() if count > 0),
                        "missed": sorted(place for place, count in counts.items() if count == 0),
                    }
            kept.write_text(json.dumps(fresh), encoding="utf-8")
        reach = Reach({}, {}, set())
        for test, entry in fresh.items():
            reach.seconds[test] = entry["seconds"]
            reach.missed.update(entry["missed"])
            for line in entry["lines"]:
                reach.lines.setdefault(line, []).append(test)
        reach.missed.difference_update(reach.lines)
        return reach

    def _count_modules(self, jobs: int) -> None:
        make_overlay(self.build, self.overlay)
        flags = ("--coverage", "-fprofile-update=atomic")

        def compile_one(path: str) -> dict[str, Path]:
            return self.modules.compile(path, self.root / path, self.work / "objects", flags)

        made: dict[str, Path] = {}
        with ThreadPoolExecutor(jobs) as pool:
            for done in pool.map(compile_one, self.modules.compiled):
                made.update(done)
        self.modules.link(made, self.overlay, ("--coverage",))

    def _counts_of(self, test: str) -> tuple[float, Counter[str]]:
        """How long the file of tests takes, and how often it runs each line."""
        beside = self.work / "counts" / test.replace("/", "-")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        settings = write_settings(beside)
        environment = environment_of(self.overlay)
        environment["PYTHONPATH"] += f":{self.work / 'pip'}"
        environment["GCOV_PREFIX"] = str(beside / "gcov")
        coverage = [str(self.python), "-m", "coverage"]
        options = ["-q", "-p", "no:cacheprovider", "-m", "not gpu", test]
        command = [*coverage, "run", f"--rcfile={settings}", "-m", "pytest", *options]
        begun = time.monotonic()
        code, text = run(command, environment, LONGEST_FILE, self.root)
        seconds = time.monotonic() - begun
        if code not in (0, 5):
            print(
                f"{test} fails without a bug; what passes in it is run all the same:\n{text[-600:]}",
                file=sys.stderr,
            )
        run([*coverage, "combine", f"--rcfile={settings}"], environment, 300, self.root)
        report = beside / "report.json"
        run([*coverage, "json", f"--rcfile={settings}", "-o", str(report)], environment, 300, self.root)
        counts = python_counts(report)
        counts.update(self._cpp_counts(beside))
        return seconds, counts

    def _cpp_counts(self, beside: Path) -> Counter[str]:
        found: Counter[str] = Counter()
        for data in sorted((beside / "gcov").rglob("*.gcda")):
            notes = Path("/" + data.relative_to(beside / "gcov").as_posix()).with_suffix(".gcno")
            shutil.copyfile(notes, data.with_suffix(".gcno"))
            command = ["gcov", "--json-format", "--stdout", str(data)]
            printed = subprocess.run(command, cwd=beside, capture_output=True, text=True, check=False).stdout
            for document in printed.splitlines():
                for file in json.loads(document)["files"]:
                    path = Path(file["file"])
                    if path.is_relative_to(self.root / "python" / "src"):
                        name = path.relative_to(self.root).as_posix()
                        for line in file["lines"]:
                            found[f"{name}:{line['line_number']}"] += line["count"]
        shutil.rmtree(beside / "gcov", ignore_errors=True)
        return found


def python_counts(report: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    if report.exists():
        for path, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
            name = f"python/saeta/{path.split('python/saeta/')[1]}"
            found.update({f"{name}:{line}": 1 for line in file["executed_lines"]})
            found.update({f"{name}:{line}": 0 for line in file["missing_lines"]})
    return found
