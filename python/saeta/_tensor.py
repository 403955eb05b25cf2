"""Columns as tensors of other libraries: what stands for nulls, and which numbers a type shows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from saeta.errors import InvalidError, OutOfRange
from saeta.exchange import CPU

if TYPE_CHECKING:
    from saeta._core import Column


class Choices(NamedTuple):
    """What a `to_...` call says that the keywords of `__dlpack__` can't."""

    nulls: str = "refuse"
    fill: float = 0
    reinterpret: bool = False
    codes: bool = False

    @property
    def made(self) -> bool:
        """True where any of them is not the default."""
        return self != Choices()


def choices(
    nulls: str | None = None,
    fill: float | None = None,
    with_mask: bool = False,
    reinterpret: bool = False,
    codes: bool = False,
) -> Choices:
    """The keywords of a `to_...` call, checked against each other."""
    if nulls not in (None, "nan"):
        raise InvalidError(f"nulls={nulls!r}: expected 'nan', or fill=value or with_mask=True instead")
    named = [
        name
        for name, given in (("nulls", nulls), ("fill", fill is not None), ("with_mask", with_mask))
        if given
    ]
    if len(named) > 1:
        raise InvalidError(
            f"{' and '.join(named)} were given: only one of them can say what becomes of nulls"
        )
    if with_mask:
        return Choices("masked", 0, reinterpret, codes)
    if fill is not None:
        return Choices("fill", _number(fill), reinterpret, codes)
    return Choices(nulls or "refuse", 0, reinterpret, codes)


def tensor_of(column: Column, take: Callable[[Any], Any], **chosen: Any) -> Any:
    """What `take`, the `from_dlpack` of a library, makes of a column; with_mask=True: of the column and of its validity."""
    values = take(Exported(column, choices(**chosen)))
    return (values, take(column.is_valid())) if chosen.get("with_mask") else values


class Exported:
    """A column with its choices, for `from_dlpack` of any library; `on_host` downloads it where it is not there."""

    def __init__(
        self, column: Column, chosen: Choices, *, on_host: bool = False, copy: bool | None = None
    ) -> None:
        self._column = column
        self._chosen = chosen
        self._on_host = on_host
        self._copy = copy

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if self._on_host else self._column.__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if self._on_host:
            dl_device = None if self._column.device == "host" else (CPU, 0)
        wanted = self._copy if copy is None else copy
        return self._column._dlpack(stream, max_version, dl_device, wanted, *self._chosen)


def _number(fill: Any) -> float:
    """A fill of any number type as Python's own."""
    try:
        whole = operator.index(fill)
    except TypeError:
        return float(fill)
    if not -(2**63) <= whole < 2**64:
        raise OutOfRange(f"fill={whole} does not fit any integer type")
    return whole
