#!/usr/bin/env python3
"""Checks the style of comments and pages, line by line, and prints what breaks a rule; exit code 1 then.

    lint_style.py [ROOT]

The rules:
  columns   no line has more than 110 columns; in a page tables and lines that only a link makes long may,
            and shell scripts are not looked at
  opener    no comment, docstring, paragraph or item begins with the word "Of"
  negation  "is not a stream", never the short form with "no"; after "there" it is plain English

FOLDERS says where they hold. Pages are Markdown files; in other files the words of comments are looked at.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Folders, and the files of the root by their ending.
FOLDERS = ("docs", "scripts", "tests", "saeta", "python", "bench", "examples")
ROOT_FILES = "*.md"
COLUMNS = 110
C_LIKE = frozenset({".cpp", ".hpp", ".cu", ".cuh"})
CHECKED = C_LIKE | {".py", ".sh", ".md"}

OPENER = re.compile(r"^Of\b")
NEGATION = re.compile(
    r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b)\w+", re.IGNORECASE
)
LINK = re.compile(r"\]\([^)]*\)|https?://\S+")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) +")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


@dataclass(frozen=True)
class Prose:
    """A line of a comment or a page, without its marks, and whether a comment, paragraph or item begins
    with it."""

    line: int
    text: str
    begins: bool


def prose_of_comments(lines: list[tuple[int, str]]) -> Iterator[Prose]:
    """Lines of comments with their numbers: those that follow each other are one comment, parted by empty
    ones."""
    before, empty = -1, True
    for number, text in lines:
        if text:
            yield Prose(number, text, empty or number != before + 1)
        before, empty = number, not text


def c_comments(source: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for number, line in enumerate(source.splitlines(), 1):
        # A comment begins a line or follows code; "//" within a string (an address) follows a colon.
        comment = re.search(r"(?<![:\"'])//+[!/<]*\s?(.*)$|^\s*/?\*+\s?(.*?)(?:\*/)?$", line)
        if comment:
            found.append((number, (comment[1] if comment[1] is not None else comment[2] or "").strip()))
    return found


def python_comments(source: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    found = [(token.start[0], token.string.lstrip("#! ").strip()) for token in comments]
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and ast.get_docstring(node):
            text = str(first.value.value).splitlines()
            found += [(first.lineno + index, line.strip()) for index, line in enumerate(text)]
    return sorted(found)


def shell_comments(source: str) -> list[tuple[int, str]]:
    numbered = enumerate(source.splitlines(), 1)
    found = ((number, re.search(r"(?:^|\s)#(?!!)\s?(.*)$", line)) for number, line in numbered)
    return [(number, comment[1].strip()) for number, comment in found if comment]


def prose_of_page(page: str) -> Iterator[Prose]:
    """Lines of a page outside of blocks of code, without what stands in backticks."""
    in_block, empty = False, True
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block and line.strip():
            text = re.sub(r"`[^`]*`", "`", ITEM.sub("", line)).strip()
            yield Prose(number, text.lstrip("*"), empty or ITEM.match(line) is not None)
        empty = not line.strip()


def prose_of(path: str, source: str) -> Iterator[Prose]:
    suffix = Path(path).suffix
    if suffix == ".md":
        yield from prose_of_page(source)
    else:
        comments = {".py": python_comments, ".sh": shell_comments}.get(suffix, c_comments)
        yield from prose_of_comments(comments(source))


def long_lines(path: str, source: str) -> Iterator[int]:
    page = path.endswith(".md")
    if path.endswith(".sh"):
        return
    for number, line in enumerate(source.splitlines(), 1):
        free = page and (line.startswith("|") or len(LINK.sub("", line)) <= COLUMNS // 2)
        if len(line) > COLUMNS and not free:
            yield number


def check_file(path: str, source: str) -> Iterator[Finding]:
    """Findings of one file; `path` is relative to the root, with slashes."""
    for line in long_lines(path, source):
        yield Finding(path, line, "columns", f"more than {COLUMNS} columns")
    for prose in prose_of(path, source):
        if prose.begins and OPENER.match(prose.text):
            yield Finding(path, prose.line, "opener", f'begins with "Of": {prose.text[:40]}')
        for found in NEGATION.findall(prose.text):
            yield Finding(path, prose.line, "negation", f'"{found}": say "is not a" or "has no"')


def checked_files(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob(ROOT_FILES))
    for folder in FOLDERS:
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in CHECKED)


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = [
        finding
        for file in checked_files(root)
        for finding in check_file(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    ]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
