"""clang-tidy sees each source of saeta/ once and without the precompiled headers of the build."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import tidy_commands as tidy  # noqa: E402


def test_precompiled_headers_are_left_out() -> None:
    precompiled = "-fpch-preprocess -Winvalid-pch -include /b/cmake_pch.hxx"
    command = f"c++ -Ia {precompiled} -include other.hpp -c a.cpp -o 'a b.o'"
    assert tidy.without_precompiled(command) == [
        *("c++", "-Ia", "-include", "other.hpp", "-c", "a.cpp", "-o", "a b.o"),
    ]


def test_sources_of_the_library_are_taken_once() -> None:
    files = ("saeta/a.cpp", "saeta/a.cpp", "saeta/b.cu", "tests/c.cpp", "build/cmake_pch.hxx.cxx")
    commands = [{"directory": "/b", "file": str(ROOT / file), "command": f"c++ -c {file}"} for file in files]
    assert tidy.tidy_commands(commands, ROOT) == [
        {"directory": "/b", "file": str(ROOT / "saeta/a.cpp"), "arguments": ["c++", "-c", "saeta/a.cpp"]}
    ]
