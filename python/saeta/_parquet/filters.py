"""Filters of rows as lists of conditions, which a device can apply as well as pyarrow."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Integral, Real
from typing import Any, NamedTuple

from saeta._optional import load
from saeta._parquet.types import plain_type

COMPARISONS = ("=", "==", "!=", "<", ">", "<=", ">=")
OPERATORS = (*COMPARISONS, "in", "not in")


class Known(NamedTuple):
    """The value that a column has in all rows of a file, and its type in pyarrow."""

    value: Any
    type: Any


class Condition(NamedTuple):
    """A comparison of a column with a value, or with the values of a collection."""

    column: str
    operator: str
    value: Any

    @property
    def values(self) -> list[Any]:
        return [self.value] if self.operator in COMPARISONS else list(self.value)


Clauses = list[list[Condition]]  # rows for which all conditions of one clause hold
EVERY_ROW: Clauses = [[]]


def expression_of(filters: Any) -> Any:
    """Returns filters as an expression of `pyarrow.dataset`."""
    return load("pyarrow.parquet", "reading Parquet").filters_to_expression(filters)


def clauses_of(filters: Any) -> Clauses | None:
    """Returns filters as clauses. None: they are not made of tuples (column, operator, value)."""
    if not isinstance(filters, list | tuple) or not filters:
        return None
    clauses = [filters] if isinstance(filters[0], tuple) and isinstance(filters[0][0], str) else filters
    parsed: Clauses = []
    for clause in clauses:
        if not isinstance(clause, list | tuple) or not all(map(_is_condition, clause)):
            return None
        parsed.append([Condition(*condition) for condition in clause])
    return parsed


def _is_condition(given: Any) -> bool:
    return (
        isinstance(given, tuple)
        and len(given) == 3
        and isinstance(given[0], str)
        and given[1] in OPERATORS
        and (given[1] in COMPARISONS or isinstance(given[2], list | tuple | set | frozenset))
    )


def without_known(clauses: Clauses, known: Mapping[str, Known]) -> Clauses:
    """Returns the clauses for rows in which some columns have a known value.

    Without clauses, no row matches.
    """
    undecided: Clauses = []
    for clause in clauses:
        if all(_holds(test, known[test.column]) for test in clause if test.column in known):
            left = [test for test in clause if test.column not in known]
            if not left:
                return EVERY_ROW
            undecided.append(left)
    return undecided


def _holds(condition: Condition, known: Known) -> bool:
    pyarrow = load("pyarrow", "reading Parquet")
    row = pyarrow.table({condition.column: pyarrow.array([known.value], known.type)})
    return bool(row.filter(expression_of([tuple(condition)])).num_rows)


def literal(value: Any, of: Any) -> Any:
    """Returns a value as a scalar of the type of a column, to be compared on a device.

    None where pyarrow may compare in another type, so that the device could choose other rows.
    """
    pyarrow = load("pyarrow", "reading Parquet")
    types, column = pyarrow.types, plain_type(of)
    try:
        if types.is_boolean(column):
            return pyarrow.scalar(value, column) if isinstance(value, bool) else None
        if isinstance(value, bool):
            return None
        if types.is_integer(column):
            return pyarrow.scalar(int(value), column) if isinstance(value, Integral) else None
        if types.is_floating(column):
            return _float_literal(value, column) if isinstance(value, Real) else None
        if types.is_string(column) or types.is_large_string(column):
            return pyarrow.scalar(value, pyarrow.string()) if isinstance(value, str) else None
        if types.is_date32(column):
            plain = type(value) is datetime.date  # a datetime is one as well
            return pyarrow.scalar(value, column) if plain else None
        if types.is_timestamp(column) and isinstance(value, datetime.datetime):
            moment = pyarrow.scalar(value)
            if moment.type.tz != column.tz:
                return None
            return moment.cast(column).cast(pyarrow.int64()).cast(pyarrow.timestamp(column.unit))
    except (pyarrow.ArrowException, OverflowError, ValueError):
        pass
    return None


def _float_literal(value: Any, column: Any) -> Any:
    """Returns a number as a float of the column's width that is equal to it and is not NaN."""
    rounded = load("pyarrow", "reading Parquet").scalar(float(value), column)
    return rounded if rounded.as_py() == value else None


def unfit_condition(clauses: Sequence[Sequence[Condition]], types: Mapping[str, Any]) -> Condition | None:
    """Returns a condition that a device can't apply as pyarrow does, None if there is none."""
    for condition in chain.from_iterable(clauses):
        column = types.get(condition.column)
        if column is None or not condition.values:
            return condition
        if any(literal(value, column) is None for value in condition.values):
            return condition
    return None
