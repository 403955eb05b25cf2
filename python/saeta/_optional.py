"""Packages that are touched only when something needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from saeta.errors import MissingDependency


def load(package: str, purpose: str) -> ModuleType:
    """The package, or MissingDependency that names the purpose and the command to have it."""
    try:
        return importlib.import_module(package)
    except ImportError as failure:
        top = package.partition(".")[0]
        raise MissingDependency(f"{purpose} needs {top}: {failure} (pip install {top})") from failure
