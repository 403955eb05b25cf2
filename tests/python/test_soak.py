"""A short run of tests/soak/soak.py, limited by rounds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import saeta as sa

SOAK = Path(__file__).resolve().parents[1] / "soak" / "soak.py"


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SOAK), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("device", ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("guard", [False, True], ids=["plain", "guarded"])
def test_a_soak_finds_no_error_and_prints_its_steps(device, guard):
    if device != "host" and not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    options = ["--guard"] if guard else []
    # Enough rounds to draw every kind of step: with half as many, about one run in a hundred lacked a kind.
    done = soak("--rounds", "400", "--threads", "4", "--device", device, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    begun, ended = done.stdout.splitlines()
    assert re.fullmatch(rf"soak of {device}: seed \d+, 4 threads, 32MiB", begun)
    assert "1,600 rounds and 8 checks" in ended
    for what in (
        "allocated",
        "asked hooks",
        "captures",
        "children",
        "forks",
        "refused",
        "reservations",
        "to numpy",
        "trims",
    ):
        if what != "to numpy" or device == "host":
            assert re.search(rf"\b{what} \d", ended), what


def test_a_wrong_value_ends_the_soak_and_prints_the_seed(tmp_path):
    """The soak must be able to fail: the test changes the expected value of a block."""
    program = f"""
import sys
sys.path.insert(0, {str(SOAK.parent)!r})
import soak, soak_items

write = soak_items.Block.write
def wrong(self, value):
    write(self, value)
    self.value += 1

soak_items.Block.write = wrong
sys.argv = ["soak.py", "--rounds", "400", "--seed", "11", "--device", "host", "--threads", "2"]
sys.exit(soak.main())
"""
    script = tmp_path / "wrong.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failed with seed 11" in done.stderr
    assert "add up to" in done.stderr


def test_the_soak_reports_leaks(tmp_path):
    script = tmp_path / "leaky.py"
    script.write_text(f"""
import sys
sys.path.insert(0, {str(SOAK.parent)!r})
import soak

kept = []
drop_all = soak.Worker.drop_all
def leaky(self):
    kept.extend(self.held[:1])
    drop_all(self)

soak.Worker.drop_all = leaky
sys.argv = ["soak.py", "--rounds", "50", "--seed", "11", "--device", "host", "--threads", "2"]
sys.exit(soak.main())
""")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failed with seed 11" in done.stderr
