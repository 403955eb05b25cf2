"""Each rule in the tables of tests/acceptance*.md names tests, and all named tests exist.

At least one test of each line of the acceptance paragraph is a conformance test: a TEST_P in a suite that
runs on all backends. Conformance tests register every context, so that the harness checks its counters at the
end.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TABLE = (TESTS / "acceptance.md").read_text(encoding="utf-8")
EXCHANGE = (TESTS / "acceptance_exchange.md").read_text(encoding="utf-8")
ENGINES = (TESTS / "acceptance_engines.md").read_text(encoding="utf-8")
TIERS = (TESTS / "acceptance_tiers.md").read_text(encoding="utf-8")
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.cpp"))}

PARAGRAPH = "The paragraph"


def defined_by(macro: str) -> set[str]:
    """Returns the tests that a GoogleTest macro defines, as suite.test."""
    found = set()
    for text in SOURCES.values():
        found |= {
            f"{suite}.{name}"
            for suite, name in re.findall(rf"^{macro}\((\w+),\s*(\w+)\)", text, re.MULTILINE)
        }
    return found


def on_every_backend() -> set[str]:
    """Returns the names of the conformance tests."""
    suites = set()
    for path, text in SOURCES.items():
        if (TESTS / "conformance") in path.parents:
            suites |= set(re.findall(r"^SAETA_CONFORMANCE_SUITE\((\w+)\);", text, re.MULTILINE))
    return {name for name in defined_by("TEST_P") if name.split(".")[0] in suites}


def in_python() -> set[str]:
    found = set()
    for path in TESTS.rglob("test_*.py"):
        names = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        found |= {f"{path.relative_to(ROOT).as_posix()}::{name}" for name in names}
    return found


EXISTING = defined_by("TEST") | defined_by("TEST_F") | defined_by("TEST_P") | in_python()


def rows(page: str) -> list[tuple[str, str, list[str]]]:
    """Returns section, rule and test names of each row."""
    section = ""
    found = []
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif (row := re.fullmatch(r"\| (.+) \| (.+) \|", line)) and row[2] != "tests":
            found.append((section, row[1], re.findall(r"`([^`]+)`", row[2])))
    return found


def missing(page: str) -> list[str]:
    return [name for _, _, names in rows(page) for name in names if name not in EXISTING]


def unproved(page: str) -> list[str]:
    """Returns the lines of the paragraph that name no conformance test."""
    known = on_every_backend()
    return [rule for section, rule, names in rows(page) if section == PARAGRAPH and not known & set(names)]


def lines_of_the_paragraph() -> list[str]:
    quoted = " ".join(line.removeprefix("> ") for line in TABLE.splitlines() if line.startswith("> "))
    return [line.strip() for line in quoted.split("·")]


def test_every_named_test_exists() -> None:
    assert missing(TABLE) == []
    assert missing(EXCHANGE) == []
    assert missing(TIERS) == []
    assert missing(ENGINES) == []


def test_every_rule_has_a_test() -> None:
    assert [
        rule for page in (TABLE, EXCHANGE, ENGINES, TIERS) for _, rule, names in rows(page) if not names
    ] == []
    assert {section for section, _, _ in rows(TABLE)} >= {
        PARAGRAPH,
        "Resources",
        "Budget",
        "Streams, events, use tokens",
        "Context",
        "Diagnostics",
    }


def test_every_line_of_the_paragraph_has_a_row() -> None:
    assert len(lines_of_the_paragraph()) == 17
    assert [rule for section, rule, _ in rows(TABLE) if section == PARAGRAPH] == lines_of_the_paragraph()


def test_every_line_of_the_paragraph_has_a_conformance_test() -> None:
    assert unproved(TABLE) == []


def test_a_name_of_a_missing_test_is_found() -> None:
    name = "contexts.report_live_memory_at_close_and_refuse_new_work"
    assert name not in missing(TABLE)
    assert "contexts.report_nothing" in missing(TABLE.replace(name, "contexts.report_nothing"))


def test_a_unit_test_alone_does_not_prove_a_line() -> None:
    name = "ordering.memory_dropped_during_a_write_is_not_reused_before_its_end"
    page = TABLE.replace(name, "reaper_test.runs_a_release_without_dependencies_immediately")
    assert unproved(page) == ["drop while work is pending on another stream is safe"]


@pytest.mark.parametrize(
    "path", sorted((TESTS / "conformance").rglob("*.[ch]pp")), ids=lambda path: path.name
)
def test_conformance_tests_register_every_context(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    made = len(re.findall(r"\bcontext::create\(", text))
    assert made == len(re.findall(r"\bwatch\(context::create\(", text))


@pytest.mark.parametrize("path", sorted((TESTS / "conformance").rglob("*.cpp")), ids=lambda path: path.name)
def test_an_overridden_tear_down_calls_the_base_class(path: Path) -> None:
    for body in re.findall(
        r"  void TearDown\(\) override \{(.*?)\n  \}", path.read_text(encoding="utf-8"), re.DOTALL
    ):
        assert re.search(r"\b(backend_test|context_test|spill_test)::TearDown\(\);", body)
