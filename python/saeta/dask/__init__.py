"""Tables in a Dask cluster: serialization, sizes, and the contexts of workers.

With Saeta installed, the scheduler and the workers need no set-up: tables and columns are sent in the packed
form, and their sizes are exact. `read_ipc` and `read_parquet` make tasks that read files by batches and row
groups, and `worker_context` returns the context that a task should use.

It works with distributed 2026.7 and later releases of that year. For others the import raises
MissingDependency, which is an ImportError.

Example:
    >>> import saeta as sa
    >>> import saeta.dask
    >>> from dask.sizeof import sizeof
    >>> sizeof(sa.table({"fare": [12.5, 8.0]}, "host"))
    16
"""

from __future__ import annotations

from saeta.dask._versions import require_supported

require_supported()

from dask.sizeof import sizeof as _sizeof  # noqa: E402

from saeta import _dask_registration  # noqa: E402
from saeta.dask import _families  # noqa: E402
from saeta.dask._contexts import worker_context  # noqa: E402
from saeta.dask._parquet import read_parquet  # noqa: E402
from saeta.dask._reader import read_ipc  # noqa: E402

__all__ = ["read_ipc", "read_parquet", "worker_context"]

_families.register()
_dask_registration.register(_sizeof)  # for trees that are not installed, where dask finds no entry point


def __dir__() -> list[str]:
    return __all__
