"""The tutorial's code runs, prints the output in its comments, and draws the plot on the page."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from code_blocks import ROOT, program, promised

PROGRAM = program("docs/tutorial.md")


def rounded(drawing: str) -> str:
    """Rounds coordinates to a pixel, because the last digits of a fit differ between processors."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.0f}", drawing)


def test_the_tutorial_prints_its_output_and_draws_its_plot(tmp_path):
    for module in ("duckdb", "matplotlib", "numpy", "pyarrow"):
        pytest.importorskip(module)
    assert len(promised(PROGRAM)) > 8
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines() == promised(PROGRAM), done.stderr
    shown = (ROOT / "docs/figures/tutorial.svg").read_text(encoding="utf-8")
    drawn = (tmp_path / "tutorial.svg").read_text(encoding="utf-8")
    assert rounded(drawn) == rounded(shown)
    assert {path.name for path in tmp_path.iterdir()} == {"trips.arrow", "predicted.arrow", "tutorial.svg"}
