"""The directives of mkdocstrings in docs/reference list every public name exactly once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import saeta as sa

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs/reference/python").glob("*.md"))
NAMED = Counter(
    name
    for page in PAGES
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)
MODULES = ("allocators", "cuda", "dask", "hooks", "ray", "rmm", "testing", "xlog")


@pytest.mark.parametrize("name", [name for name in sa.__all__ if name not in MODULES])
def test_every_public_name_is_on_one_page(name):
    assert NAMED[f"saeta.{name}"] == 1


@pytest.mark.parametrize("module", MODULES)
def test_every_public_module_is_on_one_page_with_all_its_names(module):
    assert pytest.importorskip(f"saeta.{module}", exc_type=ImportError).__all__
    assert NAMED[f"saeta.{module}"] == 1


def test_the_pages_list_no_other_names():
    """A page may list members of a class that stands on another page, and types of arguments."""
    listed = {name for name in NAMED if not re.match(r"saeta\.(_[a-z]|exchange\.)", name)}
    public = {f"saeta.{name}" for name in (*sa.__all__, *MODULES)}
    assert public <= listed
    assert {name.rpartition(".")[0] for name in listed - public} <= public
    assert max(NAMED.values()) == 1
