"""The programs of the page about C and Rust compile, and print what they should. So does one in Go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import saeta as sa
from c_library import library_path
from code_blocks import BLOCKS, ROOT

PAGE = "docs/guides/c.md"
PRINTED = ["1000 rows", "8000 bytes do not fit in 4096"]
GO = """package main

// #cgo CFLAGS: -I{root}
// #cgo LDFLAGS: {library} -Wl,-rpath,{folder}
// #include <stdlib.h>
// #include "saeta/capi/saeta.h"
import "C"
import ("fmt"; "os"; "unsafe")

func main() {{
    path := C.CString(os.Args[1])
    defer C.free(unsafe.Pointer(path))
    var ctx *C.saeta_context
    var table *C.saeta_table
    var rows C.int64_t
    C.saeta_context_open(nil, nil, &ctx)
    C.saeta_read(ctx, path, nil, &table)
    C.saeta_table_rows(table, &rows)
    C.saeta_release(unsafe.Pointer(table))
    C.saeta_release(unsafe.Pointer(ctx))
    fmt.Println(int64(rows), "rows")
}}
"""


@pytest.fixture(scope="module")
def trips(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("c") / "trips.arrow"
    sa.table({"fare": [1.5] * 1000, "city": ["Lima"] * 1000}, "host").write_ipc(file)
    return file


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def source_in(folder: Path, language: str, ending: str) -> Path:
    (block,) = [each for each in BLOCKS if each.page == PAGE and each.language == language]
    source = folder / f"trips.{ending}"
    source.write_text(block.text, encoding="utf-8")
    return source


def printed_by(command: list[str], trips: Path, built: list[str]) -> list[str]:
    done = subprocess.run(built, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    done = subprocess.run([*command, str(trips)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_in_c_is_c11_and_runs(tmp_path, trips):
    library = Path(library_path())
    program = str(tmp_path / "trips")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", f"-I{ROOT}", f"-Wl,-rpath,{library.parent}"]
    built = [compiler("cc"), *flags, str(source_in(tmp_path, "c", "c")), str(library), "-o", program]
    assert printed_by([program], trips, built) == PRINTED


def test_the_program_in_rust_runs(tmp_path, trips):
    library = Path(library_path())
    (tmp_path / "libsaeta.so").symlink_to(library)
    program = str(tmp_path / "trips")
    paths = ["-L", str(tmp_path), "-C", f"link-args=-Wl,-rpath,{library.parent}"]
    source = str(source_in(tmp_path, "rust", "rs"))
    built = [compiler("rustc"), "--edition", "2021", *paths, source, "-o", program]
    assert printed_by([program], trips, built) == PRINTED


def test_a_program_in_go_runs(tmp_path, trips, monkeypatch):
    library = Path(library_path())
    source = tmp_path / "trips.go"
    text = GO.format(root=ROOT, library=library, folder=library.parent)
    source.write_text(text, encoding="utf-8")
    monkeypatch.setenv("CGO_LDFLAGS_ALLOW", ".*")
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cache"))
    program = str(tmp_path / "trips")
    built = [compiler("go"), "build", "-o", program, str(source)]
    assert printed_by([program], trips, built) == PRINTED[:1]


def test_the_header_is_cpp_as_well(tmp_path):
    source = tmp_path / "both.cpp"
    source.write_text(
        '#include "saeta/interop/arrow/abi.hpp"\n#include "saeta/capi/saeta.h"\nint main() {}\n'
    )
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{ROOT}"]
    for order in (
        source.read_text(),
        '#include "saeta/capi/saeta.h"\n#include "saeta/interop/arrow/abi.hpp"\n',
    ):
        source.write_text(order)
        done = subprocess.run(
            [compiler("c++"), *flags, str(source)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
