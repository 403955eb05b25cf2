"""help(), editors and completion show only public names, and the same docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import saeta as sa

STUB = Path(sa.__file__).with_name("_core.pyi")
MODULES = ("allocators", "cuda", "dask", "hooks", "ray", "rmm", "testing", "xlog")


def test_completion_of_the_package_shows_public_names_and_modules():
    shown = dir(sa)
    assert set(sa.__all__) <= set(shown)
    assert [name for name in shown if name.startswith("_") and name != "__version__"] == []
    for name in set(shown) - set(sa.__all__):
        try:
            importlib.import_module(f"saeta.{name}")
        except sa.MissingDependency:
            assert name in ("cuda", "dask", "ray")


@pytest.mark.parametrize("name", MODULES)
def test_completion_of_a_module_shows_its_public_names(name):
    module = pytest.importorskip(f"saeta.{name}", exc_type=ImportError)
    assert dir(module) == sorted(module.__all__)


def test_completion_of_a_table_and_a_column_shows_no_internal_name():
    table = sa.table({"a": [1]}, "host")
    for value in (table, table["a"]):
        private = {name for name in dir(value) if name.startswith("_") and not name.startswith("__")}
        assert private <= {"_ipython_key_completions_", "_repr_html_"}
        assert {"take", "filter", "to_torch", "__len__"} <= set(dir(value))
    assert table._ipython_key_completions_() == ["a"]
    assert table.schema._ipython_key_completions_() == ["a"]


def documented():
    """Returns the docstring in the stub of each public class and function of the compiled module, by name."""
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, ast.get_docstring(node)
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield f"{node.name}.{member.name}", ast.get_docstring(member)


@pytest.mark.parametrize(("name", "text"), [each for each in documented() if each[1]])
def test_help_and_stub_have_the_same_docstring(name, text):
    found = sa._core
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    shown = inspect.getdoc(found) or ""
    assert " ".join(text.split()) in " ".join(shown.split())
