"""Draws the results of a run.

Each job has the share of its limit by the number of threads, and the best of its peers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saeta._optional import load

OWN = "#0072B2"
PEERS = "#E69F00"
INK = "#222222"
COLUMNS = 4


def draw(results: dict[str, Any], path: Path) -> None:
    """Writes the picture. Raises MissingDependency without matplotlib."""
    matplotlib: Any = load("matplotlib", "a plot")
    matplotlib.use("Agg")
    pyplot: Any = load("matplotlib.pyplot", "a plot")
    measured = [result for result in results["results"] if "share" in result]
    jobs = list(dict.fromkeys(result["job"] for result in measured))
    rows = -(-len(jobs) // COLUMNS)
    figure, axes = pyplot.subplots(
        rows, COLUMNS, figsize=(4 * COLUMNS, 2.8 * rows), squeeze=False, layout="constrained"
    )
    for axis, job in zip(axes.flat, jobs, strict=False):
        _panel(axis, job, [result for result in measured if result["job"] == job])
    for axis in list(axes.flat)[len(jobs) :]:
        axis.set_visible(False)
    figure.suptitle(f"Movement on {results['device']}: share of the limit by threads", color=INK)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _panel(axis: Any, job: str, results: list[dict[str, Any]]) -> None:
    own = sorted((result["threads"], result["share"]) for result in results if result["peer"] == "saeta")
    axis.plot(*zip(*own, strict=True), marker="o", color=OWN, label="saeta")
    others = [result for result in results if result["peer"] != "saeta"]
    if others:
        best = max(others, key=lambda result: result["share"])
        axis.axhline(best["share"], color=PEERS, label=best["peer"])
    bar = next((result["bar"] for result in results if result["bar"] is not None), None)
    if bar is not None:
        axis.axhline(bar, color=INK, linestyle="--", linewidth=0.8, label=f"bar {bar:.0%}")
    axis.set_title(job, fontsize=8, color=INK)
    axis.set_xscale("log", base=2)
    axis.set_xticks([threads for threads, _ in own], [str(threads) for threads, _ in own])
    axis.set_ylim(0, None)
    axis.legend(fontsize=7, frameon=False)
