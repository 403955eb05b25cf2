#!/usr/bin/env python3
"""Inserts bugs, one at a time, into a copy of the tree and checks that the tests find them.

    mutants.py [--count N] [NAME...]
    mutants.py --folder saeta/ipc [FOLDER or FILE...] [--sample N] [--seed TEXT] [--quick] [--out FILE]

Without a folder: applies the ordering bugs of tests/mutants/NAME.patch, each of which breaks one rule of the
memory layers. Fails if a patch does not apply, if the tree does not build, or if no random program finds the
bug within N schedules (3000). The seed that finds a bug is run again and must give the same report.

With folders of saeta/ or python/: tests mutants of .cpp and .py files, made by universalmutator
(setup.py --tools) and chosen by the seed. The tests of the mutant's folder run first, then all others unless
--quick is given. A mutant is found by a test, survives and is printed as a patch, or does not compile and is
replaced by another one.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants"
TREE, BUILD, PLANTED = WORK / "tree", WORK / "build", WORK / "planted"
SCHEDULES = str(BUILD / "bin" / "saeta_schedules")
ODDS = ("--devices", "2", "--captures", "--faults", "2")
PROGRAMS = {folder: str(BUILD / "bin" / f"saeta_{folder}_tests") for folder in ("unit", "conformance")}
PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not gpu"]
TARGETS = {"saeta": ["saeta_check"], "python": ["python/all", "saeta_sim"]}
FOUND, SURVIVED, NOT_COMPILED = "found", "survived", "does not compile"
TIMED_OUT = 124
PASSED = (0, 77)  # 77: every selected test was skipped (tests/support/main.cpp)
SEED = re.compile(r"^seed (\d+)", re.MULTILINE)
SUITE = re.compile(r"^TEST(?:_P|_F)?\((\w+),", re.MULTILINE)
FAILED = re.compile(r"^(?:\[  FAILED  \]|FAILED|ERROR) [^\s,]+", re.MULTILINE)
RULES = {".py": ["universal", "python"], ".cpp": ["universal", "c_like", "cpp"]}
# Lines without a mutant: declarations, and code whose change no test can observe.
IGNORED = [r"^\s*(//|#|@|using |namespace |static_assert|(async )?def |class )|\breserve\(|memory_order"]
LEFT_OUT = ("saeta/backend/cuda", "saeta/rmm", "saeta/rapidsmpf", "python/saeta/bench", "python/saeta/demo")
DATA = str(ROOT.parent / "shared" / "data")
# If memory runs out, the kernel kills the mutant first. Its files end at 4 GiB (blocks of 512 bytes).
GUARDED = 'echo 1000 >/proc/self/oom_score_adj; ulimit -c 0; ulimit -S -f 8388608; exec "$@" 2>&1'
COPY = 'cd "$0" && git ls-files -z -co --exclude-standard | xargs -0 cp --parents -pt "$1"; cd "$1/saeta"'


def run(command: Sequence[str | Path], limit: float = 7200.0, text: str = "") -> tuple[int, str]:
    """Runs a command. Returns the exit code (TIMED_OUT after `limit` seconds) and the output."""
    whole = ["sh", "-c", GUARDED, "sh", "timeout", "-k", "5", str(limit), *map(str, command)]
    done = subprocess.run(whole, cwd=TREE, input=text, stdout=subprocess.PIPE, text=True, errors="replace")
    return done.returncode, done.stdout


def must(command: Sequence[str | Path], what: str, text: str = "") -> None:
    if (done := run(command, text=text))[0] != 0:
        sys.exit(f"{what} failed:\n{done[1][-6000:]}")


def build(targets: Sequence[str]) -> list[str | Path]:
    return ["cmake", "--build", BUILD, "-j", str(os.cpu_count() or 2), "--target", *targets]


def prepare(targets: Sequence[str]) -> None:
    """Copies the tree, including uncommitted changes, and builds it."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    must(["sh", "-c", COPY, ROOT, TREE], "copying the tree")
    (TREE / ".deps").symlink_to(ROOT / ".deps")
    for name in PLANTED.read_text().split() if PLANTED.exists() else ():
        (TREE / name).touch()  # its object file may be that of a mutant
    must(["cmake", "--preset", "mutants", "-B", BUILD, f"-DSAETA_SHARED_DATA={DATA}"], "configuration")
    must(build(targets), "building the tree as it is")
    PLANTED.write_text("")


@contextlib.contextmanager
def planted(patch: str, name: str) -> Iterator[None]:
    command = ["patch", "-p1", "--forward", "--no-backup-if-mismatch"]
    must(command, f"patching the tree with {name}", patch)
    with PLANTED.open("a") as names:
        names.write("\n".join([*re.findall(r"^\+\+\+ b/(\S+)", patch, re.MULTILINE), ""]))
    try:
        yield
    finally:
        must([*command, "-R"], f"taking {name} back", patch)


def hunt(count: int) -> tuple[bool, str]:
    """Returns whether random programs find the bug, and how. The later programs have further options."""
    for odds in ((), ODDS[:3], ODDS):
        code, text = run([SCHEDULES, "--count", str(count), *odds], 300)
        seed = SEED.search(text)
        if code == 0:
            continue
        if seed is None:
            return True, "a program hangs" if code == TIMED_OUT else f"exit code {code}"
        again = run([SCHEDULES, "--first-seed", seed[1], "--count", "1", *odds], 300)[1]
        same = again.splitlines()[:2] == text.splitlines()[:2]
        outcome = again.splitlines()[1][:140] if same else "does not replay"
        return same, " ".join([f"seed {seed[1]}", *odds, outcome])
    return False, f"not found in {count} schedules"


def plant_patches(names: Sequence[str], count: int) -> int:
    patches = sorted(p for p in (ROOT / "tests" / "mutants").glob("*.patch") if p.stem in names or not names)
    prepare(["saeta_schedules"])
    must([SCHEDULES, "--count", str(count)], "the tree as it is")
    missed = []
    for patch in patches:
        with planted(patch.read_text(encoding="utf-8"), patch.name):
            must(build(["saeta_schedules"]), f"building {patch.stem}")
            found, how = hunt(count)
        missed += [] if found else [patch.stem]
        print(f"{'found ' if found else 'MISSED'} {patch.stem}: {how}", flush=True)
    print(f"{len(patches) - len(missed)} of {len(patches)} bugs found; missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


@dataclass(frozen=True)
class Mutant:
    """A source file with one changed line."""

    path: str
    line: int
    text: str

    def sources(self) -> list[str]:
        """Returns the original text of the file, and the text with the mutant."""
        source = (ROOT / self.path).read_text(encoding="utf-8")
        lines = source.splitlines(keepends=True)
        return [source, "".join([*lines[: self.line - 1], self.text, *lines[self.line :]])]

    def patch(self) -> str:
        before, after = (source.splitlines(keepends=True) for source in self.sources())
        return "".join(difflib.unified_diff(before, after, f"a/{self.path}", f"b/{self.path}"))

    def changes_code(self) -> bool:
        """Returns whether Python compiles the mutant to different code. Changed docstrings do not count."""
        with contextlib.suppress(SyntaxError):
            before, after = (compile(source, "", "exec", optimize=2) for source in self.sources())
            return before != after
        return False


def drawn(folders: Sequence[str], seed: str) -> list[Mutant]:
    """Returns all mutants in a random order given by the seed."""
    from universalmutator.mutator import mutants_regexp

    mutants = []
    for path in sorted({path for name in folders for path in [ROOT / name, *(ROOT / name).rglob("*")]}):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in RULES and not name.startswith(LEFT_OUT):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            with contextlib.redirect_stdout(io.StringIO()):
                made = mutants_regexp(lines, RULES[path.suffix], False, False, IGNORED, ignoreStringOnly=True)
            # Mutants with an additional line insert `break;` or `continue;`, which rarely compile.
            mutants += [Mutant(name, line, text) for line, text, *_ in made if text.count("\n") == 1]
    random.Random(seed).shuffle(mutants)
    return mutants


def tests_of(path: str, quick: bool) -> list[list[str]]:
    """Returns the tests of the file's C++ layer, or Python tests with similar names, then (not quick) all."""
    parts = Path(path).with_suffix("").parts[1:]
    if path.startswith("python/"):
        files = sorted((TREE / "tests" / "python").glob("test_*.py"))
        near = [str(file) for file in files if any(part.strip("_") in file.stem for part in parts[1:])]
        commands = [[*PYTEST, *near]] if near else []
        return commands if quick else [*commands, [*PYTEST, "tests/python", "tests/interop"]]
    commands = []
    for folder, program in PROGRAMS.items():
        sources = (TREE / "tests" / folder / parts[0]).rglob("*.cpp")
        suites = {name for source in sources for name in SUITE.findall(source.read_text(encoding="utf-8"))}
        chosen = ":".join(f"{name}.*:*/{name}.*" for name in sorted(suites))
        commands += [[program, f"--gtest_filter={chosen}:-*cuda*"]] if suites else []
    if not quick:
        commands += [[SCHEDULES, "--count", "200", *odds] for odds in ((), ODDS)]
        commands += [[program, "--gtest_filter=-*cuda*"] for program in PROGRAMS.values()]
    return commands


def judge(mutant: Mutant, commands: Sequence[list[str]], limit: float) -> tuple[str, str]:
    """Returns the verdict about a mutant, and the reason. A flaky failure does not count as finding it."""
    if mutant.path.endswith(".py") and not mutant.changes_code():
        return NOT_COMPILED, "or to the same code"
    with planted(mutant.patch(), mutant.path):
        code, text = run(build(TARGETS[mutant.path.split("/")[0]]))
        if code != 0:
            return NOT_COMPILED, next((line for line in text.splitlines() if "error" in line), "")
        for command in commands:
            code, text = run(command, limit)
            if code == TIMED_OUT or (code not in PASSED and run(command, limit)[0] not in PASSED):
                failed = FAILED.search(text) or SEED.search(text)
                return FOUND, failed[0] if failed else f"exit code {code}"
    return SURVIVED, ""


def plant_mutants(chosen: argparse.Namespace) -> int:
    prepare(sorted({target for name in chosen.folder for target in TARGETS[name.split("/")[0]]}))
    limit = 60.0
    for command in [command for name in chosen.folder for command in tests_of(name, chosen.quick)]:
        begun = time.monotonic()
        must(command, f"{command} in the tree as it is")
        limit = max(limit, 60 + 5 * (time.monotonic() - begun))
    results, counts = list[dict[str, object]](), Counter[str]()
    for mutant in drawn(chosen.folder, chosen.seed):
        if counts[FOUND] + counts[SURVIVED] == chosen.sample:
            break
        outcome, how = judge(mutant, tests_of(mutant.path, chosen.quick), limit)
        counts[outcome] += 1
        results.append({**asdict(mutant), "outcome": outcome, "how": how})
        print(f"{outcome} {mutant.path}:{mutant.line} {mutant.text.strip()}: {how[:140]}")
        print(mutant.patch() if outcome == SURVIVED else "", end="", flush=True)
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in (FOUND, SURVIVED, NOT_COMPILED)))
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def main() -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", action="extend", nargs="+", default=[])
    parser.add_argument("--sample", type=int, default=40, help="how many mutants are found or survive")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--quick", action="store_true", help="only the tests of the mutant's folder")
    parser.add_argument("--out", type=Path, help="a file for the results, in JSON")
    chosen = parser.parse_args()
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "GTEST_FAIL_FAST": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ |= {"PYTHONPATH": f"{BUILD}/python", "SAETA_BUILD": f"{BUILD}", "SAETA_SHARED_DATA": DATA}
    return plant_mutants(chosen) if chosen.folder else plant_patches(chosen.names, chosen.count)


if __name__ == "__main__":
    sys.exit(main())
