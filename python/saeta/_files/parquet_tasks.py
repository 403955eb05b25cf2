"""Divides Parquet files among the tasks of a cluster. Each task reads consecutive row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from saeta._core import Context, Table
from saeta._files import parquet_set
from saeta._files.parquet import BATCH_ROWS, naming_failures, read_set
from saeta._parquet.engine import Engine
from saeta._parquet.filters import expression_of
from saeta._parquet.parts import decoded_bytes, leaves_of


class Group(NamedTuple):
    """A row group of a file, which is a fragment of pyarrow."""

    file: int
    number: int
    rows: int
    nbytes: int  # before compression, of all columns


class Part(NamedTuple):
    """Row groups that a task reads. Fragments and schemas are those of pyarrow."""

    fragments: list[Any]
    whole: Any
    columns: list[str] | None
    schema: Any
    filters: Any
    engine: Engine | None

    def read(self, ctx: Context, purpose: str) -> Table:
        """Reads the row groups. Errors of pyarrow name their files, and `purpose` names the caller."""
        data_set = parquet_set.of_fragments(self.fragments, self.whole, self.columns, self.schema)
        with naming_failures([fragment.path for fragment in self.fragments], purpose):
            return read_set(data_set, ctx, self.filters, self.engine, BATCH_ROWS)

    @property
    def columns_bytes(self) -> int:
        """The bytes of the values of the columns that are read, as the metadata tell, before filters."""
        found = 0
        for fragment in self.fragments:
            leaves = leaves_of(fragment.metadata.schema, self.schema.names)
            found += sum(decoded_bytes(fragment.metadata, group.id, leaves) for group in fragment.row_groups)
        return found


def groups_of(data_set: parquet_set.ParquetSet, filters: Any) -> Iterator[Group]:
    """Yields the row groups that may have rows for which a filter holds."""
    expression = None if filters is None else expression_of(filters)
    for file, fragment in enumerate(data_set.fragments):
        kept = fragment
        if expression is not None:
            kept = fragment.subset(filter=expression, schema=data_set.dataset.schema)
        for group in kept.row_groups:
            yield Group(file, group.id, group.num_rows, group.total_byte_size)


def part_of(
    data_set: parquet_set.ParquetSet, groups: Sequence[Group], filters: Any, engine: Engine | None
) -> Part:
    """Returns the part that reads these row groups. Without any it reads a table without rows."""
    by_file = groupby(groups, attrgetter("file")) if groups else [(0, [])]
    fragments = [
        data_set.fragments[file].subset(row_group_ids=[group.number for group in together])
        for file, together in by_file
    ]
    return Part(fragments, data_set.dataset.schema, data_set.columns, data_set.schema, filters, engine)
