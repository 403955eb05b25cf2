"""Imports torch, CuPy, Numba and RMM or skips the test, and makes a CuPy kernel that keeps a stream busy."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def torch_with_a_device() -> Any:
    """Returns the module, or skips the test."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return torch


def cupy_with_a_device() -> Any:
    """Returns the module, or skips the test."""
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() == 0:
        pytest.skip("CuPy sees no CUDA device")
    return cupy


@functools.cache
def refusal_of_numba() -> str:
    """Returns why Numba can't compile kernels, or an empty text. numba-cuda uses `numpy.row_stack`, which
    NumPy 2.5 removed (numba-cuda's issue 907)."""
    cuda = importlib.import_module("numba.cuda")
    try:
        cuda.jit("void()")(lambda: None)  # the signature makes it compile here
    except AttributeError as refused:
        if "row_stack" not in str(refused):
            raise
        return f"numba-cuda is not made for this NumPy: {refused}"
    return ""


def numba_with_a_device() -> Any:
    """Returns `numba.cuda`, or skips the test."""
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("Numba sees no GPU")
    if refusal := refusal_of_numba():
        pytest.skip(refusal)
    return cuda


def installed_rmm() -> Any:
    """Returns the module, or skips the test. Without RMM, `import rmm` would find the folder tests/rmm."""
    pytest.importorskip("rmm.mr")
    return importlib.import_module("rmm")


def cupy_spinner(cupy: Any) -> Callable[[int], None]:
    """Returns a function that spins for a number of cycles on CuPy's current stream, like `torch.cuda._sleep`
    on torch's."""
    kernel = cupy.RawKernel(
        'extern "C" __global__ void spin(long long cycles)'
        "{ long long begin = clock64(); while (clock64() - begin < cycles) {} }",
        "spin",
    )
    return lambda cycles: kernel((1,), (1,), (np.int64(cycles),))
