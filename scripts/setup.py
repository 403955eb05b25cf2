#!/usr/bin/env python3
"""Prepares a machine to build and test Saeta. It can be run again at any time and skips finished steps.

    setup.py [--docs] [--notebook] [--tools] [--system-python]

1. Installs missing compilers and tools from Debian packages, if this user may.
2. Makes a virtual environment in .deps/venv with the packages of scripts/requirements.txt.
3. Downloads the sources of nanoarrow, DLPack, LZ4 and Zstandard to .deps (scripts/fetch_sources.py).

Once .deps/ is complete, no network is needed. If .deps/ was copied to the machine without a virtual
environment, or with --system-python, the packages of the system's Python are used, whatever their versions.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fetch_sources import FetchError, fetch

ROOT = Path(__file__).resolve().parent.parent
DEPS = ROOT / ".deps"
VENV = DEPS / "venv"
OLDEST_PYTHON = (3, 11)
OLDEST_CMAKE = (3, 25)
UV = "uv==0.13.8"
# Packages that the system's Python must have to build and test the package.
SYSTEM_PACKAGES = ("nanobind", "numpy", "pyarrow", "pytest", "rich", "typer")


class SetupError(Exception):
    """A step failed; the message says what to run."""


def say(text: str) -> None:
    print(text, flush=True)


@dataclass(frozen=True)
class Tool:
    """A tool or library that a Debian package provides."""

    package: str
    purpose: str
    present: Callable[[], bool]
    required: bool


def program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def any_file(*patterns: str) -> Callable[[], bool]:
    """Returns a function that tells whether any file matches one of the patterns, relative to `/`."""
    return lambda: any(next(Path("/").glob(pattern), None) is not None for pattern in patterns)


def cmake_is_new_enough() -> bool:
    if shutil.which("cmake") is None:
        return False
    text = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", text)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_CMAKE


def has_python_headers() -> bool:
    import sysconfig

    return Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def has_venv() -> bool:
    return VENV.exists() or importlib.util.find_spec("ensurepip") is not None


LIBFUZZER = "usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
GOOGLETEST_SOURCES = "usr/src/*/googlemock/CMakeLists.txt"
TOOLS = (
    Tool("g++", "the C++ compiler", program("g++"), required=True),
    Tool("cmake", "the build, 3.25 or newer", cmake_is_new_enough, required=True),
    Tool("ninja-build", "the build", program("ninja"), required=True),
    Tool("python3-dev", "headers for the Python package", has_python_headers, required=True),
    Tool("python3-venv", "the virtual environment", has_venv, required=False),
    Tool(
        "libgtest-dev", "C++ tests", any_file("usr/include/gtest/gtest.h", GOOGLETEST_SOURCES), required=True
    ),
    Tool(
        "libgmock-dev", "C++ tests", any_file("usr/include/gmock/gmock.h", GOOGLETEST_SOURCES), required=True
    ),
    Tool("clang-format", "make lint", program("clang-format"), required=False),
    Tool("clang-tidy", "make lint", program("clang-tidy"), required=False),
    Tool("clang", "AddressSanitizer and fuzzers", program("clang++"), required=False),
    Tool("abigail-tools", "the check of the C ABI", program("abidiff"), required=False),
    Tool("libclang-rt-14-dev", "AddressSanitizer and fuzzers", any_file(LIBFUZZER), required=False),
)


def install_tools() -> None:
    """Installs missing tools with apt-get. Optional tools may stay missing."""
    missing = [tool for tool in TOOLS if not tool.present()]
    if not missing:
        say("[1/3] tools: all there")
        return
    names = [tool.package for tool in missing]
    say("[1/3] tools: missing " + ", ".join(f"{tool.package} ({tool.purpose})" for tool in missing))
    command = ["apt-get", "install", "-y", "--no-install-recommends", *names]
    shown = f"apt-get update && {' '.join(command)}"
    if shutil.which("apt-get") and os.geteuid() == 0:
        say(f"      running: {shown}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["apt-get", "update", "-q"], command):
            subprocess.run(step, env=environment, stdout=subprocess.DEVNULL, check=False)
        missing = [tool for tool in missing if not tool.present()]
    else:
        say(f"      not root: to have them, run: sudo sh -c '{shown}'")
    needed = [tool.package for tool in missing if tool.required]
    if needed:
        raise SetupError(f"{', '.join(needed)} can't be done without. Run as root: {shown}")
    for tool in missing:
        say(f"      going on without {tool.package}: no {tool.purpose}")


def lacking_system_packages() -> list[str]:
    def has(name: str) -> bool:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return False
        return True

    return [name for name in SYSTEM_PACKAGES if not has(name)]


def pip_install(requirements: Path, *options: str) -> bool:
    """Installs requirements into the virtual environment, unless its stamp has the same list."""
    stamp = VENV / f".{requirements.stem}.stamp"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return True
    shown = requirements.relative_to(ROOT)
    say(f"      installing {shown} (some 600 MB the first time)")
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # uv takes a tenth of pip's time. It does not read pip's configuration, which may name the only index that
    # can be reached, so pip is tried next.
    uv = [python, "-m", "uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    subprocess.run([*pip, UV], check=False)
    commands = ([*command, *options, "-r", str(requirements)] for command in (uv, pip))
    if not any(subprocess.run(command, check=False).returncode == 0 for command in commands):
        return False
    stamp.write_text(wanted)
    return True


def use_system_python(reason: str) -> None:
    lacking = lacking_system_packages()
    if lacking:
        raise SetupError(
            f"{reason}, and {sys.executable} lacks {', '.join(lacking)}. With a network, run: "
            f"{sys.executable} -m venv {VENV} && {VENV}/bin/pip install -r scripts/requirements.txt"
        )
    say(f"[2/3] Python: {sys.executable} of the system ({reason})")


def prepare_python(system_python: bool) -> None:
    if sys.version_info < OLDEST_PYTHON:
        version = ".".join(map(str, sys.version_info[:2]))
        raise SetupError(f"Python {version} is too old, 3.11 or newer is needed (apt-get install python3)")
    if system_python:
        use_system_python("as asked")
        return
    brought_along = (DEPS / "nanoarrow").is_dir() and not VENV.is_dir()
    if brought_along and not lacking_system_packages():
        use_system_python(".deps was brought along without a virtual environment")
        return
    if not (VENV / "bin" / "python").exists():
        say(f"[2/3] Python: making {VENV.relative_to(ROOT)} with {sys.executable}")
        if subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False).returncode != 0:
            shutil.rmtree(VENV, ignore_errors=True)
            use_system_python("no virtual environment could be made (apt-get install python3-venv)")
            return
    else:
        say(f"[2/3] Python: {VENV.relative_to(ROOT)}")
    if not pip_install(ROOT / "scripts" / "requirements.txt"):
        if any(VENV.glob(".*.stamp")):
            raise SetupError(
                "the pinned packages changed and pip can't get them: connect to a network and run again"
            )
        shutil.rmtree(VENV, ignore_errors=True)
        use_system_python("pip can't get the pinned packages")


def prepare_more(name: str, *options: str) -> None:
    requirements = f"scripts/requirements-{name}.txt"
    if not VENV.is_dir() or not pip_install(ROOT / requirements, *options):
        raise SetupError(f".deps/venv and the packages of {requirements} are needed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes this machine ready to build and test Saeta.")
    parser.add_argument("--docs", action="store_true", help="also what the documentation needs")
    parser.add_argument(
        "--notebook", action="store_true", help="also what the first pages as a notebook need"
    )
    parser.add_argument("--tools", action="store_true", help="also what coverage and mutants need")
    parser.add_argument("--system-python", action="store_true", help="no virtual environment")
    options = parser.parse_args()
    try:
        install_tools()
        prepare_python(options.system_python)
        if options.docs:
            prepare_more("docs")
        if options.notebook:
            prepare_more("notebook")
        if options.tools:
            prepare_more("tools", "--no-deps")
        say("[3/3] sources: " + ", ".join(fetch(DEPS)))
    except (SetupError, FetchError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
