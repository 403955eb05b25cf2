"""Decodes Parquet where the host's memory has a budget: a few rows at a time, charged while they are held.

pyarrow's scanner decodes whole row groups, several ahead. `ParquetFile.iter_batches` decodes page by page, so
that the memory depends on the rows of a batch and not on the size of row groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from saeta._core import Context, context
from saeta._files.parquet_set import ParquetSet
from saeta._optional import load
from saeta.errors import BudgetExceeded, ColumnNameError

SHARE = 8  # a batch, and the buffers of all columns, get this part of the memory that is left
PAGE = 1 << 20  # bytes of a page, as most writers limit them
TEXT = 64  # bytes of a value of any length, at least: metadata tell the bytes of dictionaries only once
SMALL, LARGE, FAR = 1 << 14, 1 << 18, 1 << 23  # bytes that are read at once of a column; FAR: of a store


def limited_host(ctx: Context) -> Context | None:
    """Returns the host's context whose budget limits what is decoded for `ctx`, None if nothing does."""
    host = ctx if ctx.device == "host" else context("host")
    return None if host.memory.statistics()["remaining"] is None else host


class LimitedReader:
    """The rows of Parquet files, in order.

    What pyarrow holds is charged to the host's budget from before it is decoded until the next rows are
    requested: the batch, the pages of all columns, and what is read at once of them.
    """

    def __init__(self, host: Context, files: ParquetSet, expression: Any, batch_rows: int) -> None:
        self.schema = files.schema
        self._host = host
        self._dataset = files.dataset
        self._filter = expression
        self._most_rows = batch_rows
        self._fragments = deque(files.fragments)
        self._needed = files.schema.names
        if expression is not None:
            more = names_in(expression, files.dataset.schema)
            self._needed = list(dict.fromkeys([*self._needed, *more]))
        self._file: _File | None = None
        self._decoded: Any = None  # rows that are not charged yet
        self._row_bytes = 0  # of the rows that were decoded
        self._charged = 0
        self._charge = ExitStack()

    def next(self) -> Any:
        """Returns the next rows as a table of pyarrow, None at the end.

        The table that was returned before must be gone. What had no room can be requested again.
        """
        while True:
            if self._decoded is None:
                self._decoded = self._decode()
                if self._decoded is None:
                    self.close()
                    return None
            file = self._opened()
            decoded = self._decoded.get_total_buffer_size()
            self._row_bytes = max(self._row_bytes, -(-decoded // self._decoded.num_rows))
            rows = self._decoded if self._filter is None else self._decoded.filter(self._filter)
            kept = 0 if rows is self._decoded else rows.get_total_buffer_size()
            self._require(file, file.overhead + decoded + kept, self._decoded.num_rows)
            self._decoded = None
            if rows.num_rows:
                return _table([rows[name] for name in self.schema.names], self.schema, rows.num_rows)

    def close(self) -> None:
        """Releases the files and what is charged."""
        self._fragments.clear()
        self._file = self._decoded = None
        self._release()

    def _decode(self) -> Any:
        """Returns rows of at least one of the files that are left, None at the end."""
        while self._file is not None or self._fragments:
            file = self._opened()
            batch = next(file.batches, None)
            if batch is not None and batch.num_rows:
                return self._shaped(file, batch)
            if batch is None:
                self._file = None
                self._fragments.popleft()
                self._release()
        return None

    def _opened(self) -> _File:
        if self._file is None:
            file = self._describe(self._fragments[0])
            self._require(file, file.overhead + file.rows * file.row_bytes, file.rows)
            file.begin()
            self._file = file
        return self._file

    def _describe(self, fragment: Any) -> _File:
        pyarrow = load("pyarrow.dataset", "reading Parquet")
        values = pyarrow.get_partition_keys(fragment.partition_expression)
        names = fragment.physical_schema.names
        physical = [name for name in self._needed if name in names and name not in values]
        for name in physical:
            if names.count(name) > 1:
                raise ColumnNameError(f"{fragment.path}: more than one column is named {name!r}")
        if self._filter is not None:
            fragment = fragment.subset(filter=self._filter, schema=self._dataset.schema)
        left = self._host.memory.statistics()["remaining"] or 0
        return _File(fragment, physical, values, left // SHARE, self._most_rows, self._row_bytes)

    def _shaped(self, file: _File, batch: Any) -> Any:
        """Returns the needed columns of a batch, with the types of the data set."""
        fields = [self._dataset.schema.field(name) for name in self._needed]
        schema = load("pyarrow", "reading Parquet").schema(fields)
        return _table([file.column(batch, field) for field in fields], schema, batch.num_rows)

    def _require(self, file: _File, nbytes: int, rows: int) -> None:
        """Charges at least `nbytes` for a file that is decoded."""
        if nbytes <= self._charged:
            return
        self._release()
        try:
            self._charge.enter_context(self._host.memory.reserve(nbytes))
        except BudgetExceeded as failure:
            raise BudgetExceeded(
                f"decoding {rows} rows of '{file.path}' takes {nbytes} bytes of host memory: {failure}",
                **failure.numbers(),
            ) from failure
        self._charged = nbytes

    def _release(self) -> None:
        self._charge.close()
        self._charged = 0


class _Leaf(NamedTuple):
    """What metadata say of the values of a column in all row groups that are read."""

    packed: int  # bytes in the largest row group, as they are in the file
    plain: int  # bytes in the largest row group, decompressed
    total: int  # bytes in all row groups, decompressed


class _File:
    """A file that is decoded.

    Attributes:
        overhead: bytes that decoding holds beside a batch.
        rows: rows of a batch.
        row_bytes: the bytes of a row, as far as metadata and earlier files tell.
    """

    def __init__(
        self, fragment: Any, physical: list[str], values: dict[str, Any], share: int, most: int, known: int
    ) -> None:
        local = load("pyarrow.fs", "reading Parquet").LocalFileSystem
        self.path: str = fragment.path
        self._fragment = fragment
        self._physical = physical
        self._values = values
        self._groups = [group.id for group in fragment.row_groups]
        leaves = list(_leaves(fragment.metadata, self._groups, physical))
        most_at_once = LARGE if isinstance(fragment.filesystem, local) else FAR
        self._at_once = max(SMALL, min(most_at_once, share // max(len(leaves), 1)))
        self.overhead = sum(
            min(self._at_once, leaf.packed) + min(PAGE, leaf.packed) + min(PAGE, leaf.plain)
            for leaf in leaves
        )
        of_file = sum(fragment.metadata.row_group(group).num_rows for group in self._groups)
        told = _row_bytes(fragment.physical_schema, physical, leaves, of_file)
        self.row_bytes = max(1, known, told)
        self.rows = max(1, min(most, of_file, share // self.row_bytes))
        self.batches: Iterator[Any] = iter(())

    def begin(self) -> None:
        if not self._groups:
            return
        opened = load("pyarrow.parquet", "reading Parquet").ParquetFile(
            self._fragment.path,
            filesystem=self._fragment.filesystem,
            metadata=self._fragment.metadata,
            pre_buffer=False,
            buffer_size=self._at_once,
        )
        self.batches = opened.iter_batches(self.rows, row_groups=self._groups, columns=self._physical)

    def column(self, batch: Any, field: Any) -> Any:
        """Returns a column of a batch: the values of the file, or of its folders, or nulls."""
        pyarrow = load("pyarrow", "reading Parquet")
        if field.name in self._values:
            value = pyarrow.scalar(self._values[field.name], field.type)
            return pyarrow.repeat(value, batch.num_rows)
        if field.name not in self._physical:
            return pyarrow.nulls(batch.num_rows, field.type)
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)


def _table(columns: list[Any], schema: Any, rows: int) -> Any:
    pyarrow = load("pyarrow", "reading Parquet")
    if not columns:
        return pyarrow.table({"": pyarrow.nulls(rows)}).select([])
    return pyarrow.Table.from_arrays(columns, schema=schema)


def names_in(expression: Any, schema: Any) -> list[str]:
    """Returns the columns that an expression refers to: it can't be evaluated without them.

    Raises pyarrow's ArrowInvalid if it can't be evaluated with all columns.
    """
    pyarrow = load("pyarrow", "reading Parquet")
    names = list(dict.fromkeys(schema.names))

    def evaluate(left_out: Collection[str]) -> None:
        fields = [field for field in schema if field.name not in left_out]
        pyarrow.schema(fields).empty_table().filter(expression)

    def needed(candidates: list[str]) -> list[str]:
        try:
            evaluate(frozenset(candidates))
        except pyarrow.ArrowInvalid:
            if len(candidates) < 2:
                return candidates
            middle = len(candidates) // 2
            return needed(candidates[:middle]) + needed(candidates[middle:])
        return []

    evaluate(())
    return needed(names)


def _leaves(metadata: Any, groups: list[int], names: Iterable[str]) -> Iterator[_Leaf]:
    """Yields what metadata say of the columns of numbers, texts and bytes that columns are made of."""
    chosen = set(names)
    for number in range(metadata.num_columns):
        path = metadata.schema.column(number).path
        if path in chosen or path.partition(".")[0] in chosen:
            chunks = [metadata.row_group(group).column(number) for group in groups]
            plain = [chunk.total_uncompressed_size for chunk in chunks]
            packed = max((chunk.total_compressed_size for chunk in chunks), default=0)
            yield _Leaf(packed, max(plain, default=0), sum(plain))


def _row_bytes(schema: Any, names: Iterable[str], leaves: Iterable[_Leaf], rows: int) -> int:
    """Returns the bytes of a row, as far as types and metadata tell."""
    total = 0
    for name in names:
        try:
            total += -(-schema.field(name).type.bit_width // 8)
        except ValueError:
            total += TEXT
    return max(total, sum(leaf.total for leaf in leaves) // max(rows, 1))
