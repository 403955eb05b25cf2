#!/usr/bin/env python3
"""Draws the diagrams of the documentation: an SVG for each text file of docs/figures.

    draw_figures.py

A source is drawn with box-drawing characters, one in each cell. Single lines become lines; double lines
become filled boxes, which stand for Saeta; dashed lines stand for ordering between streams. An arrow head has
the style of the line that leads to it. Full blocks (U+2588) stand for work on a stream. All other characters
are text.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path

FIGURES = Path(__file__).resolve().parent.parent / "docs/figures"
WIDTH, HEIGHT, SIZE = 8.4, 18, 14
OWN, WAIT, INK = "#2f7fd0", "#d0802f", "currentColor"
# Of a figure that is an image. The site removes it, and the text of the page gives the colour.
COLOURS = "<style>svg{color:#424a53}@media(prefers-color-scheme:dark){svg{color:#c9d1d9}}</style>"
# The directions of the lines of each character: north, south, east, west.
SINGLE = {
    **dict(zip("─│┌┐└┘", ("ew", "ns", "se", "sw", "ne", "nw"), strict=True)),
    **dict(zip("├┤┬┴┼", ("nse", "nsw", "sew", "new", "nsew"), strict=True)),
}
DOUBLE = {"═": "ew", "║": "ns", "╔": "se", "╗": "sw", "╚": "ne", "╝": "nw", "╤": "sew", "╧": "new"}
DASHED = {"┄": "ew", "┆": "ns"}
HEADS = {"▲": "s", "▼": "n", "▶": "w", "◀": "e"}
STEPS = {"n": (0, -1), "s": (0, 1), "e": (1, 0), "w": (-1, 0)}
LINES = {**SINGLE, **DOUBLE, **DASHED}
DRAWN = {*LINES, *HEADS, "█", "○"}


class Drawing:
    """One drawing: its characters, and the SVG elements made of them."""

    def __init__(self, source: str) -> None:
        self._rows = source.rstrip("\n").split("\n")
        self._columns = max(map(len, self._rows))

    def _at(self, x: int, y: int) -> str:
        return self._rows[y][x] if 0 <= y < len(self._rows) and 0 <= x < len(self._rows[y]) else " "

    def _cells(self) -> list[tuple[int, int, str]]:
        return [(x, y, each) for y, row in enumerate(self._rows) for x, each in enumerate(row)]

    def _is_dashed(self, x: int, y: int, direction: str) -> bool:
        """Returns whether the line from a cell in this direction is dashed, as its neighbour for a corner."""
        across, down = STEPS[direction]
        return {self._at(x, y), self._at(x + across, y + down)} & DASHED.keys() != set()

    def _boxes(self) -> list[str]:
        parts = []
        for x, y, each in self._cells():
            if each == "╔":
                right = self._rows[y].index("╗", x)
                bottom = next(below for below in range(y, len(self._rows)) if self._at(x, below) == "╚")
                size = f'width="{number((right - x) * WIDTH)}" height="{(bottom - y) * HEIGHT}"'
                parts.append(
                    f'<rect x="{centre(x)}" y="{middle(y)}" {size} rx="3" fill="{OWN}" fill-opacity="0.12" '
                    'stroke="none"/>'
                )
        return parts

    def _lines(self) -> list[str]:
        halves: dict[tuple[str, bool], list[tuple[float, float, float, float]]] = {}
        for x, y, each in self._cells():
            for direction in LINES.get(each, HEADS.get(each, "")):
                across, down = STEPS[direction]
                ends = sorted([(x + 0.5, y + 0.5), (x + 0.5 + across / 2, y + 0.5 + down / 2)])
                colour = OWN if each in DOUBLE else WAIT if self._is_dashed(x, y, direction) else INK
                halves.setdefault((colour, down != 0), []).append((*ends[0], *ends[1]))
        parts = []
        for (colour, upright), found in halves.items():
            path = "".join(f"M{point(*each[:2])}L{point(*each[2:])}" for each in joined(found, upright))
            dashes = ' stroke-dasharray="5 3"' if colour == WAIT else ""
            parts.append(f'<path d="{path}" stroke="{colour}"{dashes}/>')
        return parts

    def _marks(self) -> list[str]:
        parts = []
        for x, y, each in self._cells():
            if each in HEADS:
                across, down = STEPS[HEADS[each]]
                tip = (x + 0.5 - across / 2, y + 0.5 - down / 3)
                back = (x + 0.5 + across / 2, y + 0.5 + down / 6)
                sides = [(back[0] + down / 2 * sign, back[1] + across / 4 * sign) for sign in (-1, 1)]
                colour = WAIT if self._is_dashed(x, y, HEADS[each]) else INK
                corners = "L".join(point(*corner) for corner in (tip, *sides))
                parts.append(f'<path d="M{corners}Z" fill="{colour}" stroke="none"/>')
            elif each == "█":
                parts.append(
                    f'<rect x="{number(x * WIDTH)}" y="{y * HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                    f'fill="{OWN}" stroke="none"/>'
                )
            elif each == "○":
                parts.append(f'<circle cx="{centre(x)}" cy="{middle(y)}" r="5" stroke="{INK}"/>')
        return parts

    def _words(self) -> list[str]:
        """Returns text elements, split at lines and double spaces, each scaled to the width of its cells."""
        parts = []
        for y, row in enumerate(self._rows):
            plain = "".join(" " if each in DRAWN else each for each in row).rstrip()
            start = 0
            for piece in plain.split("  "):
                text = piece.strip(" ")
                if text:
                    x = start + piece.index(text[0])
                    parts.append(
                        f'<text x="{number(x * WIDTH)}" y="{y * HEIGHT + 13.5}" '
                        f'textLength="{number(len(text) * WIDTH)}">{escape(text)}</text>'
                    )
                start += len(piece) + 2
        return parts

    def svg(self) -> str:
        width = number(self._columns * WIDTH)
        size = f'width="{width}" viewBox="0 0 {width} {len(self._rows) * HEIGHT}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
            f'fill="none" stroke-width="1.5" font-size="{SIZE}" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">'
        )
        # In a page of the site the figure is inlined and takes the colour of the text instead.
        words = [f'<g fill="{INK}">', *self._words(), "</g>"]
        return "\n".join(
            [head, COLOURS, *self._boxes(), *self._lines(), *self._marks(), *words, "</svg>", ""]
        )


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def centre(x: int) -> str:
    return number((x + 0.5) * WIDTH)


def middle(y: int) -> str:
    return number((y + 0.5) * HEIGHT)


def point(x: float, y: float) -> str:
    return f"{number(x * WIDTH)} {number(y * HEIGHT)}"


def joined(
    halves: list[tuple[float, float, float, float]], upright: bool
) -> list[tuple[float, float, float, float]]:
    """Joins line segments that touch to single lines."""
    ordered = sorted(halves, key=lambda each: (each[0], each[1]) if upright else (each[1], each[0]))
    lines = ordered[:1]
    for _, after in pairwise(ordered):
        if lines[-1][2:] == after[:2]:
            lines[-1] = (*lines[-1][:2], *after[2:])
        elif lines[-1] != after:
            lines.append(after)
    return lines


def pictures() -> dict[Path, str]:
    """Returns the SVG text of each figure by its path."""
    return {
        source.with_suffix(".svg"): Drawing(source.read_text(encoding="utf-8")).svg()
        for source in sorted(FIGURES.glob("*.txt"))
    }


if __name__ == "__main__":
    for path, picture in pictures().items():
        path.write_text(picture, encoding="utf-8")
