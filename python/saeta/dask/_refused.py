"""Stands on a worker for a table that has arrived broken."""

from __future__ import annotations

from typing import Any, NoReturn

from saeta.dask._contexts import in_worker_process
from saeta.errors import FormatError


class RefusedTable:
    """A table that could not be read when it arrived: every use of it raises FormatError.

    distributed has no way to end a transfer with an error: after an OSError it asks again, for ever, and
    after any other one the task that wants the table waits for ever. So the task gets this, and fails.
    """

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__dask_"):  # dask asks every object for its protocols
            raise AttributeError(name)
        _refuse(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return arrived_refused, (self._reason,)

    def __repr__(self) -> str:
        return f"<saeta.dask.RefusedTable: {self._reason}>"


def arrived_refused(reason: str) -> RefusedTable:
    """Returns what a task gets. In a process without a worker, as that of a client, raises FormatError."""
    if in_worker_process():
        return RefusedTable(reason)
    raise FormatError(reason)


def _refuse(self: RefusedTable, *_: object) -> NoReturn:
    raise FormatError(self._reason)


# Python looks these up in the class. Other protocols ask the instance for an attribute (`__getattr__`).
for _name in ("__len__", "__iter__", "__getitem__", "__contains__", "__reversed__", "__eq__", "__ne__"):
    setattr(RefusedTable, _name, _refuse)
