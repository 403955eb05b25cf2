"""The installed CMake package configuration: its messages about missing components, and the paths in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
cmake_minimum_required(VERSION 3.25)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_PREFIX "{folder}")
set(SAETA_WITH_CUDA {cuda})
set(BUILD_SHARED_LIBS ON)
set(saeta_in_package FALSE)
set(saeta_PYTHON "")
file(WRITE "{folder}/saetaTargets.cmake" "")
file(COPY "{root}/cmake/saeta_find_rapids.cmake" DESTINATION "{folder}")
configure_package_config_file("{root}/cmake/saetaConfig.cmake.in" "{folder}/saetaConfig.cmake"
                              INSTALL_DESTINATION .)
find_package(saeta CONFIG PATHS "{folder}" NO_DEFAULT_PATH COMPONENTS {components})
message(STATUS "found: ${{saeta_FOUND}}")
"""


def find(tmp_path: Path, components: str, cuda: str = "FALSE") -> str:
    """Returns CMake's output in a project that calls find_package with these components."""
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    script = tmp_path / "find.cmake"
    script.write_text(
        PROGRAM.format(folder=tmp_path, root=ROOT, components=components, cuda=cuda), encoding="utf-8"
    )
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, timeout=60, check=False)
    return " ".join((done.stdout + done.stderr).split())


def test_the_error_for_a_component_names_its_build_option(tmp_path: Path) -> None:
    said = find(tmp_path, "cuda")
    assert "found: 0" in said
    assert "component cuda: this Saeta was built without the cuda backend" in said
    assert "SAETA_CUDA=ON" in said
    assert "SAETA_BRIDGE" not in said, "the bridge was not requested"


def test_the_error_names_every_missing_component(tmp_path: Path) -> None:
    said = find(tmp_path, "bridge cuda nothing")
    for name in (
        "component bridge: ",
        "component cuda: ",
        "component nothing: there are the components bridge, cuda, ipc, rmm and rapidsmpf",
    ):
        assert name in said


def test_the_error_for_an_adaptor_names_the_library_it_needs(tmp_path: Path) -> None:
    said = find(tmp_path, "rapidsmpf")
    assert "component rapidsmpf: it needs the component rmm: no RMM was found" in said
    assert "set saeta_RMM_ROOT" in said


def test_a_component_that_was_built_is_found(tmp_path: Path) -> None:
    assert "found: 1" in find(tmp_path, "cuda ipc", cuda="TRUE")


def test_the_configuration_has_no_paths_of_the_build_machine() -> None:
    template = (ROOT / "cmake/saetaConfig.cmake.in").read_text(encoding="utf-8")
    for variable in (
        "@SAETA_ARROW_LIBRARY@",
        "@SAETA_ARROW_LIBRARY_DIR@",
        "@PROJECT_SOURCE_DIR@",
        "@PROJECT_BINARY_DIR@",
    ):
        assert variable not in template


def test_a_wheel_holds_every_extension_module() -> None:
    built = (ROOT / "python/CMakeLists.txt").read_text(encoding="utf-8").replace("_${major}", "")
    modules = set(re.findall(r"^ *saeta_extension\((_\w+) ", built, re.MULTILINE))
    wheel = (ROOT / "cmake/saeta_install.cmake").read_text(encoding="utf-8").replace("_${major}", "")
    installed = set(re.findall(r"\b_\w+", " ".join(re.findall(r"modules ([^)]+)\)", wheel))))
    assert {"_core", "_ipc", "_bridge", "_rmm"} == modules == installed
    # The build adds an _arrow module for each Python to a global property, which the wheel reads.
    assert "APPEND PROPERTY saeta_classes ${target}" in built
    assert "get_property(classes GLOBAL PROPERTY saeta_classes)" in wheel
