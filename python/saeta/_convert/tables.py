"""Joins and renames tables, and converts them to Python objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from saeta import _core
from saeta._convert.numbers import require_count, whole_number
from saeta._core import Schema, Table
from saeta._text import number_text
from saeta.errors import ColumnNameError, InvalidError, OutOfRange, TypeMismatch


def concat_tables(tables: Iterable[Table]) -> Table:
    """Joins the rows of several tables of one device, one table after the other, without a copy.

    Args:
        tables: at least one Table. Their columns have the same names and types, in the same order. A column
            of type null can be joined with any type: its rows become newly allocated nulls of that type.

    Returns:
        A Table with the batches of all tables, on their device. Metadata and the names of list values are
        those of the first table. A column allows nulls if one of the joined columns does.

    Raises:
        InvalidError: there are no tables, or their contexts differ.
        TypeMismatch: the names or types of a column differ, or one of `tables` is not a Table.

    Example:
        >>> import saeta as sa
        >>> host = sa.context("host")
        >>> parts = [sa.table({"a": [1, 2]}, host), sa.table({"a": [3]}, host)]
        >>> sa.concat_tables(parts)["a"].to_pylist()
        [1, 2, 3]
    """
    if isinstance(tables, Table):
        raise TypeMismatch("concat_tables takes a sequence of tables, not one Table")
    parts = list(tables)
    if not parts:
        raise InvalidError("no tables: at least one is needed to know the columns")
    for number, part in enumerate(parts):
        if not isinstance(part, Table):
            raise TypeMismatch(f"table number {number} is of type {type(part).__name__}, expected a Table")
    return _core._concat_tables(parts)


def rename_columns(self: Table, names: Sequence[str] | Mapping[str, str]) -> Table:
    """Implements `Table.rename_columns`."""
    old = self.column_names
    if isinstance(names, str) or not isinstance(names, Mapping | Iterable):
        raise TypeMismatch(
            f"names is of type {type(names).__name__}, expected a name for each column or a mapping from old "
            "to new names"
        )
    if isinstance(names, Mapping):
        unknown = [name for name in names if name not in old]
        if unknown:
            raise ColumnNameError(_core._unknown_column(unknown[0], old))
        new = [names.get(name, name) for name in old]
    else:
        new = list(names)
    if len(new) != len(old):
        raise InvalidError(
            f"{len(new)} names for {len(old)} columns: give one for each, or a mapping from old to new names"
        )
    schema = self.schema
    fields = [field.with_name(name) for field, name in zip(schema.fields, new, strict=True)]
    return self._with_schema(Schema(fields, schema.metadata))


def replace_schema_metadata(self: Table, metadata: Mapping[Any, Any] | None = None) -> Table:
    """Implements `Table.replace_schema_metadata`."""
    return self._with_schema(self.schema.with_metadata(metadata))


def to_batches(self: Table, max_chunksize: int | None = None) -> list[Table]:
    """Implements `Table.to_batches`."""
    if max_chunksize is None:
        return self.batches
    most = require_count("max_chunksize", max_chunksize, "rows")
    return [
        batch.slice(first, min(most, batch.num_rows - first))
        for batch in self.batches
        for first in range(0, max(batch.num_rows, 1), most)
    ]


def to_pydict(self: Table) -> dict[str, list[Any]]:
    """Implements `Table.to_pydict`."""
    _require_distinct_names(self)
    return {column.name: column.to_pylist() for column in self.columns}


def to_pylist(self: Table) -> list[dict[str, Any]]:
    """Implements `Table.to_pylist`."""
    _core._require_memory_for(self.num_rows, "the rows of the table")
    if not self.num_columns:
        return [{} for _ in range(self.num_rows)]
    names = self.column_names
    values = to_pydict(self).values()
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def place_of_name(table: Table, name: str) -> int:
    """Returns the number of the only column of that name, or raises as `Table.column` does."""
    table.column(name)
    return table.column_names.index(name)


def column_place(index: Any, count: int, *, last: int) -> int:
    """Returns the index of a column, at most `last`. Negative numbers count from the end."""
    number = whole_number(index)
    if number is None:
        raise TypeMismatch(f"index is of type {type(index).__name__}, expected the number of a column")
    place = number + count if number < 0 else number
    if not 0 <= place <= last:
        raise OutOfRange(f"column {number_text(number)} of a table with {count} columns")
    return place


def _require_distinct_names(table: Table) -> None:
    repeated = [name for name, count in Counter(table.column_names).items() if count > 1]
    if repeated:
        raise InvalidError(
            f"several columns are named '{repeated[0]}', and a dict has each name once: use rename_columns "
            "to tell them apart"
        )


def require_memory(rows: int, nbytes: int, describe: Callable[[], str]) -> None:
    """Raises OutOfMemory for more rows than any memory can hold.

    Null and run-end encoded rows need no bytes each, so a few bytes can stand for any number of rows. Other
    rows need at least a bit.

    Args:
        describe: returns the beginning of the message, which names the rows.
    """
    if rows > 8 * nbytes:
        _core._require_memory_for_values(rows, describe())
