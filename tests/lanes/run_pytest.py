"""Runs pytest as a lane of CTest, with exit codes that say what happened.

    run_pytest.py argument...

The exit code is 0 when tests ran and none failed, 77 (the lane is skipped) when every selected test was
skipped, and pytest's own code otherwise. A run that selects nothing is a failure: pytest's code 5.
"""

from __future__ import annotations

import sys

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


def main(arguments: list[str]) -> int:
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
