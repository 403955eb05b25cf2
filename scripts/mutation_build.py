"""A build of the tree, made once, and beside it the few files that one small bug changes.

Part of scripts/mutants.py. The tree itself is never edited: a bug is written into a folder of its own, which
the compiler searches first. Only the objects that see the bug are compiled again, and only the libraries and
programs that hold one of them are linked again. So many bugs can be tried at the same time.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mutations import Mutation

UNIT, CONFORMANCE, SCHEDULES = "saeta_unit_tests", "saeta_conformance_tests", "saeta_schedules"
LINKED = re.compile(r"^((?:bin|lib)/\S+): CXX_(?:SHARED_LIBRARY|EXECUTABLE)_LINKER__", re.MULTILINE)
SONAME = re.compile(r"-Wl,-soname,(\S+)")
DEPENDENTS = re.compile(r"^(\S+): #deps \d+.*\n((?:    .*\n)*)", re.MULTILINE)


class CompileError(Exception):
    """What the compiler or the linker says."""


class CostlyError(Exception):
    """A header that so many objects include that its bug is left out."""


@dataclass(frozen=True)
class Link:
    """How a shared library or a program is linked; `output` is relative to the build, as the objects are."""

    output: str
    arguments: list[str]

    @property
    def shared(self) -> bool:
        return self.output.startswith("lib/")

    @property
    def loaded_as(self) -> str:
        soname = SONAME.search(" ".join(self.arguments))
        return f"lib/{soname[1]}" if soname else self.output


def split_command(command: str) -> list[str]:
    """Without the shell's part of a rule (`: && ... && :`) and without ccache, which sees no bug twice."""
    parts = [part for part in shlex.split(command) if part not in (":", "&&")]
    launcher = next((index for index, part in enumerate(parts) if Path(part).name == "ccache"), -1)
    return parts[launcher + 1 :]


def run_compiler(folder: Path, command: list[str]) -> None:
    """Compiles or links in the folder of a build; CompileError has the first message of a failure."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise CompileError(errors[0] if errors else done.stderr[-300:])


class Build:
    """`folder` holds a build by Ninja of the tree at `root`."""

    def __init__(self, root: Path, folder: Path, programs: list[str], most_objects: int) -> None:
        self.root = root
        self.folder = folder
        self.programs = programs
        self.most_objects = most_objects

    def prepare(self, with_python: bool, jobs: int) -> None:
        """Configures a folder that has no build yet, builds what the tests need and reads how it was
        built."""
        if not (self.folder / "build.ninja").exists():
            self._configure(with_python)
        targets = [*self.programs, *(["all"] if with_python else [])]
        self._must(["cmake", "--build", str(self.folder), "-j", str(jobs), "--target", *targets])
        self.compiled = self._compile_commands()
        self.links = self._link_commands()
        self.dependents = self._dependents()

    def _configure(self, with_python: bool) -> None:
        off = ["CUDA", "BENCH", "EXAMPLES", "RMM"] + ([] if with_python else ["PYTHON"])
        options = [f"-DSAETA_{part}=OFF" for part in off]
        # Compiling is most of the time that a bug takes, so nothing is optimised.
        options += ["-DSAETA_UNITY=OFF", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"]
        linker = next((name for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")), None)
        if linker is not None:
            options += [f"-DCMAKE_{kind}_LINKER_FLAGS=-fuse-ld={linker}" for kind in ("SHARED", "EXE")]
        if "SAETA_SHARED_DATA" in os.environ:
            options.append(f"-DSAETA_SHARED_DATA={os.environ['SAETA_SHARED_DATA']}")
        self._must(["cmake", "-S", str(self.root), "-B", str(self.folder), "-G", "Ninja", *options])

    def _must(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")

    def _ninja(self, *tool: str) -> str:
        command = ["ninja", "-C", str(self.folder), "-t", *tool]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _compile_commands(self) -> dict[str, list[str]]:
        """The command of each object."""
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        commands = [split_command(entry["command"]) for entry in entries]
        return {command[command.index("-o") + 1]: command for command in commands}

    def _link_commands(self) -> list[Link]:
        outputs = LINKED.findall(self._ninja("targets", "all"))
        wanted = [name for name in outputs if name.startswith("lib/") or name[4:] in self.programs]
        return [Link(name, split_command(self._ninja("commands", "-s", name))) for name in wanted]

    def _dependents(self) -> dict[str, list[str]]:
        """The objects that include each file of the tree."""
        found: dict[str, list[str]] = {}
        for built, paths in DEPENDENTS.findall(self._ninja("deps")):
            for path in paths.split():
                absolute = Path(os.path.normpath(self.folder / path))
                if absolute.is_relative_to(self.root):
                    found.setdefault(absolute.relative_to(self.root).as_posix(), []).append(built)
        return found

    def objects_of(self, bug: Mutation) -> list[str]:
        """What is compiled for a bug: of the tests only those of its folder, since others rarely see a
        header's code."""
        in_libraries = {part for link in self.links if link.shared for part in link.arguments}
        mirrored = re.compile(rf"tests/.*\.dir/(?:unit|conformance)/{bug.path.split('/')[1]}/")
        seen = [
            built
            for built in self.dependents.get(bug.path, [])
            if built in in_libraries or mirrored.match(built)
        ]
        if len(seen) > self.most_objects:
            raise CostlyError(f"{len(seen)} objects include it")
        return seen

    def make(self, bug: Mutation, beside: Path) -> None:
        """Compiles and links below `beside` what the bug changes."""
        include = beside / "include"
        target = include / bug.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(bug.changed(self.root), encoding="utf-8")
        made = {}
        for built in self.objects_of(bug):
            made[built] = str(beside / "objects" / built)
            Path(made[built]).parent.mkdir(parents=True, exist_ok=True)
            source = str(self.root / bug.path)
            command = [str(target) if part == source else part for part in self.compiled[built]]
            command[command.index("-o") + 1] = made[built]
            run_compiler(self.folder, [command[0], f"-I{include}", "-w", *command[1:]])
        for link in self.links:
            if any(part in made for part in link.arguments):
                self._link(link, made, beside)

    def _link(self, link: Link, made: dict[str, str], beside: Path) -> None:
        """Changed objects come first: of an inline function the linker takes the first copy that it meets."""
        output = beside / link.loaded_as
        output.parent.mkdir(parents=True, exist_ok=True)
        first = [made[part] for part in link.arguments if part in made]
        kept = [part for part in link.arguments if part not in made]
        kept[kept.index("-o") + 1] = str(output)
        at = kept.index("-o")
        # A program's own copy of an inline function must not take the place of the library's.
        bound = ["-Wl,-Bsymbolic-functions"] if link.shared else []
        run_compiler(self.folder, [*kept[:at], *bound, "-Wl,-S", *first, *kept[at:]])

    def libraries(self) -> list[Path]:
        return [self.folder / link.output for link in self.links if link.shared]

    def program(self, name: str, beside: Path | None = None) -> str:
        changed = beside / "bin" / name if beside is not None else None
        return str(changed if changed is not None and changed.exists() else self.folder / "bin" / name)
