"""scripts/site_versions.py: the sites of several versions lie side by side, and each page links to the
others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from site_versions import ROOT, place, version_of_project


def built(folder: Path, text: str) -> Path:
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "index.html").write_text(text, encoding="utf-8")
    return site


def test_versions_are_listed_with_the_latest_first(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    for version in ("0.9", "dev", "0.10", "0.2"):
        place(built(tmp_path, version), shown, version)
    listed = json.loads((shown / "versions.json").read_text(encoding="utf-8"))
    assert [each["version"] for each in listed] == ["0.10", "0.9", "0.2", "dev"]
    assert [each["version"] for each in listed if each["aliases"] == ["latest"]] == ["0.10"]
    assert "url=0.10/index.html" in (shown / "index.html").read_text(encoding="utf-8")
    assert (shown / "0.9/index.html").read_text(encoding="utf-8") == "0.9"


def test_a_version_is_replaced_as_a_whole(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    site = built(tmp_path, "old")
    (site / "gone.html").touch()
    place(site, shown, "0.1")
    (site / "gone.html").unlink()
    assert place(built(tmp_path, "new"), shown, "0.1") == ["0.1"]
    assert [path.name for path in (shown / "0.1").iterdir()] == ["index.html"]
    assert (shown / "0.1/index.html").read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("version", ["", "..", "a/b", "0.1 b"])
def test_a_name_that_is_not_a_folder_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ValueError, match="expected letters"):
        place(built(tmp_path, ""), tmp_path / "shown", version)
    assert not (tmp_path / "shown").exists()


def test_a_site_that_is_not_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make docs"):
        place(tmp_path, tmp_path / "shown", "0.1")


def test_the_site_loads_the_list_of_versions() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "version: {provider: mike}" in config, "with this setting the theme reads ../versions.json"
    assert re.fullmatch(r"\d+\.\d+", version_of_project())
