"""The CUDA device that is current on the calling thread, asked of the driver, and put back after a test.

Every library in the process shares it. If a test leaves another device current, later tests launch kernels on
a device whose memory they do not use.
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
    """Calls that neither start CUDA nor make a context where there is none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def current_context(self) -> int | None:
        context = ctypes.c_void_p()
        status = self.library.cuCtxGetCurrent(ctypes.byref(context))  # an error before CUDA has started
        return context.value if status == 0 else None

    def current_device(self) -> int:
        """The runtime's default where no context is current."""
        ordinal = ctypes.c_int(0)
        if self.current_context() is not None:
            assert self.library.cuCtxGetDevice(ctypes.byref(ordinal)) == 0
        return ordinal.value

    def make_current(self, ordinal: int) -> None:
        """The primary context of the device, which the frameworks use; it is kept as they keep it."""
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
    """Puts the current device back at the end; that the block has changed it is a failure."""
    if driver is None:
        yield
        return
    before = driver.current_device()
    yield
    after = driver.current_device()
    if after != before:
        driver.make_current(before)
    assert after == before, f"cuda:{before} was current, and now cuda:{after} is"
