#!/usr/bin/env python3
"""Compares what the libraries export with what tests/abi says, and prints the differences.

    abi.py BUILD            the exit code is 1 if anything differs
    abi.py BUILD --update   writes tests/abi anew (make abi)

tests/abi/symbols.list   the strong symbols of libsaeta.so and libsaeta_bridge.so, demangled, and the
                         types that have type information. Needs binutils.
tests/abi/saeta_h.abi    the functions, structs and constants of saeta.h, as abidw of libabigail writes them.
                         Needs g++ and abigail-tools. Members, functions and constants may be added, which is
                         a difference as well: it is written down by --update.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests/abi"
SYMBOLS = FOLDER / "symbols.list"
C_ABI = FOLDER / "saeta_h.abi"
LIBRARIES = ("libsaeta.so", "libsaeta_bridge.so")
# Kinds of nm: functions and variables. Inline functions and instances of templates are weak, and in every
# program that uses them.
STRONG = frozenset("TDBR")
OF_TYPES = ("vtable for ", "typeinfo for ")


def run(*command: str, text: str | None = None) -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def exported(library: Path) -> list[str]:
    """Returns the names that programs link with, sorted."""
    listing = run("nm", "--dynamic", "--defined-only", "--without-symbol-versions", str(library))
    kinds, names = zip(*(line.split()[-2:] for line in listing.splitlines()), strict=True)
    shown = run("c++filt", text="\n".join(names)).splitlines()
    found = zip(kinds, shown, strict=True)
    return sorted({name for kind, name in found if kind in STRONG or name.startswith(OF_TYPES)})


def all_exported(build: Path) -> str:
    parts = []
    for name in LIBRARIES:
        parts.append(f"# {name}\n")
        parts += [f"{symbol}\n" for symbol in exported(build / "lib" / name)]
    return "".join(parts)


def c_definitions(header: str) -> str:
    """Returns a program that defines what the header declares, so that its debug information has it all."""
    functions = re.findall(r"^SAETA_C_API ([^;]*);", header, re.MULTILINE)
    constants = re.findall(r"^enum \{\s*(\w+)", header, re.MULTILINE)
    lines = ['#include "saeta/capi/saeta.h"', 'extern "C" {']
    lines += [f"{function} {{ __builtin_trap(); }}" for function in functions]
    lines += [f"decltype({constant}) kind_of_{constant};" for constant in constants]
    return "\n".join([*lines, "}", ""])


def c_abi(header: str, folder: Path) -> Path:
    """Compiles the header of the C interface in the folder, and returns the file that abidw writes of it."""
    include = folder / "saeta/capi"
    include.mkdir(parents=True)
    (include / "saeta.h").write_text(header, encoding="utf-8")
    (folder / "all.cpp").write_text(c_definitions(header), encoding="utf-8")
    library, written = folder / "libsaeta_h.so", folder / "saeta_h.abi"
    options = ("-g", "-fPIC", "-shared", f"-ffile-prefix-map={folder}/=", "-I", str(folder))
    run("g++", *options, "-o", str(library), str(folder / "all.cpp"))
    hidden = ("--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--no-elf-needed")
    run("abidw", *hidden, "--out-file", str(written), str(library))
    return written


def c_differences(header: str, expected: Path = C_ABI) -> str:
    """Returns what abidiff says about the header and the expected ABI; empty if they are the same."""
    with tempfile.TemporaryDirectory() as folder:
        current = c_abi(header, Path(folder))
        command = ("abidiff", "--no-show-locs", str(expected), str(current))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr if done.returncode else ""


def symbol_differences(expected: str, found: str) -> list[str]:
    before, after = set(expected.splitlines()), set(found.splitlines())
    gone = [f"gone: {name}" for name in sorted(before - after)]
    return gone + [f"new: {name}" for name in sorted(after - before)]


def main(arguments: list[str]) -> int:
    header = (ROOT / "saeta/capi/saeta.h").read_text(encoding="utf-8")
    found = all_exported(Path(arguments[0]))
    if "--update" in arguments:
        SYMBOLS.write_text(found, encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            C_ABI.write_bytes(c_abi(header, Path(folder)).read_bytes())
        return 0
    differences = symbol_differences(SYMBOLS.read_text(encoding="utf-8"), found)
    print("\n".join([*differences, c_differences(header)]).rstrip())
    return 1 if differences or c_differences(header) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
