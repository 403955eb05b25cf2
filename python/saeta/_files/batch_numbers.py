"""The argument `batches` of readers: a number, a range, a slice, a pair or a list of numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from saeta._text import number_text
from saeta.errors import InvalidError, OutOfRange, TypeMismatch

BatchNumbers: TypeAlias = int | Sequence[int] | slice | None
"""Which batches are read: one, several, or a range of them. None: all."""


def is_list(batches: Any) -> bool:
    """Whether `batches` is a list of numbers, and not a range."""
    step = batches.step if isinstance(batches, range | slice) else None
    return isinstance(batches, list) or hasattr(batches, "__array__") or step not in (None, 1)


def list_of(batches: Iterable[Any]) -> list[int]:
    """Returns the numbers of a list."""
    numbers = []
    for number in batches:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise TypeMismatch(f"batches: {number!r} is of type {type(number).__name__}, expected a number")
        numbers.append(operator.index(number))
        if not -(1 << 63) <= numbers[-1] < 1 << 63:
            raise OutOfRange(f"batches: {number_text(numbers[-1])} is not the number of a batch")
    return numbers


def range_of(batches: Any) -> tuple[int, int]:
    """Returns [first, last) for a number, a range or a pair."""
    if isinstance(batches, range):
        return batches.start, batches.stop
    if isinstance(batches, int) and not isinstance(batches, bool):
        return batches, batches + 1
    if isinstance(batches, tuple) and len(batches) == 2:
        return int(batches[0]), int(batches[1])
    raise TypeMismatch(
        f"batches is of type {type(batches).__name__}, expected the number of a batch, a list of numbers, or "
        "a range, slice or tuple (first, last) of them"
    )


def numbers_of_slice(batches: slice, count: int) -> range:
    """Returns the numbers of a slice, whose bounds may be negative or beyond the end.

    Args:
        count: the number of all batches; -1 if it is not known.
    """
    if count < 0:
        raise InvalidError(
            "batches: the number of batches of a stream is unknown: pass a pair of numbers, not a slice"
        )
    first, last, step = batches.indices(count)
    return range(first, max(first, last) if step == 1 else last, step)
