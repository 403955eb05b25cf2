"""Objects that show one protocol and nothing else, so that the protocol's path is really taken."""

from __future__ import annotations

import ctypes
from typing import Any


class OnlyStream:
    """Nothing but `__arrow_c_stream__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_stream__ = source.__arrow_c_stream__


class OnlyArray:
    """Nothing but `__arrow_c_array__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_array__ = source.__arrow_c_array__


class OnlyDeviceArray:
    """Nothing but `__arrow_c_device_array__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_device_array__ = source.__arrow_c_device_array__


class OnlySchema:
    """Nothing but `__arrow_c_schema__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_schema__ = source.__arrow_c_schema__


class Tensor:
    """A producer of DLPack that counts what it was asked."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.asked_device = 0
        self.asked_tensor: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        self.asked_device += 1
        device: tuple[int, int] = self.source.__dlpack_device__()
        return device

    def __dlpack__(self, **wanted: Any) -> Any:
        self.asked_tensor.append(wanted)
        return self.source.__dlpack__(**wanted)


class OldTensor(Tensor):
    """A producer from before DLPack 1.0: it knows `stream` and nothing else."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked_tensor.append({"stream": stream})
        return self.source.__dlpack__()


class CStream(ctypes.Structure):
    """The `ArrowArrayStream` of the Arrow C Stream Interface, as its five pointers."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    ]


def stream_in(capsule: Any) -> CStream:
    """The struct in a capsule of a stream, to be broken by a test. For a device: what follows its type."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = ctypes.c_void_p
    read.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = capsule_name(capsule)
    type_bytes = 8 if name == "arrow_device_array_stream" else 0
    return CStream.from_address(read(capsule, name.encode()) + type_bytes)


KEPT_NAMES: list[bytes] = []


def new_capsule(name: bytes, pointer: int = 1) -> Any:
    """A capsule of any name around any pointer, without a destructor."""
    KEPT_NAMES.append(name)  # a capsule borrows its name
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(pointer, name, None)


def capsule_name(capsule: Any) -> str:
    """The name of a capsule, from CPython itself."""
    read = ctypes.pythonapi.PyCapsule_GetName
    read.restype = ctypes.c_char_p
    read.argtypes = [ctypes.py_object]
    name: bytes = read(capsule)
    return name.decode()


class CArray(ctypes.Structure):
    """The `ArrowArray` of the Arrow C Data Interface."""


CArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class CDeviceArray(ctypes.Structure):
    """The `ArrowDeviceArray` of the Arrow C Device Interface."""

    _fields_ = (
        ("array", CArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    )


def device_array_in(capsule: Any) -> CDeviceArray:
    """The struct in a capsule "arrow_device_array", which the capsule must outlive."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = ctypes.c_void_p
    read.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return CDeviceArray.from_address(read(capsule, b"arrow_device_array"))
