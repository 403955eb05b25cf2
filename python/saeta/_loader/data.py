"""What a training loader reads, and the order of the rows of each epoch.

The data are Arrow IPC files, Parquet files, or a table. Their batches are what the metadata say of them.

The order of an epoch depends on these, the sizes of batches and windows, the way of shuffling, the seed and
the number of the epoch, and on nothing else: neither on the number of ranks nor on where an epoch is resumed.

A unit is a batch of a file, or a part of one that is larger than a window. Units are permuted, and
consecutive units form windows. With shuffle="rows" the rows of each window are permuted as well. An epoch is
the rows of its windows, one after the other, and batch g has the rows [g * size, (g + 1) * size) of it.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import accumulate, chain, groupby, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from saeta import _core, ipc
from saeta._core import Context, Schema, Table, _united_schema
from saeta._files import parquet_set
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS, Listed, list_sources
from saeta._files.filesystems import URL, file_error, without_secrets
from saeta._files.parquet import decoder_of, naming_failures, read_limited, require_room, take_batches
from saeta._files.readers import ReadOptions, open_reader
from saeta._loader.readings import (
    DecodedFiles,
    Reader,
    ReadingFiles,
    ReadingTable,
    ReadingWhole,
    parallel_reader_of,
    reader_of,
    spans_to_read,
)
from saeta._loader.records import Batch, Load, Rank, Run, Selection, Span, Taken
from saeta._optional import load
from saeta._parquet.engine import device_plan
from saeta._parquet.limited import LimitedReader, limited_host
from saeta.errors import ColumnNameError, InvalidError, TypeMismatch, UnsupportedError
from saeta.exchange import from_arrow

ENDINGS = (*IPC_ENDINGS, *PARQUET_ENDINGS)
ALL = Selection()
PART_ROWS = 64  # parts of a batch begin at multiples of it, so that bitmaps begin at whole words


class _Unit(NamedTuple):
    span: Span
    nbytes: int
    whole: bool  # is read whole, even if only some of its rows are wanted


ROWS_OF_UNIT, IS_WHOLE = attrgetter("span.rows"), attrgetter("whole")
SOURCE, SPANS, TAKEN = attrgetter("source"), attrgetter("spans"), attrgetter("taken")


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
        self._units: list[_Unit] = []
        for number, (rows, nbytes, whole) in enumerate(batches):
            if window is None or whole or nbytes <= window:
                if rows:
                    self._units.append(_Unit(Span(number, 0, rows), nbytes, whole))
                continue
            parts = -(-nbytes // window)
            of_part = -(-rows // parts // PART_ROWS) * PART_ROWS
            for first in range(0, rows, of_part or 1):
                count = min(of_part, rows - first)
                self._units.append(_Unit(Span(number, first, count), nbytes * count // rows, whole))
        self.rows: int = sum(map(ROWS_OF_UNIT, self._units))
        self.batches = self.rows // batch_size if drop_last else -(-self.rows // batch_size)

    def steps(self, begin: int, world_size: int) -> int:
        """Returns the number of batches that each rank gets from batch `begin` on."""
        left = self.batches - begin
        return left // world_size if self.drop_last else -(-left // world_size)

    def loads(self, epoch: int, rank: Rank) -> list[Load]:
        """Returns what a rank reads: in this order, the rows of its batches, one batch after the other."""
        units = self._units
        if self._shuffle:
            numbers = _core._permuted_numbers(len(units), _key(self._seed, epoch, "units"))
            units = list(map(units.__getitem__, numbers))
        if self._shuffle == "rows":
            return list(self._permuted(list(self._spans(units, [(0, self.rows)])), epoch, rank))
        stretches: Iterable[tuple[int, int]]
        if rank.world_size == 1:
            stretches = [(rank.begin * self.batch_size, min(self.rows, self.batches * self.batch_size))]
        else:
            stretches = self._stretches(rank)
        return list(map(Load, self._spans(units, stretches), repeat(None)))

    def _spans(self, units: list[_Unit], stretches: Iterable[tuple[int, int]]) -> Iterator[list[Span]]:
        """Yields the spans of the rows [first, last) of stretches, with the bytes of a window at most."""
        starts = [0, *accumulate(map(ROWS_OF_UNIT, units))]
        window = self._window
        spans: list[Span] = []
        size = 0
        for first, last in stretches:
            place = bisect_right(starts, first) - 1
            while first < last:
                (batch, begin, rows), nbytes, whole = units[place]
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

    def _stretches(self, rank: Rank) -> Iterator[tuple[int, int]]:
        """Yields the rows [first, last) of the batches of a rank.

        Without drop_last the last step begins the epoch again.
        """
        for step in range(self.steps(rank.begin, rank.world_size)):
            batch = (rank.begin + step * rank.world_size + rank.number) % self.batches
            yield batch * self.batch_size, min(self.rows, (batch + 1) * self.batch_size)

    def _permuted(self, windows: list[list[Span]], epoch: int, rank: Rank) -> Iterator[Load]:
        """Yields the rows of a rank's batches in each window, permuted."""
        steps = self.steps(rank.begin, rank.world_size)
        last = rank.begin + (steps - 1) * rank.world_size + rank.number
        own = steps if last < self.batches else steps - 1
        yield from self._permuted_steps(windows, epoch, rank, own)
        if own < steps:  # the last step begins the epoch again
            yield from self._permuted_steps(windows, epoch, Rank(last % self.batches, 0, 1), 1)

    def _permuted_steps(
        self, windows: list[list[Span]], epoch: int, rank: Rank, steps: int
    ) -> Iterator[Load]:
        size, stride = self.batch_size, rank.world_size
        offset = rank.begin + rank.number
        end = 0
        for number, window in enumerate(windows):
            start = end  # rows of the epoch before the window
            for span in window:
                end += span.rows
            first = max(0, -((offset - start // size) // stride))
            last = min(steps - 1, (-(-end // size) - 1 - offset) // stride)
            if last < first:
                continue
            begin = (offset + first * stride) * size - start  # the first batch, counted from the window
            begin_of_last = (offset + last * stride) * size
            skipped = max(0, -begin)
            rows = (last - first) * size + min(size, end - begin_of_last) - skipped
            key = _key(self._seed, epoch, f"window {number}")
            while rows > 0:
                count = rows if self._most_rows is None else min(rows, self._most_rows)
                yield Load(window, Taken(key, begin, skipped, count, size, size * stride))
                rows -= count
                begin += (skipped + count) // size * size * stride
                skipped = (skipped + count) % size


def _key(seed: int, epoch: int, part: str) -> int:
    """Returns a number of 64 bits that differs for each seed, epoch and part of the order."""
    text = f"{seed} {epoch} {part}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


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

    def close(self) -> None:
        """Releases the files."""

    def identity(self) -> list[Any]:
        """Returns an identity of the rows: the names of the files, and rows and bytes of each batch."""
        return [self.names, [(batch.rows, batch.nbytes) for batch in self.batches]]

    def firsts(self) -> list[Span]:
        """Returns the spans that dictionaries are taken from: the first batch with rows of each file."""
        raise NotImplementedError

    def describe(self, spans: Sequence[Span]) -> str:
        """Returns the place of the rows of spans, for messages."""
        raise NotImplementedError


class _OfTable(Data):
    is_table = True

    def __init__(self, table: Table, chosen: Selection) -> None:
        if chosen.columns is not None:
            table = table.select(chosen.columns)
        if chosen.schema is not None:
            meant = _schema_of_columns(chosen)
            table = table._with_schema(_united_schema([table.schema], ["the table"], meant))
        self.table = table
        self.schema = table.schema
        self.batches = [Batch(each.num_rows, each.nbytes, False) for each in table.batches]

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        # To permute rows of a device only queues work: a thread would wait for the program's interpreter.
        ahead = ahead if ctx.device == "host" else 0
        return reader_of(ReadingTable(self.table.select(columns)), loads, ahead)

    def firsts(self) -> list[Span]:
        return [Span(number, 0, batch.rows) for number, batch in enumerate(self.batches) if batch.rows]

    def describe(self, spans: Sequence[Span]) -> str:
        return f"the table, {_numbers(span.batch for span in spans)}"


class _Place(NamedTuple):
    """The place of a batch: the number of its file, and its number in the file."""

    file: int
    number: int


class _OfFiles(Data):
    """Files of one format."""

    files: list[str]
    counts: list[int]  # of the batches of each file

    @property
    def names(self) -> list[str]:
        return [without_secrets(file).rpartition("/")[2] for file in self.files]

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        return reader_of(ReadingFiles(self, ctx, list(columns)), loads, ahead)

    @cached_property
    def _places(self) -> list[_Place]:
        return [_Place(file, each) for file, count in enumerate(self.counts) for each in range(count)]

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
            f"file '{_shown(self.files[file])}', {_numbers(place.number for place in of_file)}"
            for file, of_file in groupby(sorted(places), key=lambda place: place.file)
        ]
        more = f" and {len(parts) - 2} more files" if len(parts) > 2 else ""
        return "; ".join(parts[:2]) + more

    def read_batches(self, reading: ReadingFiles, file: int, first: int, last: int) -> Table:
        raise NotImplementedError


class _OfIpc(_OfFiles):
    """Arrow IPC files: one plan reads all of them, or each is read alone if no plan can take one of them."""

    def __init__(self, files: list[Listed], chosen: Selection) -> None:
        self._listed = files
        self.files = list(map(SOURCE, files))
        meant = None if chosen.schema is None else _schema_of_columns(chosen)
        schemas, self.counts = [], []
        for file in files:
            reader = _open_ipc(file, chosen, meant)
            with reader if len(files) != 1 else nullcontext():
                schemas.append(reader.schema)
                self.counts.append(reader.num_batches)
        self.schema = schemas[0]
        if len(files) != 1 or len(set(self.schema.names)) != len(self.schema.names):
            self.schema = _united_schema(schemas, list(map(_shown, self.files)), meant)
            reader = open_reader(files, ReadOptions(self.schema.names, schema=self.schema))
        self._planned: Any = None  # the reader of all files, if one plan can take them
        try:
            self.batches = list(map(Batch, reader.batch_rows, reader.batch_bytes, reader.batch_compressed))
        except UnsupportedError:
            reader.close()
            self.batches = [each for file in files for each in _batches_of_file(file, chosen, meant)]
        else:
            self._planned = reader

    def close(self) -> None:
        if self._planned is not None:
            self._planned.close()

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        packed = any(map(IS_WHOLE, self.batches))
        viewed = views and ctx.device == "host" and not packed
        if self._planned is None or not ahead or not loads or viewed:
            return super().open(ctx, columns, loads, ahead=ahead)
        wanted = list(map(SPANS, loads))
        read = [spans_to_read(spans, self.batches) for spans in wanted] if packed else wanted
        orders = list(filter(None, map(TAKEN, loads)))
        scan: Reader = self._planned.scan_spans(ctx, read, ahead, orders)
        return scan if read == wanted else ReadingWhole(scan, read, loads)

    def read_batches(self, reading: ReadingFiles, file: int, first: int, last: int) -> Table:
        meant = Schema([self.schema.field(name) for name in reading.columns])
        reader = open_reader([self._listed[file]], ReadOptions(reading.columns, (first, last), meant))
        with reading.ended_by_close(reader):
            table: Table = reader.read_all(reading.ctx)
            return table


def _open_ipc(file: Listed, chosen: Selection, meant: Schema | None) -> Any:
    """Opens the columns that are read of a file."""
    reader = open_reader([file], ReadOptions(chosen.columns, schema=meant, index=chosen.index))
    if reader.format != "file":
        reader.close()
        raise UnsupportedError(
            f"'{_shown(file.source)}' is an Arrow IPC stream, whose batches can't be read in any order: "
            "write it as a file, with write_ipc"
        )
    return reader


def _batches_of_file(file: Listed, chosen: Selection, meant: Schema | None) -> list[Batch]:
    with _open_ipc(file, chosen, meant) as reader:
        try:
            return list(map(Batch, reader.batch_rows, reader.batch_bytes, reader.batch_compressed))
        except UnsupportedError:
            return _batches_by_inspection(file.source)


def _batches_by_inspection(file: Any) -> list[Batch]:
    """Shares the bytes of a file among its batches by their rows."""
    found = ipc.inspect(file)
    rows = sum(found["batch_rows"])
    packed = found["compression"] != "none"
    return [Batch(each, found["bytes"] * each // max(rows, 1), packed) for each in found["batch_rows"]]


class _OfParquet(_OfFiles):
    """Files whose row groups are batches."""

    def __init__(self, files: list[str], source: Any, chosen: Selection, ctx: Context) -> None:
        self._engine = chosen.engine
        with naming_failures(source, "saeta.loader"):
            self._set = parquet_set.find(
                source,
                None,
                endings=ENDINGS,
                columns=chosen.columns,
                schema=chosen.schema,
                index=chosen.index,
                partitioning=chosen.partitioning,
            )
            groups = [_row_groups(each.metadata) for each in self._set.fragments]
            self._plan = device_plan(chosen.engine, ctx, self._set, None)
        self.files, self.counts = files, list(map(len, groups))
        self.batches = list(chain.from_iterable(groups))
        self.schema = Schema(self._set.schema)

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        if self._plan is None:
            return super().open(ctx, columns, loads, ahead=ahead)
        decoder = decoder_of(self._plan.narrowed(columns), self._engine, ctx, self._set, None)
        files = DecodedFiles(self, decoder)
        return parallel_reader_of(ReadingFiles(files, ctx, list(columns)), loads, ahead, decoder.end)

    @cached_property
    def dictionaries(self) -> frozenset[str]:  # asked for where codes are wanted
        return frozenset[str]().union(*[_written_dictionaries(each.metadata) for each in self._set.fragments])

    def read_batches(self, reading: ReadingFiles, file: int, first: int, last: int) -> Table:
        fragment = self._set.fragments[file].subset(row_group_ids=list(range(first, last)))
        schema, rows = self._set.dataset.schema, sum(each.num_rows for each in fragment.row_groups)
        require_room(reading.ctx, [schema.field(name).type for name in reading.columns], rows)
        with naming_failures(self.files[file], "saeta.loader"):
            host = limited_host(reading.ctx)
            if host is not None:
                chosen = load("pyarrow", "saeta.loader").schema(
                    [schema.field(name) for name in reading.columns]
                )
                part = self._set._replace(fragments=[fragment], schema=chosen)
                return read_limited(reading.ctx, LimitedReader(host, part, None, rows))
            found = fragment.to_table(schema=schema, columns=reading.columns, batch_size=rows)
        return take_batches(reading.ctx, found)


def _row_groups(metadata: Any) -> list[Batch]:
    groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
    return [Batch(each.num_rows, each.total_byte_size, True) for each in groups]


def data_of(files: Any, ctx: Context, chosen: Selection = ALL) -> Data:
    """Opens what the argument `files` of a loader names."""
    if isinstance(files, Table):
        return _OfTable(files.to(ctx), chosen)
    if hasattr(files, "__arrow_c_stream__"):
        return _OfTable(from_arrow(files, ctx, index=chosen.index), chosen)
    if isinstance(files, bytes | bytearray) or not isinstance(files, str | os.PathLike | Iterable):
        raise TypeMismatch(
            f"files is of type {type(files).__name__}, expected a path, a list of paths or a Table"
        )
    if not isinstance(files, str | os.PathLike):
        files = list(files)
    found, of_parquet = [], []
    for each in list_sources(files, None, ENDINGS):
        if not isinstance(each.source, str | os.PathLike) or each.filesystem is not None:
            raise TypeMismatch(
                f"files has an object of type {type(each.source).__name__}, expected paths: "
                "a loader opens files by name"
            )
        found.append(each._replace(source=os.fsdecode(each.source)))
        of_parquet.append(_is_parquet(found[-1].source))
    if any(of_parquet) and not all(of_parquet):
        one, other = found[of_parquet.index(True)], found[of_parquet.index(False)]
        raise InvalidError(
            f"files: '{_shown(one.source)}' is Parquet and '{_shown(other.source)}' is not: a loader reads "
            "files of one format"
        )
    try:
        if of_parquet[0]:
            return _OfParquet([file.source for file in found], files, chosen, ctx)
        return _OfIpc(found, chosen)
    except ColumnNameError as failure:
        raise ColumnNameError(f"columns: {failure}") from failure


def _is_parquet(file: str) -> bool:
    if URL.match(file):
        return file.endswith(".parquet")
    try:
        with Path(file).open("rb") as opened:
            return opened.read(4) == b"PAR1"
    except FileNotFoundError as failure:
        raise file_error(f"'{file}' does not exist", failure) from failure
    except OSError as failure:
        raise file_error(f"can't read '{file}': {failure}", failure) from failure


def _written_dictionaries(metadata: Any) -> frozenset[str]:
    """Returns the names of columns that were dictionaries when the Parquet file was written.

    Arrow's writers keep the schema in the file. pyarrow reads dictionaries of text and bytes as dictionaries,
    and others as plain values.
    """
    kept = (metadata.metadata or {}).get(b"ARROW:schema")
    if kept is None:
        return frozenset()
    pyarrow = load("pyarrow", "reading Parquet")
    schema = load("pyarrow.ipc", "reading Parquet").read_schema(pyarrow.py_buffer(b64decode(kept)))
    return frozenset(field.name for field in schema if pyarrow.types.is_dictionary(field.type))


def _schema_of_columns(chosen: Selection) -> Schema | None:
    """Returns the part of the schema that is given for the columns that are read."""
    if chosen.schema is None:
        return None
    meant = chosen.schema if isinstance(chosen.schema, Schema) else Schema(chosen.schema)
    return meant if chosen.columns is None else Schema([meant.field(name) for name in chosen.columns])


def _numbers(batches: Iterable[int]) -> str:
    found = sorted(set(batches))
    if len(found) == 1:
        return f"batch {found[0]}"
    return f"{len(found)} batches from {found[0]} to {found[-1]}"


def _shown(file: str) -> str:
    return without_secrets(file) if URL.match(file) else file
