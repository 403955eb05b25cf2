"""What a training loader reads: Arrow IPC files, Parquet files, or a table.

Their batches are what the metadata say of them.
"""

from __future__ import annotations

import os
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain, groupby
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from saeta._core import Context, Schema, Table, _united_schema
from saeta._files import parquet_set
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS, Listed, list_sources
from saeta._files.filesystems import URL, file_error, without_secrets
from saeta._files.parquet import decoder_of, naming_failures, read_limited, require_room, take_batches
from saeta._files.parquet_ranges import ColumnsAhead
from saeta._files.readers import ReadOptions, describe_source, open_reader, opened
from saeta._files.scan import WHOLE_ADVICE
from saeta._files.sources import name_of, open_remote, remote_place
from saeta._loader.readings import (
    Reader,
    Reading,
    ReadingDecoded,
    ReadingFiles,
    ReadingParts,
    ReadingPlanned,
    ReadingScan,
    ReadingTable,
    ReadingWhole,
    parallel_reader_of,
    reader_of,
    spans_to_read,
)
from saeta._loader.records import Batch, Load, Run, Selection, Span
from saeta._loader.refusals import ADVICE
from saeta._optional import load
from saeta._parquet.engine import device_plan
from saeta._parquet.limited import LimitedReader, limited_host
from saeta._parquet.plan import Plan
from saeta.errors import ColumnNameError, InvalidError, TypeMismatch, UnsupportedError
from saeta.exchange import from_arrow

ENDINGS = (*IPC_ENDINGS, *PARQUET_ENDINGS)
ALL = Selection()
IS_WHOLE = attrgetter("whole")
SOURCE, SPANS, TAKEN = attrgetter("source"), attrgetter("spans"), attrgetter("taken")


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

    def keep_whole(self, most: int) -> None:
        """Lets batches of at most so many bytes be read as a whole where parts of them are small requests."""

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
        return reader_of(self.reading(ctx, columns), loads, ahead)

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        return ReadingTable(self.table.select(columns))

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
        reading: Reading = ReadingFiles(self, ctx, list(columns))
        if any(map(IS_WHOLE, self.batches)):
            reading = ReadingWhole(reading, loads, self.batches)
        return reader_of(reading, loads, ahead)

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        return ReadingFiles(self, ctx, list(columns))

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
        self.files = list(map(SOURCE, files))
        if not all(file.regular for file in files):
            files = list(opened(files))
        self._listed = files
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
        self._kept_whole = 0  # bytes of the largest plain batch that is read as a whole
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

    def keep_whole(self, most: int) -> None:
        if self._planned is not None and not self._planned.near_by:
            self.batches = [
                batch._replace(whole=batch.whole or batch.nbytes <= most) for batch in self.batches
            ]
            self._kept_whole = most

    def identity(self) -> list[Any]:
        return [*super().identity(), *([self._kept_whole] if self._kept_whole else [])]

    def advice(self, spans: Sequence[Span]) -> str:
        numbers = {span.batch for span in spans}
        return WHOLE_ADVICE if len(numbers) == 1 and self.batches[numbers.pop()].whole else ADVICE

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        packed = any(map(IS_WHOLE, self.batches))
        on_request = ctx.device == "host" and not ahead  # views take no memory
        if self._planned is None or not loads or on_request:
            return super().open(ctx, columns, loads, ahead=ahead)
        if views and ctx.device == "host" and not packed and self._planned.near_by:
            return super().open(ctx, columns, loads, ahead=ahead)
        if not ahead:
            reading: Reading = ReadingPlanned(self._planned, ctx)
            return reader_of(ReadingWhole(reading, loads, self.batches) if packed else reading, loads, 0)
        if packed:
            wanted = list(filter(None, spans_to_read(loads, self.batches)))
            scan = ReadingScan(self._planned.scan_spans(ctx, wanted, ahead))
            # The host permutes rows in a thread, while a device only queues it.
            permutes = ctx.device == "host" and any(map(TAKEN, loads))
            return reader_of(ReadingWhole(scan, loads, self.batches), loads, 1 if permutes else 0)
        orders = list(filter(None, map(TAKEN, loads)))
        reader: Reader = self._planned.scan_spans(ctx, list(map(SPANS, loads)), ahead, orders)
        return reader

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        if self._planned is None:
            return super().reading(ctx, columns)
        return ReadingPlanned(self._planned, ctx)

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
            f"'{name_of(file.source)}' is an Arrow IPC stream, whose batches can't be read in any order: "
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
    found = describe_source(file)
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
                chosen.filesystem,
                endings=ENDINGS,
                columns=chosen.columns,
                schema=chosen.schema,
                index=chosen.index,
                partitioning=chosen.partitioning,
            )
            groups = [_row_groups(each.metadata) for each in self._set.fragments]
            self._plan = device_plan(chosen.engine, ctx, self._set, None)
            self._device = ctx.device  # that the plan is for
        self.files, self.counts = files, list(map(len, groups))
        self.batches = list(chain.from_iterable(groups))
        self.schema = Schema(self._set.schema)

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        plan = self._plan_for(ctx)
        if plan is None:
            # What is fetched ahead is not under a limited budget.
            spans = [] if limited_host(ctx) is not None else spans_to_read(loads, self.batches)
            fetched = self._set.fetch(columns, self._row_groups_of(spans))
            reading = ReadingFiles(self, ctx, list(columns), ended=fetched.close)
            return reader_of(ReadingWhole(reading, loads, self.batches), loads, ahead)
        decoded = self._decoded(plan, ctx, columns)
        # Row groups are decoded once also if they have rows of two loads.
        wanted = [Load(spans, None) for spans in spans_to_read(loads, self.batches) if spans]
        reads = parallel_reader_of(decoded, wanted, ahead, decoded.close)
        return reader_of(ReadingWhole(ReadingScan(reads), loads, self.batches), loads, 0)

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        plan = self._plan_for(ctx)
        if plan is not None:
            return self._decoded(plan, ctx, columns)

        def fetch(wanted: Sequence[Sequence[Span]]) -> ColumnsAhead:
            return self._set.fetch(columns, self._row_groups_of(wanted))

        return ReadingFiles(self, ctx, list(columns), fetch=fetch if limited_host(ctx) is None else None)

    def _plan_for(self, ctx: Context) -> Plan | None:
        """None: pyarrow reads, as for the values of dictionaries, which the host reads for every device."""
        return self._plan if ctx.device == self._device else None

    def _decoded(self, plan: Plan, ctx: Context, columns: Sequence[str]) -> ReadingDecoded:
        decoder = decoder_of(plan.narrowed(columns), self._engine, ctx, self._set, None)
        by_place = {(group.file, group.number): group for group in decoder.plan.groups}
        return ReadingDecoded(decoder, [by_place.get(place) for place in self._places])

    @cached_property
    def dictionaries(self) -> frozenset[str]:  # asked for where codes are wanted
        return frozenset[str]().union(*[_written_dictionaries(each.metadata) for each in self._set.fragments])

    def _row_groups_of(self, wanted: Iterable[Sequence[Span]]) -> Iterator[tuple[int, range]]:
        for spans in wanted:
            for run in self.runs(spans):
                yield run.file, range(run.first, run.last)

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


class _OfParts(Data):
    """Data one after the other: files of both formats, or several sources with weights."""

    def __init__(self, parts: list[Data], weights: Sequence[float] = ()) -> None:
        self._parts = parts
        self.schema = parts[0].schema
        self.batches = [batch for part in parts for batch in part.batches]
        self._starts = [0, *accumulate(len(part.batches) for part in parts)]
        self.shares = [(len(part.batches), weight) for part, weight in zip(parts, weights, strict=False)]

    @property
    def names(self) -> list[str]:
        return [name for part in self._parts for name in part.names]

    @property
    def dictionaries(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.dictionaries for part in self._parts))

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        reading = self.reading(ctx, columns)
        if any(map(IS_WHOLE, self.batches)):
            reading = ReadingWhole(reading, loads, self.batches)
        return reader_of(reading, loads, ahead)

    def reading(self, ctx: Context, columns: Sequence[str]) -> Reading:
        return ReadingParts(self, [part.reading(ctx, columns) for part in self._parts])

    def keep_whole(self, most: int) -> None:
        for part in self._parts:
            part.keep_whole(most)
        self.batches = [batch for part in self._parts for batch in part.batches]

    def identity(self) -> list[Any]:
        return [part.identity() for part in self._parts]

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def firsts(self) -> list[Span]:
        return [
            span._replace(batch=span.batch + start)
            for part, start in zip(self._parts, self._starts, strict=False)
            for span in part.firsts()
        ]

    def describe(self, spans: Sequence[Span]) -> str:
        of_parts = self.in_parts(sorted(spans))
        return "; ".join(self._parts[number].describe(inside) for number, inside in of_parts)

    def in_parts(self, spans: Sequence[Span]) -> Iterator[tuple[int, list[Span]]]:
        """Yields spans that are of one part and follow each other, with the numbers of its batches."""
        for number, group in groupby(spans, lambda span: bisect_right(self._starts, span.batch) - 1):
            yield number, [span._replace(batch=span.batch - self._starts[number]) for span in group]


def _of_sources(weights: Mapping[Any, Any], ctx: Context, chosen: Selection) -> Data:
    """Opens sources with weights."""
    for source, weight in weights.items():
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight < inf:
            raise InvalidError(f"files: the weight of {source!r} is {weight!r}, expected a number above 0")
    if not weights:
        raise InvalidError("files: the mapping from sources to weights is empty")

    def opened(schema: Any) -> list[Data]:
        return [data_of(source, ctx, replace(chosen, schema=schema)) for source in weights]

    return _OfParts(_with_one_schema(opened, list(map(str, weights)), chosen), list(weights.values()))


def _with_one_schema(opened: Callable[[Any], list[Data]], names: list[str], chosen: Selection) -> list[Data]:
    """Opens parts, and once more with the schema of all where theirs differ."""
    parts = opened(chosen.schema)
    schemas = [part.schema for part in parts]
    united = _united_schema(schemas, names, None if chosen.schema is None else _schema_of_columns(chosen))
    if all(schema == united for schema in schemas):
        return parts
    for part in parts:
        part.close()
    return opened(united)


def data_of(files: Any, ctx: Context, chosen: Selection = ALL) -> Data:
    """Opens what the argument `files` of a loader names."""
    if isinstance(files, Table):
        return _OfTable(files.to(ctx), chosen)
    if isinstance(files, Mapping):
        return _of_sources(files, ctx, chosen)
    if hasattr(files, "__arrow_c_stream__"):
        return _OfTable(from_arrow(files, ctx, index=chosen.index), chosen)
    if isinstance(files, bytes | bytearray) or not isinstance(files, str | os.PathLike | Iterable):
        raise TypeMismatch(
            f"files is of type {type(files).__name__}, expected a path, a list of paths or a Table"
        )
    if not isinstance(files, str | os.PathLike):
        files = list(files)
    found, of_parquet = [], []
    for each in list_sources(files, chosen.filesystem, ENDINGS):
        if not isinstance(each.source, str | os.PathLike):
            raise TypeMismatch(
                f"files has an object of type {type(each.source).__name__}, expected paths: "
                "a loader opens files by name"
            )
        found.append(each._replace(source=os.fsdecode(each.source)))
        of_parquet.append(_is_parquet(found[-1]))
    try:
        if not any(of_parquet):
            return _OfIpc(found, chosen)
        if all(of_parquet):
            return _OfParquet([file.source for file in found], files, chosen, ctx)
        runs = [
            (key[0], list(run))
            for key, run in groupby(found, lambda file: (_is_parquet(file), id(file.filesystem)))
        ]

        def parts(schema: Any) -> list[Data]:
            return [_part(run, replace(chosen, schema=schema), ctx, parquet) for parquet, run in runs]

        names = [_shown(run[0].source) for _, run in runs]
        return _OfParts(_with_one_schema(parts, names, chosen))
    except ColumnNameError as failure:
        raise ColumnNameError(f"columns: {failure}") from failure


def _part(run: list[Listed], chosen: Selection, ctx: Context, parquet: bool) -> Data:
    """Opens consecutive files of one format, and of one place if they are Parquet."""
    if not parquet:
        return _OfIpc(run, chosen)
    paths = [file.source for file in run]
    return _OfParquet(paths, paths, replace(chosen, filesystem=run[0].filesystem), ctx)


def _is_parquet(listed: Listed) -> bool:
    file: str = listed.source
    if file.endswith((".parquet", *IPC_ENDINGS)) and (listed.filesystem is not None or URL.match(file)):
        return file.endswith(".parquet")  # without a request for each file
    place = None if listed.regular else remote_place(file, listed.filesystem)
    if place is not None:
        return bytes(open_remote([place])[0].view(0, 4)) == b"PAR1"
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
