"""Numba's contexts, and memory in both directions. Numba is imported when a function is called."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

from saeta._optional import load


def address_of(handle: Any) -> int:
    """Returns the number of a handle or device pointer of Numba.

    That is a ctypes object or one of CUDA's Python bindings.
    """
    address = getattr(handle, "value", handle)
    return 0 if address is None else int(address)


def number_and_handle(context: Any) -> tuple[int, int]:
    """Returns the number of the device and the CUcontext of Numba's context; None: its current one."""
    if context is None:
        context = load("numba.cuda", "a context of Numba").current_context()
    return context.device.id, address_of(context.handle)


def context_of(number: int) -> Any:
    """Returns Numba's own object for the primary context, in which Saeta works."""
    numba_cuda = load("numba.cuda", "a context of Numba")
    with numba_cuda.gpus[number]:
        return numba_cuda.current_context()


def pointer_to(buffer: Any) -> Any:
    """Returns Numba's pointer to a CudaBuffer, which keeps the buffer alive."""
    driver = load("numba.cuda.cudadrv.driver", "a pointer of Numba")
    given: dict[str, Any] = {"pointer": ctypes.c_void_p(buffer.address), "size": buffer.size, "owner": buffer}
    if "context" in inspect.signature(driver.MemoryPointer).parameters:  # Numba before numba-cuda
        given["context"] = buffer.context.to_numba()
    return driver.MemoryPointer(**given)
