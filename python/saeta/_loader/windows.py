"""The rows of an epoch, read ahead of the program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakSet

from saeta._core import Context, Table
from saeta._files.scan import ReadAhead
from saeta._loader.data import Data
from saeta._loader.readings import Reader
from saeta._loader.records import Load, Part
from saeta._loader.refusals import add_label
from saeta.errors import BudgetExceeded, ClosedError, Error


class Rows(Protocol):
    """The rows of an epoch that are not taken yet."""

    def open(self, ahead: int) -> Reader:
        """Begins to read them. `ahead` parts are read before they are requested."""

    def note(self, part: Any) -> Part:
        """Counts what a reader gave as taken."""

    def next_place(self) -> str:
        """Returns the place of what is read next, for messages; nothing if it is not known."""

    def place(self) -> str:
        """Returns the place of the rows that were taken last, for messages."""

    def next_advice(self) -> str:
        """Returns what to do where the budget has no room for what is read next."""


class LoadedRows:
    """The rows of the loads of an epoch, one load after the other.

    Args:
        views: whether rows may be views of files. Permuted ones are copied: they are looked up in one piece
            of memory, which is faster than in a view of each batch.
    """

    def __init__(
        self, data: Data, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, views: bool
    ) -> None:
        self._data = data
        self._ctx = ctx
        self._columns = columns
        self._loads = loads
        self._views = views
        self._taken = 0

    def open(self, ahead: int) -> Reader:
        left = self._loads[self._taken :] if self._taken else self._loads
        return self._data.open(self._ctx, self._columns, left, ahead=ahead, views=self._views)

    def note(self, part: Table) -> Part:
        turns = self._loads[self._taken].turns
        self._taken += 1
        return Part([part], turns, None)

    def next_place(self) -> str:
        if self._taken == len(self._loads):
            return ""
        return f"reading {self._data.describe(self._loads[self._taken].spans)}"

    def place(self) -> str:
        return self._data.describe(self._loads[self._taken - 1].spans)

    def next_advice(self) -> str:
        left = self._loads[self._taken :]
        return self._data.advice(left[0].spans if left else [])


class Windows:
    """The rows of an epoch, part by part, read ahead of the program.

    If a part has no room, the parts that were read ahead are released, and from then on each part is read
    when it is taken.

    Attributes:
        is_open: False after `stop` and in a child of fork, where `require_open` raises. It is looked at for
            each batch, and a system call would take longer than many batches.
    """

    def __init__(self, rows: Rows, prefetch: int) -> None:
        self._rows = rows
        self._process = os.getpid()
        self.is_open = self.are_ahead = True
        self._at_end = False
        _all.add(self)
        self._reader = rows.open(prefetch)

    def take(self) -> Part | None:
        """Returns the next rows; None after the last ones."""
        try:
            try:
                part = self._reader.next()
            except BudgetExceeded:
                if not self.are_ahead:
                    raise
                self.read_on_request()
                part = self._reader.next()
        except ClosedError:  # closed during the read: nothing is wrong with the rows
            self.require_open()
            raise
        except Error as failure:
            advice = self._rows.next_advice() if isinstance(failure, BudgetExceeded) else ""
            add_label(failure, self._rows.next_place(), advice)
            raise
        self._at_end = part is None
        return None if part is None else self._rows.note(part)

    def place(self) -> str:
        """Returns the place of the rows that were taken last, for messages."""
        return "the last rows" if self._at_end else self._rows.place()

    def read_on_request(self) -> None:
        """Releases what was read ahead. From now on each part is read when it is taken."""
        self._reader.close()
        self.wait()
        self.are_ahead = False
        self._reader = self._rows.open(0)

    def require_open(self) -> None:
        """Raises ClosedError after `stop`, and in a child of fork."""
        if self._process != os.getpid():
            raise ClosedError(
                f"the loader belongs to process {self._process}, the parent of this forked process: "
                "open its source again"
            )
        if not self.is_open:
            raise ClosedError("the loader is closed")

    def stop(self) -> None:
        """Ends the reading within 50 ms. `take` then raises ClosedError."""
        self.is_open = False
        self._reader.close()

    def wait(self) -> None:
        """Waits until the thread that reads ahead has ended."""
        if isinstance(self._reader, ReadAhead):
            self._reader.wait()


_all: WeakSet[Windows] = WeakSet()


def _close_in_child() -> None:
    """Marks the windows as closed in a child of fork, because they belong to its parent."""
    for each in _all:
        each.is_open = False


os.register_at_fork(after_in_child=_close_in_child)
