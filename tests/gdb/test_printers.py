"""gdb shows buffers, storages, columns, tables and budgets as a person would describe them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRINTERS = ROOT / "scripts" / "gdb" / "saeta_printers.py"
PROGRAM = Path(os.environ.get("SAETA_BUILD", ROOT / "build" / "dev")) / "bin" / "saeta_gdb_program"


@pytest.fixture(scope="module")
def shown():
    """What gdb prints of the arguments of `stop_here`, by their names."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    names = ("rows", "fare", "absent", "limited")
    commands = ["set pagination off", "set width 0", f"source {PRINTERS}", "break stop_here", "run"]
    for name in names:
        commands += [f"echo <{name}>\\n", f"print {name}"]
    arguments = [part for command in commands for part in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *arguments, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    if "ptrace: Operation not permitted" in done.stderr:
        pytest.skip("this machine lets no debugger run a program")
    parts = re.split(r"^<(\w+)>$", done.stdout, flags=re.MULTILINE)
    assert parts[1::2] == list(names), done.stdout + done.stderr
    return dict(zip(names, parts[2::2], strict=True))


def test_a_table_shows_its_shape_and_the_types_of_its_columns(shown):
    assert "saeta::table: 20 rows, 2 columns, 1 batch" in shown["rows"]
    assert "{fare = double, tip = double}" in shown["rows"]


def test_a_column_shows_its_rows_and_its_buffers(shown):
    assert "saeta::column of double: 20 rows from 10, " in shown["fare"]
    assert "buffer 0 = absent saeta::buffer" in shown["fare"]
    assert re.search(
        r"buffer 1 = saeta::buffer of bytes \[0, 800\) of saeta::storage 'fares' on host: 800 bytes at "
        r"0x[0-9a-f]+, (device|host) memory, generation \d+",
        shown["fare"],
    )


def test_an_absent_buffer_is_named_as_such(shown):
    assert "absent saeta::buffer" in shown["absent"]


def test_a_budget_shows_its_bytes_and_its_parent(shown):
    assert re.search(
        r"saeta::budget 'query': [\d,]+ bytes granted of 1,048,576, 0 reserved, peak [\d,]+", shown["limited"]
    )
    assert "parent = saeta::budget 'host': " in shown["limited"]
