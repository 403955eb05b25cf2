"""What the libraries export is what tests/abi says (scripts/abi.py, docs/abi.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import abi  # noqa: E402

HEADER = (ROOT / "saeta/capi/saeta.h").read_text(encoding="utf-8")
RENEW = "If that is meant, `make abi` writes it down"
needs_abidiff = pytest.mark.skipif(shutil.which("abidiff") is None, reason="no abidiff (abigail-tools)")


def built(name: str) -> Path:
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD names no build folder; ctest sets it")
    library = Path(build) / "lib" / name
    if not library.exists():
        pytest.skip(f"{name} was left out of this build")
    return library


def test_the_exported_symbols_are_those_that_are_written_down() -> None:
    build = built("libsaeta_bridge.so").parent.parent
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    if not re.search(r"^SAETA_WITH_CUDA:\w+=TRUE$", cache, re.MULTILINE):
        pytest.skip("the list is that of a build with CUDA")
    found = abi.symbol_differences(abi.SYMBOLS.read_text(encoding="utf-8"), abi.all_exported(build))
    assert found == [], RENEW


@needs_abidiff
def test_the_c_interface_is_the_one_that_is_written_down() -> None:
    assert abi.c_differences(HEADER) == "", RENEW


@needs_abidiff
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  SAETA_FORMAT = 10,", "  SAETA_FORMAT = 19,"),
        ("  int32_t error_number;", "  int64_t error_number;"),
        ("SAETA_C_API saeta_code saeta_release(void* handle);", ""),
        ("saeta_code_name(saeta_code code)", "saeta_code_name(int64_t code)"),
    ],
)
def test_a_change_of_the_c_interface_is_found(old: str, new: str) -> None:
    assert HEADER.count(old) == 1
    assert "changed" in abi.c_differences(HEADER.replace(old, new)).lower()


def test_differences_are_named() -> None:
    assert abi.symbol_differences("a\nb\n", "b\nc\n") == ["gone: a", "new: c"]


@pytest.mark.parametrize("name", abi.LIBRARIES)
def test_each_symbol_has_the_version_of_the_soname(name: str) -> None:
    library = str(built(name))
    dynamic = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True, check=True)
    soname = re.search(rf"\(SONAME\).*\[{re.escape(name)}\.(\S+)\]", dynamic.stdout)
    assert soname is not None
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in symbols.stdout.splitlines()]
    versions = {name.partition("@@")[2] for name in names if not name.startswith("SAETA_")}
    assert versions == {f"SAETA_{soname[1]}"}


@pytest.mark.parametrize("name", abi.LIBRARIES)
def test_no_library_names_a_folder_of_the_machine_that_built_it(name: str) -> None:
    assert str(ROOT).encode() + b"/" not in built(name).read_bytes()
