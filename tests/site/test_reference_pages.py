"""The reference pages of the built site document every public name of the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python/saeta"
MODULES = {
    "saeta": "__init__.py",
    "saeta.allocators": "allocators.py",
    "saeta.cuda": "cuda/__init__.py",
    "saeta.dask": "dask/__init__.py",
    "saeta.hooks": "hooks.py",
    "saeta.ray": "ray/__init__.py",
    "saeta.rmm": "rmm.py",
    "saeta.testing": "testing.py",
    "saeta.xlog": "xlog.py",
}


def exported(file: str) -> list[str]:
    """Returns `__all__` of a module without importing it."""
    for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [ast.literal_eval(each) for each in node.value.elts]
    raise AssertionError(f"{file} has no __all__")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented(inventory, module):
    missing = [name for name in exported(MODULES[module]) if f"{module}.{name}" not in inventory]
    assert missing == []


def stub_methods() -> list[str]:
    """Returns the public members of the public classes in the stub."""
    public = set(exported("__init__.py"))
    tree = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
    return [
        f"saeta.{each.name}.{member.name}"
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name in public
        for member in each.body
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_")
    ]


def test_every_method_is_documented(inventory):
    assert len(stub_methods()) > 150
    assert [name for name in stub_methods() if name not in inventory] == []


def test_overloaded_functions_show_their_docstring(site):
    page = (site / "reference/python/exchange.html").read_text(encoding="utf-8")
    assert "Takes a tensor into a context" in page
    assert "Example:" not in page, "examples are rendered as code under the heading Examples"


@pytest.mark.parametrize("name", ["memory/use_token.hpp", "budget/budget.hpp", "ipc/reader.hpp"])
def test_headers_are_shown(site, name):
    pages = (site / "reference/cpp").glob("*.html")
    assert sum(f">{name}<" in page.read_text(encoding="utf-8") for page in pages) == 1
