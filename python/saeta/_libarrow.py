"""Loads the compiled modules that use the libarrow inside the installed pyarrow.

They are built for several major releases of pyarrow, each in a folder `_pyarrow<major>` of this package.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from saeta.errors import MissingDependency


def load(name: str, purpose: str) -> ModuleType:
    """Imports the compiled module `saeta.<name>` for the installed pyarrow.

    Raises:
        MissingDependency: pyarrow is missing, or this package has no module for its release. The message has
            the command that installs one.
    """
    try:
        import pyarrow
    except ImportError as failure:
        raise MissingDependency(
            f"{purpose} needs the libarrow of pyarrow: {failure} (pip install {_requirement() or 'pyarrow'})"
        ) from failure
    _add_folder(purpose, pyarrow.__version__)
    try:
        return importlib.import_module(f"saeta.{name}")
    except ImportError as failure:
        raise _explain(failure, purpose, pyarrow.__version__) from failure


def supported_majors() -> list[int]:
    """Returns the major releases of pyarrow that this package has modules for, in ascending order."""
    folders = Path(__file__).parent.glob("_pyarrow[0-9]*")
    return sorted(
        int(folder.name.removeprefix("_pyarrow")) for folder in folders if any(folder.glob("_ipc.*"))
    )


def _add_folder(purpose: str, found: str) -> None:
    """Lets the import system find the modules for the installed release, before all others."""
    folder = str(Path(__file__).with_name(f"_pyarrow{found.partition('.')[0]}"))
    searched = sys.modules["saeta"].__path__
    if folder in searched:
        return
    majors = supported_majors()
    if not majors:
        raise MissingDependency(f"{purpose}: this build of saeta has no modules for pyarrow")
    if int(found.partition(".")[0]) not in majors:
        raise MissingDependency(
            f"{purpose}: this saeta works with pyarrow {_listed(majors)}, but pyarrow {found} is installed: "
            f"pip install {_requirement()}"
        )
    searched.insert(0, folder)


def _requirement() -> str:
    majors = supported_majors()
    return f"'pyarrow=={majors[-1]}.*'" if majors else ""


def _listed(majors: list[int]) -> str:
    if len(majors) > 1 and majors[-1] - majors[0] == len(majors) - 1:
        return f"{majors[0]} to {majors[-1]}"
    *first, last = map(str, majors)
    return f"{', '.join(first)} and {last}" if first else last


def _explain(failure: ImportError, purpose: str, found: str) -> MissingDependency:
    wanted = re.search(r"libarrow(?:_python)?\.so\.(\d+)(\d\d)", str(failure))
    if wanted:
        release = f"{wanted[1]}.{int(wanted[2])}"
        return MissingDependency(
            f"{purpose}: saeta's module was built with pyarrow {release}, but pyarrow {found} is installed, "
            f"whose libarrow has another name: pip install 'pyarrow=={release}.*'"
        )
    return MissingDependency(f"this build of saeta has no working module for {purpose}: {failure}")
