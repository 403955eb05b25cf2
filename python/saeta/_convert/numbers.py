"""Checks integer arguments, which may also be integers of NumPy and other libraries."""

from __future__ import annotations

import operator
from typing import Any

from saeta._core import _parse_bytes
from saeta._text import number_text
from saeta.errors import InvalidError

MOST = (1 << 63) - 1


def whole_number(given: Any, least: int | None = None, most: int | None = None) -> int | None:
    """Returns an argument as an int, or None unless it is an integer from `least` to `most`.

    Objects with `__index__`, such as NumPy integers, are accepted. A bool is not.
    """
    if isinstance(given, bool):
        return None
    try:
        number = operator.index(given)
    except TypeError:
        return None
    inside = (least is None or number >= least) and (most is None or number <= most)
    return number if inside else None


def require_count(name: str, given: Any, unit: str) -> int:
    """Returns an argument as an int. Raises InvalidError unless it is a positive integer."""
    number = whole_number(given, 1, MOST)
    if number is None:
        raise InvalidError(f"{name} is {number_text(given)}, expected a number of {unit} from 1 on")
    return number


def require_bytes(name: str, given: int | str) -> int:
    """Returns a number of bytes that is given as a number or as text ("64MiB").

    Raises InvalidError unless it is a positive integer.
    """
    return require_count(name, _parse_bytes(given) if isinstance(given, str) else given, "bytes")
