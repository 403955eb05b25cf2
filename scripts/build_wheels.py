#!/usr/bin/env python3
"""Builds the wheels that are shipped, one for each Python, with modules for every supported pyarrow.

    build_wheels.py [--python PROGRAM]... [--pyarrow MAJOR,...] [--no-cuda] [--output FOLDER] [--sdist]
                    [-C SETTING]...

1. An environment in .deps/wheel with the pinned build tools for each Python, and one folder for each major
   release of pyarrow. With them, nothing needs a network.
2. One build in build/wheel for all releases of pyarrow. The libraries are compiled once for all Pythons.
3. auditwheel names the oldest glibc that the wheel runs on. libarrow stays outside: it is pyarrow's.
4. Checks of the wheel: its size, and a folder for each release.

A wheel without all releases of pyarrow or without CUDA has a build tag that says so: it is a test, not a
release. SAETA_REPOSITORY is the address of the public repository, for links and project URLs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREPARED = ROOT / ".deps" / "wheel"
PYARROWS = {22: "22.0.0", 23: "23.0.1", 24: "24.0.0", 25: "25.0.1", 26: "26.0.1"}
BUILD_TOOLS = ("cython", "nanobind", "numpy", "packaging", "pathspec", "scikit-build-core")
LARGEST = 8_000_000
OLDEST_PYTHON = (3, 11)
# A copy inside a wheel would be a second one in the process.
OUTSIDE = ("libarrow*", "libcuda.so.*")


class WheelError(Exception):
    """A step that failed; the message says what to do."""


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode != 0:
        raise WheelError(f"failed: {' '.join(words)}")


def pinned(names: Sequence[str]) -> list[str]:
    """Returns the requirements of scripts/requirements.txt for these packages."""
    lines = (ROOT / "scripts/requirements.txt").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.partition("==")[0].lower() in names]
    if len(found) != len(names):
        raise WheelError(f"scripts/requirements.txt pins {found} of {', '.join(names)}")
    return found


def find_pythons() -> list[str]:
    """Returns a program for each Python from 3.11 on that is on the PATH or that pyenv has, oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found: list[str] = []
    for minor in range(OLDEST_PYTHON[1], 20):
        on_path = shutil.which(f"python3.{minor}")
        programs = [on_path] if on_path else []
        programs += map(str, sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3")))
        found += [program for program in programs if makes_environments(program)][:1]
    return found


def makes_environments(python: str) -> bool:
    """Returns whether `-m venv` works: pyenv's shims of versions that are not chosen don't even start."""
    return (
        subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0
    )


def tag_of(python: str) -> str:
    program = "import sys; print(sys.implementation.cache_tag)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{python} is not a Python: {done.stderr.strip()}")
    return done.stdout.strip()


def prepare_environment(python: str) -> Path:
    """Returns the `bin` folder of an environment with the build tools, made anew when their list changed."""
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
    """Returns a folder that holds pyarrow. libarrow and its declarations are the same for every Python."""
    folder = PREPARED / f"pyarrow-{version}"
    if not folder.is_dir():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        run(pip, "-m", "pip", "install", *options, "--target", partial, f"pyarrow=={version}")
        partial.rename(folder)
    return folder


def build_tag(majors: Sequence[int], with_cuda: bool) -> str:
    """Returns a tag for a wheel that lacks something, and nothing for one that is complete."""
    parts = [] if with_cuda else ["nocuda"]
    if set(majors) != set(PYARROWS):
        parts.append("pyarrow" + ".".join(map(str, sorted(majors))))
    return "0" + ".".join(parts) if parts else ""


def build(tools: Path, pyarrows: Sequence[Path], options: Sequence[str], output: Path) -> Path:
    """Builds one wheel for the Python of these tools and puts it into `output`."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    environment["SAETA_PYARROWS"] = ";".join(map(str, pyarrows))
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


def check(wheel: Path, majors: Sequence[int], is_complete: bool) -> None:
    """Raises WheelError for a wheel that can't be shipped."""
    size = wheel.stat().st_size
    if is_complete and size > LARGEST:
        raise WheelError(f"{wheel.name} has {size} bytes, at most {LARGEST} are wanted")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for major in majors:
        for module in ("_ipc", "_bridge", "_arrow"):
            if not any(name.startswith(f"saeta/_pyarrow{major}/{module}.") for name in names):
                raise WheelError(f"{wheel.name} has no {module} for pyarrow {major}")
    foreign = [name for name in names if re.search(r"/libarrow|\.libs/", name)]
    if foreign:
        raise WheelError(f"{wheel.name} holds libraries of others: {', '.join(foreign)}")
    print(f"{wheel}: {size / 1e6:.1f} MB, {len(names)} files")


def build_sdist(tools: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    program = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    run(tools / "python", "-c", program, output)


def build_from_sdist(tools: Path, sdist: Path, output: Path) -> None:
    """Builds a wheel from a source distribution without a network, with what these tools have."""
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
        settings = [f"cmake.define.SAETA_CUDA={'OFF' if options.no_cuda else 'ON'}"]
        settings += [
            "cmake.define.SAETA_IPC=ON",
            "cmake.define.SAETA_BRIDGE=ON",
            "cmake.define.SAETA_RMM=OFF",
        ]
        settings += options.settings
        tag = build_tag(majors, with_cuda=not options.no_cuda)
        if tag:
            settings.append(f"wheel.build-tag={tag}")
        environments = [prepare_environment(python) for python in options.python or find_pythons()]
        pyarrows = [prepare_pyarrow(PYARROWS[major], environments[0] / "python") for major in majors]
        for tools in environments:
            check(build(tools, pyarrows, settings, options.output), majors, is_complete=not tag)
        if options.sdist:
            build_sdist(environments[0], options.output)
    except WheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
