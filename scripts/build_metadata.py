"""Metadata that depends on the machine a wheel is built on, for scikit-build-core."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any


def dynamic_metadata(field: str, _settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The extra `ipc`: the release of pyarrow whose libarrow this wheel is linked with."""
    if field != "optional-dependencies":
        raise ValueError(f"no value for {field}")
    try:
        major, minor = importlib.metadata.version("pyarrow").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return {"ipc": ["pyarrow"]}
    return {"ipc": [f"pyarrow=={major}.{minor}.*"]}
