"""Systems with pages of 64 KiB, as many machines of 64-bit Arm have: a preloaded library shows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PRELOADED = Path(__file__).parent.parent / "support" / "large_pages.c"

# pyarrow's allocator refuses to run on pages that it was not compiled for: no pyarrow here.
TRUNCATE = """
import os, sys
import numpy
sys.modules["pyarrow"] = None
import saeta as sa
path = sys.argv[1]
assert os.sysconf("SC_PAGESIZE") == 65536
sa.write_ipc(sa.table({"n": numpy.arange(100_000)}, "host"), path)
viewed = sa.read_ipc(path, "host")
print(viewed["n"].slice(50_000, 1).to_pylist())
os.truncate(path, 0)
for first in (50_001, 1_000, 99_999):
    try:
        print(viewed["n"].slice(first, 1).to_pylist())
    except sa.FormatError as failure:
        print(failure)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the preloaded library")
    library = tmp_path / "large_pages.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(PRELOADED), "-ldl"], check=True)
    return library


def test_a_truncated_file_is_refused_on_pages_of_64_kib(library: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", TRUNCATE, str(tmp_path / "a.arrow")],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    shown = run.stdout.splitlines()
    assert run.returncode == 0, (run.returncode, run.stderr)
    assert shown[0] == "[50000]"
    assert len(shown) == 4
    assert all("the file was truncated" in line for line in shown[1:]), shown
