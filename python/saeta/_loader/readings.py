"""Windows that Python reads: of tables, of Parquet files, and of Arrow files that no plan takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any, Protocol

from saeta import _core
from saeta._convert.tables import concat_tables
from saeta._core import Context, Table
from saeta._files.parquet_ranges import ColumnsAhead
from saeta._files.scan import ReadAhead, ReadOnRequest
from saeta._loader.records import Batch, Load, Run, Span
from saeta._parquet.decoder import Decoder
from saeta._parquet.ordered_reads import OrderedReads
from saeta._parquet.parts import Group, parts_of
from saeta._parquet.reading import WHOLE_BYTES, joined
from saeta.errors import ClosedError


class Reader(Protocol):
    """Gives the rows of loads, one load after the other."""

    def next(self) -> Table | None:
        """Returns the rows of the next load, None at the end. One that had no room is read again."""

    def close(self) -> None:
        """Ends reading, also that of another thread."""


class Reading(ABC):
    """Reads spans. `close` ends a read of another thread."""

    @abstractmethod
    def read(self, spans: Sequence[Span]) -> Table:
        """Returns the rows of spans, in their order."""

    def read_each(self, wanted: Sequence[Sequence[Span]]) -> Generator[Table, None, None]:
        """Yields the rows of lists of spans, one after the other."""
        for spans in wanted:
            yield self.read(spans)

    @abstractmethod
    def close(self) -> None:
        """Ends reading."""


class Files(Protocol):
    """Files whose batches are read by number."""

    batches: list[Batch]

    def runs(self, spans: Iterable[Span]) -> Iterator[Run]:
        """Yields the runs that spans are made of, in their order."""

    def read_batches(self, reading: ReadingFiles, file: int, first: int, last: int) -> Table:
        """Reads the batches [first, last) of a file."""


def reader_of(reading: Reading, loads: Sequence[Load], ahead: int) -> ReadAhead | ReadOnRequest:
    """Reads loads by a thread, `ahead` of the program. With 0 each one is read when it is taken."""
    source = _Source(reading, loads)
    if ahead == 0:
        return ReadOnRequest(source, source.next, "loader")
    return ReadAhead(source, source.next, ahead, "loader")


def parallel_reader_of(
    reading: Reading, loads: Sequence[Load], ahead: int, end: Callable[[], object]
) -> ReadAhead | ReadOnRequest:
    """Reads loads by threads, `ahead` loads at the same time, and calls `end` when none is left."""
    reads = OrderedReads([partial(_read_load, reading, load) for load in loads], max(1, ahead), end)
    if ahead == 0:
        return ReadOnRequest(reads, reads.next, "loader")
    return ReadAhead(reads, reads.next, 1, "loader")


def _read_load(reading: Reading, load: Load) -> Iterator[Table]:
    rows = reading.read(load.spans)
    yield rows if load.taken is None else rows._take_permuted(*load.taken)


class _Source:
    """Reads and permutes the rows of loads. After a failure, the next call repeats the failed step."""

    def __init__(self, reading: Reading, loads: Sequence[Load]) -> None:
        self._reading = reading
        self._loads = loads
        self._number = 0
        self._cancellation = _core._Cancellation()
        self._rows: Table | None = None  # rows that were read and are not permuted yet

    def next(self) -> Table | None:
        if self._number == len(self._loads):
            return None
        spans, taken, _ = self._loads[self._number]
        with self._cancellation:
            rows = self._reading.read(spans) if self._rows is None else self._rows
            if taken is not None:
                self._rows = rows
                rows = rows._take_permuted(*taken)
        self._rows = None
        self._number += 1
        return rows

    def close(self) -> None:
        """Ends a read on another thread, even while it waits."""
        self._cancellation.cancel()
        self._reading.close()


class ReadingTable(Reading):
    """Reads spans of rows that are in memory."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._pieces = table.batches

    def read(self, spans: Sequence[Span]) -> Table:
        if sum(span.rows for span in spans) == self._table.num_rows and _in_order(spans):
            return self._table
        return _joined([self._pieces[span.batch].slice(span.first, span.rows) for span in spans])

    def close(self) -> None:
        pass


class ReadingFiles(Reading):
    """Reads spans of files: one call for each run of consecutive batches."""

    def __init__(
        self,
        files: Files,
        ctx: Context,
        columns: list[str],
        *,
        ended: Callable[[], None] | None = None,
        fetch: Callable[[Sequence[Sequence[Span]]], ColumnsAhead] | None = None,
    ) -> None:
        """Reads `files`.

        Args:
            ended: called by `close`.
            fetch: begins to fetch from stores what `read_each` reads.
        """
        self._files = files
        self.ctx = ctx
        self.columns = columns
        self._reader: Any = None
        self._closed = False
        self._ended = ended
        self._fetch = fetch

    def read(self, spans: Sequence[Span]) -> Table:
        parts = []
        for file, first, last, together in self._files.runs(spans):
            if self._closed:
                raise ClosedError("the loader is closed")
            begin, batches = together[0].batch, self._files.batches
            read = [Span(number, 0, batches[number].rows) for number in range(begin, begin + last - first)]
            parts += _slices(self._files.read_batches(self, file, first, last), read, together)
        return _joined(parts)

    def read_each(self, wanted: Sequence[Sequence[Span]]) -> Generator[Table, None, None]:
        if self._fetch is None:
            yield from super().read_each(wanted)
            return
        fetched = self._fetch(wanted)
        try:
            yield from super().read_each(wanted)
        finally:
            fetched.close()

    @contextmanager
    def ended_by_close(self, reader: Any) -> Iterator[None]:
        """Lets `close` on another thread end a read of the reader."""
        self._reader = reader
        try:
            if self._closed:
                raise ClosedError("the loader is closed")
            yield
        finally:
            self._reader = None
            reader.close()

    def close(self) -> None:
        self._closed = True
        if self._ended is not None:
            self._ended()
        reader = self._reader
        if reader is not None:
            reader.close()


class ReadingDecoded(Reading):
    """Reads Parquet files that a device decodes: the row groups of all spans by as few calls as possible.

    Args:
        groups: the row group that each batch is; None: it has no rows.
    """

    def __init__(self, decoder: Decoder, groups: Sequence[Group | None]) -> None:
        self._decoder = decoder
        self._groups = groups

    def read(self, spans: Sequence[Span]) -> Table:
        wanted = [(group, span) for span in spans if (group := self._groups[span.batch]) is not None]
        groups = sorted({group for group, _ in wanted})
        parts = parts_of(groups, self._decoder.plan.files, WHOLE_BYTES)
        rows = joined(self._decoder, [table for part in parts for table in self._decoder.decode(part)])
        starts = dict(zip(groups, accumulate((group.rows for group in groups), initial=0), strict=False))
        return _joined([rows.slice(starts[group] + span.first, span.rows) for group, span in wanted])

    def close(self) -> None:
        self._decoder.end()


class Parts(Protocol):
    """Data that consist of several."""

    def in_parts(self, spans: Sequence[Span]) -> Iterator[tuple[int, list[Span]]]:
        """Yields spans that are of one part and follow each other, with the numbers of its batches."""


class ReadingParts(Reading):
    """Reads spans of several data, one after the other."""

    def __init__(self, parts: Parts, readings: Sequence[Reading]) -> None:
        self._parts = parts
        self._readings = readings

    def read(self, spans: Sequence[Span]) -> Table:
        found = [self._readings[number].read(inside) for number, inside in self._parts.in_parts(spans)]
        return _joined(found)

    def read_each(self, wanted: Sequence[Sequence[Span]]) -> Generator[Table, None, None]:
        divided = [list(self._parts.in_parts(spans)) for spans in wanted]
        of_parts: dict[int, list[list[Span]]] = {}
        for number, inside in chain.from_iterable(divided):
            of_parts.setdefault(number, []).append(inside)
        with ExitStack() as stack:
            tables = {
                number: stack.enter_context(closing(self._readings[number].read_each(lists)))
                for number, lists in of_parts.items()
            }
            for parts in divided:
                yield _joined([next(tables[number]) for number, _ in parts])

    def close(self) -> None:
        for reading in self._readings:
            reading.close()


class ReadingScan(Reading):
    """The windows of a scan, one after the other."""

    def __init__(self, scan: Any) -> None:
        self._scan = scan

    def read(self, spans: Sequence[Span]) -> Table:
        table: Table = self._scan.next()
        return table

    def close(self) -> None:
        self._scan.close()


class ReadingPlanned(Reading):
    """Reads each list of spans when it is wanted, by one plan."""

    def __init__(self, planned: Any, ctx: Context) -> None:
        self._planned = planned
        self._ctx = ctx
        self._closed = False
        self._scan: Any = None

    def read(self, spans: Sequence[Span]) -> Table:
        with closing(self.read_each([spans])) as tables:
            return next(tables)

    def read_each(self, wanted: Sequence[Sequence[Span]]) -> Generator[Table, None, None]:
        self._scan = self._planned.scan_spans(self._ctx, wanted, max(1, len(wanted)))
        try:
            if self._closed:
                raise ClosedError("the loader is closed")
            for _ in wanted:
                yield self._scan.next()
        finally:
            self._scan = None

    def close(self) -> None:
        self._closed = True
        scan = self._scan
        if scan is not None:
            scan.close()


class ReadingWhole(Reading):
    """Cuts the spans of loads out of compressed batches.

    Args:
        reading: reads what `spans_to_read` returns, without lists that are empty.
    """

    def __init__(self, reading: Reading, loads: Sequence[Load], batches: Sequence[Batch]) -> None:
        self._reading = reading
        self._whole = WholeBatches(loads, batches)

    def read(self, spans: Sequence[Span]) -> Table:
        wanted = self._whole.wanted()
        return self._whole.cut(spans, self._reading.read(wanted) if wanted else None)

    def close(self) -> None:
        self._reading.close()


class WholeBatches:
    """Compressed batches that the spans of loads are cut out of, one load after the other.

    One that has rows of two neighbouring loads is read once: what was read for a load stays until the next
    one is cut.
    """

    def __init__(self, loads: Sequence[Load], batches: Sequence[Batch]) -> None:
        self._batches = batches
        self._loads = [*loads, Load([], None)]
        self._wanted = spans_to_read(loads, batches)
        self._number = 0
        self._held: dict[Span, tuple[Table, int]] = {}  # a table, and where in it the rows begin

    def wanted(self, ahead: int = 0) -> list[Span]:
        """Returns what is read for the load that is so many ahead; nothing if it is held then."""
        return self._wanted[self._number + ahead]

    def cut(self, spans: Sequence[Span], rows: Table | None) -> Table:
        """Returns the spans of the next load, for which the wanted rows were read."""
        held, start = self._held, 0
        if rows is not None:
            for span in self.wanted():
                held[span] = rows, start
                start += span.rows
        self._number += 1
        found: list[tuple[Table, int, int]] = []  # the rows [first, last) of a table
        for span in spans:
            read = _read_for(span, self._batches)
            table, first = held[read]
            first += span.first - read.first
            if found and found[-1][0] is table and found[-1][2] == first:
                found[-1] = table, found[-1][1], first + span.rows
            else:
                found.append((table, first, first + span.rows))
        following = [_read_for(span, self._batches) for span in self._loads[self._number].spans]
        self._held = {span: held[span] for span in following if span in held}
        return _joined([table.slice(first, last - first) for table, first, last in found])


def spans_to_read(loads: Sequence[Load], batches: Sequence[Batch]) -> list[list[Span]]:
    """Returns what is read for each load: of a compressed batch all rows, unless the load before has them."""
    found: list[list[Span]] = []
    held: dict[Span, None] = {}
    for load in loads:
        read = dict.fromkeys(_read_for(span, batches) for span in load.spans)
        found.append([span for span in read if span not in held])
        held = read
    return found


def _read_for(span: Span, batches: Sequence[Batch]) -> Span:
    batch = batches[span.batch]
    return Span(span.batch, 0, batch.rows) if batch.whole else span


def _slices(table: Table, read: Sequence[Span], spans: Sequence[Span]) -> list[Table]:
    """Cuts spans out of a table of the spans that were read, which contain them in the same order."""
    found: list[tuple[int, int]] = []  # [first, last) of the table
    number = start = 0
    for span in spans:
        while not _contains(read[number], span):
            start += read[number].rows
            number += 1
        first = start + span.first - read[number].first
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], first + span.rows)
        else:
            found.append((first, first + span.rows))
    return [table.slice(first, last - first) for first, last in found]


def _contains(read: Span, span: Span) -> bool:
    return (
        read.batch == span.batch
        and read.first <= span.first
        and span.first + span.rows <= read.first + read.rows
    )


def _joined(parts: list[Table]) -> Table:
    return parts[0] if len(parts) == 1 else concat_tables(parts)


def _in_order(spans: Sequence[Span]) -> bool:
    return all(before.batch < span.batch for before, span in pairwise(spans))
