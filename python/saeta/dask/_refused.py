"""The placeholder on a worker for a received table that is invalid."""

from __future__ import annotations

from typing import Any, NoReturn

from saeta.dask._contexts import in_worker_process
from saeta.errors import FormatError


class RefusedTable:
    """Replaces a received table that could not be read: every use raises FormatError.

    distributed can't end a transfer with an error: after an OSError it retries for ever, and after any other
    error the task waits for ever. With this object the task runs and fails.
    """

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__dask_"):  # dask looks for its protocols on every object
            raise AttributeError(name)
        _refuse(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return arrived_refused, (self._reason,)

    def __repr__(self) -> str:
        return f"<saeta.dask.RefusedTable: {self._reason}>"


def arrived_refused(reason: str) -> RefusedTable:
    """Returns a RefusedTable. In a process without a worker, such as a client, raises FormatError."""
    if in_worker_process():
        return RefusedTable(reason)
    raise FormatError(reason)


def _refuse(self: RefusedTable, *_: object) -> NoReturn:
    raise FormatError(self._reason)


# Python looks these methods up in the class, so that `__getattr__` does not catch them.
for _name in ("__len__", "__iter__", "__getitem__", "__contains__", "__reversed__", "__eq__", "__ne__"):
    setattr(RefusedTable, _name, _refuse)
