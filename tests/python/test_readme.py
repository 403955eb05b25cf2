"""Every block of the README runs: first the Python blocks in their order as one program, then the commands.
The C++ block is a program that tests/consumer builds. A block of another kind fails here until somebody says
how it is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout


def test_every_kind_of_block_is_known():
    assert {kind for kind, _ in BLOCKS} == {"console", "cpp", "python"}


def test_the_python_blocks_and_the_commands_run(tmp_path):
    program = "\n".join(blocks("python"))
    run([sys.executable, "-W", "error", "-c", program], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"trips.arrow", "dear.arrow", "out.arrow"}
    commands = [line.partition("#")[0].strip() for block in blocks("console") for line in block.splitlines()]
    ran = [shlex.split(command)[1:] for command in commands if command.startswith("saeta ")]
    assert len(ran) >= 3
    for arguments in ran:
        assert run([sys.executable, "-m", "saeta", *arguments], tmp_path)


def test_the_guide_to_tables_runs(tmp_path):
    page = (ROOT / "docs/guides/tables.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(program) > 4
    run([sys.executable, "-W", "error", "-c", "\n".join(program)], tmp_path)


def test_the_refusal_of_the_readme_happens(tmp_path):
    program = "\n".join([*blocks("python"), "raise SystemExit(7)"]).replace(
        "    refusal.requested, refusal.current",
        "    raise SystemExit(0)\n    refusal.requested, refusal.current",
    )
    run([sys.executable, "-c", program], tmp_path)


def test_the_other_commands_are_targets_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = [
        line.split()[1]
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("make ")
    ]
    assert made
    assert set(made) <= set(targets)


def test_the_consumer_project_builds_the_cpp_block():
    assert len(blocks("cpp")) == 1
    script = (ROOT / "tests/consumer/run.cmake").read_text(encoding="utf-8")
    assert "README.md" in script
