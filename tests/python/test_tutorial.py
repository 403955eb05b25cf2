"""The tutorial runs as it stands, prints what its comments say, and draws the plot that it shows."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from code_blocks import ROOT, program, promised

PROGRAM = program("docs/tutorial.md")


def rounded(drawing: str) -> str:
    """Coordinates to a pixel: the last digits of a fit differ between processors."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.0f}", drawing)


def test_the_tutorial_prints_and_draws_what_it_shows(tmp_path):
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
