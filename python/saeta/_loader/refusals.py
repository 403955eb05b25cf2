"""Refusals of columns and values that can't become tensors. The messages name arguments of the loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Never

from saeta._core import Column, DataType
from saeta.errors import BudgetExceeded, ColumnNameError, Error, ExchangeError, TypeMismatch

ADVICE = (
    "choose a smaller window=, or prefetch= in read_options, drop batches sooner, or give the context a "
    "larger budget"
)
LEAVE_OUT = "leave it out with columns=, or choose to='table'"


def refuse_repeated(names: Sequence[str], advice: str) -> Never:
    """Raises ColumnNameError for columns of which some have the same name."""
    name, count = Counter(names).most_common(1)[0]
    raise ColumnNameError(
        f"columns: {count} columns are named {name!r}, and a batch has each name once: {advice}"
    )


def refuse_column(name: str, type: DataType, lists: DataType | None) -> Never:  # noqa: A002 - lexicon's word
    """Raises TypeMismatch for a type without tensors. `lists` is the type of lists with such values."""
    of = f"column '{name}' of type {(lists or type).name}"
    inside = f", with values of type {type.name}," if lists is not None else ""
    numbers = f"choose numbers with dtype={{'{name}': 'float64'}}, " if type.format.startswith("d:") else ""
    raise TypeMismatch(f"{of}{inside} has no tensor type: {numbers}{LEAVE_OUT}")


def refuse_in_matrix(name: str, key: str, type: DataType) -> Never:  # noqa: A002
    """Raises TypeMismatch for a column that a matrix can't have."""
    raise TypeMismatch(
        f"column '{name}' of type {type.name} can't be in the matrix '{key}': name the columns of "
        f"numbers, as matrix={{'{key}': [...]}}"
    )


def refuse_dictionary(name: str, key: str, *, is_number: bool) -> Never:
    """Raises TypeMismatch for a dictionary column for which neither codes nor a number type were chosen."""
    numbers = f", or dtype={{'{key}': 'float64'}} to have the numbers" if is_number else ""
    raise TypeMismatch(
        f"column '{name}' is a dictionary: name its values, as codes={{'{name}': [...]}}, or choose "
        f"codes=True, both in tensor_options{numbers}"
    )


def refuse_nulls(column: Column, ways: str, *, is_named: bool = False) -> Never:
    """Raises ExchangeError for the nulls of a column. `ways` is advice: the arguments that accept nulls."""
    of = f"column '{column.name}' has" if is_named else "there are"
    raise ExchangeError(f"{of} {column.null_count} nulls, which a tensor can't represent: {ways}")


def ways_with_nulls(key: str, *, is_float: bool) -> str:
    """Returns advice for null rows: the arguments that accept them."""
    nan = f"nulls={{'{key}': 'nan'}}, " if is_float else ""
    return f"choose {nan}nulls={{'{key}': 'mask'}} or fill={{'{key}': value}} in tensor_options"


def ways_with_nulls_inside(key: str, *, is_float: bool) -> str:
    """Returns advice for nulls inside of lists: the arguments that accept them. A mask is for rows only."""
    nan = f"nulls={{'{key}': 'nan'}} or " if is_float else ""
    return f"choose {nan}fill={{'{key}': value}} in tensor_options, for those inside of lists"


def add_label(failure: Error, label: str, advice: str = "") -> None:
    """Puts a label, if any, before the text of an error, and advice at the end of a refusal by the budget."""
    before = f"{label}: " if label else ""
    after = f"; {advice}" if advice and isinstance(failure, BudgetExceeded) else ""
    text = failure.args[0] if failure.args else ""
    failure.args = (f"{before}{text}{after}", *failure.args[1:])
