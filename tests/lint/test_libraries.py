"""What the built libraries export and need, read with binutils.

libsaeta carries the CUDA runtime and nanoarrow inside. Their symbols stay inside, so that another copy in the
process is not met, and neither a driver nor libarrow is needed to load it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LIBRARIES = ["libsaeta.so", "libsaeta_ipc.so"]


def read(tool: str, *arguments: str) -> str:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (binutils)")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


def library(name: str) -> Path:
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD names no build folder; ctest sets it")
    path = Path(build, "lib", name)
    if not path.exists():
        pytest.skip(f"{name} was left out of this build")
    return path


@pytest.mark.parametrize("name", LIBRARIES)
def test_no_c_symbol_and_nothing_of_nanoarrow_is_exported(name: str) -> None:
    listing = read("nm", "--dynamic", "--defined-only", str(library(name)))
    symbols = [line.split()[-1].split("@")[0] for line in listing.splitlines()]
    assert any(symbol.startswith("_Z") for symbol in symbols)
    strangers = [symbol for symbol in symbols if not symbol.startswith("_Z") or "nanoarrow" in symbol]
    assert strangers == []


def needed(name: str) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "--dynamic", str(library(name))))


def test_the_core_needs_neither_a_driver_nor_libarrow() -> None:
    names = needed("libsaeta.so")
    assert any(name.startswith("libstdc++") for name in names)
    assert [name for name in names if re.match(r"lib(cuda|cudart|nvidia|arrow|python)", name)] == []


def test_only_the_ipc_library_needs_libarrow() -> None:
    names = needed("libsaeta_ipc.so")
    assert len([name for name in names if re.match(r"libarrow\.so\.\d+", name)]) == 1
    assert any(name.startswith("libsaeta.so") for name in names)
