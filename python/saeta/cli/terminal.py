"""Prints results to standard output, and errors and progress to standard error.

Unprintable characters are escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid

from saeta._text import printable

LAST_COLUMN = 12  # minimum width in characters; below it a table becomes blocks

out = Console(highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]{escape(printable(message))}[/]")


def on_terminal() -> bool:
    """Whether a progress bar makes sense: standard error is a terminal."""
    return sys.stderr.isatty()


def grid(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[int] = ()
) -> None:
    """Prints a table, or a block for each row on a terminal that is too narrow for the table.

    The columns numbered in `right` are aligned to the right.
    """
    texts = [[printable(str(value)) for value in row] for row in rows]
    # A pipe or a file has no width: 200 columns are used.
    console = out if out.is_terminal else Console(highlight=False, width=200)
    shown = _table(title, headings, texts, right)
    # The last column may be wrapped, so only the other columns must fit.
    others = [[*row[:-1], ""] for row in texts]
    needed = console.measure(_table(title, [*headings[:-1], ""], others, right)).maximum
    if console.is_terminal and needed + LAST_COLUMN > console.width and len(headings) > 2:
        _print_blocks(console, title, headings, texts)
    else:
        console.print(shown)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> Grid:
    grid = Grid(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for place, heading in enumerate(headings):
        grid.add_column(heading, justify="right" if place in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(escape(value) for value in row))
    return grid


def _print_blocks(
    console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Prints the first value of each row, and below it the other values with their headings."""
    if title:
        console.print(f"[bold]{escape(title)}[/]")
    for first, *others in rows:
        console.print(f"[bold]{escape(first)}[/]")
        block = _table("", ["", ""], list(zip(headings[1:], others, strict=True)), ())
        block.show_header = False
        console.print(Padding(block, (0, 0, 0, 2)))


def say(text: str = "", style: str = "") -> None:
    """Prints one line."""
    out.print(escape(printable(text)), style=style or None)


def say_lines(text: str) -> None:
    """Prints text of several lines."""
    for line in text.split("\n"):
        say(line)
