"""Columns and tables as tensors of other libraries: what stands for nulls, and which numbers a type shows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from saeta._core import DataType
from saeta.errors import InvalidError, OutOfRange
from saeta.exchange import CPU

if TYPE_CHECKING:
    from saeta._core import Column, Table


class Choices(NamedTuple):
    """What a `to_...` call says that the keywords of `__dlpack__` can't."""

    nulls: str = "refuse"
    fill: float = 0
    reinterpret: bool = False
    codes: bool = False
    order: str = "any"
    dtype: DataType | None = None

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
    order: str | None = None,
    dtype: Any = None,
) -> Choices:
    """The keywords of a `to_...` call, checked against each other."""
    if nulls not in (None, "nan"):
        raise InvalidError(f"nulls={nulls!r}: expected 'nan', or fill=value or with_mask=True instead")
    if order not in (None, "row", "column"):
        raise InvalidError(f"order={order!r}: expected 'row', 'column' or None")
    named = [
        name
        for name, given in (("nulls", nulls), ("fill", fill is not None), ("with_mask", with_mask))
        if given
    ]
    if len(named) > 1:
        raise InvalidError(
            f"{' and '.join(named)} were given: only one of them can say what becomes of nulls"
        )
    mode, value = ("fill", _number(fill)) if fill is not None else (nulls or "refuse", 0)
    if with_mask:
        mode = "masked"
    return Choices(mode, value, reinterpret, codes, order or "any", _dtype(dtype))


def tensor_of(source: Column | Table, take: Callable[[Any], Any], **chosen: Any) -> Any:
    """What `take`, the `from_dlpack` of a library, makes of a column or table; with_mask=True: of it and of its validity."""
    if not chosen:
        return take(source)
    how = choices(**chosen)
    values = take(Exported(source, how))
    return (values, take(Exported(source, mask_of(how)))) if how.nulls == "masked" else values


def mask_of(how: Choices) -> Choices:
    """What the tensor of bools beside the values is asked for with."""
    return how._replace(nulls="mask", dtype=None)


class Exported:
    """A column or table with its choices, for `from_dlpack` of any library; `on_host` downloads it where it is not there."""

    def __init__(
        self, source: Column | Table, chosen: Choices, *, on_host: bool = False, copy: bool | None = None
    ) -> None:
        self._source = source
        self._chosen = chosen
        self._on_host = on_host
        self._copy = copy

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if self._on_host else self._source.__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if self._on_host:
            dl_device = None if self._source.device == "host" else (CPU, 0)
        wanted = self._copy if copy is None else copy
        return self._source._dlpack(stream, max_version, dl_device, wanted, *self._chosen)


def _number(fill: Any) -> float:
    """A fill of any number type as Python's own."""
    try:
        whole = operator.index(fill)
    except TypeError:
        return float(fill)
    if not -(2**63) <= whole < 2**64:
        raise OutOfRange(f"fill={whole} does not fit any integer type")
    return whole


def _dtype(given: Any) -> DataType | None:
    """A type of numbers by its name, or as NumPy, torch, CuPy and JAX have it."""
    if given is None or isinstance(given, DataType):
        return given
    name = (
        given if isinstance(given, str) else getattr(given, "name", None) or getattr(given, "__name__", None)
    )
    text = str(name or given).removeprefix("torch.")
    return DataType("bool8" if text in ("bool", "bool_") else text)
