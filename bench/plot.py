#!/usr/bin/env python3
"""Draws results of bench/allocate and bench/allocate_python.py: the time of a pair of allocate and free.

    plot.py RESULT.json... --out FILE

There is a panel for each pattern, a group of bars for each number of threads, and a bar for each peer
(hatched: measured from Python). A bar is the median, with a whisker from the 10th to the 90th percentile, on
a logarithmic axis. The dashed line is Saeta's goal, 100 ns. All results must be from the same device. If a
peer is in several results, the last one is drawn. Peers that failed are left out. FILE ends in .png, .svg or
.pdf. Needs matplotlib (bench/requirements.txt).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BAR_NS = 100
# The colour-blind safe palette of Okabe and Ito. Only Saeta's bars are blue.
OWN = ("#0072B2", "#56B4E9", "#7FA6C9")
OTHERS = ("#E69F00", "#009E73", "#D55E00", "#CC79A7", "#8C6D1F", "#7F7F7F", "#B2DF8A", "#A65628")
INK = "#222222"


class PlotError(Exception):
    """The results can't be drawn; the message says why."""


@dataclass(frozen=True)
class Sample:
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class Picture:
    """The data of the figure, in the order of the results."""

    title: str
    patterns: list[str]
    threads: list[int]
    peers: list[str]
    samples: dict[tuple[str, int, str], Sample]


def read_results(files: Sequence[Path]) -> list[dict[str, Any]]:
    results = []
    for file in files:
        result = json.loads(file.read_text(encoding="utf-8"))
        lines = result.get("results", [])
        if not lines or "pattern" not in lines[0]:
            raise PlotError(f"{file} holds no result of bench/allocate or bench/allocate_python.py")
        results.append(result)
    return results


def device_name(result: dict[str, Any]) -> str:
    names = [each["name"] for each in result["devices"] if each["id"] == result["device"]]
    return f"{names[0]} ({result['device']})" if names else str(result["device"])


def make_picture(results: Sequence[dict[str, Any]]) -> Picture:
    devices = list(dict.fromkeys(device_name(result) for result in results))
    if len(devices) > 1:
        raise PlotError(f"results of {' and '.join(devices)} don't belong into one picture")
    commits = ", ".join(dict.fromkeys(result["commit"] for result in results))
    samples: dict[tuple[str, int, str], Sample] = {}
    for result in results:
        for line in result["results"]:
            if "failure" in line:
                continue
            key = (line["pattern"], line["threads"], line["peer"])
            samples[key] = Sample(line["p10_ns"], line["p50_ns"], line["p90_ns"])
    if not samples:
        raise PlotError("every peer failed: there is nothing to draw")
    return Picture(
        title=f"Allocate and free, {devices[0]}, commit {commits}",
        patterns=list(dict.fromkeys(key[0] for key in samples)),
        threads=sorted({key[1] for key in samples}),
        peers=list(dict.fromkeys(key[2] for key in samples)),
        samples=samples,
    )


def from_python(peer: str) -> bool:
    return peer.endswith("(Python)")


def colours(peers: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each peer. Python peers reuse the same colours, because their bars are hatched."""
    chosen: dict[str, str] = {}
    for python in (False, True):
        group = [peer for peer in peers if from_python(peer) == python]
        own = [peer for peer in group if peer.startswith("saeta")]
        others = [peer for peer in group if peer not in own]
        chosen |= {peer: OWN[i % len(OWN)] for i, peer in enumerate(own)}
        chosen |= {peer: OTHERS[i % len(OTHERS)] for i, peer in enumerate(others)}
    return chosen


def shown(nanoseconds: float) -> str:
    """Formats a time with at most three digits; times from a microsecond on have a unit."""
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f}"


def draw_panel(axes: Any, picture: Picture, pattern: str) -> None:
    width = 0.86 / len(picture.peers)
    palette = colours(picture.peers)
    for p, peer in enumerate(picture.peers):
        places, samples = [], []
        for group, threads in enumerate(picture.threads):
            sample = picture.samples.get((pattern, threads, peer))
            if sample is not None:
                places.append(group + (p - (len(picture.peers) - 1) / 2) * width)
                samples.append(sample)
        if not samples:
            continue
        heights = [sample.p50 for sample in samples]
        spread = [[s.p50 - s.p10 for s in samples], [s.p90 - s.p50 for s in samples]]
        hatch = "////" if from_python(peer) else None
        axes.bar(
            places,
            heights,
            width * 0.92,
            color=palette[peer],
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=peer,
            zorder=2,
        )
        axes.errorbar(places, heights, spread, fmt="none", ecolor=INK, elinewidth=0.7, alpha=0.55, zorder=3)
        for place, sample in zip(places, samples, strict=True):
            axes.annotate(
                shown(sample.p50),
                (place, sample.p90),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=7,
                rotation=90,
                color=INK,
                zorder=5,
                bbox={"boxstyle": "square,pad=0.08", "facecolor": "white", "edgecolor": "none"},
            )
    axes.axhline(BAR_NS, color="#B00020", linestyle="--", linewidth=1.1, zorder=4)
    axes.set_title(pattern, loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.set_xticks(range(len(picture.threads)))
    axes.set_xticklabels(
        [f"{threads} thread{'s' if threads > 1 else ''}" for threads in picture.threads], color=INK
    )


def limits(picture: Picture) -> tuple[float, float]:
    """Returns the limits of the axis that all panels share, with room for the numbers above the bars."""
    least = min(sample.p10 for sample in picture.samples.values())
    most = max(sample.p90 for sample in picture.samples.values())
    return min(least, BAR_NS) / 2, max(most, BAR_NS) * 3


def draw(picture: Picture, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    columns = min(2, len(picture.patterns))
    rows = -(-len(picture.patterns) // columns)
    width = max(6.0, 0.26 * len(picture.peers) * len(picture.threads))
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(width * columns, 3.3 * rows + 1.2),
        sharey=True,
        squeeze=False,
        facecolor="white",
    )
    panels = list(grid.flat)
    for axes, pattern in zip(panels, picture.patterns, strict=False):
        draw_panel(axes, picture, pattern)
        axes.set_yscale("log")
        axes.set_ylim(*limits(picture))
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: shown(value) + (" ns" if value < 1e3 else ""))
        )
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.7, zorder=0)
        axes.tick_params(which="both", colors=INK, length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    for axes in panels[len(picture.patterns) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("a pair, median", color=INK)
    # Collected from all panels, because a result may lack some patterns, and so a panel some peers.
    handles = {
        label: bars for axes in panels for bars, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    line = panels[0].lines[-1]
    in_a_row = int(width * columns / 1.7)
    legend_rows = -(-(len(handles) + 1) // in_a_row)
    figure.legend(
        [*handles.values(), line],
        [*handles, f"bar: {BAR_NS} ns"],
        loc="lower center",
        ncols=in_a_row,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=12.5, color=INK)
    figure.tight_layout(rect=(0, (0.1 + 0.22 * legend_rows) / figure.get_figheight(), 1, 0.99))
    figure.savefig(file, dpi=160)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Draw results of bench/allocate and bench/allocate_python.py."
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".png, .svg or .pdf")
    options = parser.parse_args()
    try:
        draw(make_picture(read_results(options.results)), options.out)
    except ModuleNotFoundError:
        print("plot.py: needs matplotlib: pip install -r bench/requirements.txt", file=sys.stderr)
        return 1
    except (PlotError, OSError, json.JSONDecodeError) as failure:
        print(f"plot.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
