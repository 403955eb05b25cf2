"""What the data of a loader are: batches of one kind or another, and files of one format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from saeta._core import Context, Schema, Table
from saeta._files.filesystems import URL, without_secrets
from saeta._loader.readings import Reader, Reading, ReadingFiles, ReadingWhole, reader_of
from saeta._loader.records import Batch, Load, Run, Selection, Span
from saeta._loader.refusals import ADVICE

IS_WHOLE = attrgetter("whole")


class Data:
    """The data of a loader: batches that are read span by span.

    Attributes:
        schema: names and types of the columns that are read.
        batches: rows and bytes of each batch, from the metadata.
        is_table: whether the rows are in memory already.
    """

    schema: Schema
    batches: list[Batch]
    is_table = False
    has_sizes = True
    """Whether `batches` are known. Otherwise they are waited for when they are needed first."""
    divisible = False
    """Whether `divide` may change how batches are read."""
    shares: Sequence[tuple[int, float]] = ()
    """Of weighted sources, the number of their batches and their weight. Empty: an epoch has all rows."""

    @property
    def names(self) -> list[str]:
        """The names of the files, without their folders."""
        return ["table"]

    @property
    def dictionaries(self) -> frozenset[str]:
        """Columns that are read as plain values and were dictionaries when the files were written."""
        return frozenset()

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        """Begins to read these columns of loads into a context.

        Args:
            ahead: the number of loads that are read before they are requested.
            views: whether rows may be read-only views of files, where the format allows views.
        """
        raise NotImplementedError

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        """Returns what reads lists of spans when they are wanted."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases the files."""

    def divide(self, window: int) -> None:
        """Lets compressed batches that are larger than a window be read in parts, in their order."""

    def keep_whole(self, window: int) -> None:
        """Lets batches with a small part of a window be read whole where parts are small requests."""

    def guess_batches(self) -> list[Batch]:
        """Begins to fetch what `batches` need. Returns what they probably are, nothing if they are known."""
        return []

    def fetch(self, ctx: Context, loads: Sequence[Load]) -> object:
        """Begins to fetch what was guessed. It is kept with the result."""
        return None

    def identity(self) -> list[Any]:
        """Returns an identity of the rows: the names of the files, and rows and bytes of each batch."""
        return [self.names, [(batch.rows, batch.nbytes) for batch in self.batches]]

    def advice(self, spans: Sequence[Span]) -> str:
        """Returns what to do where the budget has no room for the rows of spans."""
        return ADVICE

    def firsts(self) -> list[Span]:
        """Returns the spans that dictionaries are taken from: the first batch with rows of each file."""
        raise NotImplementedError

    def describe(self, spans: Sequence[Span]) -> str:
        """Returns the place of the rows of spans, for messages."""
        raise NotImplementedError


class Place(NamedTuple):
    """The place of a batch: the number of its file, and its number in the file."""

    file: int
    number: int


class OfFiles(Data):
    """Files of one format."""

    files: list[str]
    counts: list[int]  # of the batches of each file

    @property
    def names(self) -> list[str]:
        return [without_secrets(file).rpartition("/")[2] for file in self.files]

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        reading: Reading = ReadingFiles(self, ctx, list(columns))
        if any(map(IS_WHOLE, self.batches)):
            reading = ReadingWhole(reading, loads, self.batches)
        return reader_of(reading, loads, ahead)

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        return ReadingFiles(self, ctx, list(columns))

    @cached_property
    def _places(self) -> list[Place]:
        return [Place(file, each) for file, count in enumerate(self.counts) for each in range(count)]

    def runs(self, spans: Iterable[Span]) -> Iterator[Run]:
        """Yields the runs that spans are made of, in their order."""
        together: list[Span] = []
        for span in spans:
            place = self._places[span.batch]
            if together and (
                span.batch - together[-1].batch not in (0, 1)
                or place.file != self._places[together[-1].batch].file
            ):
                yield self._run(together)
                together = []
            together.append(span)
        if together:
            yield self._run(together)

    def _run(self, spans: list[Span]) -> Run:
        first, last = self._places[spans[0].batch], self._places[spans[-1].batch]
        return Run(first.file, first.number, last.number + 1, spans)

    def firsts(self) -> list[Span]:
        found: dict[int, Span] = {}
        for number, (place, batch) in enumerate(zip(self._places, self.batches, strict=True)):
            if batch.rows:
                found.setdefault(place.file, Span(number, 0, batch.rows))
        return list(found.values())

    def describe(self, spans: Sequence[Span]) -> str:
        places = [self._places[span.batch] for span in spans]
        parts = [
            f"file '{shown(self.files[file])}', {numbers_of(place.number for place in of_file)}"
            for file, of_file in groupby(sorted(places), key=lambda place: place.file)
        ]
        more = f" and {len(parts) - 2} more files" if len(parts) > 2 else ""
        return "; ".join(parts[:2]) + more

    def read_batches(self, reading: ReadingFiles, file: int, first: int, last: int) -> Table:
        raise NotImplementedError


def schema_of_columns(chosen: Selection) -> Schema | None:
    """Returns the part of the schema that is given for the columns that are read."""
    if chosen.schema is None:
        return None
    meant = chosen.schema if isinstance(chosen.schema, Schema) else Schema(chosen.schema)
    return meant if chosen.columns is None else Schema([meant.field(name) for name in chosen.columns])


def numbers_of(batches: Iterable[int]) -> str:
    found = sorted(set(batches))
    if len(found) == 1:
        return f"batch {found[0]}"
    return f"{len(found)} batches from {found[0]} to {found[-1]}"


def shown(file: str) -> str:
    return without_secrets(file) if URL.match(file) else file
