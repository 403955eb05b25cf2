"""CTest tests that run pytest, and scripts/lint.sh: a run that failed or checked nothing must not count as
passed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77

TESTS = """
import pytest
def test_passes(): pass
def test_fails(): print("==== 3 skipped in 0.1s ===="); assert False
def test_skips(): pytest.skip("as it should")
@pytest.fixture
def absent(): pytest.skip("no device")
def test_fixture_skips(absent): pass
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture
def broken(): raise RuntimeError
def test_error(broken): pass
"""


@pytest.mark.parametrize(
    ("selected", "code"),
    [
        ("passes", 0),
        ("passes or skips", 0),
        ("test_skips or fixture_skips", SKIPPED),
        ("fails", 1),
        ("fails or skips", 1),
        ("error or skips", 1),
        ("known", 0),
        ("no_such_test", 5),
    ],
)
def test_a_pytest_lane_is_skipped_only_if_all_its_tests_were(tmp_path, selected, code):
    (tmp_path / "test_probe.py").write_text(TESTS, encoding="utf-8")
    lane = ROOT / "tests" / "lanes" / "run_pytest.py"
    command = [
        sys.executable,
        lane,
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "-k",
        selected,
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stdout


@pytest.mark.parametrize(
    ("share", "expected"), [("1/2", {"a", "c"}), ("2/2", {"b"}), ("1/1", {"a", "b", "c"})]
)
def test_a_pytest_lane_runs_its_share_of_the_files(tmp_path, share, expected):
    for name in "abc":
        program = f"def test_{name}():\n    open('ran_{name}', 'w').close()\n"
        (tmp_path / f"test_{name}.py").write_text(program, encoding="utf-8")
    lane = ROOT / "tests" / "lanes" / "run_pytest.py"
    command = [sys.executable, lane, "--share", share, "-c", os.devnull, "-m", "not gpu", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert {each.name.removeprefix("ran_") for each in tmp_path.glob("ran_*")} == expected


def lint(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the lint script of a tree with no tool installed except Python."""
    bin_folder = tree / "bin"
    bin_folder.mkdir(exist_ok=True)
    for name in ("bash", "dirname", "find", "xargs", "env"):
        if not (bin_folder / name).exists():
            (bin_folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    python = bin_folder / "python3"
    if not python.exists():
        # A Python without modules (no ruff, no mypy), with which the structure lint passes.
        python.write_text('#!/bin/sh\n[ "$1" = -m ] && exit 1\nexit 0\n', encoding="utf-8")
        python.chmod(0o755)
    return subprocess.run(
        [tree / "scripts" / "lint.sh", *options],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(bin_folder)},
    )


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy2(ROOT / "scripts" / "lint.sh", tmp_path / "scripts")
    for folder in ("saeta", "python/src", "tests", "bench", "examples"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_lint_fails_when_a_tool_is_missing(tree):
    done = lint(tree)
    assert done.returncode == 1, done.stdout
    for name in ("clang-format", "ruff", "mypy", "clang-tidy"):
        assert f"not checked: {name}" in done.stdout


def test_lint_lists_the_skipped_checks_when_tools_may_be_missing(tree):
    done = lint(tree, "--allow-missing")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not checked: clang-tidy" in done.stdout
    assert "clean, but for what was not checked" in done.stdout


def test_lint_of_changes_checks_only_changed_files(tree):
    (tree / "scripts" / "changed_files.sh").write_text(
        "#!/bin/sh\necho saeta/a.cpp\necho README.md\n", encoding="utf-8"
    )
    (tree / "scripts" / "changed_files.sh").chmod(0o755)
    (tree / "bin").mkdir()
    for name, text in (
        ("clang-format", 'echo "formats $*"'),
        ("run-clang-tidy", 'echo "tidies $*"'),
        ("cmake", ""),
    ):
        (tree / "bin" / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tree / "bin" / name).chmod(0o755)
    for name in ("grep", "nproc"):
        (tree / "bin" / name).symlink_to(shutil.which(name))
    done = lint(tree, "--allow-missing", "--changed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "formats --dry-run -Werror saeta/a.cpp\n" in done.stdout
    assert re.search(rf"^tidies .* {re.escape(str(tree))}/saeta/a\.cpp\$$", done.stdout, re.MULTILINE), (
        done.stdout
    )
    assert "mypy" not in done.stdout


def test_changed_files_are_those_that_differ_from_the_main_branch_and_new_ones(tmp_path):
    def git(*arguments):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "scripts").mkdir()
    shutil.copy2(ROOT / "scripts" / "changed_files.sh", tmp_path / "scripts")
    for name in ("kept", "committed", "edited", "removed"):
        (tmp_path / name).write_text("a\n")
    git("init", "--initial-branch=trunk")
    git("add", ".")
    git("commit", "--message=first")
    git("checkout", "-b", "branch")
    (tmp_path / "committed").write_text("b\n")
    git("commit", "--all", "--message=second")
    (tmp_path / "edited").write_text("b\n")
    (tmp_path / "removed").unlink()
    (tmp_path / "new").write_text("b\n")
    for branch, changed in (("trunk", "committed\nedited\nnew\n"), ("no-such-branch", "edited\nnew\n")):
        command = [tmp_path / "scripts" / "changed_files.sh", branch]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == changed


def test_continuous_integration_does_not_allow_missing_tools():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make lint LINT_OPTIONS=\n" in script, "CI must ignore LINT_OPTIONS of the environment"


def test_continuous_integration_ends_with_the_summary_of_all_tests():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.splitlines()[-1] == "make test", "ctest must come last, so that its summary ends the log"


def test_both_sanitizers_run_before_a_release():
    script = (ROOT / "scripts" / "thorough.sh").read_text(encoding="utf-8")
    for lane in ("asan", "tsan"):
        assert re.search(rf"^[^#]*\bctest --preset {lane}\b", script, re.MULTILINE), lane
    assert "thorough" in (ROOT / "scripts" / "release.py").read_text(encoding="utf-8")
