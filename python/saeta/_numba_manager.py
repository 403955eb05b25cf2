"""The plugin behind `saeta.allocators.numba_manager`, which gives Numba device memory of a context.

It implements Numba's External Memory Management plugin, version 1. Numba makes one object of the class for
each of its contexts, and requests memory from it on any thread.
"""

from __future__ import annotations

import ctypes
import inspect
from typing import TYPE_CHECKING, Any

from saeta import _core
from saeta._core import Context
from saeta._optional import load
from saeta.errors import DeviceError

if TYPE_CHECKING:
    import numba.cuda


def manager_class(ctx: Context, ordinal: int, tag: str) -> type[numba.cuda.HostOnlyCUDAMemoryManager]:
    """Makes the class that Numba instantiates. `ordinal` is the number of the context's device."""
    numba_cuda = load("numba.cuda", "Numba's memory manager on a context")
    driver = load("numba.cuda.cudadrv.driver", "Numba's memory manager on a context")
    with_context = "context" in inspect.signature(driver.MemoryPointer).parameters

    class SaetaManager(
        numba_cuda.GetIpcHandleMixin,  # type: ignore[misc, name-defined]
        numba_cuda.HostOnlyCUDAMemoryManager,  # type: ignore[misc, name-defined]
    ):
        """Allocates Numba's device memory from Saeta."""

        def initialize(self) -> None:
            """Does nothing: memory is allocated on request."""

        @property
        def interface_version(self) -> int:
            return 1

        def memalloc(self, size: int) -> Any:
            served = self._served()
            address = _core._lend_ready(served, size, tag)

            def give_back() -> None:
                _core._take_back(served, address, size, None)

            given: dict[str, Any] = {"context": self.context} if with_context else {}
            return driver.MemoryPointer(
                pointer=ctypes.c_void_p(address), size=size, finalizer=give_back, **given
            )

        def _served(self) -> Context:
            number = self.context.device.id
            return ctx if number == ordinal else _core.context(f"cuda:{number}")

        def get_memory_info(self) -> Any:
            served = self._served()
            memory = served.memory.statistics()
            if memory["limit"] is not None:
                return numba_cuda.MemoryInfo(free=memory["remaining"] or 0, total=memory["limit"])
            for device in _core.devices():
                if device.name == served.device and device.free_bytes is not None:
                    return numba_cuda.MemoryInfo(free=device.free_bytes, total=device.total_bytes)
            raise DeviceError(f"the free memory of {served.device} is not known")

    return SaetaManager
