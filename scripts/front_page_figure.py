#!/usr/bin/env python3
"""Draws the figures of results from bench/results: docs/figures/measured.svg for the front page, results.svg
for the page of benchmarks, and compressed-spill.svg for the guide to spilling.

    front_page_figure.py

Panels of bars with their numbers, and the limit as a line where it was measured. The colours are readable on
light and on dark backgrounds.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from draw_figures import COLOURS

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs/figures/measured.svg"
RESULTS = ROOT / "docs/figures/results.svg"
SPILL = ROOT / "docs/figures/compressed-spill.svg"
OWN, PEER, INK = "#2f7fd0", "#d08a2f", "currentColor"
WIDTH, ROW, LABEL, BAR = 480, 26, 190, 230  # a phone shows it at three quarters of its size


@dataclass(frozen=True)
class Panel:
    """A panel: the bars of one quantity."""

    title: str
    bars: list[tuple[str, float, str]]
    """Label, value, and the value as text. Labels of Saeta's own bars begin with its name."""
    limit: float | None = None
    """What the machine allows."""
    own: bool = False
    """Whether all bars are Saeta's, whatever their labels are."""


def measured(benchmark: str, quantity: str, table: str = "h100") -> dict[tuple[str, ...], float]:
    """Returns the values of a quantity that a benchmark measured, by the parts of the case's name."""
    with (ROOT / f"bench/results/{table}.csv").open(encoding="utf-8", newline="") as file:
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
        most = max(panel.limit or 0, *(value for _, value, _ in panel.bars))
        begin = top + ROW - 18
        for label, value, text in panel.bars:
            top += ROW
            width = max(2, round(BAR * value / most))
            colour = OWN if panel.own or label.startswith("Saeta") else PEER
            end = width if panel.limit is None else BAR  # beside the line of the limit, not below it
            parts += [
                f'<text x="{LABEL - 10}" y="{top}" text-anchor="end">{label}</text>',
                f'<rect x="{LABEL}" y="{top - 14}" width="{width}" height="18" rx="2" fill="{colour}"/>',
                f'<text x="{LABEL + end + 8}" y="{top}">{text}</text>',
            ]
        if panel.limit is not None:
            x = LABEL + round(BAR * panel.limit / most)
            parts.append(
                f'<path d="M{x} {begin}V{top + 8}" stroke="{INK}" stroke-width="2" stroke-dasharray="4 3">'
                f"<title>limit: {panel.limit:.1f}</title></path>"
            )
        top += ROW // 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'font-size="15" font-family="system-ui, sans-serif" fill="{INK}">'
    )
    return "\n".join([head, COLOURS, *parts, "</svg>", ""])


SHOWN = {"saeta": "Saeta", "pyarrow, to host memory": "pyarrow, to the host"}
JOBS = {
    "read_ipc, numeric, batches of 6M": "A file of numbers onto the GPU, GB/s",
    "read_ipc, strings, dictionary, nulls, bools, dates, checked": "A file of texts and nulls, checked, GB/s",
    "the same, LZ4": "The same with LZ4, GB/s of values",
    "from_arrow, pageable table": "A table of pyarrow onto the GPU, GB/s",
    "to_arrow, warm memory": "A table back to pyarrow, GB/s",
    "write_ipc": "A table of the GPU into a file, GB/s",
}


def movement_panels() -> list[Panel]:
    """Returns a panel for each job of files and tables, with the limit that its case names."""
    limits = {kind: value for (_, kind), value in measured("movement", "limit").items()}
    panels = []
    rates = measured("movement", "rate").items()
    for job, title in JOBS.items():
        cases = [(peer, kind, rate) for (name, peer, _, kind), rate in rates if name == job]
        bars = [(SHOWN.get(peer, peer), rate, f"{rate:.1f}") for peer, _, rate in cases]
        panels.append(Panel(title, bars, limits[cases[0][1]]))
    return panels


LOADERS = {
    "loader, file, rows shuffled, matrix": "Saeta, one matrix",
    "loader, file, rows shuffled, columns": "Saeta, columns",
    "peer: pyarrow, rows shuffled, a copy a column": "pyarrow, columns",
    "peer: torch DataLoader, 8 workers": "torch, 8 workers",
}


def loader_panel() -> Panel:
    rates = measured("streams", "rate")
    bars = [(shown, rates["loader", case], f"{rates['loader', case]:.1f}") for case, shown in LOADERS.items()]
    return Panel("Shuffled batches for training, GB/s", bars, rates["loader", "P: plain copy"])


def shown(column: str) -> str:
    return column.replace("l_extended", "").removeprefix("l_").replace("_", " ")


def spill_panels() -> list[Panel]:
    rates = measured("compressed_spill", "rate there and back", "h200")
    columns = {case[1]: (case[2], rate) for case, rate in rates.items() if case[0] == "column"}
    link = rates["lineitem", "plain"]
    tables = [
        (label, rates[table, "pinned compressed"])
        for label, table in (
            ("noise", "noise"),
            ("lineitem of TPC-H", "lineitem"),
            ("trips of taxis", "trips"),
        )
    ]
    by_rate = sorted(columns.items(), key=lambda one: one[1][1])
    single = [(f"{shown(name)}, {re.split('[([]', kind)[0]}", rate) for name, (kind, rate) in by_rate]
    return [
        Panel(title, [(label, rate, f"{rate:.0f}") for label, rate in bars], link, own=True)
        for title, bars in (
            ("Tables there and back, H200, GB/s of values", tables),
            ("Single columns", single),
        )
    ]


def spilled() -> str:
    return drawn(spill_panels())


def figure() -> str:
    return drawn([read_panel(), allocate_panel(), races_panel()])


def results() -> str:
    return drawn([*movement_panels(), loader_panel()])


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
    RESULTS.write_text(results(), encoding="utf-8")
    SPILL.write_text(spilled(), encoding="utf-8")
