#!/usr/bin/env python3
"""Checks the structure of the tree, file by file, and prints violations. The exit code is 1 if there are any.

    lint_structure.py [ROOT]

The rules:
  layer     a layer includes only lower layers; backends never include each other; only runtime includes them
  cuda      only backend/cuda, and the adaptors rmm and rapidsmpf with their tests, include a CUDA header;
            only these adaptors, their tests, the Python binding of rmm and bench include one of RMM
  handle    native_handle() goes straight into a call of the device contract, or is called in interop, rmm,
            backend, device, tests or examples: nothing else keeps a handle or hands one out
  thread    only executor starts threads
  private   only its layer and tests include a header that saeta/CMakeLists.txt does not list as PUBLIC
  export    an installed header opens its namespaces with SAETA_EXPORT, and no other header does
  length    a header has at most 250 lines, any file 600, and so has the one header of the C interface
  pragma    every header of C++ has #pragma once
  circle    the modules of the Python package have no circular imports, even inside of functions or for types
  crowd     no folder of the Python package or of its bindings holds more than 20 sources
  names     paths and targets of the Makefile that a page has in backticks exist
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# What each layer may include besides itself.
BELOW_MEMORY = frozenset({"base", "executor", "budget", "device", "order", "observe", "resource"})
BELOW_INTEROP = BELOW_MEMORY | {"memory", "column", "staging", "transfer", "compute", "symbols"}
LAYERS: dict[str, frozenset[str]] = {
    "base": frozenset(),
    "executor": frozenset({"base"}),
    "budget": frozenset({"base"}),
    "device": frozenset({"base"}),
    "order": frozenset({"base", "executor", "device"}),
    "observe": frozenset({"base", "budget", "device"}),
    "resource": frozenset({"base", "executor", "budget", "device", "order", "observe"}),
    "memory": BELOW_MEMORY,
    "column": BELOW_MEMORY | {"memory"},
    "staging": BELOW_MEMORY | {"memory", "column"},
    "transfer": BELOW_MEMORY | {"memory", "column", "staging"},
    "compute": BELOW_MEMORY | {"memory", "column", "staging", "transfer"},
    "symbols": BELOW_MEMORY | {"memory", "column", "staging", "transfer", "compute"},
    "interop": BELOW_INTEROP,
    "ipc": BELOW_INTEROP | {"interop"},
    "bridge": BELOW_INTEROP | {"interop", "ipc"},
    "spill": BELOW_INTEROP | {"interop", "ipc"},
    "share": BELOW_INTEROP | {"interop", "ipc"},
    **dict.fromkeys(("backend/host", "backend/cuda"), frozenset({"base", "device"})),
    "backend/sim": frozenset({"base", "executor", "device"}),
    "rmm": BELOW_MEMORY | {"memory"},
    "rapidsmpf": BELOW_INTEROP | {"interop", "ipc", "spill", "rmm"},
    "runtime": BELOW_MEMORY | {"memory", "backend/host", "backend/cuda"},
    "capi": BELOW_INTEROP | {"interop", "ipc", "spill", "share", "runtime"},
}
# Folders outside saeta/: they may include every public layer; only tests reach a backend.
OUTSIDE = ("python", "tests", "bench", "examples")
HANDLE_USERS = ("saeta/interop", "saeta/rmm", "saeta/backend", "saeta/device", "tests", "examples")

CODE = frozenset({".hpp", ".cpp", ".cu", ".cuh", ".h", ".c"})
HEADERS = frozenset({".hpp", ".cuh", ".h"})
TEXT = CODE | {".py", ".sh", ".cmake", ".md", ".toml", ".txt"}
SKIPPED = frozenset({".deps", ".git", "build", "dist", "site", "__pycache__"})
HEADER_LINES = 250
FILE_LINES = 600
FOLDER_FILES = 20
PACKAGE = "python/saeta"
COMPILED = frozenset(f"saeta.{name}" for name in ("_arrow", "_bridge", "_core", "_ipc", "_rmm"))

NAMED = re.compile(r"`((?:saeta|python|tests|scripts|bench|docs|examples|cmake)/[\w./*-]+|make [a-z-]+)`")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(
    r"^(cuda|cub|thrust|cooperative_groups|nvtx3)/"
    r"|^(cuda|cooperative_groups|driver_types|vector_types)\w*\.h$"
)
RMM_HEADER = re.compile(r"^(rmm|rapidsmpf)/")
ADAPTORS = ("rmm", "rapidsmpf")  # header-only, all headers are public
PUBLIC_LIST = re.compile(r"saeta_layer\((\w+)[^()]*\n +PUBLIC\n((?: +[\w./ ]+\.h(?:pp)?\)?\n)+)")
GENERATED = ("saeta/base/version.hpp",)
# The makers of backends, which the tests call in the library that is shipped.
EXPORTED_PRIVATE = ("saeta/backend/cuda/cuda_backend.hpp", "saeta/backend/host/host_backend.hpp")
SAETA_NAMESPACE = re.compile(r"^namespace (SAETA_EXPORT )?saeta\b", re.MULTILINE)
C_HEADER = "saeta/capi/saeta.h"  # plain C11, in one file
ADAPTOR_FOLDERS = tuple(f"{folder}/{name}/" for folder in ("saeta", "tests") for name in ADAPTORS)
CUDA_USERS = ("saeta/backend/cuda/", *ADAPTOR_FOLDERS, "examples/")
RMM_USERS = (*ADAPTOR_FOLDERS, "bench/", "python/src/rmm/")
# A call of a backend's method or of a kernel, up to its arguments.
CONTRACT_CALL = re.compile(r"\b(backend_|device_?)->\w+\(|\bowner\(\)\.\w+\(|\bkernels\(\)\.\w+\(")
THREAD = re.compile(r"\bstd::(jthread|async)\b|\bstd::thread\b(?!::)")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


def layer_of(path: str) -> str | None:
    """Layer of a path below the root ("saeta/budget/budget.hpp" -> "memory"), or None outside saeta/."""
    parts = path.split("/")
    if parts[0] != "saeta" or len(parts) < 3:
        return None
    return f"backend/{parts[2]}" if parts[1] == "backend" and len(parts) > 3 else parts[1]


def without_comments(source: str) -> str:
    """Removes comments and keeps the line numbers."""
    source = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", source)


def line_of(source: str, position: int) -> int:
    return source.count("\n", 0, position) + 1


def check_layer(path: str, line: int, included: str) -> Iterator[Finding]:
    target = layer_of(included)
    if target is None:
        return
    own = layer_of(path)
    if target not in LAYERS:
        yield Finding(path, line, "layer", f"{included} is in no known layer")
    elif own is None:
        if target.startswith("backend/") and not path.startswith("tests/"):
            yield Finding(path, line, "layer", f"only tests and runtime include a backend: {included}")
    elif target != own and target not in LAYERS.get(own, frozenset()):
        allowed = ", ".join(sorted(LAYERS.get(own, frozenset()))) or "nothing"
        yield Finding(path, line, "layer", f"{own} includes {included}; it may include {allowed}")


def check_private(path: str, line: int, included: str, public: frozenset[str]) -> Iterator[Finding]:
    layer = layer_of(included)
    if layer is None or layer.startswith("backend/") or layer in ADAPTORS or included in GENERATED:
        return
    if included not in public and layer_of(path) != layer and not path.startswith("tests/"):
        yield Finding(path, line, "private", f"private to {layer}: {included}")


def public_headers(root: Path) -> frozenset[str]:
    """Returns the headers that saeta_layer() calls list as PUBLIC."""
    listed = PUBLIC_LIST.findall((root / "saeta/CMakeLists.txt").read_text(encoding="utf-8"))
    return frozenset(f"saeta/{layer}/{name}" for layer, text in listed for name in text.rstrip(")\n").split())


def check_includes(path: str, code: str, public: frozenset[str]) -> Iterator[Finding]:
    own = layer_of(path)
    for found in INCLUDE.finditer(code):
        line, included = line_of(code, found.start(2)), found[2]
        if own is not None and found[1] == '"' and not included.startswith("saeta/"):
            yield Finding(path, line, "layer", f'write "saeta/<layer>/<name>.hpp", not "{included}"')
        yield from check_layer(path, line, included)
        yield from check_private(path, line, included, public)
        if CUDA_HEADER.match(included) and not path.startswith(CUDA_USERS):
            yield Finding(
                path, line, "cuda", f"only backend/cuda and adaptors include a CUDA header: {included}"
            )
        if RMM_HEADER.match(included) and not path.startswith(RMM_USERS):
            yield Finding(path, line, "cuda", f"only adaptors and what stands on them include {included}")


def check_handles(path: str, code: str) -> Iterator[Finding]:
    if path.startswith(HANDLE_USERS):
        return
    for found in re.finditer(r"\bnative_handle\(", code):
        statement = re.split(r"[;{}]", code[: found.start()])[-1]
        if not CONTRACT_CALL.search(statement):
            text = "native_handle() of other layers only goes into a method or kernel of a backend"
            yield Finding(path, line_of(code, found.start()), "handle", text)


def check_threads(path: str, code: str) -> Iterator[Finding]:
    if layer_of(path) not in (None, "executor"):
        for found in THREAD.finditer(code):
            text = "threads belong to a background_thread or a thread_pool of executor"
            yield Finding(path, line_of(code, found.start()), "thread", text)


def check_exports(path: str, code: str, public: frozenset[str]) -> Iterator[Finding]:
    if not path.endswith(".hpp") or layer_of(path) in (None, *ADAPTORS):
        return
    exported = path in public or path in EXPORTED_PRIVATE
    for found in SAETA_NAMESPACE.finditer(code):
        if exported != bool(found[1]):
            text = "namespace SAETA_EXPORT saeta { opens an installed header, and no other"
            yield Finding(path, line_of(code, found.start()), "export", text)


def check_lengths(path: str, source: str) -> Iterator[Finding]:
    lines = source.count("\n")
    limit = HEADER_LINES if Path(path).suffix in HEADERS and path != C_HEADER else FILE_LINES
    if lines > limit:
        yield Finding(path, lines, "length", f"{lines} lines, at most {limit}: split it by noun")


def check_file(path: str, source: str, public: frozenset[str]) -> Iterator[Finding]:
    """Yields the findings of one file; `path` is relative to the root, `public` has all public headers."""
    yield from check_lengths(path, source)
    suffix = Path(path).suffix
    if suffix not in CODE:
        return
    code = without_comments(source)
    if suffix in HEADERS and path != C_HEADER and not re.search(r"^#pragma once$", code, re.MULTILINE):
        yield Finding(path, 1, "pragma", "no #pragma once")
    yield from check_includes(path, code, public)
    yield from check_handles(path, code)
    yield from check_threads(path, code)
    yield from check_exports(path, code, public)


def files_below(root: Path) -> Iterator[Path]:
    for entry in sorted(root.iterdir()):
        if entry.name in SKIPPED:
            continue
        if entry.is_dir():
            yield from files_below(entry)
        elif entry.suffix in TEXT:
            yield entry


def check_names(root: Path, path: str, page: str) -> Iterator[Finding]:
    targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for found in NAMED.finditer(page):
        name = found[1]
        exists = name[5:] in targets if name.startswith("make ") else any(root.glob(name.rstrip("/")))
        if not exists:
            yield Finding(path, line_of(page, found.start()), "names", f"{name} is not found")


def imported_names(name: str, source: str) -> Iterator[str]:
    """Yields the absolute names that a module of the package imports anywhere in its source.

    Importing a module also imports the packages around it. Those around `name` are imported before it.
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    for each in found:
        yield each
        parents = [each.rsplit(".", count)[0] for count in range(1, each.count(".") + 1)]
        yield from (parent for parent in parents if not f"{name}.".startswith(f"{parent}."))


def import_graph(package: Path) -> dict[str, set[str]]:
    """Returns for each module of the package the modules that it imports."""
    modules = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = file.read_text(encoding="utf-8")
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        targets = set()
        for each in imported_names(name, source):
            if each.startswith(f"{package.name}.") and each not in COMPILED:
                # An imported name, as in `from saeta import table`, counts as an import of its module.
                targets.add(each if each in modules else each.rpartition(".")[0])
        graph[name] = (targets & modules.keys()) - {name}
    return graph


def check_circles(root: Path) -> Iterator[Finding]:
    """Yields a finding about one import cycle, if there is any."""
    try:
        TopologicalSorter(import_graph(root / PACKAGE)).prepare()
    except CycleError as failure:
        circle = failure.args[1]
        yield Finding(PACKAGE, 1, "circle", f"modules import each other: {' <- '.join(circle)}")


def check_crowds(paths: list[str]) -> Iterator[Finding]:
    """Yields findings about folders of the package and of its bindings with too many files."""
    folders = Counter(path.rpartition("/")[0] for path in paths if path.startswith("python/"))
    for folder, count in folders.items():
        if count > FOLDER_FILES:
            text = f"{count} sources, at most {FOLDER_FILES}: group them by subject"
            yield Finding(folder, 1, "crowd", text)


def check_tree(root: Path) -> list[Finding]:
    findings: list[Finding] = []
    paths: list[str] = []
    public = public_headers(root)
    for file in files_below(root):
        source = file.read_text(encoding="utf-8")
        path = file.relative_to(root).as_posix()
        findings += check_file(path, source, public)
        if file.suffix in CODE | {".py"}:
            paths.append(path)
        if file.suffix == ".md":
            findings += check_names(root, path, source)
    findings += check_circles(root)
    findings += check_crowds(paths)
    return findings


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
