"""The small bugs that scripts/mutants.py plants: many, the same ones for the same seed, each a change of
code alone."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import mutations  # noqa: E402
import python_mutations  # noqa: E402

SOURCE = """#include <a == b>
// a == b
namespace saeta {
int first(int a, int b) {
  const char* text = "a == b";
  if (a < b && b != 3) { // && in a comment
    note(a, "x + 1");
    return a + 1;
  }
  return !ready(a) ? 0 : b;
}
#if SAETA_HAS_CUDA
int second() { return 1 + 2; }
#else
int second() { return -3; }
#endif
} // namespace saeta
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "saeta").mkdir()
    (tmp_path / "saeta" / "a.cpp").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def changes(tree):
    return {(bug.line, bug.old, bug.new, bug.kind) for bug in mutations.mutations_below(tree, "saeta")}


def test_every_kind_of_bug_is_planted_in_code_alone(tree):
    assert changes(tree) == {
        (6, "a < b && b != 3", "true", "condition"),
        (6, "a < b && b != 3", "false", "condition"),
        (6, "<", "<=", "comparison"),
        (6, "&&", "||", "logic"),
        (6, "!=", "==", "comparison"),
        (6, "3", "4", "constant"),
        (6, "3", "2", "constant"),
        (7, 'note(a, "x + 1");', ";", "dropped statement"),
        (8, "+", "-", "arithmetic"),
        (8, "1", "2", "constant"),
        (10, "!", "", "negation"),
        (10, "0", "1", "constant"),
        (15, "3", "4", "constant"),
        (15, "3", "2", "constant"),
    }


def test_a_bug_changes_one_line_and_its_patch_says_which(tree):
    bug = next(b for b in mutations.mutations_below(tree, "saeta") if b.kind == "logic")
    patch = bug.patch(tree)
    assert bug.changed(tree) == SOURCE.replace("a < b && b", "a < b || b")
    assert "-  if (a < b && b != 3) { // && in a comment" in patch
    assert "+  if (a < b || b != 3) { // && in a comment" in patch
    (tree / "saeta" / "a.cpp").write_text("\n" + SOURCE, encoding="utf-8")
    with pytest.raises(ValueError, match="has changed"):
        bug.changed(tree)


def test_there_are_hundreds_of_bugs_in_every_kind_of_code():
    found = mutations.mutations_below(ROOT, "saeta")
    assert len(found) >= 300
    kinds = Counter(bug.kind for bug in found)
    assert min(kinds.values()) >= 20, kinds
    folders = Counter(bug.path.split("/")[1] for bug in found)
    assert {"budget", "order", "resource", "memory", "column", "transfer", "interop", "ipc"} <= folders.keys()
    assert not any(bug.path.startswith(mutations.LEFT_OUT) for bug in found)


def test_a_seed_draws_the_same_bugs_again():
    found = mutations.mutations_below(ROOT, "saeta/budget")
    assert mutations.draw(found, 20, "a") == mutations.draw(found, 20, "a")
    assert mutations.draw(found, 20, "a") != mutations.draw(found, 20, "b")


def test_a_bug_that_is_gone_leaves_the_others_of_a_sample():
    found = mutations.mutations_below(ROOT, "saeta/budget")
    drawn = mutations.draw(found, 20, "a")
    left = [bug for bug in found if bug != drawn[7]]
    assert mutations.draw(left, 19, "a") == drawn[:7] + drawn[8:]


def below(root, path):
    in_python = path.startswith("python/saeta")
    return (
        python_mutations.python_mutations_below(root, path)
        if in_python
        else mutations.mutations_below(root, path)
    )


def test_bugs_that_change_nothing_are_named_as_they_stand_in_the_tree():
    known = mutations.read_equivalent(ROOT / "tests" / "mutants" / "equivalent.txt")
    standing = {
        (bug.path, bug.text(ROOT), bug.change(ROOT))
        for path in {path for path, _, _ in known}
        for bug in below(ROOT, path)
    }
    assert not known - standing, "these lines have changed: look at their bugs again"


@pytest.mark.parametrize(
    "patch", sorted((ROOT / "tests" / "mutants").glob("*.patch")), ids=lambda patch: patch.stem
)
def test_a_patch_fits_the_tree(patch):
    tried = subprocess.run(
        ["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, tried.stderr


def test_an_equivalent_bug_needs_a_reason(tmp_path):
    listing = tmp_path / "equivalent.txt"
    listing.write_text("# a comment\n\nsaeta/a.cpp | a == b | == -> != at 2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"equivalent\.txt:3"):
        mutations.read_equivalent(listing)
