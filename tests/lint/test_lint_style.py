"""Every rule of scripts/lint_style.py can fail, and holds for what it allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lint_style as lint  # noqa: E402

LONG = "word " * 23


def rules(path: str, source: str) -> list[str]:
    return [finding.rule for finding in lint.check_file(path, source)]


@pytest.mark.parametrize("path", ["a.cpp", "a.hpp", "a.cu", "a.cuh", "a.py", "a.md"])
def test_a_line_has_at_most_110_columns(path: str) -> None:
    mark = {".py": "# ", ".md": ""}.get(Path(path).suffix, "// ")
    line = (mark + LONG)[:110]
    assert rules(path, line + "\n") == []
    assert rules(path, line + "s\n") == ["columns"]


@pytest.mark.parametrize(
    "page",
    [f"| {LONG} |\n", f"- [short]({'a/' * 60}b.md)\n", f"<https://{'a/' * 60}>\n"],
)
def test_tables_and_links_of_a_page_may_be_longer(page: str) -> None:
    assert rules("docs/a.md", page) == []
    assert rules("docs/a.md", f"```text\n{LONG}\n```\n") == ["columns"], "the site shows it without scrolling"
    assert rules("docs/a.md", f"{LONG} [short](b.md)\n") == ["columns"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.cpp", "int a; // Of a stream.\n"),
        ("a.hpp", "/// Of a stream.\n"),
        ("a.cpp", "/* Of a stream. */\n"),
        ("a.cpp", "// First.\n//\n// Of a stream.\n"),
        ("a.py", "# Of a stream.\n"),
        ("a.py", 'def f():\n    """Of a stream."""\n'),
        ("a.sh", "# Of a stream.\n"),
        ("a.md", "Of a stream.\n"),
        ("a.md", "Text.\n- Of a stream.\n"),
        ("a.md", "Text.\n\n1. Of a stream.\n"),
    ],
)
def test_nothing_begins_with_of(path: str, source: str) -> None:
    assert rules(path, source) == ["opener"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.cpp", "// The end\n// Of is not a beginning.\n"),
        ("a.cpp", "// Offsets of a stream.\n"),
        ("a.cpp", "int Of = 1;\n"),
        ("a.py", 'text = "Of a stream"\n'),
        ("a.py", 'text = """Of a stream."""\n'),
        ("a.md", "The end\nOf a sentence.\n"),
        ("a.md", "```\nOf a stream.\n```\n"),
    ],
)
def test_of_may_stand_elsewhere(path: str, source: str) -> None:
    assert rules(path, source) == []


@pytest.mark.parametrize("text", ["It is no stream.", "They are no streams.", "It was no stream."])
def test_a_thing_is_not_another(text: str) -> None:
    assert rules("a.cpp", f"// {text}\n") == ["negation"]
    assert rules("a.py", f"x = 1  # {text}\n") == ["negation"]
    assert rules("a.md", f"{text}\n") == ["negation"]
    assert rules("a.cpp", f'const char* text = "{text}";\n') == []


@pytest.mark.parametrize(
    "text",
    [
        "It is not a stream.",
        "There is no stream.",
        "Where there are no streams.",
        "It is no longer one.",
        "`is no x`",
    ],
)
def test_what_is_missing_may_be_said(text: str) -> None:
    assert rules("a.md", f"{text}\n") == []


def test_the_folders_are_clean() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "lint_style.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_program_fails_and_names_the_line(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("A page.\n\nOf a stream.\n")
    command = [sys.executable, str(ROOT / "scripts" / "lint_style.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("docs/page.md:3: [opener]")
