"""The order of the rows of each epoch, and what a rank reads of it.

The order depends on the sizes of the source's batches, on the sizes of batches and windows, the way of
shuffling, the seed and the number of the epoch, and on nothing else: neither on the number of ranks nor on
where an epoch is resumed.

A unit is a batch of a file, or a part of one. Units are permuted, and their rows are shared among lanes:
consecutive rows for each lane. Batch k has the next rows of lane k % lanes. A lane is read in windows, which
have a number of batches. A round is one window of each lane. With shuffle="rows" the rows of each window are
permuted. Ranks whose number divides the lanes read lanes of their own.

Without lanes, as in the order of the files, batch k has the rows [k * size, (k + 1) * size).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, repeat
from math import gcd
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from saeta import _core
from saeta._loader.records import Batch, Load, Options, Rank, Selection, Span, Steps, Taken, Window

if TYPE_CHECKING:
    from saeta._loader.base import Data

LANES = (48, 24, 16, 8, 4, 2)
FEW_LANES = 8
LEAST_WINDOW = (2, 4)  # batches of a lane's window, with few lanes and with more
LEAST_LANE = 8  # batches of a lane: the last batch of some lanes is permuted in itself
LEAST_WHOLE = 10  # compressed batches of a lane: those that have rows of two lanes may be read twice
PARTS = 4  # of a lane's window, from different places
PART_ROWS = 64  # parts of a batch begin at multiples of it, so that bitmaps begin at whole words
VIEWED_BYTES = 1 << 20  # of a batch of a file


# A batch, the first of its rows, the number of rows and of bytes, and whether the batch is read whole even if
# only some rows are wanted. Plain tuples, because there may be millions of them.
_Unit: TypeAlias = tuple[int, int, int, int, bool]


class _Share(NamedTuple):
    """The batches [first, last) of a source, and the number of its rows in an epoch."""

    first: int
    last: int
    rows: int


class _Stream(NamedTuple):
    """The units of an epoch, one after the other, and the number of its rows before each one."""

    units: list[_Unit]
    starts: list[int]


class _Rounds(NamedTuple):
    """Rounds whose windows have equally many batches."""

    first: int  # batch
    window_batches: int
    rounds: int
    number: int  # of the first round


ROWS, NBYTES, IS_WHOLE = attrgetter("rows"), attrgetter("nbytes"), attrgetter("whole")
ROWS_OF_UNIT = itemgetter(2)


class Order:
    """The order of the rows of every epoch.

    Args:
        batches: those of the source, in its order.
        window: the number of bytes of a round. None: the source is one window.
        most_rows: the number of rows that are taken at once from a window; None: all.
        shares: of weighted sources, the number of their batches and their weight. An epoch has as many rows
            as there are without repeating one.

    Attributes:
        rows, batches: of an epoch.
        lanes: 1 if the order has none.
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
        shares: Sequence[tuple[int, float]] = (),
    ) -> None:
        sizes = list(batches)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._shuffle = shuffle
        self._seed = seed
        self._most_rows = most_rows
        self._window = window
        self.rows: int = sum(map(ROWS, sizes))
        self._shares: list[_Share] = []
        if shares:
            self._shares = _shares_of_rows(sizes, shares)
            self.rows = sum(share.rows for share in self._shares)
        self.batches = self.rows // batch_size if drop_last else -(-self.rows // batch_size)
        self.lanes, self._window_batches = 1, max(1, -(-self.rows // batch_size))
        if window is not None and shuffle and (total := sum(map(NBYTES, sizes))) > window:
            self._choose_lanes(sizes, window, total)
        self._units: list[_Unit] = []
        for number, (rows, nbytes, whole) in enumerate(sizes):
            of_part = rows
            if window is not None and not whole:
                of_window = self._window_batches * batch_size
                if shuffle == "rows":
                    of_part = max(of_window // PARTS // PART_ROWS, 1) * PART_ROWS
                elif self.lanes > 1:
                    of_part = of_window
                elif nbytes > window:
                    of_part = -(-rows // -(-nbytes // window) // PART_ROWS) * PART_ROWS
            if rows <= of_part:
                self._units += [(number, 0, rows, nbytes, whole)] if rows else []
                continue
            firsts = range(0, rows, of_part)
            self._units += [
                (number, first, of_part, nbytes * of_part // rows, whole) for first in firsts[:-1]
            ]
            last = rows - firsts[-1]
            self._units.append((number, firsts[-1], last, nbytes * last // rows, whole))

    def _choose_lanes(self, batches: Sequence[Batch], window: int, nbytes: int) -> None:
        """Chooses the number of lanes, and of batches in a window of a lane.

        Args:
            nbytes: of all batches. A compressed batch with rows of two lanes may be read twice. These must
                not be a tenth of them.
        """
        whole: int = max(map(NBYTES, filter(IS_WHOLE, batches)), default=0)
        # No round has fewer rows than the rows with the most bytes that fit.
        heaviest = sorted(batches, key=lambda batch: batch.nbytes / max(batch.rows, 1), reverse=True)
        for lanes in LANES:
            # Of each lane, a batch that is read whole may also have rows of the next window.
            of_window = _fitting_rows(heaviest, window - lanes * whole) // lanes // self.batch_size
            is_long = self.batches >= LEAST_LANE * lanes and nbytes >= LEAST_WHOLE * lanes * whole
            least = LEAST_WINDOW[lanes > FEW_LANES]
            if is_long and of_window >= least:
                self.lanes, self._window_batches = lanes, self._permuted_batches(of_window, least)
                return
        rows = _fitting_rows(heaviest, max(window - whole, whole))
        self._window_batches = self._permuted_batches(max(1, rows // self.batch_size), 1)

    def _permuted_batches(self, most: int, least: int) -> int:
        """Returns the number of batches of a window: `most`, or fewer where their rows are permuted.

        Rows are permuted among the numbers below a power of two. Just above one, nearly every second number
        is none of a row, and is computed in vain.
        """
        if self._shuffle != "rows":
            return most
        domain = 1 << (most * self.batch_size).bit_length() - 1
        return max(least, domain // self.batch_size)

    def steps(self, begin: int, world_size: int) -> int:
        """Returns the number of batches that each rank gets from batch `begin` on."""
        left = self.batches - begin
        return left // world_size if self.drop_last else -(-left // world_size)

    def loads(self, epoch: int, rank: Rank) -> list[Load]:
        """Returns what a rank reads: in this order, the rows of its batches."""
        stream = self._stream(epoch)
        if self.lanes > 1 or self._shuffle == "rows":
            return list(self._rounds(stream, epoch, rank))
        stretches: Iterable[tuple[int, int]]
        if rank.world_size == 1:
            stretches = [(rank.begin * self.batch_size, min(self.rows, self.batches * self.batch_size))]
        else:
            stretches = self._stretches(rank)
        return list(map(Load, _spans(stream, stretches, self._window), repeat(None)))

    def windows(self, epoch: int, lanes: Iterable[int]) -> Iterator[list[Window]]:
        """Yields the windows of lanes, with all of their rows in the order before they are permuted."""
        stream = self._stream(epoch)
        if self.lanes == 1 and self._shuffle != "rows":
            found = _spans(stream, [(0, self.rows)], self._window)
            yield [Window(spans, number) for number, spans in enumerate(found)]
            return
        lane_rows = self._lane_rows()
        for lane in lanes:
            windows = []
            for stage in self._stages():
                for number in range(stage.rounds):
                    rows = self._window_rows(lane_rows[lane], stage, number)
                    number_of_window = (stage.number + number) * self.lanes + lane
                    windows += [
                        Window(spans, number_of_window)
                        for spans in _spans(stream, [(rows.start, rows.stop)], None)
                    ]
            yield windows

    def key(self, epoch: int) -> int | None:
        """Returns the key of the permutations of rows. None: rows are not permuted."""
        return _key(self._seed, epoch, "rows") if self._shuffle == "rows" else None

    def _stream(self, epoch: int) -> _Stream:
        units = list(self._weighted(epoch)) if self._shares else self._units
        if self._shuffle:
            numbers = _core._permuted_numbers(len(units), _key(self._seed, epoch, "units"))
            units = list(map(units.__getitem__, numbers))
        return _Stream(units, [0, *accumulate(map(ROWS_OF_UNIT, units))])

    def _weighted(self, epoch: int) -> Iterator[_Unit]:
        """Yields units of weighted sources: of each one some, with its share of the rows of an epoch."""
        for number, share in enumerate(self._shares):
            units = [unit for unit in self._units if share.first <= unit[0] < share.last]
            left = share.rows
            for place in _core._permuted_numbers(len(units), _key(self._seed, epoch, f"source {number}")):
                batch, first, count, nbytes, whole = units[place]
                rows = min(left, count)
                if rows:
                    yield batch, first, rows, nbytes * rows // count, whole
                left -= rows

    def _stretches(self, rank: Rank) -> Iterator[tuple[int, int]]:
        """Yields the rows [first, last) of the batches of a rank, without lanes.

        Without drop_last the last step begins the epoch again.
        """
        for step in range(self.steps(rank.begin, rank.world_size)):
            batch = (rank.begin + step * rank.world_size + rank.number) % self.batches
            yield batch * self.batch_size, min(self.rows, (batch + 1) * self.batch_size)

    def _rounds(self, stream: _Stream, epoch: int, rank: Rank) -> Iterator[Load]:
        """Yields what is read for the batches of a rank: with a share of the lanes, of several rounds."""
        lanes, lane_rows, stages = self.lanes, self._lane_rows(), self._stages()
        steps = self.steps(rank.begin, rank.world_size)
        last = rank.begin + rank.number + (steps - 1) * rank.world_size
        own = range(rank.begin + rank.number, min(last + 1, self.batches), rank.world_size)
        again = range(0)
        if len(own) < steps:  # the last step begins the epoch again
            again = range(last % self.batches, self.batches, self.batches)
        for batches, stage in [(own, stage) for stage in stages] + [(again, stage) for stage in stages]:
            of_round, together = lanes * stage.window_batches, gcd(batches.step, lanes)
            end = min(self.batches, stage.first + of_round * stage.rounds)
            skipped = max(0, -((batches.start - stage.first) // batches.step)) if batches else 0
            left_of = batches[skipped:]
            while left_of and left_of[0] < end:
                begin = (left_of[0] - stage.first) // of_round
                count = min(together, stage.rounds - begin)
                first = stage.first + begin * of_round
                of_load = range(left_of[0], min(left_of.stop, end, first + count * of_round), left_of.step)
                left_of = left_of[len(of_load) :]
                rounds = _Rounds(first, stage.window_batches, count, stage.number + begin)
                if self._shuffle == "rows":
                    yield from self._permuted(stream, lane_rows, epoch, rounds, of_load)
                else:
                    yield self._in_turns(stream, lane_rows, rounds, of_load)

    def _stages(self) -> tuple[_Rounds, _Rounds, _Rounds]:
        """Returns whole rounds, a shorter one, and one with a last batch for some of the lanes."""
        lanes, of_whole = self.lanes, self.lanes * self._window_batches
        whole, left = divmod(self.batches, of_whole)
        shorter, tail = divmod(left, lanes)
        if lanes == 1 and left:  # rows that drop_last leaves out are permuted with the others
            shorter = -(-self.rows // self.batch_size) - whole * of_whole
        return (
            _Rounds(0, self._window_batches, whole, 0),
            _Rounds(whole * of_whole, shorter, min(shorter, 1), whole),
            _Rounds(self.batches - tail, 1, min(tail, 1), whole + 1),
        )

    def _window_rows(self, rows_of_lane: range, rounds: _Rounds, number: int) -> range:
        """Returns the rows of a lane's window in a round: the `number`-th one of these."""
        first = (rounds.first // self.lanes + number * rounds.window_batches) * self.batch_size
        return rows_of_lane[first : first + rounds.window_batches * self.batch_size]

    def _lane_rows(self) -> list[range]:
        """Returns the rows of each lane among those of the permuted units.

        Lanes that ranks of usual numbers have together are neighbours, so that few units have rows of
        several ranks.
        """
        if self.lanes == 1:
            return [range(self.rows)]
        found = [range(0)] * self.lanes
        end = 0
        missing = max(0, self.batches * self.batch_size - self.rows)
        for lane in sorted(range(self.lanes), key=lambda lane: ([lane >> bit & 1 for bit in range(4)], lane)):
            begin, batches = end, len(range(lane, self.batches, self.lanes))
            end += batches * self.batch_size - (missing if lane == (self.batches - 1) % self.lanes else 0)
            found[lane] = range(begin, end)
        return found

    def _permuted(
        self, stream: _Stream, lane_rows: list[range], epoch: int, rounds: _Rounds, batches: range
    ) -> Iterator[Load]:
        """Yields all rows of the lanes of batches, and which ones are taken."""
        size, lanes, lane_step = self.batch_size, self.lanes, gcd(batches.step, self.lanes)
        stretches = []
        for number in range(rounds.rounds):
            for lane in range(batches[0] % lane_step, lanes, lane_step):
                rows = self._window_rows(lane_rows[lane], rounds, number)
                stretches.append((rows.start, rows.stop))
        (spans,) = _spans(stream, stretches, None)
        key = _key(self._seed, epoch, "rows")
        left = len(batches) * size
        if batches[-1] == self.batches - 1:
            left -= max(0, self.batches * size - self.rows)
        begin = batches[0] - rounds.first
        most = left if self._most_rows is None else self._most_rows
        while left > 0:
            count = min(left, most)
            taken = Taken(
                key, begin, batches.step, size, count, lanes, lane_step, rounds.window_batches, rounds.number
            )
            yield Load(spans, taken)
            left -= count
            begin += count // size * batches.step

    def _in_turns(self, stream: _Stream, lane_rows: list[range], rounds: _Rounds, batches: range) -> Load:
        """Returns the rows of batches lane by lane, and the turns in which the lanes have them."""
        size, of_round = self.batch_size, self.lanes * rounds.window_batches
        windows: dict[tuple[int, int], list[int]] = {}
        for turn, batch in enumerate(batches):
            windows.setdefault(((batch - rounds.first) // of_round, batch % self.lanes), []).append(turn)
        by_lanes = [(lane, turn) for (_, lane), turns in sorted(windows.items()) for turn in turns]
        stretches = []
        for lane, turn in by_lanes:
            first = batches[turn] // self.lanes * size
            rows = lane_rows[lane][first : first + size]
            stretches.append((rows.start, rows.stop))
        (spans,) = _spans(stream, stretches, None)
        places = [0] * len(by_lanes)
        for place, (_, turn) in enumerate(by_lanes):
            places[turn] = place
        return Load(spans, None, places)


class Plan(NamedTuple):
    """What the sizes of batches say about the epochs of a loader."""

    order: Order
    most: int  # batches that are made at once
    views: bool  # whether windows may be views of files
    width: int  # bytes of a row, on average


def plan_of(data: Data, chosen: Selection, steps: Steps, options: Options, batches: Sequence[Batch]) -> Plan:
    """Returns the plan for batches of these sizes, which may be guessed."""
    all_rows, all_bytes = sum(map(ROWS, batches)), sum(map(NBYTES, batches))
    width = max(1, -(-all_bytes // max(1, all_rows)))
    most = max(1, steps.window // width // steps.batch_size)
    order = Order(
        batches,
        batch_size=steps.batch_size,
        window=None if data.is_table else steps.window,
        shuffle=steps.shuffle,
        seed=steps.seed,
        drop_last=steps.drop_last and chosen.transform is None,  # rows are left out after the function
        most_rows=most * steps.batch_size if data.is_table and steps.shuffle == "rows" else None,
        shares=data.shares,
    )
    # A view of a small batch takes longer than its copy, and one that is smaller than what is yielded is
    # copied anyway. A tensor of torch that views a file looks writable, and writing to it would end the
    # process.
    count = len(batches)
    is_large = all_bytes >= VIEWED_BYTES * count and all_rows >= steps.batch_size * count
    views = is_large and order.lanes == 1 and steps.shuffle != "rows" and options.to != "torch"
    return Plan(order, most, views, width)


def _shares_of_rows(batches: Sequence[Batch], shares: Sequence[tuple[int, float]]) -> list[_Share]:
    """Returns the rows of each source in an epoch: as many as the weights allow without repeating a row."""
    ends = list(accumulate(count for count, _ in shares))
    found = [
        _Share(end - count, end, sum(map(ROWS, batches[end - count : end])))
        for end, (count, _) in zip(ends, shares, strict=True)
    ]
    weights = [Fraction(weight) for _, weight in shares]
    whole = min(share.rows / weight for share, weight in zip(found, weights, strict=True))
    return [share._replace(rows=int(whole * weight)) for share, weight in zip(found, weights, strict=True)]


def _spans(stream: _Stream, stretches: Iterable[tuple[int, int]], window: int | None) -> Iterator[list[Span]]:
    """Yields the spans of the rows [first, last) of stretches, with the bytes of a window at most."""
    units, starts = stream
    spans: list[Span] = []
    size = 0
    for first, last in stretches:
        place = bisect_right(starts, first) - 1
        while first < last:
            batch, begin, rows, nbytes, whole = units[place]
            begin += first - starts[place]
            end = min(last, starts[place + 1])
            if not whole and end - first != rows:
                nbytes = nbytes * (end - first) // rows
            before = spans[-1] if spans else None
            if before is not None and whole and before.batch == batch:
                nbytes = 0
            if before is not None and window is not None and size + nbytes > window:
                yield spans
                spans, size, before = [], 0, None
            if before is not None and before.batch == batch and before.first + before.rows == begin:
                spans[-1] = Span(batch, before.first, before.rows + end - first)
            else:
                spans.append(Span(batch, begin, end - first))
            size += nbytes
            first = end
            place += 1
    if spans:
        yield spans


def _fitting_rows(batches: Iterable[Batch], nbytes: int) -> int:
    """Returns the number of first rows that have so many bytes at most."""
    found, left = 0, max(0, nbytes)
    for batch in batches:
        if batch.nbytes > left:
            return found + left * batch.rows // batch.nbytes
        found += batch.rows
        left -= batch.nbytes
    return found


def _key(seed: int, epoch: int, part: str) -> int:
    """Returns a number of 64 bits that differs for each seed, epoch and part of the order."""
    text = f"{seed} {epoch} {part}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
