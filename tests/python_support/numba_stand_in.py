"""A stand-in for the names of numba.cuda that Saeta uses, for tests without Numba."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest


class MemoryInfo(NamedTuple):
    free: int
    total: int


class GetIpcHandleMixin:
    pass


class HostOnlyCUDAMemoryManager:
    def __init__(self, *, context: Any) -> None:
        self.context = context


class MemoryPointer:
    """The class of numba-cuda, whose constructor takes no context."""

    def __init__(self, pointer: Any, size: int, owner: Any = None, finalizer: Any = None) -> None:
        self.device_pointer = pointer
        self.device_pointer_value = pointer.value
        self.size = size
        self.owner = owner
        self.free = finalizer


class OlderMemoryPointer(MemoryPointer):
    """The class of Numba before numba-cuda, whose constructor takes a context."""

    def __init__(
        self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Any = None
    ) -> None:
        super().__init__(pointer, size, owner, finalizer)
        self.context = context


def put_in_place(monkeypatch: pytest.MonkeyPatch, pointer: type[MemoryPointer]) -> ModuleType:
    """Makes `import numba.cuda` return a module with these names until the test ends. Returns that module.

    `with gpus[number]:` makes the context of that GPU current, as in Numba.
    """
    cuda, driver = ModuleType("numba.cuda"), ModuleType("numba.cuda.cudadrv.driver")
    entered: list[int] = [0]

    @contextmanager
    def gpu(number: int) -> Any:
        entered.append(number)
        yield
        entered.pop()

    class Gpus:
        def __getitem__(self, number: int) -> Any:
            return gpu(number)

    def current_context() -> Any:
        number = entered[-1]
        return SimpleNamespace(
            device=SimpleNamespace(id=number), handle=SimpleNamespace(value=0x1000 + number)
        )

    driver.__dict__["MemoryPointer"] = pointer
    cuda.__dict__.update(
        MemoryInfo=MemoryInfo,
        GetIpcHandleMixin=GetIpcHandleMixin,
        HostOnlyCUDAMemoryManager=HostOnlyCUDAMemoryManager,
        gpus=Gpus(),
        current_context=current_context,
        as_cuda_array=lambda column: ("array", column),
    )
    for module in (ModuleType("numba"), cuda, ModuleType("numba.cuda.cudadrv"), driver):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return cuda
