"""Converts Python values to Arrow arrays: fractions to the nearest float, all other values exactly.

An error names the first value that the type can't represent.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from saeta._convert.dictionaries import dictionary_array
from saeta._convert.from_numpy import is_masked_array
from saeta._core import Field
from saeta._optional import load
from saeta.errors import InvalidError, TypeMismatch

if TYPE_CHECKING:
    from saeta._core import DataType

Cast = Literal["truncate"] | None

# For each Python type, the Arrow formats for which pyarrow either converts exactly or raises.
EXACT: dict[type, tuple[str, ...]] = {
    bool: ("b",),
    int: tuple("cCsSiIlL"),
    float: ("g",),
    str: ("u", "U", "vu"),
    bytes: ("z", "Z", "vz"),
    date: ("tdD",),
}
FLOATS = ("e", "f", "g")
NULLS = ("NAType", "NaTType")  # null values of pandas
KINDS = {"u": "text", "U": "text", "vu": "text", "b": "booleans", "z": "bytes", "Z": "bytes", "vz": "bytes"}


def arrow_array(name: str, values: Sequence[Any], wanted: DataType | None, cast: Cast) -> Any:
    """Converts a list of values to a pyarrow array of the type. None: the type that pyarrow infers.

    Raises:
        TypeMismatch: a value is of another kind than the type, such as text for an integer type.
        InvalidError: the type can't represent a value; with truncate=True, not even after dropping its
            fraction, time of day or last digits.
    """
    values = _plain(values)
    pyarrow = load("pyarrow", f"column '{name}': a list of Python values")
    if wanted is None:
        array = _array(pyarrow, name, values, values, None)
        if any(
            word in str(array.type) for word in ("time", "duration")
        ):  # values of pandas may have nanoseconds, and times of day may have a zone
            _require_same(name, values, array, None)
        return array
    if wanted.value_type is not None:
        array = arrow_array(name, values, wanted.value_type, cast)
        return dictionary_array(name, array, wanted, arrow_type(name, wanted))
    types = set(map(type, values)) - {type(None)}
    _require_kind(name, values, types, wanted)
    inner = _inner(wanted)
    exact = not inner.extension_name and all(inner.format in EXACT.get(kind, ()) for kind in types)
    taken = values if exact else _prepare(name, values, inner, cast)
    array = _array(pyarrow, name, values, taken, wanted)
    if not exact:
        _require_same(name, values, array, cast)
    return array


def arrow_array_of(label: str, source: Any) -> Any:
    """Converts an object with `__arrow_array__`, or an array of pandas, with pyarrow."""
    pyarrow = load("pyarrow", f"{label}: {type(source).__name__}")
    try:
        return pyarrow.array(source)
    except (pyarrow.ArrowException, TypeError, ValueError) as failure:
        raise InvalidError(f"{label}: {type(source).__name__} is not an Arrow array: {failure}") from failure


def arrow_type(name: str, wanted: DataType) -> Any:
    """Returns the type as a pyarrow type."""
    return load("pyarrow", f"column '{name}': Python values").field(Field(name, wanted)).type


def refusal_error(name: str, row: int, given: Any, wanted: str, cut: Any = None) -> InvalidError:
    """Returns the error for a value that a type can't represent.

    `cut` is the truncated value, or None if truncate=True refuses it too.
    """
    way_out = "" if cut is None else f": truncate=True makes it {_show_value(cut)}"
    return InvalidError(
        f"column '{name}': row {row} is {_show_value(given)}, which {wanted} can't represent{way_out}"
    )


def _plain(values: Sequence[Any]) -> Sequence[Any]:
    """Returns plain Python values: None for masked values and pandas' nulls, scalars of pyarrow unpacked."""
    one_of_each = {type(value): value for value in values}
    if not any(_is_odd(value) for value in one_of_each.values()):
        return values
    return [_plain_value(value) for value in values]


def _is_odd(value: Any) -> bool:
    return (
        isinstance(value, list | tuple | dict)
        or type(value).__name__ in NULLS
        or hasattr(value, "as_py")
        or is_masked_array(value)
    )


def _plain_value(value: Any) -> Any:
    if type(value).__name__ in NULLS:
        return None
    if hasattr(value, "as_py"):
        return value.as_py()
    if is_masked_array(value):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain_value(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain_value(item) for item in value)
    return value


def _array(
    pyarrow: Any, name: str, values: Sequence[Any], taken: Sequence[Any], wanted: DataType | None
) -> Any:
    """Converts `taken`, the prepared form of `values`, with pyarrow.

    An error names the first value that is refused.
    """
    target = None if wanted is None else arrow_type(name, wanted)
    refusals = (pyarrow.ArrowException, OverflowError, TypeError, ValueError)

    def refusal_of(first: int, end: int) -> Exception | None:
        try:
            pyarrow.array(taken[first:end], target)
        except refusals as failure:
            return failure
        return None

    try:
        return pyarrow.array(taken, target)
    except refusals as failure:
        if wanted is None:
            raise InvalidError(f"column '{name}': {failure}") from failure
        first, end = 0, len(taken)
        while end - first > 1:  # bisection: no value before `first` is refused
            middle = (first + end) // 2
            first, end = (first, middle) if refusal_of(first, middle) is not None else (middle, end)
        own = refusal_of(first, end)
        if own is None:  # each value alone is accepted
            raise InvalidError(f"column '{name}': {failure}") from failure
        raise InvalidError(
            f"column '{name}': row {first} is {_show_value(values[first])}, which {wanted.name} can't "
            f"represent: {own}"
        ) from failure


def _require_kind(name: str, values: Sequence[Any], types: set[type], wanted: DataType) -> None:
    kind = _kind_of_type(wanted)
    other = {given for given in types if None not in (kind, _kind(given)) and _kind(given) != kind}
    if other:
        row, value = next((row, value) for row, value in enumerate(values) if type(value) in other)
        raise TypeMismatch(
            f"column '{name}': row {row} is {_show_value(value)}, of type {type(value).__name__}, and "
            f"{wanted.name} is a type of {kind}{_way_out(value, kind)}"
        )


def _way_out(value: Any, kind: str | None) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "; reinterpret=True reads integers as ticks" if whole and kind in TICKS else ""


TICKS = ("dates and times", "times of day", "durations")


def _inner(type: DataType) -> DataType:  # noqa: A002
    """Returns the value type of a run-end encoded type, and other types unchanged."""
    inner = type.fields[1].type if type.format == "+r" else None
    return type if inner is None else _inner(inner)


def _kind_of_type(type: DataType) -> str | None:  # noqa: A002
    """Returns the kind of the type's values. None if it is not a simple one."""
    type = _inner(type)  # noqa: A001
    if type.is_bool8:
        return "booleans"
    if type.extension_name or type.format[0] in "+n":
        return None
    if type.format.startswith("t"):
        return {"s": TICKS[0], "d": TICKS[0], "t": TICKS[1], "D": TICKS[2]}.get(type.format[1])
    return KINDS.get(type.format, "bytes" if type.format.startswith("w:") else "numbers")


def _kind(type: type) -> str | None:  # noqa: A002
    if type.__name__ in ("bool", "bool_"):
        return "booleans"
    if type.__name__ == "datetime64" or issubclass(type, date):
        return TICKS[0]
    if type.__name__ == "timedelta64" or issubclass(type, timedelta):
        return TICKS[2]
    if issubclass(type, Real | Decimal):
        return "numbers"
    if issubclass(type, complex):
        return "complex numbers"
    if issubclass(type, time):
        return TICKS[1]
    if issubclass(type, str):
        return "text"
    return "bytes" if issubclass(type, bytes | bytearray | memoryview) else None


def _prepare(name: str, values: Sequence[Any], wanted: DataType, cast: Cast) -> list[Any]:
    """Converts the values to equal ones that pyarrow accepts for the type."""
    taken: list[Any] = []
    try:
        for value in values:
            # A loop, because on failure the length of the list is the row.
            taken.append(_prepare_value(value, wanted, cast))  # noqa: PERF401
    except (OverflowError, InvalidOperation, ValueError) as failure:
        row = len(taken)
        raise InvalidError(
            f"column '{name}': row {row} is {_show_value(values[row])}, which {wanted.name} can't represent: "
            f"{failure}"
        ) from failure
    return taken


def _prepare_value(value: Any, wanted: DataType, cast: Cast) -> Any:
    if type(value) is date and wanted.format.startswith("ts"):
        return _midnight(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return value
    if not wanted.format.startswith("d:"):
        return float(value) if wanted.format in FLOATS else value
    exact = value if isinstance(value, int | Decimal) else Decimal(float(value))
    if cast is None or not isinstance(exact, Decimal):
        return exact
    return exact.quantize(Decimal(1).scaleb(-int(wanted.format[2:].split(",")[1])), ROUND_DOWN)


def _require_same(name: str, values: Sequence[Any], array: Any, cast: Cast) -> None:
    one = _equal if cast is None else _is_kept
    for row, (given, back) in enumerate(
        zip(values, getattr(array, "storage", array).to_pylist(), strict=True)
    ):
        if not _same(given, back, one):
            cut = back if cast is None and _same(given, back, _is_kept) else None
            raise refusal_error(name, row, given, str(array.type), cut)


def _same(given: Any, back: Any, one: Callable[[Any, Any], bool]) -> bool:
    """Whether the round trip through Arrow preserved a value. `one` compares values that are not nested."""
    if given is None or back is None:
        return given is back or _is_not_a_time(given)
    if isinstance(back, list | tuple):
        parts = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(parts) == len(back) and all(_same(*pair, one) for pair in zip(parts, back, strict=True))
    if isinstance(back, dict):
        fields = _fields(given, back)
        return set(fields) <= set(back) and all(
            _same(fields.get(key), each, one) for key, each in back.items()
        )
    if getattr(given, "shape", None) == () and given.dtype.kind in "biuf" and given.dtype.itemsize <= 8:
        given = given.item()  # NumPy would round before comparing
    return one(given, back)


def _fields(given: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a dict from a struct: a mapping, pairs of names and values, or its values in order.

    Missing fields are null.
    """
    if isinstance(given, Mapping):
        return dict(given)
    pairs = all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in given)
    return dict(given) if pairs else dict(zip(names, given, strict=True))


def _equal(given: Any, back: Any) -> bool:
    if isinstance(given, UUID):
        return bool(given.bytes == back)
    if type(back) is date and isinstance(given, datetime):
        back = _midnight(back)
    elif type(given) is date and isinstance(back, datetime):
        given = _midnight(given)
    if isinstance(back, float) and math.isnan(back):
        return bool(given != given)
    if isinstance(back, float) and not isinstance(given, int):  # rounded to the type, if it has the range
        return math.isfinite(back) or bool(given == back)
    return bool(given == back)


def _is_kept(given: Any, back: Any) -> bool:
    """Whether a truncated value is still in the range of its type, and still has or lacks a time zone."""
    if isinstance(back, float) and math.isinf(back):
        return bool(math.isinf(given))
    return (getattr(given, "tzinfo", None) is None) == (getattr(back, "tzinfo", None) is None)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def _is_not_a_time(value: Any) -> bool:
    """Whether the value is NumPy's NaT, which is a null."""
    return type(value).__name__ in ("datetime64", "timedelta64") and bool(value != value)


def _show_value(value: Any) -> str:
    return str(value) if _kind(type(value)) in TICKS else reprlib.repr(value)
