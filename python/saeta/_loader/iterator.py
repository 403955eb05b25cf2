"""The iterator of a training loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Never

from saeta._core import Table, _call_to_the_end, _Ending
from saeta._loader.features import Features, add_label
from saeta._loader.order import Load
from saeta._loader.windows import ADVICE, Cutter, Windows
from saeta.errors import BudgetExceeded, Error, TypeMismatch


class Batches(Iterator[Any]):
    """Yields the batches of a rank. Nothing of a window is kept when the next one is taken.

    It is not a generator: the end of one that is dropped runs as lines of Python in a destructor, where an
    interrupt is lost. An error ends the iterator.

    Args:
        loader: the Loader, whose place in the epoch follows.
        taken: the number of batches of the epoch before the first one.
    """

    def __init__(self, loader: Any, windows: Windows, taken: int) -> None:
        self._loader = loader
        self._windows = windows
        self._taken = taken
        self._step = loader._world_size
        self._cutter = Cutter(loader._batch_size)
        self._groups: list[Table] = []  # rows of the window that are still to be converted
        self._load: Load | None = None  # of the window; None after the last one
        self._is_last = False
        self._is_converting = False  # whether an error is one of converting rows
        self._made: Iterator[Any] = iter(())
        self._ended = False
        self._end = _Ending(windows.stop)

    def __next__(self) -> Any:
        windows = self._windows
        if not windows.is_open:
            if self._ended:
                raise StopIteration
            windows.require_open()
        try:
            while (batch := next(self._made, None)) is None:
                if not self._advance():
                    self._finish()
                    raise StopIteration
        except BaseException as failure:
            self._ended = True
            _call_to_the_end(windows.stop)
            if isinstance(failure, Error) and self._is_converting:
                add_label(failure, self._place(), ADVICE)
            raise
        self._taken += self._step
        if self._loader._running is windows:
            self._loader._batch = self._taken
        return batch

    def close(self) -> None:
        """Ends the iterator."""
        self._ended = True
        _call_to_the_end(self._windows.stop)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeMismatch("an iterator of a loader can't be pickled: pickle the loader, which has its place")

    def _advance(self) -> bool:
        """Converts the next rows. Returns whether there are any."""
        self._made = iter(())
        self._is_converting = False
        while not self._groups:
            if self._is_last:
                return False
            window = self._windows.take()
            self._is_last = window is None
            self._load = None if window is None else window.load
            self._groups = self._cutter.rest() if window is None else self._cutter.cut(window.rows)
            del window
        self._is_converting = True
        self._made = self._converted(self._groups.pop(0))
        return True

    def _converted(self, rows: Table) -> Iterator[Any]:
        """Converts rows. If there is no room, windows are no longer read ahead."""
        features: Features = self._loader._features
        size: int = self._loader._batch_size
        try:
            return features.batches(rows.combine_chunks(), size)
        except BudgetExceeded:
            if not self._windows.are_ahead:
                raise
        self._windows.read_on_request()
        return features.batches(rows.combine_chunks(), size)

    def _place(self) -> str:
        return "the last rows" if self._load is None else self._loader._data.describe(self._load.spans)

    def _finish(self) -> None:
        if self._loader._running is self._windows:
            self._loader._move_to(self._loader._epoch + 1, 0)
