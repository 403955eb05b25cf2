"""Names in backticks exist, and scripts/lint_names.py sees those that do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import lint_names as lint  # noqa: E402


@pytest.fixture(scope="module")
def tree() -> lint.Tree:
    return lint.Tree(ROOT)


@pytest.mark.parametrize("page", lint.pages(ROOT), ids=lambda page: page.name)
def test_every_name_of_a_page_exists(page: Path, tree: lint.Tree) -> None:
    name = page.relative_to(ROOT).as_posix()
    assert list(lint.check_page(name, page.read_text(encoding="utf-8"), tree)) == []


@pytest.mark.parametrize(
    "span",
    [
        "saeta/order/timeline.hpp",
        "backend/cuda",
        "tests/mutants/*.patch",
        "data_type.cpp",
        "make lint",
        "budget::charge_or_refuse",
        "budget_window::read",
        "saeta::open_context(device, options)",
        "saeta::rmm",
        "errc::device_lost",
        "ctx.memory.window",
        "window.peak",
        "Context.memory.child(name, limit)",
        "saeta.rmm.resource",
        'sa.context("host", budget="1GiB")',
        "scripts/mutants.py --folder saeta/budget",
        "SAETA_BUDGET_WAIT",
        "SAETA_RMM",
        "torch.cuda.graph",
        "std::function",
        "p50_ns",
    ],
)
def test_names_that_exist_are_found(span: str, tree: lint.Tree) -> None:
    assert list(lint.unknown_names(span, tree)) == []


@pytest.mark.parametrize(
    ("span", "unknown"),
    [
        ("saeta/order/no_such_header.hpp", "saeta/order/no_such_header.hpp"),
        ("bench/no_such_folder/", "bench/no_such_folder/"),
        ("no_such_source.cpp", "no_such_source.cpp"),
        ("make no-such-target", "no-such-target"),
        ("budget::no_such_member", "budget::no_such_member"),
        ("budget::cache_slab", "budget::cache_slab"),  # of another class
        ("no_such_class::make_child", "no_such_class::make_child"),
        ("saeta::no_such_function()", "saeta::no_such_function"),
        ("ctx.no_such_attribute", "ctx.no_such_attribute"),
        ("ctx.memory.no_such_attribute", "ctx.memory.no_such_attribute"),
        ("ctx.guard_check", "ctx.guard_check"),  # of ctx.memory
        ("sa.no_such_function(ctx)", "sa.no_such_function"),
        ("saeta.rmm.no_such_function", "saeta.rmm.no_such_function"),
        ("sa.context(device, no_such_keyword=1)", "no_such_keyword"),
        ("scripts/mutants.py --no-such-option", "--no-such-option"),
        ("SAETA_NO_SUCH_VARIABLE", "SAETA_NO_SUCH_VARIABLE"),
        ("no_such_word", "no_such_word"),
    ],
)
def test_names_that_do_not_exist_are_named(span: str, unknown: str, tree: lint.Tree) -> None:
    assert unknown in list(lint.unknown_names(span, tree))


def test_a_name_in_a_comment_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("")
    for path, text in (
        ("saeta/a.hpp", "// commented_out\nint kept;\n"),
        ("scripts/a.py", "x = 1  # also_out\n"),
    ):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    tree = lint.Tree(tmp_path)
    assert list(lint.unknown_names("kept commented_out also_out", tree)) == ["commented_out", "also_out"]


def test_blocks_of_code_and_columns_of_others_are_left_out() -> None:
    page = "`a` and `b`\n```\n`c`\n```\n| `d` | `e` |\n"
    assert [span for _, span in lint.spans(page)] == ["a", "b", "d", "e"]
    assert [span for _, span in lint.spans(page, 1)] == ["a", "b", "e"]


@pytest.mark.parametrize("allowed", [lint.FOREIGN, lint.FOREIGN_COLUMNS])
def test_nothing_is_allowed_that_no_page_says(allowed: dict[str, object]) -> None:
    said = {page.relative_to(ROOT).as_posix() for page in lint.pages(ROOT)}
    for page in lint.pages(ROOT):
        said |= {span for _, span in lint.spans(page.read_text(encoding="utf-8"))}
    assert set(allowed) - said == set()


def test_the_program_fails_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("known:\n")
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    stub = tmp_path / lint.STUB
    stub.parent.mkdir(parents=True)
    stub.touch()
    command = [sys.executable, str(ROOT / "scripts" / "lint_names.py"), str(tmp_path)]
    for text, code in (("\n`make known`\n", 0), ("\n`make unknown`\n", 1)):
        page.write_text(text)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == "docs/page.md:2: `make unknown`: unknown is not found\n"
    stub.unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, f"{lint.STUB} is missing: make package builds it\n")
