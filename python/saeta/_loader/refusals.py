"""What a loader can't make tensors of. The messages name arguments of the loader."""

from __future__ import annotations

from saeta._core import Column, DataType, Table
from saeta.errors import ExchangeError, TypeMismatch

LEAVE_OUT = "leave it out with columns=, or choose to='table'"


def require_tensor(
    name: str,
    type: DataType,  # noqa: A002 - the word of the lexicon
    *,
    is_chosen: bool,
    inside_of: DataType | None = None,
) -> None:
    """Raises TypeMismatch unless the values are numbers, runs, fixed-size lists or structs of numbers.

    Args:
        is_chosen: whether the type of the tensor is chosen, which types that are not numbers may need.
        inside_of: the type of lists whose values these are.
    """
    if not _has_tensor(type, is_chosen=is_chosen, is_inside=inside_of is not None):
        of = f"column '{name}' of type {(inside_of or type).name}"
        inside = f", with values of type {type.name}," if inside_of is not None else ""
        numbers = (
            f"choose numbers with dtype={{'{name}': 'float64'}}, " if type.format.startswith("d:") else ""
        )
        raise TypeMismatch(f"{of}{inside} has no tensor type: {numbers}{LEAVE_OUT}")


def require_number(name: str, key: str, type: DataType, *, is_chosen: bool) -> None:  # noqa: A002
    """Raises TypeMismatch for a column that a matrix can't have."""
    is_nested = type.format.startswith("+") and type.format != "+r"
    if is_nested or not _has_tensor(type, is_chosen=is_chosen, is_inside=False):
        raise TypeMismatch(
            f"column '{name}' of type {type.name} can't be in the matrix '{key}': name the columns of "
            f"numbers, as matrix={{'{key}': [...]}}"
        )


def require_no_nulls(source: Column | Table, ways: str) -> None:
    """Raises ExchangeError if there are nulls. `ways` says what a caller can do about them."""
    for column in source.columns if isinstance(source, Table) else [source]:
        if column.null_count:
            of = f"column '{column.name}' has" if isinstance(source, Table) else "there are"
            raise ExchangeError(f"{of} {column.null_count} nulls, which a tensor can't represent: {ways}")


def ways_with_nulls(key: str, *, is_float: bool) -> str:
    """Returns what can be chosen for null rows."""
    nan = f"nulls={{'{key}': 'nan'}}, " if is_float else ""
    return f"choose {nan}nulls={{'{key}': 'mask'}} or fill={{'{key}': value}}"


def ways_with_nulls_inside(key: str, *, is_float: bool) -> str:
    """Returns what can be chosen for nulls inside of lists. A mask is for rows."""
    nan = f"nulls={{'{key}': 'nan'}} or " if is_float else ""
    return f"choose {nan}fill={{'{key}': value}} for those inside of lists"


def _has_tensor(type: DataType, *, is_chosen: bool, is_inside: bool) -> bool:  # noqa: A002
    if type.format.startswith("+s"):
        first, *others = [field.type for field in type.fields] or [DataType("null")]
        plain = not first.fields and all(each == first for each in others)
        return plain and _has_tensor(first, is_chosen=is_chosen, is_inside=True)
    if type.format == "+r":
        return _has_tensor(type.fields[1].type, is_chosen=is_chosen, is_inside=is_inside)
    if type.format.startswith("+w"):
        return _has_tensor(type.fields[0].type, is_chosen=is_chosen, is_inside=True)
    if type.is_symbol or (type.format.startswith("t") and not type.format.startswith("ti")):
        return not is_inside  # the loader asks for the numbers of rows only
    if type.format.startswith("d:"):
        return is_chosen
    return type.dtype is not None or type == "bool"
