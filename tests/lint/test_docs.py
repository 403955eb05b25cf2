"""The documentation agrees with the code: options, error classes, exit codes, presets, links and figures."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from draw_figures import FIGURES, Drawing, pictures
from front_page_figure import FIGURE, RESULTS, SPILL, figure, results, spilled
from lint_structure import public_headers
from site_hooks import beginning_of_readme, documented_layers, on_page_content, section

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
DECISION_LINES = 90


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_environment_variable_is_documented() -> None:
    known = set(re.findall(r'"(SAETA_[A-Z_]+)"', text("saeta/runtime/environment.cpp")))
    assert known
    assert set(re.findall(r"^\| `(SAETA_[A-Z_]+)`", text("docs/options.md"), re.MULTILINE)) == known


def test_every_environment_variable_is_used_and_tested() -> None:
    """An option that is parsed but not used would be ignored silently."""
    parser = text("saeta/runtime/environment.cpp")
    read = set(re.findall(r"\boptions\.((?:memory|staging|spill)\.\w+|\w+) = ", parser))
    assert read
    used = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "saeta").rglob("*.cpp")
        if path.name != "environment.cpp"
    )
    unused = [name for name in read if not re.search(rf"\.{name.split('.')[-1]}\b", used)]
    assert unused == []
    tests = text("tests/python/test_environment.py")
    variables = re.findall(r'"(SAETA_[A-Z_]+)"', parser)
    assert [name for name in variables if f"def test_{name.lower()}" not in tests] == []


def test_every_error_code_and_class_is_documented() -> None:
    body = re.search(r"enum class errc \{(.*?)\};", text("saeta/base/error.hpp"), re.DOTALL)
    assert body is not None
    codes = set(re.findall(r"^\s*(\w+),", body[1], re.MULTILINE))
    classes = dict(
        re.findall(r"^class (\w+)\((?:\w+, )?(\w+)\):", text("python/saeta/errors.py"), re.MULTILINE)
    )
    classes.pop("Error")
    rows = re.findall(r"^\| (?:`(\w+)`)? *\| `(\w+)` \| `(\w+)` \|", text("docs/errors.md"), re.MULTILINE)
    assert {code for code, _, _ in rows if code} == codes
    assert {name: built_in for _, name, built_in in rows} == classes


def test_every_exit_code_is_listed_with_its_meaning() -> None:
    source = text("python/saeta/cli/exits.py")
    numbers = dict(re.findall(r"^    ([A-Z_]+) = (\d+)$", source, re.MULTILINE))
    meanings = dict(re.findall(r'Exit\.([A-Z_]+): "([^"]+)"', source))
    assert numbers.keys() == meanings.keys()
    listed = dict(re.findall(r"^\| (\d+) \| (.*) \|$", text("docs/errors.md"), re.MULTILINE))
    assert listed == {numbers[name]: meaning for name, meaning in meanings.items()}


def test_every_preset_and_build_option_is_documented() -> None:
    page = text("docs/install.md")
    presets = json.loads(text("CMakePresets.json"))["configurePresets"]
    for name in (preset["name"] for preset in presets if not preset.get("hidden")):
        assert f"| `{name}` |" in page
    for feature in re.findall(r"^saeta_feature\((\w+)", text("CMakeLists.txt"), re.MULTILINE):
        assert f"| `SAETA_{feature}` |" in page


def test_every_extra_is_documented() -> None:
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    table = re.search(r"^\| extra \|.*?\n\n", text("docs/install.md"), re.DOTALL | re.MULTILINE)
    assert table is not None
    rows = re.findall(r"^\| (`.*?) \|", table[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == extras.keys()


def test_help_lists_every_target() -> None:
    makefile = text("Makefile")
    declared = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) == declared


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_of_the_tree(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_start_at_the_beginning_of_a_line(page: Path) -> None:
    """Within a line, `##` would be ordinary text."""
    assert re.findall(r"^.*[^#\s`].* ##+ [A-Z].*$", page.read_text(encoding="utf-8"), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:saeta|python|tests|scripts|examples|bench)/[\w/.-]+)`", page.read_text(encoding="utf-8")
    )
    missing = [name for name in named if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_record_has_its_sections_on_one_page(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == ["## Decided", "## Why", "## What else was tried"]
    assert len(lines) <= DECISION_LINES


def test_the_site_has_every_page() -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r": ([\w/.-]+\.md)$", text("mkdocs.yml"), re.MULTILINE)
    assert sorted(listed) == sorted(pages), "the nav of mkdocs.yml must list each page once"


def test_the_first_page_of_the_reference_links_to_all_others() -> None:
    folder = ROOT / "docs" / "reference"
    pages = {str(each.relative_to(folder)) for each in folder.rglob("*.md")} - {"index.md"}
    links = set(re.findall(r"\]\(([^)]+)\)", text("docs/reference/index.md")))
    assert pages <= links, pages - links


def test_the_reference_has_every_layer_with_public_headers() -> None:
    public = {"/".join(name.split("/")[:2]) for name in public_headers(ROOT)}
    public -= {"saeta/capi"}  # docs/guides/c.md; its one header is the reference
    assert documented_layers() == {*public, "saeta/rmm", "saeta/rapidsmpf"}


def test_the_reference_of_a_header_shows_only_its_public_part() -> None:
    shown = section(ROOT / "saeta/memory/use_token.hpp")
    assert "**Failure.** busy" in shown
    assert "1. Construct it" in shown
    assert "```cpp\nuse_token token(stream, {" in shown
    assert "@code" not in shown.partition("Declares")[0]
    assert "void finish();" in shown
    assert "held_" not in shown
    assert "#include <" not in shown


def test_the_figure_of_the_front_page_shows_the_measured_results() -> None:
    """scripts/front_page_figure.py draws it from bench/results, and README has the same numbers."""
    drawn = figure()
    assert FIGURE.read_text(encoding="utf-8") == drawn
    told = beginning_of_readme()
    for number in ("51.7", "6.0", "162", "2,272", "820", "100"):
        assert f">{number}</text>" in drawn
        assert number in told


def test_the_figure_of_the_benchmarks_shows_the_measured_results_and_their_limits() -> None:
    drawn = results()
    assert RESULTS.read_text(encoding="utf-8") == drawn
    assert drawn.count("<title>limit: ") == 7
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert page.index("figures/results.svg") < page.index("|---|"), "pictures come before tables"


def test_the_figure_of_compressed_spilling_shows_the_measured_results() -> None:
    assert SPILL.read_text(encoding="utf-8") == spilled()


def test_the_links_of_the_front_page_lead_to_pages() -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", beginning_of_readme())
    assert targets
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []


def test_the_diagrams_are_up_to_date_with_their_sources() -> None:
    """scripts/draw_figures.py draws the diagrams from text files."""
    drawn = pictures()
    assert len(drawn) >= 5
    assert [path.name for path, picture in drawn.items() if path.read_text(encoding="utf-8") != picture] == []


def test_every_figure_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [path.name for path in FIGURES.glob("*.svg") if f"figures/{path.name})" not in pages] == []


def test_a_text_drawing_becomes_lines_boxes_arrows_and_labels() -> None:
    svg = Drawing("╔══╗\n║ab║┄┄▶ c & d  e\n╚══╝").svg()
    assert svg.count("<rect") == 1
    assert svg.count("<text") == 3
    assert ">c &amp; d</text>" in svg
    assert 'stroke-dasharray="5 3"' in svg
    one_line = Drawing("────").svg()
    assert one_line.count("L") == 1, "adjacent segments form one line"


def test_pages_of_the_site_inline_their_diagrams() -> None:
    images = '<img alt="a & b" src="../figures/token.svg" /><img alt="" src="figures/tutorial.svg">'
    page = on_page_content(f"<p>{images}</p>")
    assert page.count("<svg") == 1
    assert "<style>" not in page
    assert 'aria-label="a & b"' in page
    assert '<img alt="" src="figures/tutorial.svg">' in page, "matplotlib's has colours of its own"
    for own in ("measured", "results", "compressed-spill"):
        assert "<svg" in on_page_content(f'<img alt="" src="figures/{own}.svg">')
