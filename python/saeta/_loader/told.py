"""The progress of a loader's epoch, as its batches are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from typing import TYPE_CHECKING

from saeta._files.progress import Counted, hook

if TYPE_CHECKING:
    from saeta._core import Table
    from saeta._files.progress import ProgressArgument


class Told:
    """Tells a hook, or draws a bar, how many batches of an epoch were taken.

    Args:
        batches, rows: of the whole epoch; -1 if they are not known.
        width: bytes of a row.
    """

    def __init__(
        self, progress: ProgressArgument, description: str, batches: int, rows: int, width: int
    ) -> None:
        self._shown = ExitStack()
        call = self._shown.enter_context(hook(progress, description))
        self._counted = None if call is None else Counted(call, batches, rows)
        self._width = width
        self._sizes: Iterator[int] = iter(())  # rows of the batches that are taken next

    def expect(self, tables: list[Table], size: int, turns: list[int] | None = None) -> None:
        """Notes the tables whose batches are taken next.

        Args:
            size: rows of a batch. Only the last one of a table may have fewer.
            turns: numbers of the batches, in the order in which they are taken. None: in their own order.
        """
        if self._counted is None:
            return
        rows = [table.num_rows for table in tables]  # the tables are not kept
        self._sizes = chain.from_iterable(_sizes(each, size) for each in rows)
        if turns is not None:
            self._sizes = map(list(self._sizes).__getitem__, turns)

    def take(self) -> None:
        """Counts a batch."""
        if self._counted is not None:
            rows = next(self._sizes)
            self._counted.count(rows, rows * self._width)

    def end(self) -> None:
        """Takes the bar away."""
        self._shown.close()


def _sizes(rows: int, size: int) -> Iterable[int]:
    whole, rest = divmod(rows, size)
    return chain(repeat(size, whole), (rest,) if rest else ())
