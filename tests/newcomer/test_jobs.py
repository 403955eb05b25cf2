"""The first programs of a newcomer run as they stand, without a warning, and print what they promise."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from code_blocks import missing_modules, promised

JOBS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))


def test_there_are_twelve_jobs():
    assert len(JOBS) == 12


def test_the_training_is_done_by_torch(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed: the job train was done by NumPy")
    monkeypatch.chdir(tmp_path)
    assert runpy.run_path(str(Path(__file__).parent / "train.py"))["to"] == "torch"


@pytest.mark.parametrize("job", JOBS, ids=[job.stem for job in JOBS])
def test_the_job_is_done(job, tmp_path):
    text = job.read_text(encoding="utf-8")
    missing = missing_modules(text)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run(
        [sys.executable, "-W", "error", job],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert promised(text), "a job shows what it did"
    assert done.stdout.splitlines() == promised(text), done.stderr
