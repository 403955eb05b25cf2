"""Converts values of columns to Python objects and to text, from the bytes of the Arrow layout.

Needs neither pyarrow nor NumPy, so that every table can be shown. The objects are those of pyarrow's
`to_pylist`, except for intervals, which are tuples. Where pandas is installed, times in nanoseconds are
Timestamp and Timedelta of pandas.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from saeta._text import printable, shorten_printable
from saeta.errors import InvalidError, TypeMismatch, UnsupportedError

if TYPE_CHECKING:
    from saeta._core import Column, DataType, SymbolTable

Decoder = Callable[[Any], Any]

NAME_WIDTH = 24  # most characters of a struct's field name in the text of a value
# Rows that an iteration decodes first; later blocks are larger.
FIRST_BLOCK = 64
LARGEST_BLOCK = 1 << 16

EPOCH = datetime(1970, 1, 1)
INTEGERS = {"c": True, "C": False, "s": True, "S": False, "i": True, "I": False, "l": True, "L": False}
FLOATS = {"e": "<e", "f": "<f", "g": "<d"}
PER_SECOND = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}


class DayTime(NamedTuple):
    """An interval of days and milliseconds."""

    days: int
    milliseconds: int


class MonthDayNano(NamedTuple):
    """An interval of months, days and nanoseconds."""

    months: int
    days: int
    nanoseconds: int


def column_list(self: Column) -> list[Any]:
    """Implements `Column.to_pylist`."""
    decode = decoder_of(self.type)
    return [None if raw is None else decode(raw) for raw in self._raw_values()]


def column_iter(self: Column) -> Iterator[Any]:
    """Implements `Column.__iter__`. Decodes in blocks: small ones first, for callers that take few values."""
    start, rows = 0, FIRST_BLOCK
    while start < len(self):
        yield from column_list(self.slice(start, min(rows, len(self) - start)))
        start, rows = start + rows, min(2 * rows, LARGEST_BLOCK)


def column_item(self: Column, index: Any) -> Any:
    """Implements `Column.__getitem__`."""
    if isinstance(index, slice):
        start, stop, step = _bounds(index, len(self))
        count = len(range(start, stop, step))
        return self.slice(start, count) if step == 1 else self._take_in_steps(start, step, count)
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeMismatch(
            f"a value is selected by the number of its row, not by an object of type {type(index).__name__}"
        )
    row = index.__index__()
    return column_list(self.slice(row + len(self) if row < 0 else row, 1))[0]


def _bounds(rows: slice, length: int) -> tuple[int, int, int]:
    try:
        return rows.indices(length)
    except TypeError:
        raise TypeMismatch("the bounds of a slice must be numbers of rows, or None") from None


def decoder_of(type: DataType) -> Decoder:  # noqa: A002 - the word of the lexicon
    """Returns the function that turns the bytes of a value into a Python object."""
    if type.value_type is not None:
        return decoder_of(type.value_type)
    if type.is_bool8:
        return lambda raw: raw != b"\0"
    if type.extension_name == "arrow.uuid":
        return lambda raw: UUID(bytes=raw)
    if type.symbol_table is not None:
        return _symbol_decoder(type.symbol_table)
    if type.format.startswith("+"):
        return _nested_decoder(type)
    return _temporal_decoder(type) if type.format.startswith("t") else _decoder_of_format(type.format)


def _symbol_decoder(table: SymbolTable) -> Decoder:
    """Returns the decoder of symbols.

    A raw symbol is its name, or its number if the table has no name for it.
    """
    return lambda raw: raw.decode("utf-8", "replace") if isinstance(raw, bytes) else table.name(raw)


def _nested_decoder(type: DataType) -> Decoder:  # noqa: A002
    """Returns the decoder of a nested type.

    Raw rows of nested types are lists of raw values; for unions, the number of the child and its value.
    """
    inner = [_or_none(decoder_of(field.type)) for field in type.fields]
    if type.format.startswith("+u"):
        return lambda raw: inner[raw[0]](raw[1])
    if type.format == "+r":
        return inner[1]
    if type.format == "+m":
        keys, values = (_or_none(decoder_of(field.type)) for field in type.fields[0].type.fields)
        return lambda raw: [(keys(key), values(value)) for key, value in raw]
    if type.format == "+s":
        names = [field.name for field in type.fields]
        return lambda raw: {name: one(item) for name, one, item in zip(names, inner, raw, strict=True)}
    return lambda raw: [inner[0](item) for item in raw]


def _or_none(decode: Decoder) -> Decoder:
    return lambda raw: None if raw is None else decode(raw)


def _decoder_of_format(format: str) -> Decoder:  # noqa: A002
    if format in ("n", "b"):
        return lambda raw: raw
    if format in INTEGERS:
        signed = INTEGERS[format]
        return lambda raw: int.from_bytes(raw, "little", signed=signed)
    if format in FLOATS:
        layout = FLOATS[format]
        return lambda raw: struct.unpack(layout, raw)[0]
    if format in ("u", "U", "vu"):
        return lambda raw: raw.decode("utf-8", "replace")
    if format in ("z", "Z", "vz") or format.startswith("w:"):
        return lambda raw: raw
    if format.startswith("d:"):
        scale = int(format[2:].split(",")[1])
        return lambda raw: _decimal(_integer(raw), scale)
    raise UnsupportedError(f"values of Arrow format '{format}' can't be converted to Python objects")


def _temporal_decoder(type: DataType) -> Decoder:  # noqa: A002
    if type.format == "tiM":
        return _integer
    if type.format == "tiD":
        return lambda raw: DayTime(*struct.unpack("<ii", raw))
    if type.format == "tin":
        return lambda raw: MonthDayNano(*struct.unpack("<iiq", raw))
    decode = _datetime_decoder(type.format, type.name)

    def within_range(raw: bytes) -> Any:
        try:
            return decode(_integer(raw))
        except InvalidError:
            raise
        except (OverflowError, ValueError) as error:
            raise InvalidError(
                f"{_integer(raw)} of type {type.name} is outside of the range of Python's datetime; "
                "to_arrow() keeps the value"
            ) from error

    return within_range


def _datetime_decoder(format: str, name: str) -> Callable[[int], Any]:  # noqa: A002
    if format == "tdD":
        return lambda days: date.fromordinal(EPOCH.toordinal() + days)
    if format == "tdm":
        return lambda ticks: (EPOCH + timedelta(milliseconds=ticks)).date()
    unit = format[2]
    if format.startswith("tt"):  # truncated to microseconds, as in pyarrow
        return lambda ticks: (EPOCH + timedelta(microseconds=_microseconds(ticks, unit))).time()
    if unit == "n" and (pandas := _pandas()) is not None:
        return _pandas_decoder(pandas, format, name)
    if format.startswith("tD"):
        return lambda ticks: _span(ticks, unit, name)
    if not format[4:]:
        return lambda ticks: EPOCH + _span(ticks, unit, name)
    return lambda ticks: (EPOCH.replace(tzinfo=UTC) + _span(ticks, unit, name)).astimezone(
        _zone(format[4:], name)
    )


@cache
def _pandas() -> Any:
    """Returns pandas, whose times have nanoseconds. None if it is not installed."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        return None


def _pandas_decoder(pandas: Any, format: str, name: str) -> Callable[[int], Any]:  # noqa: A002
    if format.startswith("tD"):
        return lambda ticks: pandas.Timedelta(ticks, unit="ns")
    if not format[4:]:
        return lambda ticks: pandas.Timestamp(ticks, unit="ns")
    return lambda ticks: pandas.Timestamp(ticks, unit="ns", tz=_zone(format[4:], name))


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _span(ticks: int, unit: str, type_name: str) -> timedelta:
    if unit == "n" and ticks % 1000:
        raise InvalidError(
            f"{ticks} of type {type_name}: Python's datetime has only microseconds; install pandas to get "
            "the value, or use to_arrow()"
        )
    return timedelta(microseconds=_microseconds(ticks, unit))


def _microseconds(ticks: int, unit: str) -> int:
    return ticks // 1000 if unit == "n" else ticks * (1_000_000 // PER_SECOND[unit])


def _zone(zone: str, type_name: str) -> tzinfo:
    try:
        if zone[0] in "+-":
            sign = -1 if zone[0] == "-" else 1
            hours, minutes = zone[1:3], zone[-2:]
            return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidError(
            f"Python does not know the time zone of type {type_name}; to_arrow() keeps the values"
        ) from error


def text_of(type: DataType, raw: Any) -> str:  # noqa: A002
    """Returns a value as text on one line, for people.

    Never fails: a value that has no better form is shown as a number or as bytes. For a raw value that was
    cut by `Column._raw_values`, returns the text of the part that is left.
    """
    if raw is None:
        return "null"
    plain = type.value_type or type
    if plain.format.startswith("+"):
        return _text_of_nested(plain, raw)
    if plain.is_symbol and isinstance(raw, int):
        return f"symbol {raw}, unknown"
    try:
        return _text_of_temporal(plain.format, raw) or _text_of_object(decoder_of(plain)(raw))
    except (ArithmeticError, ValueError, UnsupportedError):
        return str(_integer(raw)) if plain.byte_width else str(raw)


def _text_of_nested(type: DataType, raw: Any) -> str:  # noqa: A002
    types = [field.type for field in type.fields]
    if type.format.startswith("+u"):
        return text_of(types[raw[0]], raw[1])
    if type.format == "+r":
        return text_of(types[1], raw)
    if type.format == "+m":
        key, value = (field.type for field in types[0].fields)
        return "{" + ", ".join(": ".join(map(text_of, (key, value), item)) for item in raw) + "}"
    if type.format == "+s":
        parts = (
            f"{shorten_printable(field.name, NAME_WIDTH)}: {text_of(field.type, item)}"
            for field, item in zip(type.fields, raw)  # noqa: B905
        )
        return "{" + ", ".join(parts) + "}"
    return "[" + ", ".join(text_of(types[0], item) for item in raw) + "]"


def _text_of_object(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, tuple):
        return " ".join(f"{part}{letter}" for part, letter in zip(value, _interval_units(value), strict=True))
    return printable(str(value))


def _interval_units(value: tuple[int, ...]) -> tuple[str, ...]:
    return ("d", "ms") if isinstance(value, DayTime) else ("M", "d", "ns")


def _text_of_temporal(format: str, raw: Any) -> str | None:  # noqa: A002
    """Formats times with all their digits, which Python's own types would truncate to microseconds."""
    if format[:2] not in ("ts", "tt", "tD"):
        return None
    count, per_second = _integer(raw), PER_SECOND[format[2]]
    span = format.startswith("tD")
    seconds, ticks = divmod(abs(count) if span else count, per_second)
    digits = len(str(per_second)) - 1
    fraction = f".{ticks:0{digits}d}" if digits else ""
    if span:
        return f"{'-' if count < 0 else ''}{seconds}{fraction} s"
    moment = EPOCH + timedelta(seconds=seconds)
    if format.startswith("tt"):
        return f"{moment:%H:%M:%S}{fraction}"
    return f"{moment.isoformat(sep=' ')}{fraction}{'Z' if format[4:] else ''}"
