#!/usr/bin/env python3
"""Builds the released wheels, with modules for every supported pyarrow: one for Python 3.11, and one with the
stable ABI for 3.12 and later.

    build_wheels.py [--python PROGRAM]... [--newest] [--pyarrow MAJOR,...] [--no-cuda] [--output FOLDER]
                    [--sdist] [-C SETTING]...

1. Creates in .deps/wheel an environment with the pinned build tools for each Python, and a folder for each
   major release of pyarrow. Once they exist, no network is needed.
2. Builds all modules in build/wheel. The libraries are compiled once for all Pythons.
3. Runs auditwheel, which tags the wheel with the oldest glibc it runs on. libarrow is not copied into the
   wheel: pyarrow's is used.
4. Checks the wheel: its size, the folder of each release, and the CPython functions that its modules use.

The wheel for 3.12 and later is built with the oldest of these Pythons. Modules made by Cython access CPython
structures that the stable ABI hides, so the wheel has such a module for each Python that is found.

A wheel that lacks a release of pyarrow or CUDA has a build tag that says so; it is for tests, not for a
release. SAETA_REPOSITORY is the address of the public repository, for links and project URLs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PREPARED = ROOT / ".deps" / "wheel"
PYARROWS = {22: "22.0.0", 23: "23.0.1", 24: "24.0.0", 25: "25.0.1", 26: "26.0.1"}
BUILD_TOOLS = ("cython", "nanobind", "numpy", "packaging", "pathspec", "scikit-build-core")
LARGEST = 8_000_000
OLDEST_PYTHON = (3, 11)
STABLE_ABI = 12  # minor release of Python
# Functions outside of the stable ABI that python/src/core/gil.hpp declares itself.
UNDECLARED = {"PyGILState_Check", "Py_IsFinalizing", "_PyBytes_Resize", "_Py_IsFinalizing"}
# Libraries that must not be copied into the wheel: the process would then have two copies of them.
OUTSIDE = ("libarrow*", "libcuda.so.*")


class WheelError(Exception):
    """A step that failed; the message says what to do."""


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode != 0:
        raise WheelError(f"failed: {' '.join(words)}")


def pinned(names: Sequence[str]) -> list[str]:
    """Returns the pinned requirements of these packages from scripts/requirements.txt."""
    lines = (ROOT / "scripts/requirements.txt").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.partition("==")[0].lower() in names]
    if len(found) != len(names):
        raise WheelError(f"scripts/requirements.txt pins {found} of {', '.join(names)}")
    return found


def find_pythons() -> list[str]:
    """Returns the path of each Python from 3.11 on, found on the PATH or in pyenv, oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found: list[str] = []
    for minor in range(OLDEST_PYTHON[1], 20):
        on_path = shutil.which(f"python3.{minor}")
        programs = [on_path] if on_path else []
        programs += map(str, sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3")))
        found += [program for program in programs if makes_environments(program)][:1]
    return found


def makes_environments(python: str) -> bool:
    """Returns whether this Python has a GIL and its `-m venv` works.

    Shims of pyenv fail to start if their version is not selected.
    """
    program = "import ensurepip, sys; sys.exit('t' in sys.abiflags)"
    return subprocess.run([python, "-c", program], capture_output=True, check=False).returncode == 0


def tag_of(python: str) -> str:
    program = "import sys; print(sys.implementation.cache_tag)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{python} is not a Python: {done.stderr.strip()}")
    return done.stdout.strip()


def minor_of(python: str) -> int:
    return int(tag_of(python).removeprefix("cpython-3"))


def plan_wheels(pythons: Sequence[str]) -> list[list[str]]:
    """Returns the Pythons that each wheel supports. The first one of each list builds the wheel."""
    older = [[python] for python in pythons if minor_of(python) < STABLE_ABI]
    stable = sorted((python for python in pythons if minor_of(python) >= STABLE_ABI), key=minor_of)
    return [*older, stable] if stable else older


def prepare_environment(python: str) -> Path:
    """Returns the `bin` folder of an environment with the build tools. Recreates it if their list changed."""
    folder = PREPARED / tag_of(python)
    stamp = folder / "installed.txt"
    wheel_tools = ROOT / "scripts/requirements-wheel.txt"
    wanted = "\n".join([*pinned(BUILD_TOOLS), wheel_tools.read_text(encoding="utf-8")])
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        run(python, "-m", "venv", folder)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(*pip, *pinned(BUILD_TOOLS), "-r", wheel_tools)
        stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def prepare_pyarrow(version: str, pip: Path) -> Path:
    """Returns a folder with pyarrow. Its libarrow and headers are the same for every Python."""
    folder = PREPARED / f"pyarrow-{version}"
    if not folder.is_dir():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        run(pip, "-m", "pip", "install", *options, "--target", partial, f"pyarrow=={version}")
        partial.rename(folder)
    return folder


def build_tag(majors: Sequence[int], with_cuda: bool) -> str:
    """Returns a build tag for a wheel that lacks a pyarrow release or CUDA; empty if it is complete."""
    parts = [] if with_cuda else ["nocuda"]
    if set(majors) != set(PYARROWS):
        parts.append("pyarrow" + ".".join(map(str, sorted(majors))))
    return "0" + ".".join(parts) if parts else ""


def build(
    tools: Path,
    cmake: Path,
    others: Sequence[str],
    pyarrows: Sequence[Path],
    options: Sequence[str],
    output: Path,
) -> Path:
    """Builds one wheel with the Python of these tools and puts it into `output`."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    # With ccache, CMake's path is part of each compile command, so another path would miss the whole cache.
    environment["CMAKE_EXECUTABLE"] = str(cmake)
    environment["SAETA_PYARROWS"] = ";".join(map(str, pyarrows))
    environment["SAETA_OTHER_PYTHONS"] = ";".join(others)
    with tempfile.TemporaryDirectory() as scratch:
        pip = [tools / "python", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps"]
        settings = [word for option in options for word in ("-C", option)]
        run(*pip, "--no-build-isolation", *settings, "--wheel-dir", scratch, ".", environment=environment)
        (raw,) = Path(scratch).glob("*.whl")
        excluded = [word for name in OUTSIDE for word in ("--exclude", name)]
        repaired = Path(scratch, "repaired")
        run(tools / "auditwheel", "repair", *excluded, "--wheel-dir", repaired, raw, environment=environment)
        (made,) = repaired.glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(made, output / made.name))


def check(wheel: Path, tags: Sequence[str], majors: Sequence[int], is_complete: bool) -> None:
    """Raises WheelError if a wheel can't be released. `tags` are the Python tags that it must support."""
    size = wheel.stat().st_size
    if is_complete and size > LARGEST:
        raise WheelError(f"{wheel.name} has {size} bytes, at most {LARGEST} are wanted")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for major in majors:
        for module in ("_bridge", *(f"_arrow.{tag}-" for tag in tags)):
            if not any(name.startswith(f"saeta/_pyarrow{major}/{module}") for name in names):
                raise WheelError(f"{wheel.name} has no {module} for pyarrow {major}")
    if missing := {"saeta/_core.pyi", "saeta/_ipc.pyi", "saeta/py.typed"} - set(names):
        raise WheelError(f"{wheel.name} has no {', '.join(sorted(missing))}")
    foreign = [name for name in names if re.search(r"/libarrow|\.libs/", name)]
    if foreign:
        raise WheelError(f"{wheel.name} holds libraries of others: {', '.join(foreign)}")
    print(f"{wheel}: {size / 1e6:.1f} MB, {len(names)} files")


def check_stable_abi(wheel: Path, tools: Path) -> None:
    """Raises WheelError if a module for the stable ABI uses functions outside of it."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        words = [tools / "abi3audit", "--report", "--output", report, wheel]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not report.is_file() or not (text := report.read_text(encoding="utf-8")):
            raise WheelError(f"abi3audit {wheel.name}: {done.stdout}{done.stderr}")
    if found := unstable_functions(json.loads(text)) - UNDECLARED:
        raise WheelError(f"{wheel.name} uses {', '.join(sorted(found))}, which the stable ABI does not have")


def unstable_functions(report: dict[str, Any]) -> set[str]:
    """Returns the functions outside of the stable ABI that a report of abi3audit lists.

    Only modules whose file name claims the stable ABI are considered.
    """
    found: set[str] = set()
    for spec in report["specs"].values():
        for module in spec["wheel"]:
            if ".abi3." in module["name"]:
                result = module["result"]
                found |= {*result["non_abi3_symbols"], *result["future_abi3_objects"]}
    return found


def build_sdist(tools: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    program = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    run(tools / "python", "-c", program, output)


def build_from_sdist(tools: Path, sdist: Path, output: Path) -> None:
    """Builds a wheel from a source distribution without a network, using the tools of this environment."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    newest = PREPARED / f"pyarrow-{PYARROWS[max(PYARROWS)]}"
    environment["SAETA_PYARROWS"] = str(newest)
    pip = [tools / "python", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", "--wheel-dir", output, sdist, environment=environment)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the wheels that are shipped.")
    parser.add_argument(
        "--python", action="append", default=[], help="a Python to build for; all that are found by default"
    )
    parser.add_argument("--newest", action="store_true", help="only the wheel for the newest Python")
    parser.add_argument("--pyarrow", default=",".join(map(str, PYARROWS)), help="major releases, with commas")
    parser.add_argument("--no-cuda", action="store_true", help="without the cuda backend")
    parser.add_argument("--sdist", action="store_true", help="the source distribution, too")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("-C", dest="settings", action="append", default=[], help="for the build back end")
    options = parser.parse_args()
    try:
        majors = [int(text) for text in options.pyarrow.split(",")]
        if unknown := set(majors) - set(PYARROWS):
            raise WheelError(f"pyarrow {unknown}: there are {', '.join(map(str, PYARROWS))}")
        settings = [
            f"wheel.py-api=cp3{STABLE_ABI}",  # older Pythons ignore it
            "cmake.version=>=3.26",  # the first one that knows the stable ABI
            f"cmake.define.SAETA_CUDA={'OFF' if options.no_cuda else 'ON'}",
            "cmake.define.SAETA_BRIDGE=ON",
            "cmake.define.SAETA_RMM=OFF",
        ]
        settings += options.settings
        tag = build_tag(majors, with_cuda=not options.no_cuda)
        if tag:
            settings.append(f"wheel.build-tag={tag}")
        wheels = plan_wheels(options.python or find_pythons())[-1 if options.newest else 0 :]
        environments = [prepare_environment(pythons[0]) for pythons in wheels]
        pyarrows = [prepare_pyarrow(PYARROWS[major], environments[0] / "python") for major in majors]
        for tools, pythons in zip(environments, wheels, strict=True):
            wheel = build(tools, environments[0] / "cmake", pythons[1:], pyarrows, settings, options.output)
            check(wheel, [tag_of(python) for python in pythons], majors, is_complete=not tag)
            if minor_of(pythons[0]) >= STABLE_ABI:
                check_stable_abi(wheel, tools)
        if options.sdist:
            build_sdist(environments[0], options.output)
    except WheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
