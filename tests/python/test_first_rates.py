"""`bench/host_rows.py` compares what a stranger tries first on the host with pyarrow and polars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "bench/host_rows.py"
TRIED = (
    *("join 1000 tables", "join small tables"),
    *("filter", "filter, numbers", "take", "take, numbers", "pickle round trip"),
)


def test_each_operation_gives_what_pyarrow_and_polars_give():
    """The program ends with an error where the results differ. Its times at this size mean nothing."""
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    command = [sys.executable, PROGRAM, "--rows", "2000", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:3] == ["saeta", "pyarrow", "polars"]
    assert [row[:20].strip() for row in rows] == list(TRIED)
