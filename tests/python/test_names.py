"""help(), editors and completion show only public names, and the same docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import operator
import re
from pathlib import Path

import pytest

import saeta as sa

STUB = Path(sa.__file__).with_name("_core.pyi")
MODULES = ("allocators", "cuda", "dask", "hooks", "ray", "rmm", "testing", "xlog")


def test_completion_of_the_package_shows_public_names_and_modules():
    shown = dir(sa)
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


ROOT = Path(__file__).resolve().parents[2]
EVERY_DAY = sa.__all__[: sa.__all__.index("concat_tables")]


def test_the_names_for_every_day_come_first_in_help_and_in_the_reference():
    first = (sa.__doc__ or "").partition("Example:")[0]
    page = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8").partition("All of them")[0]
    assert len(EVERY_DAY) == 16
    for text in (first, page):
        assert [name for name in EVERY_DAY if not re.search(rf"\b{name}\b", text)] == []


def test_completion_leaves_out_what_only_calls_return():
    left_out = set(sa.__all__) - set(dir(sa))
    assert left_out == sa._RETURNED
    assert all(inspect.isclass(getattr(sa, name)) for name in left_out)


def named_on_the_page() -> set[str]:
    """Returns the names in the column for Saeta of the table of names."""
    page = (ROOT / "docs/reference/words.md").read_text(encoding="utf-8").partition("## Options")[0]
    cells = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`((?:sa|Table|Column)\.\w+)", cell)}


def test_the_page_of_names_names_what_exists():
    names = named_on_the_page()
    assert len(names) > 15
    for name in names:
        owner, attribute = name.split(".")
        assert hasattr(sa if owner == "sa" else getattr(sa, owner), attribute), name


OWNERS = {
    "pyarrow": ("", "Table", "Array", "ChunkedArray"),
    "torch": ("", "Tensor", "utils.data", "cuda"),
    "polars": ("", "DataFrame", "Series", "LazyFrame"),
}


@pytest.mark.parametrize(("library", "place"), [("pyarrow", 3), ("torch", 4), ("polars", 5)])
def test_the_names_of_others_on_the_page_exist(library, place):
    root = pytest.importorskip(library)
    page = (ROOT / "docs/reference/words.md").read_text(encoding="utf-8")
    parity = page.partition("## Parity")[2].partition("## ")[0]
    cells = [line.split("|")[place] for line in parity.splitlines() if line.startswith("| ")][1:]
    names = {
        name for cell in cells for name in re.findall(r"`(?:p[al]\.|torch\.)?([A-Za-z][\w.]*)(?=[`(])", cell)
    }
    assert len(names) > 15
    owners = [operator.attrgetter(owner)(root) if owner else root for owner in OWNERS[library]]
    for module in {name.partition(".")[0] for name in names if "." in name and name[0].islower()}:
        importlib.import_module(f"{library}.{module}")
    for name in sorted(names):
        assert any(found(owner, name) for owner in owners), name


def found(owner, name):
    try:
        return operator.attrgetter(name)(owner) is not None
    except AttributeError:
        return False


@pytest.mark.parametrize("old", ["with_column", "drop", "remove_column", "rechunk"])
def test_names_of_others_say_which_name_to_use(old):
    table = sa.table({"a": [1]}, "host")
    with pytest.raises(AttributeError, match=r"append_column|drop_columns|combine_chunks\(\)"):
        getattr(table, old)
