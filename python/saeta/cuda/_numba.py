"""Numba's contexts, and memory in both directions. Numba is imported when a function is called."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

from saeta._optional import load
from saeta.cuda._buffers import CudaBuffer
from saeta.cuda._context import Context


def _address(handle: Any) -> int:
    """Returns the number of a handle or device pointer of Numba.

    That is a ctypes object or one of CUDA's Python bindings.
    """
    found = getattr(handle, "value", handle)
    return 0 if found is None else int(found)


def context_from(context: Any) -> Context:
    if context is None:
        context = load("numba.cuda", "a context of Numba").current_context()
    return Context(device_number=context.device.id, handle=_address(context.handle))


def context_of(number: int) -> Any:
    """Returns Numba's own object for the primary context, in which Saeta works."""
    numba_cuda = load("numba.cuda", "a context of Numba")
    with numba_cuda.gpus[number]:
        return numba_cuda.current_context()


def buffer_from(mem: Any) -> CudaBuffer:
    ctx = context_from(getattr(mem, "context", None))
    address = _address(mem.device_pointer_value)
    if not address and mem.size == 0:
        return ctx.new_buffer(0)
    return ctx.foreign_buffer(address, mem.size, base=mem)


def pointer_to(buffer: CudaBuffer) -> Any:
    driver = load("numba.cuda.cudadrv.driver", "a pointer of Numba")
    given: dict[str, Any] = {"pointer": ctypes.c_void_p(buffer.address), "size": buffer.size, "owner": buffer}
    if "context" in inspect.signature(driver.MemoryPointer).parameters:  # Numba before numba-cuda
        given["context"] = buffer.context.to_numba()
    return driver.MemoryPointer(**given)
