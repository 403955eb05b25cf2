"""Imports tensors of other libraries: by DLPack, whose import is compiled, or by the CUDA Array Interface.

`PROTOCOLS` lists the protocols in the order in which an object is asked for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from saeta import _core
from saeta._core import Column, Context, _LentCapsule, from_dlpack
from saeta.errors import Error, ExchangeError, FormatError, TypeMismatch
from saeta.exchange import ContextLike, context_of

# What producers raise when they refuse to export a tensor: BufferError, by the standard. torch also raises
# RuntimeError.
REFUSALS = (BufferError, RuntimeError)

# Pointer, read-only, typestr, shape, strides in bytes, version, stream, and the object that keeps the memory.
Fields = tuple[int, bool, str, list[int], list[int] | None, int, int | None, Any]


def from_cuda_array(
    source: Any, ctx: ContextLike = None, *, copy: bool | None = None, name: str = ""
) -> Column:
    """Takes an array with `__cuda_array_interface__` (version 2 or 3) into a context as a column.

    Each dimension after the first becomes a fixed-size list.

    `ctx` is a Context or the name of a device. The memory must be on its GPU (None: the GPU that
    `source.device` names, else the first). It is shared and kept alive until our last work on it has
    finished. Our first work waits for the array's stream. If the interface is of version 2 and names no
    stream, it waits for all work of the device.

    A `mask` with one element per row becomes the validity: a row is valid if its element is not 0.
    `copy=True` copies into memory of the context. `copy=False` raises ExchangeError if a copy would be
    needed, as for a mask or for strides.

    Example:
        >>> import cupy
        >>> import saeta as sa
        >>> column = sa.from_cuda_array(cupy.arange(6).reshape(2, 3), "cuda:0")
        >>> column.to_pylist()
        [[0, 1, 2], [3, 4, 5]]
    """
    try:
        offered = hasattr(source, "__cuda_array_interface__")
    except REFUSALS as refusal:
        refuse_export(source, refusal)
        raise
    if not offered:
        raise TypeMismatch(f"{type(source).__name__} has no __cuda_array_interface__")
    where = context_of(f"cuda:{_ordinal(source)}" if ctx is None else ctx)
    if where.device == "host":
        raise ExchangeError(
            "a __cuda_array_interface__ shows memory of a GPU, and the context is on the host"
        )
    return import_interface(source, where, copy, name)


# The attributes by which an object offers a tensor, in order of preference, and the functions that import it.
PROTOCOLS: dict[str, Callable[..., Column]] = {
    "__dlpack__": from_dlpack,
    "__cuda_array_interface__": from_cuda_array,
}


def refuse_export(source: Any, refusal: BaseException) -> None:
    """Raises ExchangeError for a producer's refusal to export its tensor.

    Does nothing for errors of Saeta and for exceptions that are not about the tensor.
    """
    if isinstance(refusal, Error) or not isinstance(refusal, REFUSALS):
        return
    reason = _advice(source) or str(refusal).partition("\n")[0]  # torch appends where it was thrown
    raise ExchangeError(f"{type(source).__name__} can't be exported: {reason}") from refusal


def _advice(source: Any) -> str:
    """Says what to pass in place of a tensor of torch that has no values in order."""
    if getattr(getattr(source, "device", None), "type", None) == "meta":
        return "a tensor on the meta device has a shape and no values"
    layout = str(getattr(source, "layout", "torch.strided"))
    if layout != "torch.strided":
        return f"its layout is {layout}: pass tensor.to_dense(), or its indices and values as columns"
    return ""


def is_tensor(source: Any) -> bool:
    """Whether the object offers a tensor by one of the protocols."""
    return _importer(source) is not None


def take_tensor(source: Any, ctx: ContextLike, *, copy: bool | None = None, name: str = "") -> Column | None:
    """Takes a tensor into a context as a column, by the first of the protocols that the object offers."""
    importer = _importer(source)
    return None if importer is None else importer(source, ctx, copy=copy, name=name)


def _importer(source: Any) -> Callable[..., Column] | None:
    if isinstance(source, _LentCapsule):
        return from_dlpack
    return next((take for offer, take in PROTOCOLS.items() if hasattr(source, offer)), None)


def import_interface(source: Any, ctx: Context, copy: bool | None, name: str) -> Column:
    """Imports the array as a column of the context. Its memory is on the context's device."""
    interface = _interface(source)
    mask = interface.get("mask")
    masked = None if mask is None else _fields(mask, _interface(mask))
    return _core._import_cuda_array(ctx, _fields(source, interface), masked, copy, name)


def _ordinal(source: Any) -> int:
    """Returns the number of the array's GPU, from the attributes of CuPy's and torch's devices."""
    device = getattr(source, "device", None)
    for attribute in ("id", "index"):
        number = getattr(device, attribute, None)
        if isinstance(number, int):
            return number
    return 0


def _interface(source: Any) -> dict[str, Any]:
    interface = getattr(source, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        raise FormatError(
            f"__cuda_array_interface__ of {type(source).__name__} is {type(interface).__name__}, expected "
            "dict"
        )
    return interface


def _fields(source: Any, interface: dict[str, Any]) -> Fields:
    pointer, read_only = _field(source, interface, "data", lambda pair: (_unsigned(pair[0]), bool(pair[1])))
    typestr = _field(source, interface, "typestr", _text)
    shape = _field(source, interface, "shape", _signed_list)
    strides = _field(source, interface, "strides", _signed_list, optional=True)
    version = _field(source, interface, "version", _small)
    stream = _field(source, interface, "stream", _signed, optional=True)
    return pointer, read_only, typestr, shape, strides, version, stream, source


def _field(
    source: Any,
    interface: dict[str, Any],
    name: str,
    read: Callable[[Any], Any],
    *,
    optional: bool = False,
) -> Any:
    value = interface.get(name)
    if value is None and optional:
        return None
    try:
        return read(value)
    except (TypeError, ValueError, IndexError, KeyError) as failure:
        raise FormatError(
            f"__cuda_array_interface__ of {type(source).__name__}: '{name}' is {value!r}: {failure}"
        ) from failure


def _integer(value: Any, low: int, high: int) -> int:
    number = operator.index(value)
    if not low <= number < high:
        raise ValueError(f"{number} is not in [{low}, {high})")
    return number


def _unsigned(value: Any) -> int:
    return _integer(value, 0, 2**64)


def _signed(value: Any) -> int:
    return _integer(value, -(2**63), 2**63)


def _small(value: Any) -> int:
    return _integer(value, 0, 2**31)


def _signed_list(values: Any) -> list[int]:
    return [_signed(value) for value in values]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected str")
    return value
