"""`saeta profile FILE`: shows where the time of a read goes, and what bounds it."""

from __future__ import annotations

import json

from saeta import _core
from saeta._report.reads import profile_read
from saeta.cli.files import is_read_once
from saeta.cli.terminal import grid, say, say_lines
from saeta.errors import InvalidError

HEADINGS = ("part", "seconds", "share", "alone, s", "limit, GB/s")


def run(
    file: str,
    *,
    device: str | None,
    budget: str | None,
    columns: str | None,
    rounds: int,
    cold: bool,
    as_json: bool,
) -> None:
    if is_read_once(file):
        raise InvalidError(f"'{file}' can be read once, and a profile reads several times: save it to a file")
    ctx = _core.context(device, budget=budget)
    names = None if columns is None else columns.split(",")
    report = profile_read(file, ctx, columns=names, rounds=rounds, cold=cold)
    if as_json:
        print(json.dumps(report.as_dict(), indent=2))
        return
    say_lines(report._heading())
    say()
    grid("", HEADINGS, report._rows(), right=range(1, len(HEADINGS)))
    say()
    say(report.explain(), "bold")
