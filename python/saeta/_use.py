"""Kernels of users on Saeta's memory: streams as frameworks hold them, and arrays borrowed for a launch."""

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

        with sa.use(torch.cuda.current_stream(), reads=[column], writes=[buffer]) as token:
            kernel[grid, block](token.array(column), token.array(buffer, "f4"))

    `reads` and `writes` name one or several of them. Entering makes the stream wait for the last writes (to read), and for the reads too (to write); leaving makes later
    work elsewhere wait for what was queued. The host never waits. `stream` is None (the context's own; `token.stream`
    names it), a number as `__dlpack__(stream=)` takes it (1 legacy, 2 per-thread, else a handle), or a stream of torch,
    CuPy, Numba or any other with `__cuda_stream__`. The thread that holds a token gets BusyError for a second one that
    conflicts with it; other threads wait. InvalidError to write to read-only memory.
    """
    return UseToken(_stream_number(stream), _several("reads", reads), _several("writes", writes))


def _several(argument: str, given: Memory | Iterable[Memory]) -> list[Memory]:
    """What is named, one or several; a column is not iterated for its values."""
    named = [given] if isinstance(given, Buffer | Column) else given
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        raise TypeMismatch(
            f"{argument} is of type {type(given).__name__}, expected a Buffer, a Column or several"
        )
    return list(named)


class Borrowed:
    """A 1-D array over memory that a token holds. Its interface raises ClosedError once the token has ended."""

    def __init__(self, token: UseToken, memory: Buffer | Column, typestr: str, count: int) -> None:
        self._token = token
        self._memory = memory  # keeps the memory for views that outlive the block
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
        # None: the token's stream waits already, so a consumer on it has nothing to wait for.
        return {**self._interface(), "stream": None}


class BorrowedOnBoth(BorrowedOnDevice):
    """Of page-locked or managed memory, which a device and the CPU can read."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._interface()
        self._token.synchronize()  # the CPU is in no order with the token's stream
        return interface


_CLASSES = {
    "device": BorrowedOnDevice,
    "managed": BorrowedOnBoth,
    "pinned": BorrowedOnBoth,
    "host": BorrowedOnHost,
}


def borrowed_array(self: UseToken, memory: Buffer | Column, dtype: Any = None) -> Borrowed:
    """Body of `UseToken.array`."""
    if isinstance(memory, Column):
        typestr, count = _of_column(memory, dtype)
    else:
        typestr = _typestr("u1" if dtype is None else dtype)
        size = int(typestr[2:])
        count, rest = divmod(memory.nbytes, size)
        if rest:
            raise InvalidError(f"{memory.nbytes} bytes are no whole number of elements of {size} bytes")
        if memory.address % size:
            raise InvalidError(f"address {memory.address:#x} is not aligned to elements of {size} bytes")
    return _CLASSES[_kind(memory)](self, memory, typestr, count)


def _kind(memory: Buffer | Column) -> str:
    """Of a column the kind of its values, which DLPack numbers."""
    if isinstance(memory, Buffer):
        return memory.kind
    return {1: "host", 3: "pinned", 13: "managed"}.get(memory.__dlpack_device__()[0], "device")


def _of_column(memory: Column, dtype: Any) -> tuple[str, int]:
    own = memory.type.dtype
    if own is None:
        raise TypeMismatch(f"column '{memory.name}' of type {memory.type.name} is no array of numbers")
    if memory.null_count:
        raise ExchangeError(
            f"column '{memory.name}' has {memory.null_count} nulls, which an array can't carry"
        )
    typestr = _typestr(own)
    if dtype is not None and _typestr(dtype) != typestr:
        raise TypeMismatch(f"column '{memory.name}' has elements of {typestr}, not {_typestr(dtype)}")
    return typestr, len(memory)


def _typestr(dtype: Any) -> str:
    """As the array interface spells it: "<f4" for "f4", "float32" and all else that NumPy takes for it."""
    if isinstance(dtype, str):
        name = dtype.rstrip("0123456789")
        number = int(dtype[len(name) :] or 0)
        kind, size = (_KINDS[name], number // 8) if name in _KINDS else (name, number)
        if size in _SIZES.get(kind, ()):
            return f"{'|' if size == 1 else '<'}{kind}{size}"
    found: str = load("numpy", "this dtype").dtype(dtype).str
    return found
