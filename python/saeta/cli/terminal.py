"""Text for a terminal: results on standard output, complaints and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

out = Console(highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]{escape(message)}[/]")


def on_terminal() -> bool:
    """Whether a progress bar makes sense."""
    return sys.stderr.isatty()


def grid(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()
) -> None:
    """Prints a table; the columns numbered in `right` are aligned to the right."""
    shown = Grid(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for place, heading in enumerate(headings):
        shown.add_column(heading, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row))
    # A pipe or a file is as wide as the table; a terminal folds it.
    console = out if out.is_terminal else Console(highlight=False, width=200)
    console.print(shown)


def say(text: str = "", style: str = "") -> None:
    out.print(escape(text), style=style or None)
