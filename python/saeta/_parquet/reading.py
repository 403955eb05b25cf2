"""Reads whole files, and files window by window, on a device."""

from __future__ import annotations

from functools import partial

from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table
from saeta._files import read_clock
from saeta._files.progress import Counted
from saeta._parquet.decoder import Decoder
from saeta._parquet.ordered_reads import OrderedReads
from saeta.errors import BudgetExceeded

WHOLE_BYTES = 1 << 30  # of the values that one call decodes at most
WHOLE_THREADS = 2
IN_FLIGHT_BYTES = 1 << 30  # of the windows of a scan
IN_FLIGHT = 8  # windows at most


def read_whole(decoder: Decoder, counted: Counted | None = None) -> Table:
    """Returns all rows as one table, and ends the decoder."""
    reads = _reads(decoder, WHOLE_BYTES, None, WHOLE_THREADS)
    tables: list[Table] = []
    refused = -1  # the number of tables before the last refusal
    try:
        while True:
            try:
                with read_clock.timed("decode"):
                    table = reads.next()
            except BudgetExceeded:
                if refused == len(tables):
                    raise
                refused = len(tables)  # once more, with nothing beside it
                continue
            if table is None:
                return joined(decoder, tables)
            tables.append(table)
            if counted is not None:
                counted.add(table)
    finally:
        reads.close()


def joined(decoder: Decoder, tables: list[Table]) -> Table:
    """Returns the rows of tables that a decoder gave as one table, without a copy."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        return decoder.empty
    return filled[0] if len(filled) == 1 else concat_tables(filled)


class DeviceBatches:
    """The windows of a scan, of which `in_flight` are decoded ahead, as `scan.Readable`.

    None: as many as have 1 GiB together, from 2 to 8. Decoding zstd takes as long for one window as for
    several beside each other.
    """

    num_batches = -1

    def __init__(self, decoder: Decoder, window: int, in_flight: int | None) -> None:
        self.schema: Schema = decoder.schema
        in_flight = in_flight or max(2, min(IN_FLIGHT, IN_FLIGHT_BYTES // window))
        self._reads = _reads(decoder, window, window, in_flight)

    def next(self, where: Context, /) -> Table | None:
        table: Table | None = self._reads.next()
        while table is not None and not table.num_rows:  # a filter may leave no rows
            table = self._reads.next()
        return table

    def close(self) -> None:
        self._reads.close()


def _reads(decoder: Decoder, most: int, window: int | None, threads: int) -> OrderedReads:
    parts = decoder.plan.parts(most)
    return OrderedReads([partial(decoder.decode, part, window) for part in parts], threads, decoder.end)
