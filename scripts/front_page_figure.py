#!/usr/bin/env python3
"""Draws docs/figures/measured.svg, the figure of the README and the front page, from bench/results/h100.csv.

    front_page_figure.py

Three panels of bars with their numbers. The colours are readable on light and on dark backgrounds.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs/figures/measured.svg"
OWN, PEER, INK = "#2f7fd0", "#d08a2f", "#808080"
WIDTH, ROW, LABEL, BAR = 480, 26, 190, 230  # a phone shows it at three quarters of its size


@dataclass(frozen=True)
class Panel:
    """A panel: the bars of one quantity."""

    title: str
    bars: list[tuple[str, float, str]]
    """Label, value, and the value as text. Labels of Saeta's own bars begin with its name."""


def measured(benchmark: str, quantity: str) -> dict[tuple[str, ...], float]:
    """Returns the values of a quantity that a benchmark measured, by the parts of the case's name."""
    with (ROOT / "bench/results/h100.csv").open(encoding="utf-8", newline="") as file:
        return {
            tuple(line["case"].split("; ")): float(line["value"])
            for line in csv.DictReader(file)
            if (line["benchmark"], line["quantity"]) == (benchmark, quantity)
        }


def read_panel() -> Panel:
    rates = measured("movement", "rate").items()
    return Panel(
        "An Arrow file onto an H100, GB/s: more is better",
        [
            (peer.replace("saeta", "Saeta"), rate, f"{rate:.1f}")
            for (job, peer, *_), rate in rates
            if job == "read_ipc, numeric, batches of 6M"
        ],
    )


def allocate_panel() -> Panel:
    names = {"saeta": "Saeta, hard budget", "rmm pool, limited": "RMM pool, limited", "torch": "torch"}
    times = measured("allocate", "time")
    median = {peer: times["same", "threads 1", peer] for peer in names}
    return Panel(
        "Allocate and free on an H100, ns: less is better",
        [(shown, median[peer], f"{median[peer]:,.0f}") for peer, shown in names.items()],
    )


def races_panel() -> Panel:
    return Panel(
        "Arrays dropped while they are read, wrong of 100",
        [
            (f"{source.replace('saeta', 'Saeta')} to {target}", wrong, f"{wrong:.0f}")
            for (source, target, way), wrong in measured("races", "wrong early releases").items()
            if way == "DLPack"
        ],
    )


def drawn(panels: list[Panel]) -> str:
    """Returns the figure as SVG."""
    parts = []
    top = 0
    for panel in panels:
        top += ROW
        parts.append(f'<text x="0" y="{top}" font-weight="bold">{panel.title}</text>')
        most = max(value for _, value, _ in panel.bars)
        for label, value, text in panel.bars:
            top += ROW
            width = max(2, round(BAR * value / most))
            colour = OWN if label.startswith("Saeta") else PEER
            parts += [
                f'<text x="{LABEL - 10}" y="{top}" text-anchor="end">{label}</text>',
                f'<rect x="{LABEL}" y="{top - 14}" width="{width}" height="18" rx="2" fill="{colour}"/>',
                f'<text x="{LABEL + width + 8}" y="{top}">{text}</text>',
            ]
        top += ROW // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'font-size="15" font-family="system-ui, sans-serif" fill="{INK}">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def figure() -> str:
    return drawn([read_panel(), allocate_panel(), races_panel()])


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
