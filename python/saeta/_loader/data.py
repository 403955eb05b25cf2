"""The data of a training loader: Arrow IPC files, Parquet files, or a table. Each reads the rows of spans."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from saeta import ipc
from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table, _united_schema
from saeta._files import parquet_set
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS, list_sources
from saeta._files.parquet import naming_failures, require_room, take_batches
from saeta._files.readers import ReadOptions, open_reader
from saeta._files.sources import URL, file_error, without_secrets
from saeta._loader.order import Batch, Span
from saeta._optional import load
from saeta.errors import (
    ClosedError,
    ColumnNameError,
    InvalidError,
    TypeMismatch,
    UnsupportedError,
)
from saeta.exchange import from_arrow

ENDINGS = (*IPC_ENDINGS, *PARQUET_ENDINGS)


@dataclass(frozen=True)
class Selection:
    """What is read of the data, as the arguments of a loader say."""

    columns: list[str] | None = None  # None: all
    schema: Any = None
    index: bool = False
    partitioning: Any = parquet_set.HIVE


class _Place(NamedTuple):
    """Where a batch is: the number of its file, and its number in the file."""

    file: int
    number: int


class Data:
    """Batches that are read span by span.

    Attributes:
        schema: names and types of the columns that are read.
        batches: what the metadata say of each batch.
        names: the names of the files, without their folders.
        is_table: whether the rows are in memory already.
    """

    schema: Schema
    batches: list[Batch]
    names: list[str]
    is_table = False

    @property
    def dictionaries(self) -> frozenset[str]:
        """Columns that are read as plain values and were dictionaries when the files were written."""
        return frozenset()

    def open(
        self,
        ctx: Context,
        columns: Sequence[str],
        windows: Sequence[Sequence[Span]],
        *,
        ahead: int,
        views: bool = False,
    ) -> Reading:
        """Begins to read these columns of windows of spans into a context.

        Args:
            ahead: the number of windows that may be read before they are requested.
            views: whether views of files are given, which nobody can write to, where there can be such.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Releases the files."""

    def identity(self) -> list[Any]:
        """Returns what identifies the rows: the names of the files, and rows and bytes of each batch."""
        return [self.names, [(batch.rows, batch.nbytes) for batch in self.batches]]

    def firsts(self) -> list[Span]:
        """Returns the rows whose dictionaries are looked at: the first batch with rows of each file."""
        raise NotImplementedError

    def describe(self, spans: Sequence[Span]) -> str:
        """Returns where the rows of spans are, for messages."""
        raise NotImplementedError


class Reading:
    """Windows that are read one after the other. `close` ends a read of another thread.

    Attributes:
        needs_thread: whether `next` reads, so that a thread has to call it to be ahead of the program.
    """

    needs_thread = True

    def next(self) -> Table:
        """Returns the rows of the next window, in the order of its spans. One that failed is read again."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends reading."""


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
        self.names = ["table"]

    def open(
        self,
        ctx: Context,
        columns: Sequence[str],
        windows: Sequence[Sequence[Span]],
        *,
        ahead: int,
        views: bool = False,
    ) -> Reading:
        return _ReadingTable(self.table.select(columns), windows)

    def firsts(self) -> list[Span]:
        return [Span(number, 0, batch.rows) for number, batch in enumerate(self.batches) if batch.rows]

    def describe(self, spans: Sequence[Span]) -> str:
        return f"the table, {_numbers(span.batch for span in spans)}"


class _ReadingTable(Reading):
    needs_thread = False

    def __init__(self, table: Table, windows: Sequence[Sequence[Span]]) -> None:
        self._table = table
        self._pieces = table.batches
        self._windows = iter(windows)

    def next(self) -> Table:
        spans = next(self._windows)
        if sum(span.rows for span in spans) == self._table.num_rows and _in_order(spans):
            return self._table
        return _joined([self._pieces[span.batch].slice(span.first, span.rows) for span in spans])


class _OfFiles(Data):
    """Files of one format."""

    def __init__(self, files: list[Any], batches: Sequence[Sequence[Batch]], schema: Schema) -> None:
        self.files = files
        self.names = [_name_of(file) for file in files]
        self.batches = [batch for of_file in batches for batch in of_file]
        self.schema = schema
        self._counts = [len(of_file) for of_file in batches]

    def open(
        self,
        ctx: Context,
        columns: Sequence[str],
        windows: Sequence[Sequence[Span]],
        *,
        ahead: int,
        views: bool = False,
    ) -> Reading:
        return _ReadingFiles(self, ctx, list(columns), windows)

    @cached_property
    def _places(self) -> list[_Place]:
        return [_Place(file, each) for file, count in enumerate(self._counts) for each in range(count)]

    def runs(self, spans: Iterable[Span]) -> Iterator[tuple[int, int, int, list[Span]]]:
        """Yields spans that one read gives: their file, its batches [first, last), and the spans."""
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

    def _run(self, spans: list[Span]) -> tuple[int, int, int, list[Span]]:
        first, last = self._places[spans[0].batch], self._places[spans[-1].batch]
        return first.file, first.number, last.number + 1, spans

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

    def read_batches(self, reading: _ReadingFiles, file: int, first: int, last: int) -> Table:
        raise NotImplementedError


class _OfIpc(_OfFiles):
    """Files that one plan reads, or, if their metadata is older or they are not at hand, one by one."""

    def __init__(self, files: list[Any], chosen: Selection) -> None:
        meant = _schema_of_columns(chosen)
        schemas, counts = [], []
        for file in files:
            reader = _open_ipc(file, chosen, meant)
            with reader if len(files) != 1 else nullcontext():
                schemas.append(reader.schema)
                counts.append(reader.num_batches)
        together = _united_schema(schemas, [_shown(file) for file in files], meant)
        if len(files) != 1 or len(set(together.names)) != len(together.names):
            options = ReadOptions(together.names, schema=together)
            reader = open_reader(list_sources(files, None, IPC_ENDINGS), options)
        self._planned: Any = None  # the reader of all files, if one plan can take them
        try:
            sizes = iter(_batches_of(reader))
        except UnsupportedError:
            reader.close()
            batches = [_batches_of_file(file, chosen, meant) for file in files]
        else:
            self._planned = reader
            batches = [list(islice(sizes, count)) for count in counts]
        super().__init__(files, batches, together)

    def close(self) -> None:
        if self._planned is not None:
            self._planned.close()

    def open(
        self,
        ctx: Context,
        columns: Sequence[str],
        windows: Sequence[Sequence[Span]],
        *,
        ahead: int,
        views: bool = False,
    ) -> Reading:
        viewed = views and ctx.device == "host" and not any(batch.whole for batch in self.batches)
        if self._planned is not None and ahead and windows and not viewed:
            return _ReadingSpans(self._planned, self.batches, ctx, windows, ahead)
        return super().open(ctx, columns, windows, ahead=ahead)

    def read_batches(self, reading: _ReadingFiles, file: int, first: int, last: int) -> Table:
        meant = Schema([self.schema.field(name) for name in reading.columns])
        options = ReadOptions(reading.columns, (first, last), meant)
        reader = open_reader(list_sources(self.files[file], None, IPC_ENDINGS), options)
        with reading.ended_by_close(reader):
            table: Table = reader.read_all(reading.ctx)
            return table


def _open_ipc(file: str, chosen: Selection, meant: Schema | None) -> Any:
    """Opens the columns that are read of a file."""
    options = ReadOptions(chosen.columns, schema=meant, index=chosen.index)
    reader = open_reader(list_sources(file, None, IPC_ENDINGS), options)
    if reader.format != "file":
        reader.close()
        raise UnsupportedError(
            f"'{_shown(file)}' is an Arrow IPC stream, whose batches can't be read in any order: "
            "write it as a file, with write_ipc"
        )
    return reader


def _batches_of_file(file: str, chosen: Selection, meant: Schema | None) -> list[Batch]:
    with _open_ipc(file, chosen, meant) as reader:
        try:
            return _batches_of(reader)
        except UnsupportedError:
            return _batches_by_inspection(file)


def _batches_of(reader: Any) -> list[Batch]:
    """Describes the batches of files. UnsupportedError if no plan can take them."""
    return list(map(Batch, reader.batch_rows, reader.batch_bytes, reader.batch_compressed))


def _batches_by_inspection(file: Any) -> list[Batch]:
    """Shares the bytes of a file among its batches by their rows."""
    found = ipc.inspect(file)
    rows = sum(found["batch_rows"])
    packed = found["compression"] != "none"
    return [Batch(each, found["bytes"] * each // max(rows, 1), packed) for each in found["batch_rows"]]


class _ReadingSpans(Reading):
    """Reads windows of all files by one plan, on threads of the compiled module."""

    needs_thread = False
    ON_HOST = 2  # windows: one is planned while the other one is on its way, and the loader's thread has more

    def __init__(
        self,
        reader: Any,
        batches: Sequence[Batch],
        ctx: Context,
        windows: Sequence[Sequence[Span]],
        ahead: int,
    ) -> None:
        self._batches = batches
        self._windows = windows
        self._number = 0
        self._scan = reader.scan_spans(
            ctx,
            [[tuple(span) for span in self._read_for(spans)] for spans in windows],
            self.ON_HOST if ctx.device == "host" else ahead,
        )

    def next(self) -> Table:
        table: Table = self._scan.next()
        spans = self._windows[self._number]
        self._number += 1
        read = self._read_for(spans)
        return table if read == list(spans) else _joined(_slices(table, read, spans))

    def _read_for(self, spans: Sequence[Span]) -> list[Span]:
        """Returns what is read for spans: of a compressed batch all rows, once."""
        found: list[Span] = []
        for span in spans:
            batch = self._batches[span.batch]
            each = Span(span.batch, 0, batch.rows) if batch.whole else span
            if not (batch.whole and found and found[-1] == each):
                found.append(each)
        return found

    def close(self) -> None:
        self._scan.close()


class _OfParquet(_OfFiles):
    """Files whose row groups are batches."""

    def __init__(self, files: list[Any], source: Any, chosen: Selection) -> None:
        with naming_failures(source, "saeta.loader"):
            self._set = parquet_set.find(source, None, endings=ENDINGS, **vars(chosen))
            batches = [_row_groups(each.metadata) for each in self._set.fragments]
        super().__init__(files, batches, Schema(self._set.schema))

    @cached_property
    def dictionaries(self) -> frozenset[str]:  # asked for where codes are wanted
        return frozenset[str]().union(*[_written_dictionaries(each.metadata) for each in self._set.fragments])

    def read_batches(self, reading: _ReadingFiles, file: int, first: int, last: int) -> Table:
        fragment = self._set.fragments[file].subset(row_group_ids=list(range(first, last)))
        schema, rows = self._set.dataset.schema, sum(each.num_rows for each in fragment.row_groups)
        require_room(reading.ctx, [schema.field(name).type for name in reading.columns], rows)
        with naming_failures(self.files[file], "saeta.loader"):
            found = fragment.to_table(schema=schema, columns=reading.columns, batch_size=rows)
        return take_batches(reading.ctx, found)


def _row_groups(metadata: Any) -> list[Batch]:
    groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
    return [Batch(each.num_rows, each.total_byte_size, True) for each in groups]


class _ReadingFiles(Reading):
    """Reads each window when it is asked for, by one call for each run of consecutive batches."""

    def __init__(
        self, data: _OfFiles, ctx: Context, columns: list[str], windows: Sequence[Sequence[Span]]
    ) -> None:
        self.data = data
        self.ctx = ctx
        self.columns = columns
        self._windows = windows
        self._number = 0
        self._reader: Any = None
        self._closed = False

    def next(self) -> Table:
        parts = []
        for file, first, last, together in self.data.runs(self._windows[self._number]):
            if self._closed:
                raise ClosedError("the loader is closed")
            parts += self._slices(file, first, last, together)
        self._number += 1
        return _joined(parts)

    def _slices(self, file: int, first: int, last: int, spans: list[Span]) -> list[Table]:
        begin = spans[0].batch
        read = [Span(begin + each, 0, self.data.batches[begin + each].rows) for each in range(last - first)]
        return _slices(self.data.read_batches(self, file, first, last), read, spans)

    @contextmanager
    def ended_by_close(self, reader: Any) -> Iterator[None]:
        """Lets `close` of another thread end what the reader does."""
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
        reader = self._reader
        if reader is not None:
            reader.close()


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


def data_of(files: Any, ctx: Context, chosen: Selection = Selection()) -> Data:
    """Opens what the argument `files` of a loader names."""
    if isinstance(files, Table):
        return _OfTable(files.to(ctx), chosen)
    if hasattr(files, "__arrow_c_stream__"):
        return _OfTable(from_arrow(files, ctx, index=chosen.index), chosen)
    if isinstance(files, Iterable) and not isinstance(files, str | bytes | bytearray | os.PathLike):
        files = list(files)
    found = _files_of(files)
    of_parquet = [_is_parquet(file) for file in found]
    if any(of_parquet) and not all(of_parquet):
        one, other = found[of_parquet.index(True)], found[of_parquet.index(False)]
        raise InvalidError(
            f"files: '{_shown(one)}' is Parquet and '{_shown(other)}' is not: a loader reads files of one "
            "format"
        )
    try:
        return _OfParquet(found, files, chosen) if of_parquet[0] else _OfIpc(found, chosen)
    except ColumnNameError as failure:
        raise ColumnNameError(f"columns: {failure}") from failure


def _files_of(files: Any) -> list[str]:
    """Returns the files of a path, a folder, a pattern, a URL, or a sequence of them."""
    if not isinstance(files, str | os.PathLike | Iterable) or isinstance(files, bytes | bytearray):
        raise TypeMismatch(
            f"files is of type {type(files).__name__}, expected a path, a list of paths or a Table"
        )
    found = []
    for each in list_sources(files, None, ENDINGS):
        if not isinstance(each.source, str | os.PathLike) or each.filesystem is not None:
            raise TypeMismatch(
                f"files has an object of type {type(each.source).__name__}, expected paths: "
                "a loader opens files by name"
            )
        found.append(os.fsdecode(each.source))
    return found


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
    """Returns the dictionaries of the schema that Arrow's writers keep in a Parquet file.

    pyarrow reads those of text and bytes as dictionaries, and the others as plain values.
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


def _joined(parts: list[Table]) -> Table:
    return parts[0] if len(parts) == 1 else concat_tables(parts)


def _in_order(spans: Sequence[Span]) -> bool:
    return all(before.batch < span.batch for before, span in pairwise(spans))


def _numbers(batches: Iterable[int]) -> str:
    found = sorted(set(batches))
    if len(found) == 1:
        return f"batch {found[0]}"
    return f"{len(found)} batches from {found[0]} to {found[-1]}"


def _name_of(file: str) -> str:
    return without_secrets(file).rpartition("/")[2]


def _shown(file: str) -> str:
    return without_secrets(file) if URL.match(file) else file
