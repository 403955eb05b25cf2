"""The windows of an epoch: read ahead of the program, permuted, and cut into whole batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakSet

from saeta import _core
from saeta._convert.tables import concat_tables
from saeta._core import Context, Table
from saeta._files.scan import ReadAhead, ReadOnRequest
from saeta._loader.data import Data, Reading
from saeta._loader.features import naming
from saeta._loader.order import Load
from saeta.errors import BudgetExceeded

ADVICE = "choose a smaller window= or prefetch=, drop batches sooner, or give the context a larger budget"


class Window(NamedTuple):
    """The rows of a load."""

    rows: Table
    load: Load


class Windows:
    """Reads the loads of an epoch one after the other, ahead of the program.

    A thread of Python takes them. The program itself takes and permutes windows of a device that threads of
    the compiled module read, or that are in memory already: that only queues work, and another thread would
    wait for the program to release the interpreter, several times a window.

    If one has no room, the windows that were read ahead are given back, and from then on each one is read
    when it is taken.

    Args:
        views: whether a window may be a view of files. A permuted one is copied: its rows are looked up in
            one piece of memory, which is faster than in a view of each batch.

    Attributes:
        is_open: False after `stop` and in a child of fork, where `require_open` raises. It is looked at for
            each batch, and a system call would take longer than many batches.
    """

    def __init__(
        self,
        data: Data,
        ctx: Context,
        columns: Sequence[str],
        loads: Sequence[Load],
        prefetch: int,
        *,
        views: bool,
    ) -> None:
        self._data = data
        self._ctx = ctx
        self._columns = columns
        self._loads = loads
        self._views = views and all(load.taken is None for load in loads)
        self._taken = 0
        self.is_open = True
        _all.add(self)
        self.are_ahead = True
        source = self._source(prefetch)
        self._reader: ReadAhead | ReadOnRequest
        if ctx.device != "host" and not source.needs_thread:
            self._reader = ReadOnRequest(source, source.next, "loader")
        else:
            self._reader = ReadAhead(source, source.next, prefetch, "loader")

    def take(self) -> Window | None:
        """Returns the next window, or None at the end."""
        try:
            window: Window | None = self._reader.next()
        except BudgetExceeded:
            if not self.are_ahead:
                raise
            self.read_on_request()
            window = self._reader.next()
        self._taken += 1
        return window

    def read_on_request(self) -> None:
        """Gives back the windows that were read ahead, and reads each one when it is taken from now on."""
        self._reader.close()
        self.wait()
        self.are_ahead = False
        source = self._source(0)
        self._reader = ReadOnRequest(source, source.next, "loader")

    def require_open(self) -> None:
        """Raises ClosedError after `stop`, and in a child of fork."""
        self._reader.require_open()

    def stop(self) -> None:
        """Ends the reading within 50 ms. Taking a window is then a ClosedError."""
        self.is_open = False
        self._reader.close()

    def wait(self) -> None:
        """Waits until the thread has ended."""
        if isinstance(self._reader, ReadAhead):
            self._reader.wait()

    def _source(self, ahead: int) -> _Source:
        loads = self._loads[self._taken :]
        windows = [load.spans for load in loads]
        reading = self._data.open(self._ctx, self._columns, windows, ahead=ahead, views=self._views)
        return _Source(self._data, reading, loads)


_all: WeakSet[Windows] = WeakSet()


def _close_in_child() -> None:
    """Lets a child of fork find that the windows are those of its parent."""
    for each in _all:
        each.is_open = False


os.register_at_fork(after_in_child=_close_in_child)


class _Source:
    """Reads and permutes windows. One that failed is read again."""

    def __init__(self, data: Data, reading: Reading, loads: Sequence[Load]) -> None:
        self._data = data
        self.needs_thread = reading.needs_thread
        self._reading = reading
        self._loads = loads
        self._number = 0
        self._cancellation = _core._Cancellation()
        self._rows: Table | None = None  # that were read and are not permuted yet

    def next(self) -> Window | None:
        if self._number == len(self._loads):
            return None
        load = self._loads[self._number]
        with self._cancellation, naming(lambda: f"reading {self._data.describe(load.spans)}", ADVICE):
            rows = self._reading.next() if self._rows is None else self._rows
            if load.taken is not None:
                self._rows = rows
                rows = rows._take_permuted(*load.taken)
        self._rows = None
        self._number += 1
        return Window(rows, load)

    def close(self) -> None:
        """Ends the reading of another thread, and what it waits for."""
        self._cancellation.cancel()
        self._reading.close()


class Cutter:
    """Cuts tables into pieces of whole batches. What is left of a table begins the next batch."""

    def __init__(self, batch_size: int) -> None:
        self._size = batch_size
        self._left: list[Table] = []
        self._rows = 0  # that are left

    def cut(self, table: Table) -> list[Table]:
        """Returns parts of the table whose rows are a multiple of the size of a batch.

        A part is of one piece, or it is one batch that is to be joined.
        """
        found: list[Table] = []
        for piece in table.batches:
            first = 0
            if self._rows:
                first = min(self._size - self._rows, piece.num_rows)
                self._keep(piece.slice(0, first))
                if self._rows < self._size:
                    continue
                found += self.rest()
            whole = (piece.num_rows - first) // self._size * self._size
            if whole:
                found.append(piece.slice(first, whole))
            if first + whole < piece.num_rows:
                self._keep(piece.slice(first + whole))
        return found

    def rest(self) -> list[Table]:
        """Returns what is left as one batch, if anything is left."""
        left, self._left, self._rows = self._left, [], 0
        return [concat_tables(left)] if left else []

    def _keep(self, rows: Table) -> None:
        self._left.append(rows)
        self._rows += rows.num_rows
