"""An installation without CUDA on a machine with a GPU says so, once."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

import pytest

from saeta import _core
from saeta._report import host_only


@pytest.mark.parametrize(("built", "driver", "said"), [(False, True, 1), (False, False, 0), (True, True, 0)])
def test_a_gpu_that_stays_unused_is_named(monkeypatch, caplog, tmp_path, built, driver, said):
    monkeypatch.setattr(_core, "_runtime", lambda: {"built_with_cuda": built})
    monkeypatch.setattr(host_only, "DRIVER", tmp_path / "version")
    if driver:
        (tmp_path / "version").write_text("NVRM version: 580")
    with caplog.at_level(logging.WARNING, "saeta"):
        host_only.note()
    assert [record.message for record in caplog.records if "built without CUDA" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == said


def test_the_first_context_looks_once(run_python):
    program = """
import saeta as sa
from saeta._report import host_only
seen = []
host_only.note = lambda: seen.append(1)
assert not seen, "an import looks at nothing"
for _ in range(3):
    sa.context("host")
sa.table({"a": [1]}, "host")
print(len(seen))
"""
    done = run_python(program)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")


PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(built LANGUAGES NONE)
include({features})
set(SAETA_CUDA {chosen})
set(SAETA_WITH_CUDA {found})
add_custom_target(package ALL)
saeta_say_host_only(package)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize(
    ("chosen", "found", "said"), [("AUTO", False, True), ("AUTO", True, False), ("OFF", False, False)]
)
def test_a_build_without_a_toolkit_ends_with_a_note(tmp_path, chosen, found, said):
    features = Path(__file__).resolve().parents[2] / "cmake/saeta_features.cmake"
    project = PROJECT.format(features=features, chosen=chosen, found=str(found).upper())
    (tmp_path / "CMakeLists.txt").write_text(project)
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b"], check=True, capture_output=True)
    for _ in range(2):  # and when nothing was left to build
        done = subprocess.run(
            ["cmake", "--build", tmp_path / "b"], check=True, capture_output=True, text=True
        )
        assert ("note: built without CUDA, because no toolkit was found" in done.stdout) is said
