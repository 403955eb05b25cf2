"""A foreign producer of the Arrow C Device interface on a GPU: ctypes structs over CuPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import pyarrow as pa

from protocols import CArray, CDeviceArray

_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Keeps the structs and callbacks alive: a consumer may release on any thread, after the producer is gone, and
# a callback must not be freed while it runs.
_EXPORTED: list[Any] = []


class Producer:
    """Exports one int32 array, or a string array if `data` is given. `released` counts the released
    exports."""

    def __init__(self, cupy: Any, values: Any, *, data: Any = None, event: Any = None) -> None:
        self.values, self.data, self.event = values, data, event
        self.released = 0
        self.device = cupy.cuda.runtime.getDevice()

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> tuple[Any, Any]:
        offsets = self.data is not None
        schema = pa.field("", pa.string() if offsets else pa.int32()).__arrow_c_schema__()
        pointers = [None, self.values.data.ptr] + ([self.data.data.ptr] if offsets else [])
        buffers = (ctypes.c_void_p * len(pointers))(*pointers)
        handle = ctypes.c_void_p(self.event.ptr) if self.event is not None else None
        made = CDeviceArray()
        made.array.length = len(self.values) - (1 if offsets else 0)
        made.array.null_count = 0
        made.array.n_buffers = len(pointers)
        made.array.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
        made.device_id, made.device_type = self.device, 2
        made.sync_event = ctypes.addressof(handle) if handle is not None else None

        def release(array: int) -> None:
            CArray.from_address(array).release = None
            self.released += 1

        callback = _RELEASE(release)
        made.array.release = ctypes.cast(callback, ctypes.c_void_p)
        _EXPORTED.extend([self, made, buffers, callback, handle])
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return schema, new(ctypes.addressof(made), b"arrow_device_array", None)
