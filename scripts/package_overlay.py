"""A folder of links to a build in which files of the Python package are replaced (package_mutants.py)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mutation_build import run_compiler, split_command

SHARED_MODULE = re.compile(r"^(python/saeta/\S+\.so): CXX_", re.MULTILINE)


class Modules:
    """How the objects of python/src are compiled, and the modules linked that hold them.

    A source that several modules hold is compiled for each of them: a bug lies in all.
    """

    def __init__(self, root: Path, build: Path) -> None:
        self.root = root
        self.build = build
        self.compiled: dict[str, list[list[str]]] = {}  # the commands of each source
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
            path = Path(entry["file"])
            if path.is_relative_to(root / "python" / "src"):
                commands = self.compiled.setdefault(path.relative_to(root).as_posix(), [])
                commands.append(split_command(entry["command"]))
        if not self.compiled:
            sys.exit(f"{build} compiles several sources at a time: configure another with -DSAETA_UNITY=OFF")
        self.links = {
            name: self._link_command(name) for name in SHARED_MODULE.findall(self._ninja("targets", "all"))
        }

    def _ninja(self, *tool: str) -> str:
        command = ["ninja", "-C", str(self.build), "-t", *tool]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _link_command(self, output: str) -> list[str]:
        return split_command(self._ninja("commands", "-s", output))

    def compile(self, path: str, source: Path, folder: Path, flags: tuple[str, ...] = ()) -> dict[str, Path]:
        """What is made below `folder`, by the names that the link commands give to it.

        Nothing is optimised: compiling is most of the time that a bug takes.
        """
        made = {}
        for given in self.compiled[path]:
            name = given[given.index("-o") + 1]
            made[name] = folder / name
            command = [part for part in given if part not in ("-O2", "-O3", "-Os", "-Werror", "-flto")]
            command[command.index("-o") + 1] = str(made[name])
            command = [str(source) if part == str(self.root / path) else part for part in command]
            made[name].parent.mkdir(parents=True, exist_ok=True)
            beside = f"-I{(self.root / path).parent}"
            run_compiler(self.build, [command[0], beside, "-O0", "-w", *flags, *command[1:]])
        return made

    def link(self, made: dict[str, Path], overlay: Path, flags: tuple[str, ...] = ()) -> None:
        """Links anew what holds one of the objects that were made."""
        for output, command in self.links.items():
            if any(part in made for part in command):
                changed = [str(made.get(part, part)) for part in command]
                (overlay / output).unlink(missing_ok=True)
                changed[changed.index("-o") + 1] = str(overlay / output)
                run_compiler(self.build, [*changed, *flags])


def make_overlay(build: Path, overlay: Path) -> None:
    """Links to all of the build, but for the package's folders, which are real ones full of links."""
    shutil.rmtree(overlay, ignore_errors=True)
    overlay.mkdir(parents=True)
    for entry in build.iterdir():
        if entry.name != "python":
            (overlay / entry.name).symlink_to(entry)
    copy_as_links(build / "python", overlay / "python")


def copy_as_links(source: Path, target: Path) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                copy_as_links(entry, target / entry.name)
        else:
            (target / entry.name).symlink_to(entry.resolve())


def replace_file(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text, encoding="utf-8")


def environment_of(overlay: Path) -> dict[str, str]:
    return {
        "CUDA_VISIBLE_DEVICES": "",
        "SAETA_BUILD": str(overlay),
        "PYTHONPATH": str(overlay / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
