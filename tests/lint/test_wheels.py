"""The metadata of a wheel: dependencies, links, file name, ABI, and licence notices."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import build_metadata
import build_wheels
import check_wheels
import release

ROOT = Path(__file__).resolve().parents[2]


def metadata() -> dict[str, object]:
    return build_metadata.Provider().dynamic_metadata({}, {})


def test_a_wheel_depends_on_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    assert "dependencies" not in project["dynamic"]


def test_the_description_has_no_relative_links(monkeypatch: pytest.MonkeyPatch) -> None:
    links = re.compile(r"\]\((?!https://|#)[^)]*\)")
    assert links.search((ROOT / "README.md").read_text(encoding="utf-8"))
    for address in ("", "https://example.org/saeta/"):
        monkeypatch.setenv("SAETA_REPOSITORY", address)
        found = metadata()
        text = str(found["readme"])
        assert not links.search(text)
        assert (f"(https://example.org/saeta/blob/v{found['version']}/docs/install.md)" in text) == bool(
            address
        )
        assert bool(found["urls"]) == bool(address)


def test_pip_says_which_python_is_needed() -> None:
    """pip refuses by this field before it builds or compares names of wheels."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = min(
        int(each.rpartition(".")[2])
        for each in project["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)
    )
    assert project["requires-python"] == f">=3.{oldest}"
    assert f"Python 3.{oldest} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_oldest_pyarrow_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["pyarrow"] == [f"pyarrow>={min(build_wheels.PYARROWS)}"]
    assert set(check_wheels.MAJORS) <= set(build_wheels.PYARROWS)
    ranged = f"from {min(build_wheels.PYARROWS)} to {max(build_wheels.PYARROWS)}"
    for page in ("README.md", "docs/install.md", "CHANGELOG.md"):
        assert ranged in (ROOT / page).read_text(encoding="utf-8"), page


def test_wheels_and_tests_use_the_same_newest_pyarrow() -> None:
    newest = build_wheels.PYARROWS[max(build_wheels.PYARROWS)]
    assert build_wheels.pinned(["pyarrow"]) == [f"pyarrow=={newest}"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"pyarrow=={newest}" in project["tool"]["scikit-build"]["build"]["requires"]


def test_the_cli_extra_has_the_packages_that_the_commands_import() -> None:
    """pipx and uvx install only this extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split(r"[<>=]", each)[0] for each in project["optional-dependencies"]["cli"]}
    needed = {
        package.partition(".")[0]
        for source in (ROOT / "python" / "saeta" / "cli").glob("*.py")
        for package in re.findall(r'load\("([\w.]+)", "saeta ', source.read_text(encoding="utf-8"))
    }
    assert {"numpy", "pyarrow"} <= needed <= extra


def test_a_package_that_is_not_pinned_is_an_error() -> None:
    with pytest.raises(build_wheels.WheelError, match="no_such_package"):
        build_wheels.pinned(["no_such_package"])


def test_the_build_tag_of_a_wheel_names_missing_features() -> None:
    every = list(build_wheels.PYARROWS)
    assert build_wheels.build_tag(every, with_cuda=True) == ""
    assert build_wheels.build_tag(every, with_cuda=False) == "0nocuda"
    assert build_wheels.build_tag([26, 25], with_cuda=True) == "0pyarrow25.26"
    assert build_wheels.build_tag([26], with_cuda=False) == "0nocuda.pyarrow26"


def test_each_python_gets_a_specific_or_a_stable_abi_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build_wheels, "tag_of", lambda python: python)
    for tags in ("cp311-cp311", "cp312-abi3"):
        (tmp_path / f"saeta-0.1.0-{tags}-manylinux_2_35_x86_64.whl").touch()
    assert "-cp311-" in check_wheels.wheel_for("cpython-311", tmp_path).name
    for stable in ("cpython-312", "cpython-314"):
        assert "-abi3-" in check_wheels.wheel_for(stable, tmp_path).name
    with pytest.raises(check_wheels.CheckError, match="no wheel"):
        check_wheels.wheel_for("cpython-310", tmp_path)


def test_one_stable_abi_wheel_serves_all_newer_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_wheels, "tag_of", lambda python: python)
    older, stable, newer = "cpython-311", "cpython-312", "cpython-314"
    assert build_wheels.plan_wheels([newer, older, stable]) == [[older], [stable, newer]]
    assert build_wheels.plan_wheels([newer]) == [[newer]]
    assert build_wheels.plan_wheels([older]) == [[older]]


def test_stable_abi_modules_may_not_use_other_functions() -> None:
    def module(name: str, *unknown: str, **newer: str) -> dict[str, object]:
        return {"name": name, "result": {"non_abi3_symbols": unknown, "future_abi3_objects": newer}}

    modules = [
        module("_core.abi3.so", "PyGILState_Check", "_Py_Secret", PyObject_GetOptionalAttr="3.13"),
        module("_arrow.cpython-312-x86_64-linux-gnu.so", "PyBytes_AS_STRING"),
    ]
    found = build_wheels.unstable_functions({"specs": {"a.whl": {"kind": "wheel", "wheel": modules}}})
    assert found == {"PyGILState_Check", "_Py_Secret", "PyObject_GetOptionalAttr"}


def test_the_allowed_functions_are_declared_in_one_header() -> None:
    header = (ROOT / "python/src/core/gil.hpp").read_text(encoding="utf-8")
    block = header[header.index('extern "C" {') : header.index("#endif")]
    assert set(re.findall(r"(_?Py\w+)\(", block)) == build_wheels.UNDECLARED


@pytest.fixture
def free_threaded(tmp_path: Path) -> Path:
    """A stand-in for a free-threaded Python."""
    made = tmp_path / "python3.13"
    program = "import sys; sys.abiflags = 't'; exec(sys.argv[1])"
    made.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$2"\n', encoding="utf-8")
    made.chmod(0o755)
    return made


def test_a_free_threaded_python_gets_no_wheel(free_threaded: Path) -> None:
    assert build_wheels.makes_environments(sys.executable)
    assert not build_wheels.makes_environments(str(free_threaded))


def test_a_build_for_a_free_threaded_python_fails_with_a_reason(free_threaded: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    project = f"""
cmake_minimum_required(VERSION 3.25)
project(trial LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "{ROOT}/cmake")
include(saeta_features)
saeta_feature(PYTHON "the Python package")
include(saeta_python)
add_subdirectory("{ROOT}/python" python)
"""
    (tmp_path / "CMakeLists.txt").write_text(project, encoding="utf-8")
    words = ["cmake", "-DSAETA_PYTHON=ON", f"-DSAETA_PYTHON_EXECUTABLE={free_threaded}"]
    done = subprocess.run(
        [*words, "-S", tmp_path, "-B", tmp_path / "build"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "is a free-threaded Python, and Saeta needs one with the GIL" in " ".join(done.stderr.split())


def test_notices_name_the_libraries_compiled_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "NOTICE" in project["license-files"]
    notices = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name in (
        "nanoarrow",
        "DLPack",
        "LZ4",
        "Zstandard",
        "CUDA Runtime",
        "nanobind",
        "robin_map",
        "Cython",
    ):
        assert name in notices, name


def test_a_release_is_refused_while_its_changelog_has_no_date(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"status": "", "tag": ""}
    monkeypatch.setattr(release, "output_of", lambda _git, command, *_: said[command])
    with pytest.raises(release.WheelError, match=r"CHANGELOG.md begins with .* expected '9.9.9, YYYY-MM-DD'"):
        release.require_ready("9.9.9")
    said["tag"] = "v9.9.9"
    with pytest.raises(release.WheelError, match="raise the version"):
        release.require_ready("9.9.9")
    said["status"] = " M README.md"
    with pytest.raises(release.WheelError, match="commit or remove first"):
        release.require_ready("9.9.9")
