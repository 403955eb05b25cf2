"""clang-tidy checks each source of saeta/ alone and in its unity build batch, without precompiled headers."""

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
    commands = [
        {"directory": "/b", "file": str(ROOT / file), "command": f"c++ -c {ROOT / file}"} for file in files
    ]
    source = str(ROOT / "saeta/a.cpp")
    expected = [{"directory": "/b", "file": source, "arguments": ["c++", "-c", source]}]
    assert tidy.tidy_commands(commands, ROOT) == (expected, expected)


def test_each_source_of_a_unity_batch_gets_a_command_with_all_warnings(tmp_path: Path) -> None:
    batch = tmp_path / "Unity" / "unity_0_cxx.cxx"
    batch.parent.mkdir()
    sources = [str(ROOT / "saeta" / name) for name in ("a.cpp", "b.cpp")]
    batch.write_text(
        "/* made by CMake */\n" + "".join(f'#include "{source}"\n\n' for source in sources), encoding="utf-8"
    )
    command = f"c++ -Wshadow -Wno-shadow -c {batch}"
    entry = {"directory": "/b", "file": str(batch), "command": command}
    alone, together = tidy.tidy_commands([entry, dict(entry)], ROOT)
    assert [each["file"] for each in alone] == sources
    assert [each["arguments"] for each in alone] == [["c++", "-Wshadow", "-c", source] for source in sources]
    assert [(each["file"], each["arguments"]) for each in together] == [(str(batch), command.split())]


def test_the_warnings_disabled_in_batches_match_the_build() -> None:
    flags = (ROOT / "cmake/saeta_flags.cmake").read_text(encoding="utf-8")
    assert f"list(APPEND saeta_warning_flags {' '.join(sorted(tidy.OF_UNITY))})" in flags
