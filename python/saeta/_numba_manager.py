"""Numba's device memory from a context: the plugin that `saeta.allocators.numba_manager` makes.

The interface is Numba's External Memory Management plugin, version 1. Numba makes an object of the class for each of its
contexts, and asks it for memory on any thread.
"""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

from saeta import _core
from saeta._core import Context
from saeta._optional import load
from saeta.errors import DeviceError


def manager_class(ctx: Context, ordinal: int, tag: str) -> type[Any]:
    """@param ordinal  of the context's device"""
    numba_cuda = load("numba.cuda", "Numba's memory manager on a context")
    driver = load("numba.cuda.cudadrv.driver", "Numba's memory manager on a context")
    with_context = "context" in inspect.signature(driver.MemoryPointer).parameters

    class SaetaManager(numba_cuda.GetIpcHandleMixin, numba_cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc, name-defined]
        """Lends device memory of Saeta to Numba."""

        def initialize(self) -> None:
            """Nothing to do: memory is lent from the first request on."""

        @property
        def interface_version(self) -> int:
            return 1

        def memalloc(self, size: int) -> Any:
            home = self._home()
            address = _core._lend_ready(home, size, tag)

            def give_back() -> None:
                _core._take_back(home, address, size, None)

            given: dict[str, Any] = {"context": self.context} if with_context else {}
            return driver.MemoryPointer(
                pointer=ctypes.c_void_p(address), size=size, finalizer=give_back, **given
            )

        def _home(self) -> Context:
            number = self.context.device.id
            return ctx if number == ordinal else _core.context(f"cuda:{number}")

        def get_memory_info(self) -> Any:
            home = self._home()
            memory = home.memory.statistics()
            if memory["limit"] is not None:
                return numba_cuda.MemoryInfo(free=memory["remaining"] or 0, total=memory["limit"])
            for device in _core.devices():
                if device.name == home.device and device.free_bytes is not None:
                    return numba_cuda.MemoryInfo(free=device.free_bytes, total=device.total_bytes)
            raise DeviceError(f"the free memory of {home.device} is not known")

    return SaetaManager
