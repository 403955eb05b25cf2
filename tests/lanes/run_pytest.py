"""Runs pytest as a CTest test, with an exit code that CTest can tell a skip by.

    run_pytest.py [--share K/N] argument...

--share runs only every Nth test file of the folders among the arguments, starting with the Kth, so that N
processes share a suite.

The exit code is 0 if tests ran and none failed, 77 (CTest: skipped) if all selected tests were skipped, and
pytest's own code otherwise. A run that selects no test fails with pytest's code 5.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ALL_SKIPPED = 77


class Outcomes:
    """Counts the tests that ran and those that were skipped."""

    def __init__(self) -> None:
        self.ran = 0
        self.skipped = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped += 1
        elif report.when == "call":
            self.ran += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.skipped += report.skipped


def files_of_share(share: str, arguments: list[str]) -> list[str]:
    """Returns the arguments with each folder replaced by those of its files that belong to the share."""
    which, shares = map(int, share.split("/"))
    found: list[str] = []
    for argument in arguments:
        files = sorted(map(str, Path(argument).glob("test_*.py")))
        found += files[which - 1 :: shares] if files else [argument]
    return found


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--share"]:
        arguments = files_of_share(arguments[1], arguments[2:])
    outcomes = Outcomes()
    code = int(pytest.main(arguments, plugins=[outcomes]))
    if (
        code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        and not outcomes.ran
        and outcomes.skipped
    ):
        print("every selected test was skipped")
        return ALL_SKIPPED
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
