"""Fixtures for the documentation site that `make docs` built."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "build/site"


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").is_file():
        pytest.fail(f"{SITE} is not built: make docs")
    return SITE


@pytest.fixture(scope="session")
def inventory(site: Path) -> dict[str, str]:
    """The page of each documented object, from the site's objects.inv."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    found = {}
    for line in zlib.decompress(content).decode().splitlines():
        name, _, _, place, _ = line.split(" ", 4)
        found[name] = place.partition("#")[0]
    return found
