"""Decides which rows each batch of a training loader has.

The order of an epoch depends on the metadata of the files, the sizes of batches and windows, the way of
shuffling, the seed and the number of the epoch, and on nothing else: neither on the number of ranks nor on
where an epoch is resumed.

A unit is a batch of a file, or a part of one that is larger than a window. Units are permuted, and
consecutive units form windows. With shuffle="rows" the rows of each window are permuted as well. An epoch is
the rows of its windows, one after the other, and batch g has the rows [g * size, (g + 1) * size) of it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from saeta import _core

PART_ROWS = 64  # parts of a batch begin at multiples of it, so that bitmaps begin at whole words


class Batch(NamedTuple):
    """A batch of a source, as its metadata describe it."""

    rows: int
    nbytes: int
    whole: bool  # can't be read in parts, because it is compressed


class Span(NamedTuple):
    """Consecutive rows of a batch of a source."""

    batch: int
    first: int
    rows: int


class Taken(NamedTuple):
    """Rows of a window in a permuted order, as `Table._take_permuted` takes them."""

    key: int
    first: int
    skipped: int
    length: int
    group: int
    stride: int


class Load(NamedTuple):
    """What is read at once: spans, and with shuffle="rows" the rows of them that are taken."""

    spans: list[Span]
    taken: Taken | None


class Rank(NamedTuple):
    """The share of one rank in an epoch, from batch `begin` on."""

    begin: int
    number: int
    world_size: int


class _Unit(NamedTuple):
    span: Span
    nbytes: int
    whole: bool  # is read whole, even if only some of its rows are wanted


class Order:
    """The order of the rows of every epoch.

    Args:
        batches: those of the source, in its order.
        window: the number of bytes of a window. None: the source is one window.
        most_rows: the number of rows that are taken at once from a window; None: all.
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        *,
        batch_size: int,
        window: int | None,
        shuffle: str | bool,
        seed: int,
        drop_last: bool,
        most_rows: int | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._window = window
        self._shuffle = shuffle
        self._seed = seed
        self._most_rows = most_rows
        self._units = list(_units_of_batches(batches, window))
        self.rows = sum(unit.span.rows for unit in self._units)
        self.batches = self.rows // batch_size if drop_last else -(-self.rows // batch_size)

    def steps(self, begin: int, world_size: int) -> int:
        """Returns the number of batches that each rank gets from batch `begin` on."""
        left = self.batches - begin
        return left // world_size if self.drop_last else -(-left // world_size)

    def loads(self, epoch: int, rank: Rank) -> Iterator[Load]:
        """Yields what a rank reads. The rows, in this order, are those of its batches one after the other."""
        units = self._units_of(epoch)
        if self._shuffle == "rows":
            yield from self._loads_of_windows(units, epoch, rank)
        else:
            yield from self._loads_of_spans(units, rank)

    def _units_of(self, epoch: int) -> list[_Unit]:
        if not self._shuffle:
            return self._units
        numbers = _core._permute_rows(
            _core.context("host"), len(self._units), _key(self._seed, epoch, "units")
        )
        return [self._units[number] for number in numbers.to_pylist()]

    def _batches_of(self, rank: Rank) -> Iterator[int]:
        """Yields the batches of a rank. Without drop_last the last step begins the epoch again."""
        for step in range(self.steps(rank.begin, rank.world_size)):
            yield (rank.begin + step * rank.world_size + rank.number) % self.batches

    def _loads_of_spans(self, units: list[_Unit], rank: Rank) -> Iterator[Load]:
        """Yields loads that have only the rows of the rank's batches, and at most the bytes of a window."""
        starts = [0, *accumulate(unit.span.rows for unit in units)]
        if rank.world_size == 1:
            end = min(self.rows, self.batches * self.batch_size)
            stretches = iter([(rank.begin * self.batch_size, end)])
        else:
            stretches = (
                (batch * self.batch_size, min(self.rows, (batch + 1) * self.batch_size))
                for batch in self._batches_of(rank)
            )
        spans: list[Span] = []
        size = 0
        for first, last in stretches:
            place = bisect_right(starts, first) - 1
            while first < last:
                unit = units[place]
                end = min(last, starts[place + 1])
                nbytes = unit.nbytes if unit.whole else unit.nbytes * (end - first) // unit.span.rows
                if unit.whole and spans and spans[-1].batch == unit.span.batch:
                    nbytes = 0
                if spans and self._window is not None and size + nbytes > self._window:
                    yield Load(spans, None)
                    spans, size = [], 0
                _append(spans, Span(unit.span.batch, unit.span.first + first - starts[place], end - first))
                size += nbytes
                first = end
                place += 1
        if spans:
            yield Load(spans, None)

    def _loads_of_windows(self, units: list[_Unit], epoch: int, rank: Rank) -> Iterator[Load]:
        windows = list(self._windows(units))
        starts = [0, *accumulate(sum(span.rows for span in window) for window in windows)]
        steps = self.steps(rank.begin, rank.world_size)
        last = rank.begin + (steps - 1) * rank.world_size + rank.number
        own = steps if last < self.batches else steps - 1
        for number, window in enumerate(windows):
            groups = self._rows_in(starts[number], starts[number + 1], rank, own)
            yield from self._taken(window, epoch, number, groups, rank)
        if own < steps:  # the last step begins the epoch again
            wrapped = Rank(last % self.batches, 0, 1)
            for number, window in enumerate(windows):
                groups = self._rows_in(starts[number], starts[number + 1], wrapped, 1)
                yield from self._taken(window, epoch, number, groups, wrapped)

    def _windows(self, units: list[_Unit]) -> Iterator[list[Span]]:
        spans: list[Span] = []
        size = 0
        for unit in units:
            if spans and self._window is not None and size + unit.nbytes > self._window:
                yield spans
                spans, size = [], 0
            _append(spans, unit.span)
            size += unit.nbytes
        if spans:
            yield spans

    def _rows_in(self, start: int, end: int, rank: Rank, steps: int) -> tuple[int, int, int]:
        """Returns the rows of a rank's batches in a window of the rows [start, end) of the epoch.

        Returns the first row of the first batch, counted from the start of the window, the rows of the batch
        before the window, and the number of rows.
        """
        size, stride = self.batch_size, rank.world_size
        offset = rank.begin + rank.number
        first = max(0, -((offset - start // size) // stride))
        last = min(steps - 1, (-(-end // size) - 1 - offset) // stride)
        if last < first:
            return 0, 0, 0
        begin = (offset + first * stride) * size
        begin_of_last = (offset + last * stride) * size
        skipped = max(0, start - begin)
        rows = (last - first) * size + min(size, end - begin_of_last) - skipped
        return begin - start, skipped, rows

    def _taken(
        self, window: list[Span], epoch: int, number: int, groups: tuple[int, int, int], rank: Rank
    ) -> Iterator[Load]:
        first, skipped, rows = groups
        size, stride = self.batch_size, self.batch_size * rank.world_size
        key = _key(self._seed, epoch, f"window {number}")
        while rows > 0:
            count = rows if self._most_rows is None else min(rows, self._most_rows)
            yield Load(window, Taken(key, first, skipped, count, size, stride))
            rows -= count
            first += (skipped + count) // size * stride
            skipped = (skipped + count) % size


def _units_of_batches(batches: Iterable[Batch], window: int | None) -> Iterator[_Unit]:
    for number, (rows, nbytes, whole) in enumerate(batches):
        if rows == 0:
            continue
        if window is None or whole or nbytes <= window:
            yield _Unit(Span(number, 0, rows), nbytes, whole)
            continue
        parts = -(-nbytes // window)
        of_part = -(-rows // parts // PART_ROWS) * PART_ROWS
        for first in range(0, rows, of_part):
            count = min(of_part, rows - first)
            yield _Unit(Span(number, first, count), nbytes * count // rows, whole)


def _append(spans: list[Span], span: Span) -> None:
    """Appends a span, or extends the last one if the rows follow each other."""
    last = spans[-1] if spans else None
    if last is not None and last.batch == span.batch and last.first + last.rows == span.first:
        spans[-1] = Span(last.batch, last.first, last.rows + span.rows)
    else:
        spans.append(span)


def _key(seed: int, epoch: int, part: str) -> int:
    """Returns a number of 64 bits that differs for each seed, epoch and part of the order."""
    text = f"{seed} {epoch} {part}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
