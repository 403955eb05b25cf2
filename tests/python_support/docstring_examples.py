"""Collects the docstrings of the public API and runs their examples."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from types import TracebackType
from typing import Any

MODULES = ("allocators", "cuda", "dask", "hooks", "ray", "rmm", "testing", "xlog")
PEERS = (
    "cupy",
    "dask",
    "distributed",
    "duckdb",
    "jax",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "rmm",
    "torch",
)
# Matches examples that need a GPU. A simulated device can stand in for `cuda.Context(0)`.
ON_GPU = re.compile(r"cuda:0|\bcuda\.Context\(|\bnumba_cuda\b")


class NotInstalledError(Exception):
    """An example needs a library that is not installed."""


def docstring(found: Any) -> str:
    return (found.__doc__ if not isinstance(found, property) else found.fget.__doc__) or ""


def members(name: str, found: Any) -> Iterator[tuple[str, str]]:
    yield name, docstring(found)
    if inspect.isclass(found):
        for member, value in vars(found).items():
            if not member.startswith("_"):
                yield f"{name}.{member}", docstring(getattr(value, "__func__", value))


def public_docstrings(*, of_members: bool = True) -> dict[str, str]:
    """Returns the docstrings of the package and of its public modules that can be imported, by their names.

    Args:
        of_members: also those of methods and properties.
    """
    found: dict[str, str] = {}
    for module in ("", *(f".{name}" for name in MODULES)):
        try:
            place = importlib.import_module(f"saeta{module}")
        except ImportError:
            continue
        found[f"saeta{module}"] = place.__doc__ or ""
        for name in place.__all__:
            if name not in MODULES and name != "__version__":
                full = f"saeta{module}.{name}"
                value = getattr(place, name)
                found.update(members(full, value) if of_members else {full: docstring(value)})
    return found


def public_examples() -> dict[str, str]:
    return {name: text for name, text in public_docstrings().items() if ">>>" in text}


def other_code(text: str) -> list[str]:
    """Returns the first line of each code block of a docstring that is not a doctest."""
    lines = inspect.cleandoc(text).splitlines()
    return [
        line
        for before, line in pairwise(lines)
        if not before.strip() and line.startswith("    ") and not line.lstrip().startswith((">>>", "..."))
    ]


class Runner(doctest.DocTestRunner):
    """Raises NotInstalledError, rather than a failure, if an example needs a library that is not
    installed."""

    def report_unexpected_exception(
        self,
        out: Any,
        test: doctest.DocTest,
        example: doctest.Example,
        exc_info: tuple[type[BaseException], BaseException, TracebackType],
    ) -> None:
        failure = exc_info[1]
        if isinstance(failure, ImportError):
            for peer in PEERS:
                if re.search(rf"\b{peer}\b", str(failure)) and importlib.util.find_spec(peer) is None:
                    raise NotInstalledError(f"{peer} is not installed")
        super().report_unexpected_exception(out, test, example, exc_info)


def run_example(name: str) -> None:
    """Runs the example of a docstring. Raises AssertionError with the actual output if it differs."""
    text = inspect.cleandoc(public_docstrings()[name])
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    said: list[str] = []
    ran = Runner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert ran.attempted > 0
    assert ran.failed == 0, "".join(said)
