#!/usr/bin/env python3
"""Copies the built site to a folder named after its version, beside the sites of earlier releases.

    site_versions.py FOLDER [--site build/site] [--version 0.1]

FOLDER is the root for a web server. It has a folder for each version, `versions.json`, from which every page
offers the other versions, and an `index.html` that redirects to the latest one. An existing folder of the
version is replaced. The default version is that of CMakeLists.txt without the patch number. Names that are
not numbers, such as `dev`, are sorted after all releases; they are the latest only if there is no release.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = re.compile(r"^project\(saeta VERSION (\d+\.\d+)", re.MULTILINE)
NAME = re.compile(r"[\w.-]+")


def version_of_project(root: Path = ROOT) -> str:
    found = PROJECT.search((root / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def by_age(version: str) -> tuple[bool, list[int], str]:
    """A sort key: names first, then releases by their numbers."""
    numbers = re.fullmatch(r"\d+(?:\.\d+)*", version)
    return numbers is not None, [int(each) for each in version.split(".")] if numbers else [], version


def place(site: Path, folder: Path, version: str) -> list[str]:
    """Copies a site into the folder of all versions. Returns the names of all versions, the latest first."""
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} has no index.html: build the site with make docs")
    if not NAME.fullmatch(version) or version in (".", ".."):
        raise ValueError(f"version is {version!r}, expected letters, digits, dots and dashes")
    target = folder / version
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(site, target)
    versions = sorted((path.parent.name for path in folder.glob("*/index.html")), key=by_age, reverse=True)
    described = [{"version": each, "title": each, "aliases": []} for each in versions]
    described[0]["aliases"] = ["latest"]
    (folder / "versions.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>Saeta</title>'
        f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">'
        f'<a href="{versions[0]}/index.html">Saeta {versions[0]}</a>\n',
        encoding="utf-8",
    )
    return versions


def main() -> int:
    parser = argparse.ArgumentParser(description="Place the built site below its version.")
    parser.add_argument("folder", type=Path, help="what a web server shows")
    parser.add_argument("--site", type=Path, default=ROOT / "build/site", help="the built site")
    parser.add_argument("--version", default=version_of_project(), help="its name, that of the project")
    options = parser.parse_args()
    try:
        versions = place(options.site, options.folder, options.version)
    except (OSError, ValueError) as failure:
        print(f"site_versions.py: {failure}", file=sys.stderr)
        return 1
    print(f"{options.folder}/{options.version}, beside {', '.join(versions)}; latest: {versions[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
