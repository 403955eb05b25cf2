"""Small bugs in C++ sources, one token or one statement each: what scripts/mutants.py plants and the tests
must find.

A bug is a `Mutation`: in a file, at a line and a column, `old` becomes `new`. `mutations_below` finds all of
them below a folder, always in the same order; `draw` takes some of them by a seed.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = (".cpp", ".hpp")
# Needs a GPU, is a test itself, or only names things.
LEFT_OUT = ("saeta/backend/cuda", "saeta/backend/sim", "saeta/rmm", "saeta/rapidsmpf")

COMPARISONS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "*": "+", "/": "*", "%": "/"}
STEPS = {"++": "--", "--": "++"}
EXTREMES = {"std::min": "std::max", "std::max": "std::min"}

BINARY = re.compile(r"(?<=[\w)\]}] )(==|!=|<=|>=|<|>|&&|\|\||\+=|-=|[-+*/%])(?= [\w(!*&~:-])")
STEP = re.compile(r"(\+\+|--)(?=[\w(])|(?<=[\w)\]])(\+\+|--)")
EXTREME = re.compile(r"std::(?:min|max)(?=[(<])")
NUMBER = re.compile(r"(?<![\w.'\"])(\d+)(?=[uUlL]*(?![\w.'\"]))")
TRUTH = re.compile(r"\b(true|false)\b")
CONDITION = re.compile(r"\b(if|while) \(")
NEGATION = re.compile(r"(?<=[(\s])!(?=[\w(])")
CALL = re.compile(r"^\s+(?:static_cast<void>\()?(?:[\w:]+(?:\.|->|::))*[\w:]+(?:<[\w:]+>)?\(.*\);\s*$")
COUNT = re.compile(r"^\s+(?:\+\+|--)[\w.>\[\]()-]+;\s*$|^\s+[\w.>\[\]()-]+ [-+|&]?= [^;{]+;\s*$")

# Not compiled where there is no CUDA toolkit, and not run where there is no GPU.
WITH_CUDA = re.compile(r"^#if SAETA_HAS_CUDA\n.*?(?=^#e)", re.MULTILINE | re.DOTALL)

# Nothing that a test could see, or no code that runs.
QUIET = re.compile(
    r"\breserve\(|memory_order|static_assert|alignas|\btemplate\b|\boperator|\breport\("
    r"|report_current_exception|"
    r"\bassert\(|\bvirtual\b|= delete|\bnoexcept\(|\busing\b|\bfriend\b|__attribute|NOLINT|\brequires\b"
)
NOT_A_CALL = re.compile(
    r"^\s*(?:return|throw|delete|new|else|case|if|for|while|switch|do|co_\w+)\b|^\s*[\w:]+\s*\(\)\s*;"
)


@dataclass(frozen=True, order=True)
class Mutation:
    """One small bug. `path` is relative to the tree; `line` counts from 1, `column` from 0."""

    path: str
    line: int
    column: int
    old: str
    new: str
    kind: str

    def text(self, root: Path) -> str:
        """The line that it changes, without the spaces around it."""
        return self.line_of(root).strip()

    def change(self, root: Path) -> str:
        """As it stands in tests/mutants/equivalent.txt: which text becomes which, from which column of the
        text on."""
        line = self.line_of(root)
        return f"{self.old} -> {self.new or 'nothing'} at {self.column - len(line) + len(line.lstrip())}"

    def line_of(self, root: Path) -> str:
        return (root / self.path).read_text(encoding="utf-8").split("\n")[self.line - 1]

    def changed(self, root: Path) -> str:
        """The whole file with the bug; the tree at `root` does not have it."""
        lines = (root / self.path).read_text(encoding="utf-8").split("\n")
        line = lines[self.line - 1]
        if line[self.column : self.column + len(self.old)] != self.old:
            raise ValueError(f"{self.path}:{self.line} has changed")
        lines[self.line - 1] = line[: self.column] + self.new + line[self.column + len(self.old) :]
        return "\n".join(lines)

    def patch(self, root: Path) -> str:
        before = (root / self.path).read_text(encoding="utf-8").split("\n")
        after = self.changed(root).split("\n")
        lines = difflib.unified_diff(before, after, f"a/{self.path}", f"b/{self.path}", lineterm="", n=1)
        return "\n".join(lines)


def code_of(source: str) -> list[str]:
    """The lines with comments, strings and preprocessor lines replaced by spaces, so that columns stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
    )
    blanked = token.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    blanked = WITH_CUDA.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), blanked)
    return [" " * len(line) if line.lstrip().startswith("#") else line for line in blanked.split("\n")]


def closing(line: str, opened: int) -> int | None:
    """Column of the bracket that closes the one at `opened`; None when it is on a later line."""
    depth = 0
    for column in range(opened, len(line)):
        depth += {"(": 1, ")": -1}.get(line[column], 0)
        if depth == 0:
            return column
    return None


def changes_of(line: str) -> Iterator[tuple[int, str, str, str]]:
    """Column, old text, new text and kind of every bug of one line of code."""
    for found in BINARY.finditer(line):
        old = found[1]
        for table, kind in ((COMPARISONS, "comparison"), (LOGIC, "logic"), (ARITHMETIC, "arithmetic")):
            if old in table:
                yield found.start(1), old, table[old], kind
    for found in STEP.finditer(line):
        yield found.start(), found[0], STEPS[found[0]], "arithmetic"
    for found in EXTREME.finditer(line):
        yield found.start(), found[0], EXTREMES[found[0]], "extreme"
    for found in NUMBER.finditer(line):
        number = int(found[1])
        yield found.start(), found[1], str(number + 1), "constant"
        if number > 1:
            yield found.start(), found[1], str(number - 1), "constant"
    for found in TRUTH.finditer(line):
        yield found.start(), found[0], "false" if found[0] == "true" else "true", "truth"
    for found in NEGATION.finditer(line):
        yield found.start(), "!", "", "negation"
    for found in CONDITION.finditer(line):
        opened = found.end() - 1
        closed = closing(line, opened)
        if closed is not None and "=" not in re.sub(r"[=!<>]=", "", line[opened:closed]):
            old = line[opened + 1 : closed]
            yield opened + 1, old, "false", "condition"
            if found[1] == "if":
                yield opened + 1, old, "true", "condition"
    if (
        CALL.match(line) and not NOT_A_CALL.match(line) and line.count("(") == line.count(")")
    ) or COUNT.match(line):
        start = len(line) - len(line.lstrip())
        yield start, line[start:].rstrip(), ";", "dropped statement"


def mutations_of(root: Path, path: str) -> list[Mutation]:
    source = (root / path).read_text(encoding="utf-8")
    original = source.split("\n")
    found = []
    for number, line in enumerate(code_of(source), start=1):
        if QUIET.search(line):
            continue
        for column, old, new, kind in changes_of(line):
            # Strings in a condition or a statement were blanked: the text is taken from the source.
            real = original[number - 1][column : column + len(old)]
            found.append(Mutation(path, number, column, real, new, kind))
    return found


def mutations_below(root: Path, folder: str, sources_only: bool = False) -> list[Mutation]:
    """Every bug below a folder, sorted."""
    suffixes = SOURCES[:1] if sources_only else SOURCES
    paths = sorted(p for p in (root / folder).rglob("*") if p.suffix in suffixes)
    if (root / folder).is_file():
        paths = [root / folder]
    found: list[Mutation] = []
    for path in paths:
        relative = path.relative_to(root).as_posix()
        if not relative.startswith(LEFT_OUT):
            found += mutations_of(root, relative)
    return sorted(found)


def draw(found: list[Mutation], count: int, seed: str) -> list[Mutation]:
    """`count` of them in an order that the seed gives. A bug that is gone or new leaves the order of the
    others."""

    def place(bug: Mutation) -> str:
        named = f"{seed} {bug.path}:{bug.line}:{bug.column} {bug.old} {bug.new}"
        return hashlib.sha256(named.encode()).hexdigest()

    return sorted(found, key=place)[:count]


def read_equivalent(listing: Path) -> set[tuple[str, str, str]]:
    """Path, line text and change of the bugs that no test can find, because they change nothing that can
    be seen."""
    known = set()
    for number, line in enumerate(listing.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 4 or not all(parts):
            raise ValueError(f"{listing.name}:{number}: expected path | line | change | reason")
        known.add((parts[0], parts[1], parts[2]))
    return known
