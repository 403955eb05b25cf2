"""What the writers of tables share: their target is completed once, or dropped."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Never, Protocol, Self

from saeta._core import _call_to_the_end, _Ending
from saeta.errors import BusyError, TypeMismatch
from saeta.exchange import table_in_place

if TYPE_CHECKING:
    from saeta._core import Table


class Encoder(Protocol):
    """Turns tables into the bytes of a target."""

    def write(self, rows: Table) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> int: ...

    def abort(self) -> None: ...


class TableWriter:
    """Writes tables one after the other.

    Args:
        encoder: gets the tables.
        name: of the target.
        ends: complete the target, or drop it after an exception.
    """

    def __init__(self, encoder: Encoder, name: str, ends: ExitStack) -> None:
        self._encoder = encoder
        self._name = name
        self._ends = ends
        self._process = os.getpid()
        self._end = _Ending(partial(_drop, encoder, name, ends, self._process))

    def _write(self, rows: Any) -> None:
        self._encoder.write(table_in_place("rows", rows))

    def _close(self) -> int:
        if self._process != os.getpid():
            return self._encoder.close()  # raises ClosedError: the target belongs to the parent
        with (
            self._ends.pop_all() as ends
        ):  # an object is flushed, an upload is completed, or aborted on failure
            try:
                size = self._encoder.close()
            except BusyError:  # in a call of the target or the hook: the writer goes on
                self._ends.push(ends.pop_all())
                raise
            except BaseException:
                self._end.detach()
                raise
            self._end.detach()
            return size

    def _abort(self) -> None:
        try:
            _call_to_the_end(partial(_end_without_file, self._encoder, self._ends, self._process))
        finally:
            self._end.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is None:
            self._close()
        else:
            self._abort()

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeMismatch(
            "a writer belongs to its process and can't be pickled: write there to a file of its own"
        )

    def __repr__(self) -> str:
        return f"<saeta.{type(self).__name__} of '{self._name}'>"


class _Aborted(BaseException):
    """Tells the target's context manager that its bytes are not complete."""


def _end_without_file(encoder: Encoder, ends: ExitStack, process: int) -> None:
    if process != os.getpid():
        return  # the target is the parent's
    try:
        encoder.abort()
    finally:
        ends.__exit__(_Aborted, _Aborted(), None)


def _drop(encoder: Encoder, name: str, ends: ExitStack, process: int) -> None:
    """Ends a writer that is dropped, or not closed at the end of the program."""
    _end_without_file(encoder, ends, process)
    if process == os.getpid():
        warnings.warn(f"the writer to '{name}' was not closed: there is no new file", ResourceWarning, 2)
