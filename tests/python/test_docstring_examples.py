"""The examples of docstrings run, and no public name is added without one."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = ("allocators", "cuda", "hooks", "rmm", "testing", "xlog")
# Names that have no example yet. Give them one, and lower the number.
WITHOUT_EXAMPLE = 76


def docstring(found: Any) -> str:
    return (found.__doc__ if not isinstance(found, property) else found.fget.__doc__) or ""


def members(name: str, found: Any) -> Iterator[tuple[str, str]]:
    yield name, docstring(found)
    if inspect.isclass(found):
        for member, value in vars(found).items():
            if not member.startswith("_"):
                yield f"{name}.{member}", docstring(getattr(value, "__func__", value))


def public_docstrings() -> dict[str, str]:
    """By their names, of the package and of its public modules."""
    found: dict[str, str] = {}
    for module in ("", *(f".{name}" for name in MODULES)):
        place = pytest.importorskip(f"saeta{module}", exc_type=ImportError)
        for name in place.__all__:
            if name not in MODULES and name != "__version__":
                found.update(members(f"saeta{module}.{name}", getattr(place, name)))
    return found


DOCSTRINGS = public_docstrings()
EXAMPLES = {name: text for name, text in DOCSTRINGS.items() if ">>>" in text}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_runs(name, monkeypatch, tmp_path):
    for module in ("numpy", "pandas", "polars"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)  # for files that examples write
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(EXAMPLES[name]), {}, name, None, None)
    said: list[str] = []
    ran = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert ran.attempted > 0
    assert ran.failed == 0, "".join(said)


def test_no_public_name_is_added_without_an_example():
    missing = [name for name in DOCSTRINGS if name not in EXAMPLES]
    assert len(missing) <= WITHOUT_EXAMPLE, missing
