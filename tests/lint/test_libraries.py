"""Exported symbols, dependencies and run paths of the built libraries, read with binutils.

libsaeta links the CUDA runtime, nanoarrow, LZ4 and Zstandard statically. It must not export their symbols,
which could clash with another copy in the process. libsaeta loads without the CUDA driver and without
libarrow. It opens the driver later by name, so no run path may include the current directory.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LIBRARIES = ["libsaeta.so", "libsaeta_bridge.so"]


def read(tool: str, *arguments: str) -> str:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (binutils)")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


def build_folder() -> Path:
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD names no build folder; ctest sets it")
    return Path(build)


def library(name: str) -> Path:
    found = sorted((build_folder() / "lib").rglob(name))
    if not found:
        pytest.skip(f"{name} was left out of this build")
    return found[0]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_only_c_symbols_are_those_of_the_c_interface_and_none_is_of_nanoarrow(name: str) -> None:
    listing = read("nm", "--dynamic", "--defined-only", str(library(name)))
    found = [line.split()[-2:] for line in listing.splitlines()]
    symbols = [symbol.split("@")[0] for kind, symbol in found if kind != "A"]  # A: the name of the version
    if name == "libsaeta.so":
        header = (ROOT / "saeta/capi/saeta.h").read_text(encoding="utf-8")
        declared = re.findall(r"^SAETA_C_API [^;]*?(saeta_\w+)\(", header, re.MULTILINE)
        assert sorted(symbol for symbol in symbols if symbol.startswith("saeta_")) == sorted(declared)
        symbols = [symbol for symbol in symbols if not symbol.startswith("saeta_")]
    assert any(symbol.startswith("_Z") for symbol in symbols)
    strangers = [symbol for symbol in symbols if not symbol.startswith("_Z") or "nanoarrow" in symbol]
    assert strangers == []


def needed(name: str) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "--dynamic", str(library(name))))


def test_the_core_needs_neither_a_driver_nor_libarrow() -> None:
    names = needed("libsaeta.so")
    assert any(name.startswith("libstdc++") for name in names)
    assert [name for name in names if re.match(r"lib(cuda|cudart|nvidia|arrow|python)", name)] == []


def test_only_the_bridge_needs_libarrow() -> None:
    names = needed("libsaeta_bridge.so")
    assert len([name for name in names if re.match(r"libarrow\.so\.\d+", name)]) == 1
    assert any(name.startswith("libsaeta.so") for name in names)


ROOT = Path(__file__).resolve().parents[2]


def run_paths(file: Path) -> list[str]:
    """Returns the RPATH and RUNPATH entries of a file's dynamic section."""
    return re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", read("readelf", "--dynamic", str(file)))


def is_safe_entry(entry: str) -> bool:
    return entry.startswith(("$ORIGIN", "/"))


def libraries_below(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*.so*")) if file.is_file() and not file.is_symlink()]


def require_safe_run_paths(found: list[Path]) -> None:
    assert any(file.name.startswith("libsaeta.so") for file in found)
    wrong = {
        file.name: path
        for file in found
        for path in run_paths(file)
        if not all(map(is_safe_entry, path.split(":")))
    }
    assert wrong == {}


def test_no_library_of_the_build_searches_the_current_directory() -> None:
    build = build_folder()
    require_safe_run_paths(libraries_below(build / "lib") + libraries_below(build / "python"))


def test_no_library_of_an_install_searches_the_current_directory(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    if not (build_folder() / "bin").exists():
        pytest.skip("the build is not complete")
    command = ["cmake", "--install", str(build_folder()), "--prefix", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    require_safe_run_paths(libraries_below(tmp_path))


def test_the_library_that_loads_the_driver_has_no_run_path() -> None:
    assert run_paths(library("libsaeta.so")) == []


def test_no_library_of_a_wheel_searches_the_current_directory(tmp_path: Path) -> None:
    """Checks the link commands of a build configured as scikit-build-core does it, without building."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("no cmake or no ninja")
    cache = (build_folder() / "CMakeCache.txt").read_text(encoding="utf-8")
    python = re.search(r"^Python_EXECUTABLE:\w+=(.+)$|^_Python_EXECUTABLE:\w+=(.+)$", cache, re.MULTILINE)
    options = ["-DSKBUILD=2", "-DSAETA_TESTS=OFF", "-DSAETA_BENCH=OFF", "-DSAETA_EXAMPLES=OFF"]
    if python is not None:
        options.append(f"-DPython_EXECUTABLE={python[1] or python[2]}")
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-G", "Ninja", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rules = (tmp_path / "build.ninja").read_text(encoding="utf-8")
    paths = re.findall(r"-Wl,-rpath,(\S*)", rules.replace("\\$$", "$").replace("$$", "$"))
    assert any("$ORIGIN" in path for path in paths)
    assert [path for path in paths if not all(map(is_safe_entry, path.strip(chr(34)).split(":")))] == []
