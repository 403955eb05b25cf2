#!/usr/bin/env python3
"""Plants bugs, one at a time, and lets the tests find them.

    mutants.py [--count N] [NAME...]
    mutants.py --folder saeta/budget [FOLDER...] [--sample N] [--sample-each N] [--seed TEXT|commit]
               [--seconds S] [--jobs N] [--build DIR] [--out FILE] [--again FILE] [--sources-only] [--quick]
               [--at-least PERCENT] [--python]

Without a folder: the ordering bugs of tests/mutants/NAME.patch, each of which breaks one rule of the memory
plane, in a copy of the tree. A patch that does not apply, a tree that does not build, and a bug that no
random program finds within N schedules (1000) make this fail. The seed that finds a bug is run again: the
same seed must give the same report.

With folders: small bugs (scripts/mutations.py) anywhere below them, all or a sample drawn from the seed,
several at a time. The tests of the bug's folder run first, then the random programs, all other C++ tests and,
with --python, the tests of the Python package. Each bug is found, survives, does not compile or, in a header
that many include, is left out as costly. Survivors are printed as patches. Those of
tests/mutants/equivalent.txt change nothing that can be seen and are not tried. Fails when fewer than PERCENT
of a folder's bugs are found.
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

import mutation_run

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


def run(command: Sequence[str | Path], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    parts = [str(part) for part in command]
    return subprocess.run(parts, text=True, capture_output=True, check=False, timeout=timeout)


def must(command: Sequence[str | Path], what: str) -> None:
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"{what} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def copy_tree() -> None:
    """Writes only files that differ: a second run builds what has changed, a bug that a stopped run left
    among it."""
    wanted = set()
    for name in COPIED:
        above = ROOT / name
        for source in [above] if above.is_file() else sorted(above.rglob("*")):
            if not source.is_file() or "__pycache__" in source.parts:
                continue
            target = TREE / source.relative_to(ROOT)
            wanted.add(target)
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    for target in [p for name in COPIED for p in (TREE / name).rglob("*")]:
        if target.is_file() and target not in wanted:
            target.unlink()
    deps = TREE / ".deps"
    if (ROOT / ".deps").exists() and not deps.exists():
        deps.symlink_to(ROOT / ".deps")


def configure() -> None:
    options = [f"-DSAETA_{part}=OFF" for part in ("CUDA", "PYTHON", "IPC", "BENCH", "EXAMPLES")]
    command: list[str | Path] = [
        "cmake",
        "-S",
        TREE,
        "-B",
        BUILD,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    must([*command, *options], "configuration")


def build(what: str) -> None:
    jobs = str(os.cpu_count() or 2)
    must(["cmake", "--build", BUILD, "--target", "saeta_schedules", "-j", jobs], f"building {what}")


def schedules(first: int, count: int, odds: Sequence[str]) -> tuple[int | None, str]:
    """Exit code, None for a run that did not end, and what it printed."""
    command: list[str | Path] = [PROGRAM, "--first-seed", str(first), "--count", str(count), *odds]
    try:
        done = run(command, timeout=LONGEST_RUN)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def hunt(name: str, count: int) -> Result:
    """Plain programs first, then those on two devices with captures of others, then with a driver that
    fails."""
    result = Result(name, False, "")
    for odds in ((), ("--devices", "2", "--captures"), ("--devices", "2", "--captures", "--faults", "2")):
        result = hunt_with(name, count, odds)
        if result.found:
            break
    return result


def hunt_with(name: str, count: int, odds: Sequence[str]) -> Result:
    code, text = schedules(0, count, odds)
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
    again = schedules(seed, 1, odds)[1]
    if again.split("\n")[:2] != text.split("\n")[:2]:
        return Result(name, False, f"seed {seed} does not replay")
    first_line = again.split("\n")[1]
    return Result(name, True, " ".join([f"seed {seed}", *odds]) + f": {first_line[:140]}")


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


def plant_patches(names: Sequence[str], count: int) -> int:
    patches = sorted(p for p in PATCHES.glob("*.patch") if not names or p.stem in names)
    if not patches:
        sys.exit("no patches")
    copy_tree()
    configure()
    build("the tree as it is")
    code, text = schedules(0, count, ())
    if code != 0:
        sys.exit(f"the tree as it is fails already:\n{text[:4000]}")
    print(f"as it is: {text.strip()}")
    results = []
    for patch in patches:
        results.append(try_mutant(patch, count))
        last = results[-1]
        print(f"{'found ' if last.found else 'MISSED'} {last.name}: {last.how}", flush=True)
    missed = [r.name for r in results if not r.found]
    print(
        f"{len(results) - len(missed)} of {len(results)} bugs found"
        + (f"; missed: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("names", nargs="*")
    mutation_run.add_arguments(arguments)
    chosen = arguments.parse_args()
    if chosen.folder:
        return mutation_run.plant(ROOT, WORK, chosen)
    return plant_patches(chosen.names, chosen.count)


if __name__ == "__main__":
    sys.exit(main())
