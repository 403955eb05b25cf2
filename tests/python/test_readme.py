"""Every code block of the README runs: the Python blocks in order as one program, then the shell commands.
The C++ block is built by tests/consumer."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from code_blocks import BLOCKS, ROOT, program


def blocks(language: str) -> list[str]:
    return [block.text for block in BLOCKS if (block.page, block.language) == ("README.md", language)]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout


def test_the_python_blocks_and_the_commands_run(tmp_path):
    run([sys.executable, "-W", "error", "-c", program("README.md")], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"trips.arrow", "dear.arrow", "out.arrow"}
    commands = [line.partition("#")[0].strip() for block in blocks("console") for line in block.splitlines()]
    ran = [shlex.split(command)[1:] for command in commands if command.startswith("saeta ")]
    assert len(ran) >= 3
    for arguments in ran:
        assert run([sys.executable, "-m", "saeta", *arguments], tmp_path)


def test_the_budget_error_in_the_readme_is_raised(tmp_path):
    text = "\n".join([program("README.md"), "raise SystemExit(7)"]).replace(
        "    refusal.requested, refusal.current",
        "    raise SystemExit(0)\n    refusal.requested, refusal.current",
    )
    run([sys.executable, "-c", text], tmp_path)


def test_the_consumer_project_builds_the_cpp_block():
    assert len(blocks("cpp")) == 1
    script = (ROOT / "tests/consumer/run.cmake").read_text(encoding="utf-8")
    assert "README.md" in script
