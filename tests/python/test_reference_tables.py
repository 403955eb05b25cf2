"""The reference pages that scripts/reference_tables.py generates are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_of_types_and_commands_are_up_to_date():
    for module in ("pyarrow", "typer"):
        pytest.importorskip(module)
    script = ROOT / "scripts" / "reference_tables.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
