"""Calls the functions that torch looks up in Saeta's library, with torch's argument types but without
torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_bool, c_int, c_ssize_t, c_ulonglong, c_void_p
from typing import Any

import saeta as sa
from saeta import _core


class PoolId(ctypes.Structure):
    """c10::MempoolId_t, a std::pair of two numbers."""

    _fields_ = (("first", c_ulonglong), ("second", c_ulonglong))


class StreamFilter(ctypes.Structure):
    """The memory layout of libstdc++'s std::function<bool(cudaStream_t)>: state, manager and call function.

    By the C++ ABI, an argument passed by value is the address of a copy, which the callee may move from.
    """

    _fields_ = (("held", c_void_p * 2), ("manage", c_void_p), ("call", c_void_p))
    Manage = CFUNCTYPE(c_bool, c_void_p, c_void_p, c_int)
    Call = CFUNCTYPE(c_bool, c_void_p, POINTER(c_void_p))

    def __init__(self, admits: Callable[[int], bool]) -> None:
        self.kept = (
            self.Manage(lambda target, source, operation: False),
            self.Call(lambda held, stream: admits(stream[0] or 0)),
        )
        super().__init__((c_void_p * 2)(), *(ctypes.cast(each, c_void_p) for each in self.kept))


class TorchHooks:
    """Stands in for torch on the device with this ordinal, on its default stream."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.library = ctypes.CDLL(_core.__file__)
        self.filters: list[StreamFilter] = []  # kept alive until the pool ends, as torch does

    def serve(self, ctx: sa.Context, tag: str = "torch") -> dict[str, int]:
        return _core._serve_torch(ctx, self.ordinal, tag)

    def allocate(self, nbytes: int, stream: int = 0) -> int | None:
        return self._call(
            "allocate", c_void_p, (c_ssize_t, nbytes), (c_int, self.ordinal), (c_void_p, stream)
        )

    def free(self, address: int | None, nbytes: int, stream: int = 0) -> None:
        of = ((c_void_p, address), (c_ssize_t, nbytes))
        self._call("free", None, *of, (c_int, self.ordinal), (c_void_p, stream))

    def record_stream(self, address: int | None, stream: int) -> None:
        self._call("record_stream", None, (c_void_p, address), (c_void_p, stream))

    def allocate_segment(self, nbytes: int) -> int | None:
        return self._call(
            "allocate_segment", c_void_p, (c_ssize_t, nbytes), (c_int, self.ordinal), (c_void_p, 0)
        )

    def free_segment(self, address: int | None, nbytes: int) -> None:
        of = ((c_void_p, address), (c_ssize_t, nbytes))
        self._call("free_segment", None, *of, (c_int, self.ordinal), (c_void_p, 0))

    def begin_pool(self, *pool: int, admits: Callable[[int], bool] = lambda stream: True) -> None:
        self.filters.append(StreamFilter(admits))
        passed = (POINTER(StreamFilter), ctypes.pointer(self.filters[-1]))
        self._call("begin_pool", None, (c_int, self.ordinal), (PoolId, PoolId(*pool)), passed)

    def end_pool(self, *pool: int) -> None:
        self._call("end_pool", None, (c_int, self.ordinal), (PoolId, PoolId(*pool)))

    def release_pool(self, *pool: int) -> None:
        self._call("release_pool", None, (c_int, self.ordinal), (PoolId, PoolId(*pool)))

    def _call(self, name: str, result: Any, *arguments: tuple[Any, Any]) -> Any:
        function = self.library[f"saeta_torch_{name}"]
        function.restype = result
        function.argtypes = [kind for kind, _ in arguments]
        return function(*(value for _, value in arguments))
