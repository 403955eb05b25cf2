"""Loads the compiled modules that use the libarrow inside the installed pyarrow.

Each module works with the pyarrow release that it was built with.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType

from saeta.errors import MissingDependency


def load(name: str, purpose: str) -> ModuleType:
    """Imports a compiled module of this package.

    MissingDependency says what is missing and how to install it.
    """
    try:
        import pyarrow
    except ImportError as failure:
        raise MissingDependency(
            f"{purpose} needs the libarrow of pyarrow: {failure} (pip install 'saeta[ipc]')"
        ) from failure
    try:
        module = importlib.import_module(f"saeta.{name}")
        built = importlib.import_module("saeta._ipc").built_arrow_version()
    except ImportError as failure:
        raise _explain(failure, purpose, pyarrow.__version__) from failure
    if built.partition(".")[0] != pyarrow.__version__.partition(".")[0]:
        raise MissingDependency(_mismatch(built, purpose, pyarrow.__version__))
    return module


def _explain(failure: ImportError, purpose: str, found: str) -> MissingDependency:
    wanted = re.search(r"libarrow(?:_python)?\.so\.(\d+)", str(failure))
    if wanted:
        return MissingDependency(_mismatch(str(int(wanted[1]) // 100), purpose, found))
    return MissingDependency(f"this build of saeta has no working module for {purpose}: {failure}")


def _mismatch(built: str, purpose: str, found: str) -> str:
    major = built.partition(".")[0]
    return (
        f"saeta's module for {purpose} was built with pyarrow {built}, but pyarrow {found} is installed: "
        f"pip install 'pyarrow=={major}.*', or build saeta again for the installed one, in its source tree: "
        f"pip install . -C build.requires=pyarrow=={found}"
    )
