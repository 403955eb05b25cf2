"""The DLPack C exchange API (DLPackExchangeAPI) in ctypes: reads a type's table and makes a producer with
one."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

import numpy as np


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("number", c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", DType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""


DELETER = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [
    ("version", Version),
    ("context", c_void_p),
    ("deleter", DELETER),
    ("flags", c_uint64),
    ("tensor", Tensor),
]

SET_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
# Functions that set Python exceptions run with the GIL.
ALLOCATE = ctypes.CFUNCTYPE(c_int, POINTER(Tensor), POINTER(POINTER(Managed)), c_void_p, SET_ERROR)
FROM_OBJECT = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(POINTER(Managed)))
TO_OBJECT = ctypes.PYFUNCTYPE(c_int, POINTER(Managed), POINTER(c_void_p))
BORROW = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""


Table._fields_ = [
    ("version", Version),
    ("previous", POINTER(Table)),
    ("allocate", ALLOCATE),
    ("from_object", FROM_OBJECT),
    ("to_object", TO_OBJECT),
    ("borrow", BORROW),
    ("stream", STREAM),
]


def pointer_in(capsule: Any, name: bytes) -> int:
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = c_void_p
    read.argtypes = [ctypes.py_object, c_char_p]
    found: int = read(capsule, name)
    return found


def table_of(kind: type) -> Table:
    """Returns the function table of a type, found as a consumer finds it."""
    capsule = kind.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    return ctypes.cast(pointer_in(capsule, b"dlpack_exchange_api"), POINTER(Table)).contents


def managed_of(table: Table, source: Any) -> Any:
    """Exports `source` through the table as a tensor that the caller owns."""
    out = POINTER(Managed)()
    if table.from_object(source, byref(out)) != 0:
        raise AssertionError("no exception was set")
    return out


def object_of(table: Table, tensor: Any) -> Any:
    out = c_void_p()
    if table.to_object(tensor, byref(out)) != 0:
        raise AssertionError("no exception was set")
    made = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))  # the reference that the function returned
    return made


def numbers_of(pointer: Any, count: int) -> list[int]:
    return [pointer[i] for i in range(count)]


KEPT: list[Any] = []  # the API requires that tables live as long as the process


def take(capsule: Any, out: Any) -> int:
    """Moves the tensor out of a capsule."""
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, c_char_p]
    out[0] = ctypes.cast(pointer_in(capsule, b"dltensor_versioned"), POINTER(Managed))
    rename(capsule, USED)
    return 0


USED = b"used_dltensor_versioned"


def new_table(calls: list[str], version: tuple[int, int] = (1, 3), previous: Table | None = None) -> Table:
    """Makes a table whose functions export the object's `source` and append their names to `calls`."""

    def from_object(source: Any, out: Any) -> int:
        calls.append("from_object")
        return take(source.source.__dlpack__(max_version=(1, 0)), out)

    def stream(kind: int, number: int, out: Any) -> int:
        calls.append(f"stream of {kind}")
        out[0] = None
        return 0

    table = Table()
    table.version = Version(*version)
    if previous is not None:
        table.previous = ctypes.pointer(previous)
    table.from_object = FROM_OBJECT(from_object)
    table.stream = STREAM(stream)
    KEPT.append(table)
    return table


def capsule_of(table: Table) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [c_void_p, c_char_p, c_void_p]
    return make(ctypes.addressof(table), b"dlpack_exchange_api", None)


def producer(calls: list[str], table: Table | None = None) -> type:
    """Makes a type whose `__dlpack__` fails, so that a consumer must use its table."""

    class Producer:
        __dlpack_c_exchange_api__ = capsule_of(table or new_table(calls))

        def __init__(self, source: Any = None) -> None:
            self.source = np.arange(5) if source is None else source

        def __dlpack_device__(self) -> tuple[int, int]:
            calls.append("__dlpack_device__")
            return 1, 0

        def __dlpack__(self, **wanted: Any) -> Any:
            calls.append("__dlpack__")
            return self.source.__dlpack__(**wanted)

    return Producer
