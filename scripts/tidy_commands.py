#!/usr/bin/env python3
"""Writes compile commands for clang-tidy from those of a build: only saeta/, without precompiled headers.

    tidy_commands.py BUILD      writes compile_commands.json to BUILD/tidy/single and to BUILD/tidy/batch

`single` compiles each source by itself, so that missing includes are errors. `batch` compiles a dozen sources
of a target as one, as the unity build does: clang-tidy spends most of its time in headers of the standard
library, which it then reads once for all of them.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

PRECOMPILED = "cmake_pch.hxx"
OF_PRECOMPILED = frozenset({"-Winvalid-pch", "-fpch-preprocess"})
# Warnings that cmake/saeta_flags.cmake disables only in unity builds.
OF_UNITY = frozenset({"-Wno-shadow", "-Wno-subobject-linkage"})
Command = dict[str, object]


def without_precompiled(command: str) -> list[str]:
    arguments: list[str] = []
    for argument in shlex.split(command):
        if argument.endswith(PRECOMPILED) and arguments[-1:] == ["-include"]:
            arguments.pop()
        elif argument not in OF_PRECOMPILED:
            arguments.append(argument)
    return arguments


def sources_of(file: Path) -> list[str]:
    """Returns the sources that a unity source includes, or the file itself if it is an ordinary source."""
    if file.parent.name != "Unity":
        return [str(file)]
    return re.findall(r'^#include "(.*)"$', file.read_text(encoding="utf-8"), re.MULTILINE)


def tidy_commands(commands: list[dict[str, str]], root: Path) -> tuple[list[Command], list[Command]]:
    """Returns the commands of single sources and of unity sources.

    A source that belongs to two targets is taken once.
    """
    single: dict[str, Command] = {}
    batch: list[Command] = []
    for entry in commands:
        file = entry["file"]
        sources = [
            source
            for source in sources_of(Path(file))
            if source.endswith(".cpp") and Path(source).is_relative_to(root / "saeta")
        ]
        if all(source in single for source in sources):
            continue
        arguments = without_precompiled(entry["command"])
        batch.append({"directory": entry["directory"], "file": file, "arguments": arguments})
        for source in sources:
            alone = [source if each == file else each for each in arguments if each not in OF_UNITY]
            single[source] = {"directory": entry["directory"], "file": source, "arguments": alone}
    return list(single.values()), batch


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    root = Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for name, chosen in zip(("single", "batch"), tidy_commands(commands, root), strict=True):
        folder = build / "tidy" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compile_commands.json").write_text(json.dumps(chosen, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
