"""Metadata that depends on what a wheel is built with, for scikit-build-core.

SAETA_PYARROWS     folders that hold a pyarrow each, with semicolons between: the releases to build for, in
                   place of the one that is installed
SAETA_REPOSITORY   address of the public repository. Project URLs and the links of the README lead there.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYARROW = 22
LINK = re.compile(r"(!?)\[([^][]*)\]\((?!https?:|#)([^)\s]+)\)")


class Provider:
    """The fields that pyproject.toml calls dynamic."""

    def __init__(self) -> None:
        self._state = ""

    def build_state(self, state: str) -> None:
        self._state = state

    def dynamic_metadata(self, _settings: Mapping[str, Any], _project: Mapping[str, Any]) -> dict[str, Any]:
        address = os.environ.get("SAETA_REPOSITORY", "").rstrip("/")
        return {
            "version": version(),
            "readme": {"content-type": "text/markdown", "text": readme(address)},
            "dependencies": [requirement([] if self._state == "sdist" else pyarrow_majors())],
            "urls": urls(address),
        }

    def dynamic_wheel(self, _settings: Mapping[str, Any]) -> dict[str, bool]:
        """Returns the fields that a wheel may have other values of than its source distribution."""
        return {"dependencies": True}


def version() -> str:
    """Returns the version, which stands in CMakeLists.txt alone."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"project\(saeta VERSION ([0-9.]+)", text)
    if found is None:
        raise ValueError("CMakeLists.txt has no project(saeta VERSION ...)")
    return found[1]


def requirement(majors: list[int]) -> str:
    """Returns what a package with modules for these releases of pyarrow depends on."""
    if not majors:
        return f"pyarrow>={OLDEST_PYARROW}"
    absent = sorted(set(range(majors[0], majors[-1])) - set(majors))
    return ",".join([f"pyarrow>={majors[0]}", f"<{majors[-1] + 1}", *(f"!={major}.*" for major in absent)])


def pyarrow_majors() -> list[int]:
    """Returns the releases whose libarrow is linked, in ascending order."""
    folders = [folder for folder in os.environ.get("SAETA_PYARROWS", "").split(";") if folder]
    if folders:
        return sorted(major_in(Path(folder)) for folder in folders)
    try:
        return [int(importlib.metadata.version("pyarrow").partition(".")[0])]
    except importlib.metadata.PackageNotFoundError:
        return []


def major_in(folder: Path) -> int:
    config = (folder / "pyarrow/include/arrow/util/config.h").read_text(encoding="utf-8")
    found = re.search(r"#define ARROW_VERSION_MAJOR (\d+)", config)
    if found is None:
        raise ValueError(f"{folder} holds no pyarrow with headers")
    return int(found[1])


def urls(address: str) -> dict[str, str]:
    if not address:
        return {}
    return {
        "Repository": address,
        "Documentation": f"{address}/blob/v{version()}/docs/index.md",
        "Changelog": f"{address}/blob/v{version()}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def readme(address: str) -> str:
    """Returns the README for another page: links lead to the repository, or are dropped."""

    def absolute(link: re.Match[str]) -> str:
        image, text, path = link.groups()
        if not address:
            return "" if image else text
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/v{version()}/{path})"

    return LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))
