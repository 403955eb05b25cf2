"""Lanes whose windows a function of the program changes.

Nobody knows beforehand how many rows a window has then. So the windows of a lane are read one after the
other, as its rows are used up:

    lane 0   [ window > function > order of rows ][ window ... ][ window ... ]
    lane 1   [ window ... ][ window ... ]
    slots    lane 0, lane 1, ... lane L-1, lane 0, ...      slot k has the next batch of lane k % L

A slot of a lane that has no rows left has no batch. Rank r of n has the batches of the slots r, r + n, ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from math import gcd
from typing import Any

from saeta import _core
from saeta._convert.tables import concat_tables
from saeta._core import Context, Table
from saeta._files.scan import ReadAhead, ReadOnRequest
from saeta._loader.base import Data
from saeta._loader.order import Order
from saeta._loader.readings import Reader, Reading, WholeBatches
from saeta._loader.records import Batch, Load, Span, Turns, Window
from saeta._loader.refusals import add_label
from saeta.errors import ClosedError, Error

Change = Callable[[Table, Sequence[Span]], Table]


class Lane:
    """The windows of a lane that are not read yet, and its rows that are not taken yet.

    Args:
        batches: of the source.
        key: of the permutations of rows; None: rows keep their order.
        begin: the number of its first rows that are passed over.
        stride: a rank takes every `stride`-th batch of the lane.
    """

    def __init__(
        self,
        windows: Sequence[Window],
        batches: Sequence[Batch],
        *,
        key: int | None,
        batch_rows: int,
        begin: int,
        stride: int,
    ) -> None:
        self._windows = deque(windows)
        self._whole = None
        if any(batches[span.batch].whole for window in windows for span in window.spans):
            self._whole = WholeBatches([Load(window.spans, None) for window in windows], batches)
        self._key = key
        self._batch_rows = batch_rows
        self._stride = stride
        self._passed_over = begin
        self._read: Table | None = None  # a window, until the function has returned
        self._tables: deque[tuple[Table, list[Span]]] = deque()  # what is left of windows, and their spans
        self._rows = 0

    @property
    def at_end(self) -> bool:
        """Whether all windows were read."""
        return not self._windows

    @property
    def spans(self) -> list[Span]:
        """What was read for the rows that are not taken yet."""
        return [span for _, spans in self._tables for span in spans]

    def wanted(self, most: int) -> list[list[Span]]:
        """Returns what is read for each of the next windows; nothing where the rows are in memory."""
        ahead = range(min(most, len(self._windows)))
        if self._whole is None:
            wanted = [self._windows[number].spans for number in ahead]
        else:
            wanted = list(map(self._whole.wanted, ahead))
        return wanted if self._read is None else [[], *wanted[1:]]

    def add(self, rows: Table | None, change: Change) -> None:
        """Adds the next window, whose wanted rows were read. After a failure it can be added again."""
        spans, number = self._windows[0]
        if self._whole is not None and self._read is None:
            rows = self._whole.cut(spans, rows)
        if rows is not None:
            self._read = rows.combine_chunks()
        assert self._read is not None
        made = change(self._read, spans)
        count, over = made.num_rows, self._passed_over
        if count > over and self._key is not None:
            size = self._batch_rows
            made = made._take_permuted(self._key, 0, 1, size, count, 1, 1, -(-count // size), number)
        self._read = None
        self._windows.popleft()
        self._passed_over = max(0, over - count)
        if count > over:
            self._tables.append((made.slice(over) if over else made, spans))
            self._rows += count - over

    def available(self, *, drop_last: bool) -> int:
        """Returns the number of batches that can be taken."""
        step = self._batch_rows * self._stride
        if self.at_end and not drop_last:
            return -(-self._rows // step)
        return max(0, (self._rows - self._batch_rows) // step + 1)

    def take(self, batches: int) -> Iterator[Table]:
        """Yields batches, those that are neighbours as one table. Those of other ranks are passed over."""
        if self._stride == 1:
            yield self._pop(batches * self._batch_rows)
            return
        over = (self._stride - 1) * self._batch_rows
        for _ in range(batches):
            yield self._pop(self._batch_rows)
            self._passed_over = max(0, over - self._rows)
            if self._rows:
                self._pop(over)

    def _pop(self, count: int) -> Table:
        parts = []
        while count and self._tables:
            first, spans = self._tables.popleft()
            if first.num_rows > count:
                self._tables.appendleft((first.slice(count), spans))
                first = first.slice(0, count)
            parts.append(first)
            count -= first.num_rows
            self._rows -= first.num_rows
        return parts[0] if len(parts) == 1 else concat_tables(parts)


class Lanes:
    """Reads the lanes of a rank. After a failure, the next call of `next` repeats the failed step.

    Args:
        lanes: in the order of their turns.
        describe: returns the place of spans.
        most: the number of batches that are taken at once.
        windows: the number of windows of each lane that are read at once.
        passed: the slots of the rank before the first ones of these.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        reading: Reading,
        change: Change,
        describe: Callable[[Sequence[Span]], str],
        *,
        drop_last: bool,
        most: int,
        windows: int,
        passed: int,
    ) -> None:
        self._lanes = lanes
        self._reading = reading
        self._change = change
        self._describe = describe
        self._drop_last = drop_last
        self._most = most
        self._windows = windows
        self._passed = passed
        self._cancellation = _core._Cancellation()

    def next(self) -> Turns | None:
        """Returns the next batches of all lanes that have some, None if no lane has."""
        with self._cancellation:
            while needy := [lane for lane in self._lanes if not (lane.at_end or self._available(lane))]:
                self._read(needy)
        having = [place for place, lane in enumerate(self._lanes) if self._available(lane)]
        if not having:
            return None
        lanes = [self._lanes[place] for place in having]
        count = min(max(1, self._most // len(having)), *map(self._available, lanes))
        turns = [number * count + turn for turn in range(count) for number in range(len(lanes))]
        before = range(self._passed, self._passed + count * len(self._lanes), len(self._lanes))
        slots = [passed + place + 1 for passed in before for place in having]
        self._passed = before.stop
        spans = [span for lane in lanes for span in lane.spans]
        tables = [table for lane in lanes for table in lane.take(count)]
        return Turns(tables, turns, slots, self._passed, spans)

    def close(self) -> None:
        """Ends a read of another thread. A function that runs is not ended."""
        self._cancellation.cancel()
        self._reading.close()

    def _available(self, lane: Lane) -> int:
        return lane.available(drop_last=self._drop_last)

    def _read(self, lanes: Sequence[Lane]) -> None:
        wanted = [(lane, spans) for lane in lanes for spans in lane.wanted(self._windows)]
        with closing(self._reading.read_each([spans for _, spans in wanted if spans])) as tables:
            for lane, spans in wanted:
                try:
                    rows = next(tables) if spans else None
                except Error as failure:
                    if not isinstance(failure, ClosedError):
                        add_label(failure, f"reading {self._describe(spans)}")
                    raise
                lane.add(rows, self._change)


class ChangedRows:
    """The rows of a rank in an epoch, whose windows a function changes. It is read like the data of a loader.

    Args:
        slots: those of the rank in the epoch.
        most: the number of batches that are taken at once.
    """

    def __init__(
        self,
        data: Data,
        order: Order,
        change: Change,
        *,
        epoch: int,
        slots: range,
        drop_last: bool,
        most: int,
    ) -> None:
        self._data = data
        self._order = order
        self._change = change
        self._epoch = epoch
        self._slots = slots
        self._drop_last = drop_last
        self._most = most
        self.describe = data.describe
        self.advice = data.advice

    def open(
        self, ctx: Context, columns: Sequence[str], slots: Any, *, ahead: int, views: bool = False
    ) -> Reader:
        """Begins to read the rows of these slots, the last ones of the rank. They are no views."""
        order, shared = self._order, gcd(slots.step, self._order.lanes)
        first = slots[: order.lanes // shared]  # one of each lane
        windows = order.windows(self._epoch, [slot % order.lanes for slot in first])
        lanes = [
            Lane(
                of_lane,
                self._data.batches,
                key=order.key(self._epoch),
                batch_rows=order.batch_size,
                begin=slot // order.lanes * order.batch_size,
                stride=slots.step // shared,
            )
            for slot, of_lane in zip(first, windows, strict=True)
        ]
        source = Lanes(
            lanes,
            self._data.reading(ctx, columns),
            self._change,
            self._data.describe,
            drop_last=self._drop_last,
            most=self._most,
            windows=max(1, ahead),
            passed=self._slots.index(slots[0]),
        )
        if ahead == 0 or (self._data.is_table and ctx.device != "host"):
            return ReadOnRequest(source, source.next, "loader")
        return ReadAhead(source, source.next, 1, "loader")
