"""Arrow IPC files as the data of a loader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import starmap
from operator import attrgetter
from typing import Any

from saeta._core import Context, Schema, Table, _united_schema
from saeta._files.data_sets import Listed
from saeta._files.readers import ReadArguments, describe_source, open_reader, opened
from saeta._files.scan import WHOLE_ADVICE
from saeta._files.sources import name_of
from saeta._loader.base import IS_WHOLE, OfFiles, schema_of_columns, shown
from saeta._loader.readings import (
    Reader,
    Reading,
    ReadingFiles,
    ReadingPlanned,
    ReadingScan,
    ReadingWhole,
    reader_of,
    spans_to_read,
)
from saeta._loader.records import Batch, Load, Selection, Span
from saeta._loader.refusals import ADVICE
from saeta.errors import UnsupportedError

SOURCE, REGULAR = attrgetter("source"), attrgetter("regular")
STORE_BATCHES = 8  # of a window, which are read as a whole from stores
LARGEST_RATIO = 16  # of compression, of batches that may be larger than a window
SPANS, TAKEN = attrgetter("spans"), attrgetter("taken")


class OfIpc(OfFiles):
    """Arrow IPC files: one plan reads all of them, or each is read alone if no plan can take one of them."""

    def __init__(self, files: list[Listed], chosen: Selection) -> None:
        self.files = list(map(SOURCE, files))
        if not all(map(REGULAR, files)):
            files = list(opened(files))
        self._listed = files
        meant = None if chosen.schema is None else schema_of_columns(chosen)
        schemas, self.counts = [], []
        for file in files:
            reader = _open_ipc(file, chosen, meant)
            with reader if len(files) != 1 else nullcontext():
                schemas.append(reader.schema)
                self.counts.append(reader.num_batches)
        self.schema = schemas[0]
        if len(files) != 1 or len(set(self.schema.names)) != len(self.schema.names):
            self.schema = _united_schema(schemas, list(map(shown, self.files)), meant)
            reader = open_reader(files, ReadArguments(self.schema.names, schema=self.schema))
        self._chosen, self._meant = chosen, meant
        self._reader = reader
        self._planned: Any = reader  # the reader of all files, if one plan can take them
        self._divided = False  # whether compressed batches are read in parts
        self._kept_whole = 0  # bytes of the largest plain batch that is read as a whole
        if reader.near_by or not reader.planned:
            self.divisible = any(map(IS_WHOLE, self.batches)) and self._planned is not None

    @property
    def has_sizes(self) -> bool:  # type: ignore[override] # of other data it is always true
        return "batches" in self.__dict__

    @cached_property
    def batches(self) -> list[Batch]:  # type: ignore[override] # stores tell it when it is needed
        reader = self._reader
        try:
            found = list(map(Batch, reader.batch_rows, reader.batch_bytes, reader.batch_compressed))
        except UnsupportedError:
            reader.close()
            self._planned = None
            return [
                each for file in self._listed for each in _batches_of_file(file, self._chosen, self._meant)
            ]
        return self._whole_ones(found) if self._kept_whole else found

    def close(self) -> None:
        if self._planned is not None:
            self._planned.close()

    def divide(self, window: int) -> None:
        large = [
            number
            for number, batch in enumerate(self.batches)
            if batch.whole and batch.nbytes > window // LARGEST_RATIO
        ]
        for number, nbytes in zip(large, self._planned.divided_bytes(large), strict=True):
            if nbytes > window:
                self.batches[number] = Batch(self.batches[number].rows, nbytes, False)
                self._divided = True

    def keep_whole(self, window: int) -> None:
        if self._planned is not None and not self._planned.near_by:
            self._kept_whole = window // STORE_BATCHES
            if self.has_sizes:
                self.batches = self._whole_ones(self.batches)

    def _whole_ones(self, batches: Iterable[Batch]) -> list[Batch]:
        """Marks the batches that are read as a whole."""
        most = self._kept_whole
        return [batch._replace(whole=batch.whole or batch.nbytes <= most) for batch in batches]

    def guess_batches(self) -> list[Batch]:
        if self.has_sizes:
            return []
        guessed = starmap(Batch, self._reader.guess_sizes())
        return self._whole_ones(guessed) if self._kept_whole else list(guessed)

    def fetch(self, ctx: Context, loads: Sequence[Load]) -> object:
        numbers = dict.fromkeys(span.batch for load in loads for span in load.spans)
        return self._reader.fetch_batches(ctx, list(numbers))

    def identity(self) -> list[Any]:
        return [*super().identity(), *([self._kept_whole] if self._kept_whole else [])]

    def advice(self, spans: Sequence[Span]) -> str:
        numbers = {span.batch for span in spans}
        return WHOLE_ADVICE if len(numbers) == 1 and self.batches[numbers.pop()].whole else ADVICE

    def open(
        self, ctx: Context, columns: Sequence[str], loads: Sequence[Load], *, ahead: int, views: bool = False
    ) -> Reader:
        packed = any(map(IS_WHOLE, self.batches))
        if self._divided:
            ahead = max(ahead, 1)  # one scan reads all loads, so that each byte is decoded once
        on_request = ctx.device == "host" and not ahead  # views take no memory
        if self._planned is None or not loads or on_request:
            return super().open(ctx, columns, loads, ahead=ahead)
        if views and ctx.device == "host" and not packed and not self._divided and self._planned.near_by:
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
        reader = open_reader([self._listed[file]], ReadArguments(reading.columns, (first, last), meant))
        with reading.ended_by_close(reader):
            table: Table = reader.read_all(reading.ctx)
            return table


def _open_ipc(file: Listed, chosen: Selection, meant: Schema | None) -> Any:
    """Opens the columns that are read of a file."""
    reader = open_reader([file], ReadArguments(chosen.columns, schema=meant, index=chosen.index))
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
