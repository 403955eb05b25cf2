"""Reads the current CUDA device of the calling thread from the driver, and restores it after a test.

All libraries of the process share the current device. If a test changed it, later tests would launch kernels
on the wrong device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol


class Driver(Protocol):
    def current_device(self) -> int: ...
    def make_current(self, ordinal: int) -> None: ...


class CudaDriver:
    """Driver calls that neither initialize CUDA nor create a context."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def current_context(self) -> int | None:
        context = ctypes.c_void_p()
        status = self.library.cuCtxGetCurrent(ctypes.byref(context))  # fails before CUDA is initialized
        return context.value if status == 0 else None

    def current_device(self) -> int:
        """Returns the device of the current context, or 0, the default of the CUDA runtime, without one."""
        ordinal = ctypes.c_int(0)
        if self.current_context() is not None:
            assert self.library.cuCtxGetDevice(ctypes.byref(ordinal)) == 0
        return ordinal.value

    def make_current(self, ordinal: int) -> None:
        """Makes the primary context of the device current. It is retained for good, as the frameworks do."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        assert self.library.cuDeviceGet(ctypes.byref(device), ordinal) == 0
        assert self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert self.library.cuCtxSetCurrent(context) == 0


@cache
def cuda_driver() -> CudaDriver | None:
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return None


@contextmanager
def put_back(driver: Driver | None) -> Iterator[None]:
    """Restores the current device after the block, and fails if the block has changed it."""
    if driver is None:
        yield
        return
    before = driver.current_device()
    yield
    after = driver.current_device()
    if after != before:
        driver.make_current(before)
    assert after == before, f"cuda:{before} was current, and now cuda:{after} is"
