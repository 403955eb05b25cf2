#!/usr/bin/env python3
"""Plants the ordering bugs of tests/mutants/, one at a time, in a copy of the tree and lets random programs find them.

    mutants.py [--count N] [NAME...]

Each tests/mutants/NAME.patch breaks one rule of the memory plane. A patch that does not apply, a tree that does not
build, and a bug that no program finds within N schedules (1000) make this fail. The seed that finds a bug is run again:
the same seed must give the same report.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "mutants"
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
PROGRAM = BUILD / "bin" / "saeta_schedules"
COPIED = ("CMakeLists.txt", "cmake", "saeta", "tests", "python", "bench", "examples", "scripts")
LONGEST_RUN = 300  # seconds; a program that hangs has found its bug
SEED = re.compile(r"^seed (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    name: str
    found: bool
    how: str


def run(command: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], text=True, capture_output=True, check=False, **options
    )  # type: ignore[call-overload, no-any-return]


def must(command: Sequence[str | Path], what: str) -> None:
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"{what} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def copy_tree() -> None:
    """The copy keeps the times of the files, so that a second run builds only what has changed."""
    TREE.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source = ROOT / name
        target = TREE / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, target)
    deps = TREE / ".deps"
    if (ROOT / ".deps").exists() and not deps.exists():
        deps.symlink_to(ROOT / ".deps")


def configure() -> None:
    options = [f"-DSAETA_{part}=OFF" for part in ("CUDA", "PYTHON", "IPC", "BENCH", "EXAMPLES")]
    must(
        ["cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options],
        "configuration",
    )


def build(what: str) -> None:
    jobs = str(os.cpu_count() or 2)
    must(["cmake", "--build", BUILD, "--target", "saeta_schedules", "-j", jobs], f"building {what}")


def schedules(first: int, count: int) -> tuple[int | None, str]:
    """Exit code, None for a run that did not end, and what it printed."""
    try:
        done = run([PROGRAM, "--first-seed", str(first), "--count", str(count)], timeout=LONGEST_RUN)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def hunt(name: str, count: int) -> Result:
    code, text = schedules(0, count)
    if code is None:
        return Result(name, True, f"a program hangs (more than {LONGEST_RUN} s)")
    if code < 0:
        return Result(name, True, f"a program crashes (signal {-code})")
    if code == 0:
        return Result(name, False, f"not found in {count} schedules")
    found = SEED.search(text)
    if found is None:
        return Result(name, False, f"exit code {code} without a seed")
    seed = int(found[1])
    again = schedules(seed, 1)[1]
    if again.split("\n")[:2] != text.split("\n")[:2]:
        return Result(name, False, f"seed {seed} does not replay")
    first_line = again.split("\n")[1]
    return Result(name, True, f"seed {seed}: {first_line[:140]}")


def patch_tree(patch: Path, *extra: str) -> bool:
    return run(["patch", "-p1", "--no-backup-if-mismatch", *extra, "-d", TREE, "-i", patch]).returncode == 0


def try_mutant(patch: Path, count: int) -> Result:
    if not patch_tree(patch, "--dry-run"):
        return Result(patch.stem, False, "the patch no longer applies")
    patch_tree(patch)
    try:
        build(patch.stem)
        return hunt(patch.stem, count)
    finally:
        patch_tree(patch, "-R")


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("names", nargs="*")
    chosen = arguments.parse_args()
    patches = sorted(p for p in PATCHES.glob("*.patch") if not chosen.names or p.stem in chosen.names)
    if not patches:
        sys.exit("no patches")
    copy_tree()
    configure()
    build("the tree as it is")
    code, text = schedules(0, chosen.count)
    if code != 0:
        sys.exit(f"the tree as it is fails already:\n{text[:4000]}")
    print(f"as it is: {text.strip()}")
    results = []
    for patch in patches:
        results.append(try_mutant(patch, chosen.count))
        last = results[-1]
        print(f"{'found ' if last.found else 'MISSED'} {last.name}: {last.how}", flush=True)
    missed = [r.name for r in results if not r.found]
    print(
        f"{len(results) - len(missed)} of {len(results)} bugs found"
        + (f"; missed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
