#!/usr/bin/env python3
"""Runs the tests and writes one report of the lines of C++ and Python that they execute.

    coverage_report.py [--jobs N] [--programs PROGRAM...] [--filter FILTER] [--python FILE...]

Builds the preset `coverage`, runs its C++ programs and the Python tests that need no GPU, and writes
build/coverage/report: index.html and summary.txt. gcov measures C++ and coverage.py Python; gcovr merges
them.
--programs, --filter (of GoogleTest) and --python select tests; `--programs` without names runs no program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "coverage"
REPORT = BUILD / "report"
PROGRAMS = ("saeta_unit_tests", "saeta_conformance_tests")
PYTHON_TARGETS = ("saeta_package", "saeta_sim")
LEFT_OUT = ("saeta/backend/cuda/", "python/saeta/demo/", "python/saeta/bench/")  # need a GPU, or minutes


def build(programs: list[str], jobs: int) -> None:
    targets = [*programs, *PYTHON_TARGETS]
    subprocess.run(["cmake", "--preset", "coverage"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", BUILD, "-j", str(jobs), "--target", *targets], cwd=ROOT, check=True)
    for old in BUILD.rglob("*.gcda"):
        old.unlink()


def run_programs(programs: list[str], chosen: str) -> list[str]:
    """Runs C++ test programs with a GoogleTest filter. Returns the names of those that failed."""
    return [
        name
        for name in programs
        if subprocess.run(
            [BUILD / "bin" / name, f"--gtest_filter={chosen}:-*cuda*", "--gtest_brief=1"]
        ).returncode
    ]


def run_python(tests: list[str]) -> list[str]:
    """Runs Python tests and writes their coverage as coverage.xml. Returns the names of failed runs."""
    counts = BUILD / "counts"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "SAETA_BUILD": str(BUILD),
        "PYTHONPATH": str(BUILD / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COVERAGE_FILE": str(counts / "data"),
    }

    def coverage(*arguments: str) -> int:
        command = [sys.executable, "-m", "coverage", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    failed = coverage("run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", *tests)
    coverage("combine", "-q")
    coverage("xml", "-q", "-o", str(counts / "coverage.xml"))
    return ["Python tests"] if failed else []


def write_report(python: bool, jobs: int) -> str:
    """Merges the coverage of C++ and Python and writes the report. Returns the summary."""
    shutil.rmtree(REPORT, ignore_errors=True)
    REPORT.mkdir()
    counts, summary = REPORT / "cpp.json", REPORT / "summary.txt"
    chosen = ["--filter", "saeta/", "--filter", "python/"]
    for folder in LEFT_OUT:
        chosen += ["--exclude", folder]

    def gcovr(*arguments: str | Path) -> None:
        command = [sys.executable, "-m", "gcovr", "--root", str(ROOT), *chosen, *map(str, arguments)]
        subprocess.run(command, cwd=ROOT, check=True)

    # Two steps, because gcovr either reads gcov's files or merges reports.
    gcovr("-j", str(jobs), "--gcov-ignore-errors=no_working_dir_found", "--json", counts, BUILD)
    both = ["--json-add-tracefile", counts]
    if python:
        both += ["--cobertura-add-tracefile", BUILD / "counts" / "coverage.xml"]
    gcovr(*both, "--html-nested", REPORT / "index.html", "--txt", summary)
    return summary.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Reports which lines of C++ and Python the tests reach.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), help="C++ programs")
    parser.add_argument("--filter", default="*", help="tests of the programs, as for GoogleTest")
    parser.add_argument(
        "--python", nargs="*", default=["tests/python"], help="files or folders of Python tests"
    )
    options = parser.parse_args()
    build(options.programs, options.jobs)
    failed = run_programs(options.programs, options.filter)
    if options.python:
        failed += run_python(options.python)
    print(write_report(bool(options.python), options.jobs))
    print(f"{REPORT.relative_to(ROOT)}/index.html")
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
