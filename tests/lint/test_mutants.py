"""Each planted bug of tests/mutants applies to the sources as they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("bug", sorted((ROOT / "tests/mutants").glob("*.patch")), ids=lambda path: path.stem)
def test_a_planted_bug_applies(bug: Path) -> None:
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    # --fuzz=0: a bug in lines that have changed may be another one, or none.
    command = ["patch", "-p1", "--dry-run", "--forward", "--fuzz=0", "--input", str(bug)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"renew the patch, or make it part of the new lines:\n{done.stdout}"
