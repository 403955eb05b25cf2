"""The committed stubs are what nanobind's stubgen makes of the compiled modules.

After a change of the bindings, with PYTHONPATH=BUILD/python:

    python -m nanobind.stubgen -P -p python/src/core/stub_patterns.txt -m saeta._core \\
        -o python/saeta/_core.pyi
    python -m nanobind.stubgen -P -m saeta._ipc -o python/saeta/_ipc.pyi
"""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path

import pytest

PINNED = "3.1.0"
PYTHON = Path(__file__).resolve().parents[2] / "python"
PACKAGE = PYTHON / "saeta"
PATTERNS = PYTHON / "src" / "core" / "stub_patterns.txt"


@pytest.mark.parametrize("name", ["_core", "_ipc"])
def test_stubs_are_up_to_date(name):
    nanobind = pytest.importorskip("nanobind")
    if nanobind.__version__ != PINNED:
        pytest.skip(f"stubs are compared with nanobind {PINNED}, this is {nanobind.__version__}")
    if sys.version_info >= (3, 13):
        pytest.skip("stubs are compared with Python 3.11 and 3.12, whose capsules have another name")
    from nanobind.stubgen import StubGen, load_pattern_file

    module = importlib.import_module(f"saeta.{name}")
    generator = StubGen(module, include_private=True, patterns=load_pattern_file(PATTERNS))
    generator.put(module)
    committed = (PACKAGE / f"{name}.pyi").read_text()
    difference = difflib.unified_diff(
        committed.splitlines(), generator.get().splitlines(), "committed", "generated", lineterm=""
    )
    assert not list(difference)


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
