"""The frameworks that take columns without a copy, if they are installed and can use the device."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saeta._core import Column, Context


@dataclass(frozen=True)
class Framework:
    name: str
    take: Callable[[Column], Any]  # makes a view of one chunk
    pointer: Callable[[Any], int]  # address of the first value
    total: Callable[[Any], int | float]  # sums in 64 bits
    widen: Callable[[Any], Any]  # converts to float64
    settle: Callable[[], None]  # waits for the framework's own work


def available(ctx: Context) -> tuple[list[Framework], list[str]]:
    """Returns the frameworks that can view memory of the context, and why the others can't.

    The first one is used for computing.
    """
    found, absent = [], []
    for name, make in (("torch", _torch), ("cupy", _cupy), ("numpy", _numpy)):
        framework = make(ctx)
        if isinstance(framework, Framework):
            found.append(framework)
        else:
            absent.append(f"{name}: {framework}")
    return found, absent


def _numpy(ctx: Context) -> Framework | str:
    if ctx.device != "host":
        return "views host memory only"
    import numpy

    def total(values: Any) -> int | float:
        wide = numpy.float64 if values.dtype.kind == "f" else numpy.int64
        result: int | float = values.sum(dtype=wide).item()
        return result

    return Framework(
        "numpy",
        take=numpy.from_dlpack,
        pointer=lambda values: int(values.ctypes.data),
        total=total,
        widen=lambda values: values.astype(numpy.float64),
        settle=lambda: None,
    )


def _torch(ctx: Context) -> Framework | str:
    torch = installed("torch")
    if isinstance(torch, str):
        return torch
    on_device = ctx.device != "host"
    if on_device and not torch.cuda.is_available():
        return "its build reaches no CUDA device"
    return Framework(
        "torch",
        take=torch.from_dlpack,
        pointer=lambda values: int(values.data_ptr()),
        total=lambda values: values.sum(
            dtype=torch.float64 if values.is_floating_point() else torch.int64
        ).item(),
        widen=lambda values: values.to(torch.float64),
        settle=torch.cuda.synchronize if on_device else lambda: None,
    )


def _cupy(ctx: Context) -> Framework | str:
    if ctx.device == "host":
        return "views CUDA memory only"
    cupy = installed("cupy")
    if isinstance(cupy, str):
        return cupy
    return Framework(
        "cupy",
        take=cupy.from_dlpack,
        pointer=lambda values: int(values.data.ptr),
        total=lambda values: values.sum(
            dtype=cupy.float64 if values.dtype.kind == "f" else cupy.int64
        ).item(),
        widen=lambda values: values.astype(cupy.float64),
        settle=lambda: cupy.cuda.runtime.deviceSynchronize(),
    )


def installed(name: str) -> Any:
    """Returns the package, or a text that says why it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as failure:
        return f"not installed ({failure})"
