"""Loads optional packages when a call needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from saeta import _core, _libarrow
from saeta.errors import MissingDependency


def load(package: str, purpose: str) -> ModuleType:
    """Imports a package. MissingDependency names the purpose and the command that installs the package."""
    try:
        return importlib.import_module(package)
    except ImportError as failure:
        top = package.partition(".")[0]
        raise MissingDependency(
            f"{purpose} needs {top}: {failure} (pip install {distribution(top)})"
        ) from failure


def distribution(package: str) -> str:
    """Returns the name to install a package by.

    Some packages have a distribution for each CUDA release, and pyarrow must be of a release that this
    package has modules for.
    """
    cuda = _core._runtime()["cuda_runtime"].partition(".")[0] or "13"
    published = {
        "cuda": "cuda-bindings",
        "cupy": f"cupy-cuda{cuda}x",
        "pyarrow": _libarrow.requirement(),
        "pylibcudf": f"pylibcudf-cu{cuda}",
        "rmm": f"rmm-cu{cuda}",
    }
    return published.get(package, package)
