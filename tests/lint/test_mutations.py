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
import package_mutants  # noqa: E402
import package_overlay  # noqa: E402
import python_mutations  # noqa: E402
from package_coverage import Reach  # noqa: E402

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


def test_assertions_of_the_code_itself_have_no_bugs(tmp_path):
    (tmp_path / "a.py").write_text(
        "pairs = zip(a, b, strict=True)\nc = sorted(a, reverse=True)\n", encoding="utf-8"
    )
    found = {(bug.line, bug.old) for bug in python_mutations.python_mutations_below(tmp_path, "a.py")}
    assert found == {(2, ", reverse=True"), (2, "True")}


def test_a_result_that_is_nothing_stays(tmp_path):
    text = "def f(a):\n    if a:\n        return False\n    return a.b\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    found = {
        (bug.line, bug.old, bug.new) for bug in python_mutations.python_mutations_below(tmp_path, "a.py")
    }
    assert found == {(2, "a", "False"), (2, "a", "True"), (3, "False", "True"), (4, "a.b", "None")}


def test_a_line_that_nothing_runs_counts_unless_its_file_is_listed():
    reach = Reach({"python/src/a.cpp:5": ["tests/a.py"]}, {"tests/a.py": 1.0}, {"python/src/a.cpp:8"})
    known = [reach.runs("python/src/a.cpp", line) for line in (4, 5, 7, 8, 20)]
    assert known == [False, True, True, False, False]
    bug = mutations.Mutation("python/src/a.cpp", 8, 0, "", "", "")
    assert package_mutants.can_be_found(reach, [], bug)
    assert not package_mutants.can_be_found(reach, ["python/src/*.cpp"], bug)
    assert package_mutants.can_be_found(reach, ["python/src/b.cpp"], bug)


def test_the_files_of_other_machines_stand_in_the_tree_with_reasons(tmp_path):
    listing = ROOT / "tests" / "mutants" / "elsewhere.txt"
    patterns = package_mutants.read_elsewhere(listing)
    lines = [line for line in listing.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
    assert len(patterns) == len(lines) > 0
    assert all(list(ROOT.glob(pattern)) for pattern in patterns)
    (tmp_path / "elsewhere.txt").write_text("# a comment\n\npython/src/a.cpp\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"elsewhere\.txt:3"):
        package_mutants.read_elsewhere(tmp_path / "elsewhere.txt")


def test_a_source_of_several_modules_is_compiled_for_each(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(package_overlay, "run_compiler", lambda build, command: compiled.append(command))
    modules = package_overlay.Modules.__new__(package_overlay.Modules)
    modules.root, modules.build = tmp_path, tmp_path / "build"
    source = str(tmp_path / "a.cpp")
    modules.compiled = {
        "a.cpp": [["c++", "-O2", "-o", f"{name}/a.o", source] for name in ("first", "second")]
    }
    made = modules.compile("a.cpp", tmp_path / "changed.cpp", tmp_path / "out", ("-g",))
    assert made == {f"{name}/a.o": tmp_path / "out" / name / "a.o" for name in ("first", "second")}
    assert compiled == [
        ["c++", f"-I{tmp_path}", "-O0", "-w", "-g", "-o", str(path), str(tmp_path / "changed.cpp")]
        for path in made.values()
    ]
