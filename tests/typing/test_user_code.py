"""User programs pass the strict modes of mypy and pyright, and both find wrong uses.

Each program is checked in an environment with only Saeta, or with Saeta and the libraries that it exchanges
data with. `stand_ins` has the few types of large libraries that the programs use. basedpyright is a pyright
that pip can install without Node.js.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python" / "saeta"
PROGRAMS = HERE / "programs"
LIBRARIES = ("numpy", "polars")  # the installed packages, which have their own types


def environment(folder: Path, *, libraries: bool) -> Path:
    """Makes a virtual environment with Saeta, and with the other libraries if `libraries` is true."""
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "saeta").symlink_to(PACKAGE)
    if libraries:
        for name in LIBRARIES:
            pytest.importorskip(name)
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            (packages / name).symlink_to(Path(spec.origin).parent)
        for stand_in in (HERE / "stand_ins").iterdir():
            (packages / stand_in.name).symlink_to(stand_in)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return environment(tmp_path_factory.mktemp("bare") / "venv", libraries=False)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return environment(tmp_path_factory.mktemp("full") / "venv", libraries=True)


def mypy(python: Path, program: Path, scratch: Path) -> dict[int, str]:
    """Returns mypy's message for each line with an error."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--hide-error-context", "--no-pretty", f"--python-executable={python}"]
    command += [f"--cache-dir={python.parents[1] / 'mypy'}", str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
    assert ran.returncode in (0, 1), ran.stderr
    found = re.findall(r"^(.+):(\d+): error: (.*)$", ran.stdout, re.MULTILINE)
    assert all(Path(file).name == program.name for file, _, _ in found), ran.stdout
    return {int(line): text for _, line, text in found}


def pyright(python: Path, program: Path, scratch: Path) -> dict[int, str]:
    """Returns pyright's message for each line with an error."""
    pytest.importorskip("basedpyright")
    settings = scratch / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "strict", "include": [str(program)]}))
    command = [sys.executable, "-m", "basedpyright", "--project", str(settings), "--outputjson"]
    command += ["--pythonpath", str(python)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
    report = json.loads(ran.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, ran.stdout
    return {each["range"]["start"]["line"] + 1: each["message"] for each in report["generalDiagnostics"]}


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright])


@CHECKERS
def test_a_program_without_other_libraries_is_clean(check, bare, tmp_path):
    assert check(bare, PROGRAMS / "basics.py", tmp_path) == {}


@CHECKERS
@pytest.mark.parametrize("name", ["basics.py", "with_libraries.py"])
def test_a_program_with_the_libraries_is_clean(check, name, full, tmp_path):
    assert check(full, PROGRAMS / name, tmp_path) == {}


@CHECKERS
def test_wrong_uses_are_found(check, bare, tmp_path):
    program = PROGRAMS / "wrong.py"
    lines = program.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert check(bare, program, tmp_path).keys() == wrong
