"""Objects that implement a single exchange protocol, so that an import must use that protocol."""

from __future__ import annotations

import ctypes
from typing import Any


class OnlyStream:
    """Implements only `__arrow_c_stream__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_stream__ = source.__arrow_c_stream__


class OnlyArray:
    """Implements only `__arrow_c_array__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_array__ = source.__arrow_c_array__


class OnlyDeviceArray:
    """Implements only `__arrow_c_device_array__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_device_array__ = source.__arrow_c_device_array__


class OnlySchema:
    """Implements only `__arrow_c_schema__`."""

    def __init__(self, source: Any) -> None:
        self.__arrow_c_schema__ = source.__arrow_c_schema__


class Tensor:
    """A DLPack producer that records the arguments of each call."""

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
    """A producer from before DLPack 1.0: `__dlpack__` takes only `stream`."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        self.asked_tensor.append({"stream": stream})
        return self.source.__dlpack__()


class CStream(ctypes.Structure):
    """`ArrowArrayStream` of the Arrow C Stream Interface, as its five pointers."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    ]


def stream_in(capsule: Any) -> CStream:
    """Returns the struct in a capsule of a stream, for a test to corrupt. Of a device stream: the part after
    `device_type`."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = ctypes.c_void_p
    read.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = capsule_name(capsule)
    type_bytes = 8 if name == "arrow_device_array_stream" else 0
    return CStream.from_address(read(capsule, name.encode()) + type_bytes)


KEPT_NAMES: list[bytes] = []


def new_capsule(name: bytes, pointer: int = 1) -> Any:
    """Makes a capsule with this name and pointer, without a destructor."""
    KEPT_NAMES.append(name)  # a capsule borrows its name
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(pointer, name, None)


def capsule_name(capsule: Any) -> str:
    """Returns the name of a capsule."""
    read = ctypes.pythonapi.PyCapsule_GetName
    read.restype = ctypes.c_char_p
    read.argtypes = [ctypes.py_object]
    name: bytes = read(capsule)
    return name.decode()


class CArray(ctypes.Structure):
    """`ArrowArray` of the Arrow C Data Interface."""


CArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class CDeviceArray(ctypes.Structure):
    """`ArrowDeviceArray` of the Arrow C Device Interface."""

    _fields_ = (
        ("array", CArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    )


def device_array_in(capsule: Any) -> CDeviceArray:
    """Returns the struct in a capsule named "arrow_device_array". The caller must keep the capsule alive."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = ctypes.c_void_p
    read.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return CDeviceArray.from_address(read(capsule, b"arrow_device_array"))
