"""What a training loader reads: Arrow IPC files, Parquet files, or a table.

Their batches are what the metadata say of them.
"""

from __future__ import annotations

import os
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain, groupby
from math import inf
from pathlib import Path
from typing import Any

from saeta._core import Context, Schema, Table, _united_schema
from saeta._files import parquet_set
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS, Listed, list_sources
from saeta._files.filesystems import URL, file_error
from saeta._files.parquet import decoder_of, naming_failures, read_limited, require_room, take_batches
from saeta._files.parquet_ranges import ColumnsAhead
from saeta._files.sources import open_remote, remote_place
from saeta._loader.base import IS_WHOLE, Data, OfFiles, numbers_of, schema_of_columns, shown
from saeta._loader.ipc_data import OfIpc
from saeta._loader.readings import (
    Reader,
    Reading,
    ReadingDecoded,
    ReadingFiles,
    ReadingParts,
    ReadingScan,
    ReadingTable,
    ReadingWhole,
    parallel_reader_of,
    reader_of,
    spans_to_read,
)
from saeta._loader.records import Batch, Load, Selection, Span
from saeta._optional import load
from saeta._parquet.engine import device_plan
from saeta._parquet.limited import LimitedReader, limited_host
from saeta._parquet.plan import Plan
from saeta.errors import ColumnNameError, InvalidError, TypeMismatch
from saeta.exchange import from_arrow

ENDINGS = (*IPC_ENDINGS, *PARQUET_ENDINGS)
ALL = Selection()


class _OfTable(Data):
    is_table = True

    def __init__(self, table: Table, chosen: Selection) -> None:
        if chosen.columns is not None:
            table = table.select(chosen.columns)
        if chosen.schema is not None:
            meant = schema_of_columns(chosen)
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
        return f"the table, {numbers_of(span.batch for span in spans)}"


class _OfParquet(OfFiles):
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

    def keep_whole(self, window: int) -> None:
        for part in self._parts:
            part.keep_whole(window)
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
    united = _united_schema(schemas, names, None if chosen.schema is None else schema_of_columns(chosen))
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
        of_parquet.append(is_parquet(found[-1]))
    try:
        if not any(of_parquet):
            return OfIpc(found, chosen)
        if all(of_parquet):
            return _OfParquet([file.source for file in found], files, chosen, ctx)
        runs = [
            (key[0], list(run))
            for key, run in groupby(found, lambda file: (is_parquet(file), id(file.filesystem)))
        ]

        def parts(schema: Any) -> list[Data]:
            return [_part(run, replace(chosen, schema=schema), ctx, parquet) for parquet, run in runs]

        names = [shown(run[0].source) for _, run in runs]
        return _OfParts(_with_one_schema(parts, names, chosen))
    except ColumnNameError as failure:
        raise ColumnNameError(f"columns: {failure}") from failure


def _part(run: list[Listed], chosen: Selection, ctx: Context, parquet: bool) -> Data:
    """Opens consecutive files of one format, and of one place if they are Parquet."""
    if not parquet:
        return OfIpc(run, chosen)
    paths = [file.source for file in run]
    return _OfParquet(paths, paths, replace(chosen, filesystem=run[0].filesystem), ctx)


def is_parquet(listed: Listed) -> bool:
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
