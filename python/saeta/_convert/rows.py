"""Implements the methods of columns and tables that select, cast, fill and copy rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from saeta._convert.build import as_column
from saeta._convert.dictionaries import decoded
from saeta._convert.tables import place_of_name
from saeta._core import Column, DataType, Field, Table, _unknown_column
from saeta.errors import ColumnNameError, InvalidError, TypeMismatch
from saeta.exchange import ContextLike, context_of

Source = TypeVar("Source", Column, Table)


def take(self: Source, indices: Any) -> Source:
    """Implements `Column.take` and `Table.take`."""
    return self._take(_chosen(self, "indices", indices, "int64"))


def keep(self: Source, mask: Any) -> Source:
    """Implements `Column.filter` and `Table.filter`."""
    return self._filter(_chosen(self, "mask", mask, "bool"))


def to(self: Source, ctx: ContextLike) -> Source:
    """Implements `Column.to` and `Table.to`."""
    return self._to(context_of(ctx))


def cast(self: Column, type: Any, *, round: bool = False) -> Column:  # noqa: A002
    """Implements `Column.cast`."""
    wanted = type if isinstance(type, DataType) else DataType(type)
    if self.type.value_type is not None and wanted.value_type is None:
        self = decoded(self)
        if self.type == wanted:
            return self
    return self._cast(wanted, bool(round))


def fill_null(self: Column, value: Any) -> Column:
    """Implements `Column.fill_null`."""
    if value is None:
        raise InvalidError(f"column '{self.name}': nulls can't be filled with None")
    if not isinstance(value, Column):
        value = as_column(Field(self.name, self.type), [value], self.context)
    return self._fill_null(value)


def cast_columns(self: Table, types: Mapping[str, Any], *, round: bool = False) -> Table:  # noqa: A002
    """Implements `Table.cast`."""

    def converted(column: Column, wanted: Any) -> Column:
        return column.cast(wanted, round=round)

    return _with_changes(self, "types", types, converted)


def fill_columns(self: Table, values: Mapping[str, Any]) -> Table:
    """Implements `Table.fill_null`."""
    return _with_changes(self, "values", values, Column.fill_null)


def drop_null(self: Table, columns: str | int | Iterable[str | int] | None = None) -> Table:
    """Implements `Table.drop_null`."""
    if columns is None:
        return self._drop_null(list(range(self.num_columns)))
    keys = [columns] if isinstance(columns, str | int) else list(columns)
    return self._drop_null([_place(self, key) for key in keys])


def _chosen(source: Column | Table, name: str, given: Any, type_of_nulls: str) -> Column:
    """Returns indices or a mask as a column of the source's context."""
    column = as_column(name, given, source.context)
    if column.type == "null":  # a Python sequence that is empty or has only None
        column = as_column(Field(name, type_of_nulls), [None] * len(column), source.context)
    return column


def _with_changes(
    self: Table, label: str, given: Mapping[str, Any], change: Callable[[Column, Any], Column]
) -> Table:
    if not isinstance(given, Mapping):
        raise TypeMismatch(f"{label} is of type {type(given).__name__}, expected a mapping from names")
    unknown = [name for name in given if name not in self.column_names]
    if unknown:
        raise ColumnNameError(_unknown_column(unknown[0], self.column_names))
    return self._with_columns(
        [change(column, given[column.name]) if column.name in given else column for column in self.columns]
    )


def _place(self: Table, key: str | int) -> int:
    """Returns the number of a column, which `Table.column` finds."""
    if isinstance(key, str):
        return place_of_name(self, key)
    self.column(key)
    return key if key >= 0 else key + self.num_columns
