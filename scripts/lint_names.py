#!/usr/bin/env python3
"""Checks that every name in backticks in the documentation exists; exit code 1 where one does not.

    lint_names.py [ROOT]

What a name must match depends on its shape:
  a/b.hpp, b.hpp  a file or folder of the tree, from the root or from saeta/
  make x          a target of the Makefile
  a::b            a declaration of b in the body of a class, structure or enumeration a; for the namespace
                  saeta any declaration in a header, or a CMake target
  ctx.a.b         attributes, followed through the stubs and the modules of the package
  --option        an option of a program of the tree
  other words     words of the code: sources, scripts, tests, build files. Comments do not count.

FOREIGN lists names of other projects.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from lint_structure import CODE, without_comments

CODE_FOLDERS = ("saeta", "python", "scripts", "tests", "bench", "examples", "cmake")
BUILD_FILES = ("CMakeLists.txt", "CMakePresets.json", "Makefile", "pyproject.toml")
TEXT = CODE | {".py", ".pyi", ".sh", ".cmake", ".txt", ".json", ".in"}
STUB = "python/saeta/_core.pyi"
OWN_FILES = {"lint_names.py", "test_lint_names.py"}  # they name what does not exist

# Columns of tables that name another project's things: page -> how many, from the left.
FOREIGN_COLUMNS = {
    "docs/coming-from-xlog.md": 2,
    "docs/coming-from-pyarrow-cuda.md": 1,
    "docs/coming-from-rmm.md": 1,
}
# Whole spans that do not name anything of this tree.
FOREIGN = {
    "../shared/data": "a folder beside the checkout",
    "abfs://container/key": "a URL",
    "~/.aws/credentials": "a file of AWS",
    "--no-build-isolation": "pip",
    "golden/": "a folder of the shared data",
    "dist/": "made by make wheel",
    ".deps/venv": "made by setup.py",
    ".deps/": "made by setup.py",
    ".pre-commit-config.yaml": "a file whose ending no other has",
    ".deps": "made by setup.py",
    "/usr/local/cuda": "a folder of the system",
    "/usr/src": "a folder of the system",
    "memory-host-4711.csv": "an example",
    "OUT/bench.tar.gz": "a file that gpu_check.sh writes",
    "rmm::device_buffer": "RMM",
    "rmm::out_of_memory": "RMM",
    "saeta.budget.host": "a key of Dask's configuration",
    "saeta.budget.device": "a key of Dask's configuration",
    "DASK_DISTRIBUTED__COMM__SHARD=1GiB": "a variable of Dask",
    "DASK_SAETA__BUDGET__DEVICE": "a variable that Dask makes a key of",
    "--preload saeta.dask": "dask",
    "saeta/backend/<name>/": "a pattern",
    "saeta/backend/<name>/CMakeLists.txt": "a pattern",
}
# Words and first parts of dotted names that belong to other projects.
FOREIGN_WORDS = {
    "AWS_ACCESS_KEY_ID": "AWS",
    "AWS_SECRET_ACCESS_KEY": "AWS",
    "AWS_SESSION_TOKEN": "AWS",
    "AzureBlobFileSystem": "adlfs",
    "AzureFileSystem": "pyarrow",
    "CallbackMemoryResource": "RMM",
    "GOOGLE_APPLICATION_CREDENTIALS": "Google Cloud",
    "GcsFileSystem": "pyarrow",
    "LazyFrame": "polars",
    "S3FileSystem": "pyarrow",
    "Tensor": "torch",
    "adlfs": "fsspec",
    "aiohttp": "aiohttp",
    "apt": "Debian",
    "arrow": "Apache Arrow",
    "async_op": "torch",
    "cuCtxRecordEvent": "CUDA",
    "dask": "Dask",
    "gcsfs": "fsspec",
    "glibc": "glibc",
    "is_pure": "polars",
    "jax_enable_x64": "JAX",
    "pd": "pandas",
    "ray": "Ray",
    "record_stream": "torch",
    "register_io_source": "polars",
    "s3fs": "fsspec",
    "snake_case": "a way to write names",
    "std": "C++",
    "sys": "Python",
    "torch": "torch",
    "types_mapper": "pyarrow",
    "urllib": "Python",
    "zcat": "gzip",
}
# Variables of examples, and the class of what they hold. Names of classes stand for themselves.
VARIABLES = {
    "ctx": "Context",
    "buffer": "Buffer",
    "token": "UseToken",
    "window": "MemoryWindow",
    "recording": "MemoryRecording",
}
PACKAGE = ("sa", "saeta")


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


class Package:
    """What the Python package offers, read from its sources and stubs without importing it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: set[str] = set()  # of the package itself
        self.classes: dict[str, dict[str, str | None]] = {}  # members and what they are annotated to give
        self.modules: dict[str, set[str]] = {}
        packages = [path.parent for path in folder.glob("*/__init__.py")]
        files = [
            *folder.glob("*.py"),
            *folder.glob("*.pyi"),
            *(file for each in packages for file in each.glob("*.py")),
        ]
        for path in sorted(files):
            module = ast.parse(path.read_text(encoding="utf-8"))
            inner = path.parent != folder
            name = path.parent.name if inner and path.stem == "__init__" else path.stem
            # Modules of a package are its own business; their classes are not.
            names = set() if inner and path.stem != "__init__" else self.modules.setdefault(name, set())
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, {}).update(self._members(node))
            for node in module.body:
                names |= self._defined(node)
        self.names = self.modules.get("__init__", set())

    @staticmethod
    def _defined(node: ast.stmt) -> set[str]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            return {node.name}
        if isinstance(node, ast.Import | ast.ImportFrom):
            return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Assign):
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            return {node.target.id}
        return set()

    def _members(self, node: ast.ClassDef) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for each in node.body:
            given = each.returns if isinstance(each, ast.FunctionDef) else getattr(each, "annotation", None)
            annotation = ast.unparse(given) if given is not None else None
            found |= dict.fromkeys(self._defined(each), annotation)
        return found

    def has(self, root: str, attributes: list[str]) -> bool:
        """Whether the attributes can be followed from the root. What nothing is known about is believed."""
        if root in PACKAGE:
            return self._has_name(attributes)
        return self._follow(VARIABLES.get(root, root), attributes)

    def _has_name(self, path: list[str]) -> bool:
        first, *rest = path
        if first in self.modules and not first.startswith("_") and rest:
            return rest[0] in self.modules[first]
        return first in self.names | self.modules.keys() and self._follow(first, rest)

    def _follow(self, name: str | None, attributes: list[str]) -> bool:
        members = self.classes.get(name or "")
        if not attributes or members is None:
            return True
        return attributes[0] in members and self._follow(members[attributes[0]], attributes[1:])


class Tree:
    """What the names of the documentation are looked up in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = Package(root / "python" / "saeta")
        self.words: set[str] = set()
        self.options: set[str] = set()
        self.files: set[str] = set()
        headers = []
        for path in self._sources():
            self.files.add(path.name)
            if path.suffix in TEXT and path.name not in OWN_FILES:
                code = self._code(path)
                self.words |= set(re.findall(r"\w+", code))
                self.words |= {f"SAETA_{name}" for name in re.findall(r"\bsaeta_feature\((\w+)", code)}
                self.options |= set(OPTION.findall(code))
                if path.suffix == ".hpp" and path.is_relative_to(root / "saeta"):
                    headers.append(code)
        self.declarations = "\n".join(headers)
        makefile = (root / "Makefile").read_text(encoding="utf-8")
        self.targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    def _sources(self) -> Iterator[Path]:
        yield from (self.root / name for name in BUILD_FILES if (self.root / name).is_file())
        for folder in CODE_FOLDERS:
            yield from sorted(path for path in (self.root / folder).rglob("*") if path.is_file())
        yield from self.root.glob("*.md")

    @staticmethod
    def _code(path: Path) -> str:
        text = path.read_text(encoding="utf-8")
        if path.suffix in CODE:
            return without_comments(text)
        if path.suffix == ".py":
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            return " ".join(token.string for token in tokens if token.type != tokenize.COMMENT)
        return text

    def has_path(self, name: str) -> bool:
        if "/" not in name:
            return name in self.files or (self.root / name).exists()
        return any(any(folder.glob(name.rstrip("/"))) for folder in (self.root, self.root / "saeta"))

    def has_member(self, owner: str, member: str) -> bool:
        if owner == "saeta":
            return (
                re.search(rf"\b{member}\b", self.declarations) is not None or f"saeta_{member}" in self.words
            )
        head = rf"^( *)(?:class|struct|enum class) {owner}\b[^;{{]*\{{"
        bodies = re.findall(
            head + r"(?:([^\n]*)\};$|(.*?)^\1\};)", self.declarations, re.MULTILINE | re.DOTALL
        )
        return any(re.search(rf"\b{member}\b", part) for body in bodies for part in body[1:])


PATH = re.compile(
    r"(?<![\w./:-])(?:[\w.*-]+/)+[\w.*-]*|(?<![\w./-])[\w-]+\.(?:[ch]pp|py|pyi|sh|cmake|txt|md|csv)\b"
)
DOTTED = re.compile(r"(?<![\w.])([A-Za-z]\w*)((?:\.[A-Za-z_]\w*)+)")


def unknown_names(span: str, tree: Tree) -> Iterator[str]:
    """Names of one span in backticks that do not exist."""
    rest = span
    if span.startswith("make "):
        yield from (name for name in span.split()[1:] if name[0].islower() and name not in tree.targets)
        return
    rest = re.sub(r'"[^"]*"|\'[^\']*\'', lambda found: found[0] if "/" in found[0] else " ", rest)
    for found in PATH.finditer(rest):
        if not tree.has_path(found[0]):
            yield found[0]
    rest = PATH.sub(" ", rest)
    for owner, member in re.findall(r"\b(\w+)::(\w+)", rest):
        if owner not in FOREIGN_WORDS and not tree.has_member(owner, member):
            yield f"{owner}::{member}"
    for first, last in DOTTED.findall(rest):
        attributes = last.strip(".").split(".")
        if first not in FOREIGN_WORDS and not tree.package.has(first, attributes):
            yield first + last
    rest = DOTTED.sub(lambda found: " " if found[1] in FOREIGN_WORDS else found[0], rest)
    yield from (option for option in OPTION.findall(rest) if option not in tree.options)
    rest = re.sub(r"(?<!\w)-D", " ", OPTION.sub(" ", rest))
    for word in re.findall(r"[A-Za-z_]\w+", rest):
        if word not in FOREIGN_WORDS and word not in tree.words and word not in PACKAGE:
            yield word


def spans(page: str, skipped_columns: int = 0) -> Iterator[tuple[int, str]]:
    """Lines and contents of what stands in backticks, outside of blocks of code."""
    in_block = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            text = "|".join(line.split("|")[skipped_columns + 1 :]) if line.startswith("|") else line
            yield from ((number, found) for found in re.findall(r"`([^`]+)`", text))


def check_page(name: str, page: str, tree: Tree) -> Iterator[str]:
    for line, span in spans(page, FOREIGN_COLUMNS.get(name, 0)):
        if span not in FOREIGN:
            for unknown in unknown_names(span, tree):
                yield f"{name}:{line}: `{span}`: {unknown} is not found"


def pages(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if not (root / STUB).is_file():
        print(f"{STUB} is missing: make package builds it")
        return 1
    tree = Tree(root)
    findings = [
        finding
        for page in pages(root)
        for finding in check_page(page.relative_to(root).as_posix(), page.read_text(encoding="utf-8"), tree)
    ]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
