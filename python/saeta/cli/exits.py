"""Exit codes, and the output for an error: one line for people, an object with --json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer

from saeta import errors
from saeta.cli.terminal import complain


class Exit(IntEnum):
    """Exit codes of the command; `saeta --help` lists them."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    FILE = 3
    BUDGET = 4
    DEVICE = 5
    MISSING = 6
    OTHER = 7
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "everything requested was done",
    Exit.CHECK_FAILED: "a check of the values failed",
    Exit.USAGE: "the command line is wrong",
    Exit.FILE: "a file can't be read or written, or is not an Arrow file that Saeta supports",
    Exit.BUDGET: "the budget or the memory was not enough",
    Exit.DEVICE: "there is no such device, or its driver failed",
    Exit.MISSING: "a package that is needed is not installed",
    Exit.OTHER: "any other error of Saeta",
    Exit.BROKEN_PIPE: "the output was closed",
}

# The most derived class comes first.
CODES: list[tuple[type[Exception], Exit]] = [
    (errors.BudgetExceeded, Exit.BUDGET),
    (errors.OutOfMemory, Exit.BUDGET),
    (errors.DeviceError, Exit.DEVICE),
    (errors.MissingDependency, Exit.MISSING),
    (errors.FileError, Exit.FILE),
    (errors.FormatError, Exit.FILE),
    (errors.UnsupportedError, Exit.FILE),
    (errors.InvalidError, Exit.USAGE),
    (errors.Error, Exit.OTHER),
    (OSError, Exit.FILE),
]


@contextmanager
def report_failures(as_json: bool) -> Iterator[None]:
    """Turns an error of Saeta or of the operating system into its exit code."""
    try:
        yield
    except tuple(kind for kind, _ in CODES) as failure:
        code = next(code for kind, code in CODES if isinstance(failure, kind))
        numbers = {"numbers": failure.numbers()} if isinstance(failure, errors.BudgetExceeded) else {}
        if as_json:
            _print_error(type(failure).__name__, str(failure), code, **numbers)
        else:
            complain(f"{type(failure).__name__}: {failure}")
        raise typer.Exit(int(code)) from None


def run_with_json(app: typer.Typer) -> int:
    """Runs the command, and prints also a wrong command line as a JSON object. Returns the exit code."""
    try:
        return int(app(prog_name="saeta", standalone_mode=False) or 0)
    except Exception as failure:
        explain = getattr(
            failure, "format_message", None
        )  # errors of click, which some releases of typer include
        if explain is None:
            raise
        _print_error(type(failure).__name__, explain(), Exit.USAGE)
        return int(Exit.USAGE)


def _print_error(kind: str, message: str, code: Exit, **more: Any) -> None:
    error = {"type": kind, "message": message, "exit_code": int(code), **more}
    print(json.dumps({"error": error}, indent=2))
