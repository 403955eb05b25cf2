"""The code of the memory guide runs, and every name on the page for users of XLOG exists."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import saeta as sa
from code_blocks import ROOT, program
from saeta import _core

PAGE = (ROOT / "docs/coming-from-xlog.md").read_text(encoding="utf-8")

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| in XLOG")
]
# Every name in the documentation of XLOG, one per line.
THEIRS = (Path(__file__).with_name("names_of_xlog.txt")).read_text(encoding="utf-8").splitlines()
OBJECTS = {
    "sa": sa,
    "ctx": _core.Context,
    "ctx.memory": _core.Memory,
    "buffer": _core.Buffer,
    "token": _core.UseToken,
    "window": _core.MemoryWindow,
    "sa.SymbolTable.default()": _core.SymbolTable,
    "sa.xlog": sa.xlog,
    "column": _core.Column,
    "table": _core.Table,
    "counted": _core.CountedTable,
    "recording": _core.MemoryRecording,
}


@cache
def declarations():
    headers = sorted((ROOT / "saeta").rglob("*.hpp"))
    return "\n".join(re.sub(r"//.*", "", header.read_text(encoding="utf-8")) for header in headers)


def body_of(name):
    """Returns the text between the braces of a class, enumeration or structure."""
    head = rf"^(?:class|struct|enum class) {name}\b[^;{{]*\{{"
    found = re.search(head + r"(?:([^\n]*)\};$|(.*?)^\};)", declarations(), re.MULTILINE | re.DOTALL)
    return found and (found[1] or found[2])


def names(column):
    return sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])})


def test_the_guide_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program("docs/guides/memory.md")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} == {"memory.csv", "memory.json", "timeline.html"}


def test_every_name_of_xlog_has_a_row():
    told = {name.replace(" ", "") for name in names(0) + names(1)}
    assert {name.replace(" ", "") for name in THEIRS} - told == set()
    assert all(len(row) == 4 and all(row) for row in ROWS)


@pytest.mark.parametrize("name", names(3))
def test_names_for_python_exist(name):
    where, _, last = name.rpartition(".")
    assert hasattr(OBJECTS[where], last)


@pytest.mark.parametrize("name", names(2))
def test_names_for_cpp_exist(name):
    owner, _, member = name.rpartition("::")
    if owner:
        body = body_of(owner)
        assert body is not None
        assert re.search(rf"\b{member}\b", body)
    else:
        assert re.search(rf"\b{member}\b", declarations())


def test_a_missing_name_is_found():
    assert body_of("no_such_class") is None
    assert not re.search(r"\bno_such_member\b", body_of("budget"))
