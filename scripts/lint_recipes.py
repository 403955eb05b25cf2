#!/usr/bin/env python3
"""Checks that the recipes of CONTRIBUTING.md list every place that they need; exit code 1 where one does not.

    lint_recipes.py [--write] [ROOT]

A list stands between two comments, `<!-- places of NAME -->` and `<!-- end of places of NAME -->`, and says
how many files it has. PLACES says how they are found: the files below some folders in which a pattern occurs.
For a recipe whose steps are the same for everything of its kind, the pattern is one that exists already.
--write brings the lists up to date.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = "CONTRIBUTING.md"
COLUMNS = 110
TEXT = frozenset({".hpp", ".cpp", ".cu", ".cuh", ".py", ".pyx", ".txt", ".cmake", ".md", ".sh"})


@dataclass(frozen=True)
class Places:
    """Files below `folders` (or files themselves) in which `pattern` occurs."""

    pattern: str
    folders: tuple[str, ...]


PLACES = {
    # A type of fixed width with a meaning of its own.
    "a type": Places(
        r"\btype_id::duration\b|^  duration,|[\"'\[]duration",
        (
            "saeta/column",
            "saeta/interop",
            "saeta/ipc",
            "python/saeta",
            "tests/support",
            "tests/python_support",
        ),
    ),
    # Files that name a layout, or that treat the parts of a description (column/layout.hpp) case by case.
    # Checks in saeta/device and the backends are kernels.
    "a layout": Places(
        r"\blayout_kind::|\bcase (buffer_role|row_mapping|check_kind)::",
        (
            "saeta/column",
            "saeta/transfer",
            "saeta/compute",
            "saeta/interop",
            "saeta/ipc",
            "saeta/bridge",
            "python",
        ),
    ),
    "a kernel": Places(
        r"\bgather_strided\b",
        ("saeta/device", "saeta/backend", "tests/unit/device", "tests/conformance/device"),
    ),
    # The CUDA Array Interface, which is the smallest.
    "a protocol": Places(
        r"\b(_?cuda_array|\w*cuda_array_interface\w*|\w+_cuda_array)\b",
        ("saeta", "python", "scripts/exchange_table.py", "tests/conformance", "docs/guides"),
    ),
    # The host's.
    "a backend": Places(
        r"\bbackend_host\b|\bbackend/host\b|\bhost_backend\b",
        (
            "saeta/CMakeLists.txt",
            "saeta/backend",
            "saeta/runtime",
            "scripts/lint_structure.py",
            "tests/conformance/harness",
        ),
    ),
}


def files_below(root: Path, folder: str) -> Iterator[Path]:
    start = root / folder
    yield from (start,) if start.is_file() else (path for path in start.rglob("*") if path.suffix in TEXT)


def found_places(root: Path, places: Places) -> list[str]:
    pattern = re.compile(places.pattern, re.MULTILINE)
    files = {path for folder in places.folders for path in files_below(root, folder)}
    return sorted(
        path.relative_to(root).as_posix()
        for path in files
        if "__pycache__" not in path.parts and pattern.search(path.read_text(encoding="utf-8"))
    )


def block_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- places of {name} -->\n)(.*?\n|)(<!-- end of places of {name} -->)", re.DOTALL)


def list_of(name: str, paths: list[str]) -> str:
    head = f"The {len(paths)} places of {name}:"
    text = f"{head} {', '.join(f'`{path}`' for path in paths)}."
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def differences(name: str, text: str, found: list[str]) -> Iterator[str]:
    """What a page says wrong about the places of a recipe."""
    block = block_of(name).search(text)
    if block is None:
        yield f"{PAGE}: no list of the places of {name}"
        return
    listed = re.findall(r"`([^`]+)`", block[2])
    yield from (f"{PAGE}: places of {name}: {path} is not listed" for path in found if path not in listed)
    yield from (f"{PAGE}: places of {name}: {path} is none any more" for path in listed if path not in found)
    count = re.match(r"The (\d+) places", block[2])
    if count is None or int(count[1]) != len(found):
        yield f"{PAGE}: places of {name}: there are {len(found)}"


def main() -> int:
    arguments = sys.argv[1:]
    write = "--write" in arguments
    roots = [argument for argument in arguments if argument != "--write"]
    root = Path(roots[0]) if roots else Path(__file__).resolve().parent.parent
    page = root / PAGE
    text = page.read_text(encoding="utf-8")
    findings: list[str] = []
    for name, places in PLACES.items():
        found = found_places(root, places)
        if write:
            replaced = rf"\g<1>{list_of(name, found)}\n\g<3>"
            text = block_of(name).sub(replaced, text)
        findings += differences(name, text, found)
    if write:
        page.write_text(text, encoding="utf-8")
    for finding in findings:
        print(finding)
    if findings:
        print("scripts/lint_recipes.py --write renews the lists; read the steps above them, too")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
