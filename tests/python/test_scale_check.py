"""bench/scale_check.py with local workers, at its smallest size."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from contexts import PROJECT


def test_local_workers_are_measured_and_the_model_predicts_the_bytes_moved(tmp_path):
    pytest.importorskip("numpy")
    result = tmp_path / "local.json"
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, str(PROJECT / "bench/scale_check.py"), "local", "--rounds", "1"]
    command += ["--file-mib", "1", "--folder", str(work), "--out", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == []
    made = json.loads(result.read_text(encoding="utf-8"))
    assert len(made["seconds"]) == len(made["measured"]) >= 8
    assert all(row["predicted"] > 0 and row["measured"] > 0 for row in made["seconds"])
    assert made["links"].keys() == {"reading", "writing", "sharing", "opening", "spilling", "returning"}
    for row in made["moved"]:  # bytes do not depend on the load of the machine
        assert row["predicted"] == pytest.approx(row["measured"], rel=0.15, abs=1), row["what"]
