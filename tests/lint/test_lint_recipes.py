"""The recipes of CONTRIBUTING.md list every place that they need, and scripts/lint_recipes.py counts them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lint_recipes as lint  # noqa: E402


@pytest.fixture
def text() -> str:
    return (ROOT / lint.PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", lint.PLACES)
def test_every_place_is_listed(name: str, text: str) -> None:
    found = lint.found_places(ROOT, lint.PLACES[name])
    assert found
    assert list(lint.differences(name, text, found)) == []


@pytest.mark.parametrize("name", lint.PLACES)
def test_a_place_that_is_new_or_gone_is_named(name: str, text: str) -> None:
    found = lint.found_places(ROOT, lint.PLACES[name])
    (new, count) = lint.differences(name, text, [*found, "saeta/new.cpp"])
    assert "saeta/new.cpp is not listed" in new
    assert f"there are {len(found) + 1}" in count
    (gone, count) = lint.differences(name, text, found[1:])
    assert f"{found[0]} is none any more" in gone
    assert f"there are {len(found) - 1}" in count


@pytest.mark.parametrize("name", lint.PLACES)
def test_a_count_that_is_wrong_and_a_list_that_is_missing_are_named(name: str, text: str) -> None:
    found = lint.found_places(ROOT, lint.PLACES[name])
    wrong = re.sub(rf"The \d+ places of {name}", f"The 99 places of {name}", text)
    assert list(lint.differences(name, wrong, found)) == [
        f"{lint.PAGE}: places of {name}: there are {len(found)}"
    ]
    assert list(lint.differences(name, "", found)) == [f"{lint.PAGE}: no list of the places of {name}"]


def test_every_recipe_has_its_list(text: str) -> None:
    assert {
        f"a {kind}" for kind in re.findall(r"^### Add a (\w+)$", text, re.MULTILINE)
    } == lint.PLACES.keys()


def test_the_program_fails_on_a_list_that_is_old_and_renews_it(tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / "lint_recipes.py"), *options, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    source = tmp_path / "saeta" / "column" / "column.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("switch (layout) { case layout_kind::fixed: }\n")
    blocks = (f"<!-- places of {name} -->\n<!-- end of places of {name} -->\n" for name in lint.PLACES)
    page = tmp_path / lint.PAGE
    page.write_text("".join(blocks))
    assert run().returncode == 1
    assert "saeta/column/column.cpp is not listed" in run().stdout
    assert run("--write").returncode == 0
    assert "The 1 places of a layout: `saeta/column/column.cpp`." in page.read_text()
    assert (run().returncode, run().stdout) == (0, "")
