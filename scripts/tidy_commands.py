#!/usr/bin/env python3
"""Writes the compile commands of a build for clang-tidy: those of saeta/, without precompiled headers.

    tidy_commands.py BUILD      writes BUILD/tidy/compile_commands.json

Without the precompiled header a file that does not include what it uses does not compile.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

PRECOMPILED = "cmake_pch.hxx"
OF_PRECOMPILED = frozenset({"-Winvalid-pch", "-fpch-preprocess"})


def without_precompiled(command: str) -> list[str]:
    arguments: list[str] = []
    for argument in shlex.split(command):
        if argument.endswith(PRECOMPILED) and arguments[-1:] == ["-include"]:
            arguments.pop()
        elif argument not in OF_PRECOMPILED:
            arguments.append(argument)
    return arguments


def tidy_commands(commands: list[dict[str, str]], root: Path) -> list[dict[str, object]]:
    """What is compiled of saeta/ by C++: each source once, also where two targets have it."""
    sources: dict[str, dict[str, object]] = {}
    for entry in commands:
        source = Path(entry["file"])
        if source.suffix == ".cpp" and source.is_relative_to(root / "saeta"):
            sources[entry["file"]] = {
                "directory": entry["directory"],
                "file": entry["file"],
                "arguments": without_precompiled(entry["command"]),
            }
    return list(sources.values())


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    root = Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    text = json.dumps(tidy_commands(commands, root), indent=1)
    (folder / "compile_commands.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
