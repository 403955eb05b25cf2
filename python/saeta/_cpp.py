"""Locates the C++ library inside the installed package, for builds of other projects."""

from __future__ import annotations

from pathlib import Path

from saeta.errors import MissingDependency

PACKAGE = Path(__file__).parent


def get_include() -> str:
    """Returns the folder of the C++ headers, for compilers: `#include "saeta/memory/buffer.hpp"`.

    CMake projects use `find_package(saeta)` with `cmake_dir`, which also links the library.

    Raises:
        MissingDependency: the package was not installed from a wheel, and holds no headers.

    Example:
        >>> import saeta as sa
        >>> sa.get_include()  # doctest: +SKIP
        '/usr/lib/python3/site-packages/saeta/include'
    """
    return _folder("include")


def cmake_dir() -> str:
    """Returns the folder of the CMake configuration, for `find_package(saeta)`.

    Pass it to CMake: `cmake -Dsaeta_DIR=$(python -c "import saeta; print(saeta.cmake_dir())")`.

    Raises:
        MissingDependency: the package was not installed from a wheel, and holds no CMake configuration.

    Example:
        >>> import saeta as sa
        >>> sa.cmake_dir()  # doctest: +SKIP
        '/usr/lib/python3/site-packages/saeta/cmake'
    """
    return _folder("cmake")


def _folder(name: str) -> str:
    folder = PACKAGE / name
    if not folder.is_dir():
        raise MissingDependency(
            f"{PACKAGE} has no folder {name}: it belongs to a build tree. "
            "Install the package (pip install .), or the C++ library alone (cmake --install)"
        )
    return str(folder)
