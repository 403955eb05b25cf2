#!/usr/bin/env python3
"""Draws docs/figures/measured.svg, the picture of README and of the front page, from files of bench/results.

    front_page_figure.py

Bars with their numbers in three panels. The colours can be read on white and on black paper.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs/figures/measured.svg"
OWN, PEER, INK = "#2f7fd0", "#d08a2f", "#808080"
WRONG = "wrong early releases"
WIDTH, ROW, LABEL, BAR = 480, 26, 190, 230  # a phone shows it at three quarters of its size


@dataclass(frozen=True)
class Panel:
    """Bars of one measure."""

    title: str
    bars: list[tuple[str, float, str]]
    """Label, value, and the value as text. Labels of Saeta's own bars begin with its name."""


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "bench/results" / name).read_text())["results"]
    return found


def read_panel() -> Panel:
    job = "read_ipc, numeric, batches of 6M"
    rates = {each["peer"]: each["gb_per_s"] for each in results("movement-h100.json") if each["job"] == job}
    return Panel(
        "An Arrow file onto an H100, GB/s: more is better",
        [(peer.replace("saeta", "Saeta"), rate, f"{rate:.1f}") for peer, rate in rates.items()],
    )


def allocate_panel() -> Panel:
    names = {"saeta": "Saeta, hard budget", "rmm pool, limited": "RMM pool, limited", "torch": "torch"}
    median = {
        each["peer"]: each["p50_ns"]
        for each in results("allocate-h100.json")
        if each["pattern"] == "same" and each["threads"] == 1
    }
    return Panel(
        "Allocate and free on an H100, ns: less is better",
        [(shown, median[peer], f"{median[peer]:,.0f}") for peer, shown in names.items()],
    )


def races_panel() -> Panel:
    return Panel(
        "Arrays dropped while they are read, wrong of 100",
        [
            (f"{each['from'].replace('saeta', 'Saeta')} to {each['to']}", each[WRONG], str(each[WRONG]))
            for each in results("races-h100.json")
            if each["way"] == "DLPack"
        ],
    )


def drawn(panels: list[Panel]) -> str:
    """The picture as SVG."""
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
