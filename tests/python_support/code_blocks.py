"""Finds the code blocks of README and of the pages in docs, and the markers that say how each is run, and
compiles those of C++.

The line above a block may be a marker. `<!-- gpu: torch -->`: the block needs a GPU and that module.
`<!-- not run: why -->`: no test runs the block.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"^(?:<!-- (?:gpu: (?P<gpu>[\w.]+)|not run: (?P<why>.+)) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    page: str
    """Relative to the root, with slashes."""
    language: str
    text: str
    gpu: str | None
    """The module that it needs beside a GPU."""
    not_run: str | None
    """Why nobody runs it."""


def blocks_of(page: Path) -> list[Block]:
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(name, found["language"], found["text"], found["gpu"], found["why"])
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def program(page: str, *, on_gpu: bool = False) -> str:
    """Returns the Python blocks of a page as one program: either those that need a GPU or the others."""
    return "\n".join(
        block.text
        for block in BLOCKS
        if block.page == page
        and block.language == "python"
        and not block.not_run
        and (block.gpu is not None) == on_gpu
    )


def pages_with_programs(*, on_gpu: bool = False) -> list[str]:
    return [page for page in dict.fromkeys(block.page for block in BLOCKS) if program(page, on_gpu=on_gpu)]


def promised(text: str) -> list[str]:
    """Returns the output that a program promises in the comments after its `print` calls."""
    return re.findall(r"^ *print\(.*\)\s+# (.*)$", text, re.MULTILINE)


def missing_modules(text: str) -> list[str]:
    """Returns the modules that a program imports at its top level and that are not installed."""
    imported: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            imported.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
        elif not isinstance(node, ast.FunctionDef):
            nodes.extend(ast.iter_child_nodes(node))
    roots = {name.partition(".")[0] for name in imported}
    return sorted(root for root in roots if importlib.util.find_spec(root) is None)


def compile_command(like: str, source: Path) -> tuple[list[str], str]:
    """Returns the compile command of the source `like` of the build, changed to `source`, and its
    directory."""
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD does not name the build folder, which has the commands of the compiler")
    commands = json.loads(Path(build, "compile_commands.json").read_text(encoding="utf-8"))
    for entry in commands:
        if like in entry["command"] and "cmake_pch" not in entry["file"]:
            kept = []
            words = iter(shlex.split(entry["command"]))
            for word in words:
                if word in ("-o", "-c", "-include"):
                    next(words)
                elif word not in ("-Winvalid-pch", "-fpch-preprocess"):
                    kept.append(word)
            checked = ["-fsyntax-only"] if source.suffix == ".cpp" else ["-o", str(source.with_suffix(".o"))]
            return [*kept, *checked, "-c", str(source)], entry["directory"]
    pytest.skip(f"this build has no {like}")
