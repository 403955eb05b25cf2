"""Use tokens for users' kernels on Saeta's memory: accepts frameworks' streams and exports arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from saeta._core import Buffer, Column, UseToken, _stream_number
from saeta._optional import load
from saeta.errors import ClosedError, ExchangeError, InvalidError, TypeMismatch

Memory: TypeAlias = Buffer | Column

_KINDS = {"int": "i", "uint": "u", "float": "f"}
_SIZES = {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}


def use(
    stream: Any = None,
    *,
    reads: Memory | Iterable[Memory] = (),
    writes: Memory | Iterable[Memory] = (),
) -> UseToken:
    """Opens buffers and columns for work that the block queues on one stream.

    `reads` and `writes` are one or several buffers or columns. On entry the stream waits for the last writes;
    for memory to be written it also waits for the reads. After the block, later uses of the memory on other
    streams wait for the queued work. The host never waits.

    `stream` is None (the context's own; `token.stream` names it), a number as in `__dlpack__(stream=)` (1
    legacy, 2 per-thread, else a handle), or a stream of torch, CuPy, Numba or any other library with
    `__cuda_stream__`.

    A thread that holds a token gets BusyError for a second one that conflicts with it. Other threads wait.
    InvalidError if read-only memory is to be written.

    Example:
        >>> import saeta as sa
        >>> import numpy as np
        >>> block = sa.context("host").allocate(16)
        >>> with sa.use(writes=[block]) as token:
        ...     np.asarray(token.array(block, "i4"))[:] = 7
    """
    return UseToken(_stream_number(stream), _to_list("reads", reads), _to_list("writes", writes))


def _to_list(argument: str, given: Memory | Iterable[Memory]) -> list[Memory]:
    """Returns the given objects as a list. A single column is one object, not a sequence of its values."""
    named = [given] if isinstance(given, Buffer | Column) else given
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        raise TypeMismatch(
            f"{argument} is of type {type(given).__name__}, expected a Buffer, a Column or several"
        )
    return list(named)


class Borrowed:
    """A 1-D array over memory that a token holds.

    Its interface raises ClosedError after the token has ended.
    """

    def __init__(self, token: UseToken, memory: Buffer | Column, typestr: str, count: int) -> None:
        self._token = token
        self._memory = memory  # keeps the memory alive for views that outlive the block
        self._typestr = typestr
        self._count = count
        self._interface()

    def __len__(self) -> int:
        return self._count

    def _interface(self) -> dict[str, Any]:
        if not self._token.is_open:
            raise ClosedError("this array was lent by a token that has ended")
        read_only = not self._token.writable(self._memory)
        return {
            "version": 3,
            "shape": (self._count,),
            "typestr": self._typestr,
            "data": (self._token.pointer(self._memory), read_only),
            "strides": None,
        }


class BorrowedOnHost(Borrowed):
    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface()


class BorrowedOnDevice(Borrowed):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # None, because the token's stream has already waited, so a consumer on that stream need not wait.
        return {**self._interface(), "stream": None}


class BorrowedOnBoth(BorrowedOnDevice):
    """An array over page-locked or managed memory, which a device and the CPU can read."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._interface()
        self._token.synchronize()  # the CPU must wait for the token's stream
        return interface


_CLASSES = {
    "device": BorrowedOnDevice,
    "managed": BorrowedOnBoth,
    "pinned": BorrowedOnBoth,
    "host": BorrowedOnHost,
}


def borrowed_array(self: UseToken, memory: Buffer | Column, dtype: Any = None) -> Borrowed:
    """Implements `UseToken.array`."""
    if isinstance(memory, Column):
        typestr, count = _column_elements(memory, dtype)
    else:
        typestr, size, alignment = _element("u1" if dtype is None else dtype)
        count, rest = divmod(memory.nbytes, size)
        if rest:
            raise InvalidError(f"{memory.nbytes} bytes are not a whole number of elements of {size} bytes")
        if memory.address % alignment:
            raise InvalidError(f"address {memory.address:#x} is not aligned to elements of {size} bytes")
    return _CLASSES[_kind(memory)](self, memory, typestr, count)


def _kind(memory: Buffer | Column) -> str:
    """Returns the kind of the memory. For a column it is that of its values, from the DLPack device type."""
    if isinstance(memory, Buffer):
        return memory.kind
    return {1: "host", 3: "pinned", 13: "managed"}.get(memory.__dlpack_device__()[0], "device")


def _column_elements(memory: Column, dtype: Any) -> tuple[str, int]:
    own = memory.type.dtype
    if own is None:
        raise TypeMismatch(f"column '{memory.name}' of type {memory.type.name} is not an array of numbers")
    if memory.null_count:
        raise ExchangeError(
            f"column '{memory.name}' has {memory.null_count} nulls, which an array can't represent"
        )
    typestr = _element(own)[0]
    if dtype is not None and _element(dtype)[0] != typestr:
        raise TypeMismatch(f"column '{memory.name}' has elements of {typestr}, not {_element(dtype)[0]}")
    return typestr, len(memory)


def _element(dtype: Any) -> tuple[str, int, int]:
    """Returns the typestr of the array interface, and size and alignment of an element in bytes.

    The typestr is "<f4" for "f4", "float32" and equal NumPy dtypes.
    """
    if isinstance(dtype, str):
        name = dtype.rstrip("0123456789")
        number = int(dtype[len(name) :] or 0)
        kind, size = (_KINDS[name], number // 8) if name in _KINDS else (name, number)
        if size in _SIZES.get(kind, ()):
            return f"{'|' if size == 1 else '<'}{kind}{size}", size, size
    element = load("numpy", "this dtype").dtype(dtype)
    if element.hasobject or not element.itemsize:
        raise InvalidError(f"{element!r} is not a type of elements in memory: expected numbers, as 'f4'")
    parts = element.kind in "SUV"  # texts and records have the alignment of their parts
    return element.str, element.itemsize, element.alignment if parts else element.itemsize
