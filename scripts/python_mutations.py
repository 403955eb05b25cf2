"""Small bugs in Python sources, found in the syntax tree: what package_mutants.py plants in python/saeta.

They are of the kinds of scripts/mutations.py, and each lies within one line. Annotations, docstrings and the
insides of f-strings have none, nor has what a program without bugs never notices: `zip(strict=True)` and
frozen classes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from mutations import Mutation

# Needs a GPU's timings, and prints what it measures.
LEFT_OUT = ("python/saeta/bench/",)

COMPARISONS = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
}

ASSERTIONS = ("strict", "frozen")  # named arguments

Change = tuple[int, int, str, str, str]  # line, column in characters, old text, new text, kind


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def is_nothing(node: ast.expr) -> bool:
    """Whether it is None, or False, which nearly every caller takes for the same."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


class Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.lines = source.split("\n")
        self.found: list[Change] = []

    def _column(self, line: int, offset: int) -> int:
        """The syntax tree counts bytes."""
        return len(self.lines[line - 1].encode()[:offset].decode())

    def _replace(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        line = node.lineno
        if line == node.end_lineno:
            start = self._column(line, node.col_offset)
            stop = self._column(line, node.end_col_offset or 0)
            self.found.append((line, start, self.lines[line - 1][start:stop], new, kind))

    def _swap_between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> None:
        """The operator between two operands, where all of it is on one line."""
        line = left.end_lineno
        if line is None or line != right.lineno:
            return
        start = self._column(line, left.end_col_offset or 0)
        between = self.lines[line - 1][start : self._column(line, right.col_offset)]
        if between.count(old) == 1:
            self.found.append((line, start + between.index(old), old, new, kind))

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            old, new = COMPARISONS[type(operator)]
            self._swap_between(left, right, old, new, "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = any(isinstance(side, ast.JoinedStr) or is_text(side) for side in (node.left, node.right))
        if type(node.op) in ARITHMETIC and not text:
            old, new = ARITHMETIC[type(node.op)]
            self._swap_between(node.left, node.right, old, new, "arithmetic")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap_between(left, right, old, new, "logic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not) and node.lineno == node.end_lineno:
            line = node.lineno
            start = self._column(line, node.col_offset)
            self.found.append((line, start, "not ", "", "negation"))
        self.generic_visit(node)

    def _visit_condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.test)):
            self._replace(node.test, "False", "condition")
            if not isinstance(node, ast.While):
                self._replace(node.test, "True", "condition")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._visit_condition(node)

    def visit_While(self, node: ast.While) -> None:
        self._visit_condition(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._visit_condition(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value), "truth")
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1), "constant")
            if node.value > 1:
                self._replace(node, str(node.value - 1), "constant")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not is_nothing(node.value):
            self._replace(node.value, "None", "result")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if not isinstance(node.value, ast.Yield | ast.YieldFrom):
            self._replace(node, "pass", "dropped statement")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass", "dropped statement")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._replace(node, "pass", "dropped statement")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass", "dropped statement")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """A named argument that is forgotten."""
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in ASSERTIONS]
        for keyword in node.keywords:
            line = keyword.lineno
            if keyword.arg is None or keyword.end_lineno != line:
                continue
            start = self._column(line, keyword.col_offset)
            stop = self._column(line, keyword.end_col_offset or 0)
            text = self.lines[line - 1]
            before = text[:start].rstrip()
            if before.endswith(","):
                start = len(before) - 1
            elif text[stop : stop + 2] == ", ":
                stop += 2
            self.found.append((line, start, text[start:stop], "", "dropped argument"))
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """What a message says is not looked into."""

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [
            *node.decorator_list,
            *node.args.defaults,
            *filter(None, node.args.kw_defaults),
            *node.body,
        ]:
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)


def compiles(source: str) -> bool:
    try:
        compile(source, "bug", "exec")
    except SyntaxError:
        return False
    return True


def python_mutations_of(root: Path, path: str) -> Iterator[Mutation]:
    source = (root / path).read_text(encoding="utf-8")
    finder = Finder(source)
    finder.visit(ast.parse(source))
    for line, column, old, new, kind in finder.found:
        bug = Mutation(path, line, column, old, new, kind)
        if compiles(bug.changed(root)):
            yield bug


def python_mutations_below(root: Path, folder: str) -> list[Mutation]:
    """Every bug below a folder, sorted."""
    paths = [root / folder] if (root / folder).is_file() else sorted((root / folder).rglob("*.py"))
    found: set[Mutation] = set()
    for path in paths:
        relative = path.relative_to(root).as_posix()
        if not relative.startswith(LEFT_OUT):
            found.update(python_mutations_of(root, relative))
    return sorted(found)
