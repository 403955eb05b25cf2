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
    """`lines`: the files of tests of each `path:line`. `seconds`: what each took while lines were counted."""

    lines: dict[str, list[str]]
    seconds: dict[str, float]

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
                for test, (seconds, lines) in zip(new, pool.map(self._lines_of, new), strict=True):
                    fresh[test] = {"version": tests[test], "seconds": seconds, "lines": lines}
            kept.write_text(json.dumps(fresh), encoding="utf-8")
        reach = Reach({}, {})
        for test, entry in fresh.items():
            reach.seconds[test] = entry["seconds"]
            for line in entry["lines"]:
                reach.lines.setdefault(line, []).append(test)
        return reach

    def _count_modules(self, jobs: int) -> None:
        make_overlay(self.build, self.overlay)
        objects = self.work / "objects"
        made = {self.modules.object_of(path): objects / (path + ".o") for path in self.modules.compiled}
        with ThreadPoolExecutor(jobs) as pool:
            for done in [
                pool.submit(
                    self.modules.compile,
                    path,
                    self.root / path,
                    made[self.modules.object_of(path)],
                    ("--coverage", "-fprofile-update=atomic"),
                )
                for path in self.modules.compiled
            ]:
                done.result()
        self.modules.link(made, self.overlay, ("--coverage",))

    def _lines_of(self, test: str) -> tuple[float, list[str]]:
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
        lines = python_lines(report) + self._cpp_lines(beside)
        return seconds, lines

    def _cpp_lines(self, beside: Path) -> list[str]:
        found = []
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
                        found += [
                            f"{name}:{line['line_number']}" for line in file["lines"] if line["count"] > 0
                        ]
        shutil.rmtree(beside / "gcov", ignore_errors=True)
        return sorted(set(found))


def python_lines(report: Path) -> list[str]:
    if not report.exists():
        return []
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    return [
        f"python/saeta/{name.split('python/saeta/')[1]}:{line}"
        for name, file in files.items()
        for line in file["executed_lines"]
    ]
