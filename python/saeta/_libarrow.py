"""Finds and loads the compiled modules that use the libarrow inside the installed pyarrow.

They are built for several major releases of pyarrow, each in a folder `_pyarrow<major>` of this package. The
folder for the installed release comes first in the package's `__path__`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from saeta.errors import MissingDependency

PACKAGE = Path(__file__).parent


def find_modules() -> None:
    """Lets the import system find the modules for the installed pyarrow, without importing pyarrow.

    Where pyarrow does not tell its release this way, `load` finds them.
    """
    _add_folder(_installed_release())


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
            f"{purpose} needs the libarrow of pyarrow: {failure} (pip install {requirement()})"
        ) from failure
    if not _add_folder(pyarrow.__version__):
        raise _refuse(purpose, pyarrow.__version__)
    try:
        return importlib.import_module(f"saeta.{name}")
    except ImportError as failure:
        raise _explain(failure, purpose, pyarrow.__version__) from failure


def supported_majors() -> list[int]:
    """Returns the major releases of pyarrow that this package has modules for, in ascending order."""
    folders = [module.parent for module in PACKAGE.glob("_pyarrow[0-9]*/_bridge.*")]
    return sorted({int(folder.name.removeprefix("_pyarrow")) for folder in folders})


def _installed_release() -> str:
    """Returns the version of the pyarrow that an import would find, or an empty text."""
    try:
        spec = importlib.util.find_spec("pyarrow")
        if spec is None or spec.origin is None:
            return ""
        text = Path(spec.origin).with_name("_generated_version.py").read_text(encoding="utf-8")
    except (ImportError, ValueError, OSError):
        return ""
    version = re.search(r"^__version__ = .*'([^']+)'", text, re.MULTILINE)
    return version[1] if version else ""


def _add_folder(release: str) -> bool:
    """Puts the folder for a release first in the package's `__path__`. Returns whether there is one."""
    folder = PACKAGE / f"_pyarrow{release.partition('.')[0]}"
    if not folder.is_dir():
        return False
    searched = sys.modules["saeta"].__path__
    if str(folder) not in searched:
        searched.insert(0, str(folder))
    return True


def requirement() -> str:
    """Returns what to install: the newest release of pyarrow that this package has modules for."""
    majors = supported_majors()
    return f"'pyarrow=={majors[-1]}.*'" if majors else "pyarrow"


def _refuse(purpose: str, release: str) -> MissingDependency:
    majors = supported_majors()
    if not majors:
        return MissingDependency(f"{purpose}: this build of saeta has no modules for pyarrow")
    return MissingDependency(
        f"{purpose}: this saeta works with pyarrow {_listed(majors)}, but pyarrow {release} is installed: "
        f"pip install {requirement()}"
    )


def _listed(majors: list[int]) -> str:
    if len(majors) > 1 and majors[-1] - majors[0] == len(majors) - 1:
        return f"{majors[0]} to {majors[-1]}"
    *first, last = map(str, majors)
    return f"{', '.join(first)} and {last}" if first else last


def _explain(failure: ImportError, purpose: str, release: str) -> MissingDependency:
    wanted = re.search(r"libarrow(?:_python)?\.so\.(\d+)(\d\d)", str(failure))
    if wanted:
        built = f"{wanted[1]}.{int(wanted[2])}"
        return MissingDependency(
            f"{purpose}: saeta's module was built with pyarrow {built}, but pyarrow {release} is installed, "
            f"whose libarrow has another name: pip install 'pyarrow=={built}.*'"
        )
    if isinstance(failure, ModuleNotFoundError) and (minors := _python_minors(str(failure.name), release)):
        return MissingDependency(
            f"{purpose}: this saeta has the module for Python {' and '.join(minors)}, but this is Python "
            f"{sys.version_info.major}.{sys.version_info.minor}. Use one of those, or build saeta with this "
            f"one: pip install --no-binary saeta saeta"
        )
    return MissingDependency(f"this build of saeta has no working module for {purpose}: {failure}")


def _python_minors(module: str, release: str) -> list[str]:
    """Returns the Pythons that have a compiled module of this package: a wheel has some for each Python."""
    folder = PACKAGE / f"_pyarrow{release.partition('.')[0]}"
    files = folder.glob(f"{module.rpartition('.')[2]}.cpython-3*")
    minors = (re.search(r"\.cpython-3(\d+)-", file.name) for file in files)
    return [f"3.{minor}" for minor in sorted(int(minor[1]) for minor in minors if minor)]
