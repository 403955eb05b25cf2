"""The releases of distributed that this package works with.

dask and distributed are released together, so one of the two is enough. dask-cuda 26.10 needs 2026.7.1.
"""

from __future__ import annotations

from saeta._optional import load
from saeta.errors import MissingDependency

SUPPORTED = ">=2026.7,<2027"
_OLDEST, _TOO_NEW = (2026, 7), (2027,)


def require_supported() -> None:
    """Raises MissingDependency unless a supported release of distributed is installed."""
    version = str(load("distributed", "saeta.dask").__version__)
    release = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if not _OLDEST <= release < _TOO_NEW:
        age = "old" if release < _OLDEST else "new"
        raise MissingDependency(
            f"saeta.dask works with distributed {SUPPORTED}, and {version} is too {age}: "
            f"pip install 'distributed{SUPPORTED}'"
        )
