"""A metadata provider for scikit-build-core: version, README and URLs, read from other files.

SAETA_REPOSITORY   address of the public repository, for project URLs and the links of the README
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^][]*)\]\((?!https?:|#)([^)\s]+)\)")


class Provider:
    """Provides the fields that pyproject.toml declares as dynamic."""

    def dynamic_metadata(self, _settings: Mapping[str, Any], _project: Mapping[str, Any]) -> dict[str, Any]:
        address = os.environ.get("SAETA_REPOSITORY", "").rstrip("/")
        return {
            "version": version(),
            "readme": {"content-type": "text/markdown", "text": readme(address)},
            "urls": urls(address),
        }


def version() -> str:
    """Returns the version from CMakeLists.txt, the only file that has it."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"project\(saeta VERSION ([0-9.]+)", text)
    if found is None:
        raise ValueError("CMakeLists.txt has no project(saeta VERSION ...)")
    return found[1]


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
    """Returns the README with absolute links into the repository; without an address, links are removed."""

    def absolute(link: re.Match[str]) -> str:
        image, text, path = link.groups()
        if not address:
            return "" if image else text
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/v{version()}/{path})"

    return LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))
