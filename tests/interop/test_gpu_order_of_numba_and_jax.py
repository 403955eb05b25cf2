"""Stream ordering at hand-over and at release, against Numba on a side stream and JAX, which hides its
streams.

As in test_gpu_order.py, work of some 20 ms runs before each tested access. The changes that make those tests
fail make these fail too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import saeta as sa
from gpu_frameworks import numba_with_a_device

pytestmark = pytest.mark.gpu

ROUNDS = 100
ROWS = 1 << 20
BLOCKS = ROWS // 256


@pytest.fixture
def ctx() -> sa.Context:
    if not any(device.name.startswith("cuda") for device in sa.devices()):
        pytest.skip("no usable CUDA device")
    return sa.context("cuda:0")


class Numba:
    """Kernels of Numba on a stream of its own."""

    def __init__(self) -> None:
        self.cuda = cuda = numba_with_a_device()
        self.stream = cuda.stream()

        @cuda.jit
        def spin(array: Any) -> None:
            for _ in range(20):
                cuda.nanosleep(1_000_000)

        @cuda.jit
        def fill(array: Any, value: int) -> None:
            i = cuda.grid(1)
            if i < array.size:
                array[i] = value

        @cuda.jit
        def add_up(array: Any, total: Any) -> None:
            i = cuda.grid(1)
            if i < array.size:
                cuda.atomic.add(total, 0, array[i])

        self._spin, self._fill, self._add_up = spin, fill, add_up
        self._one = cuda.to_device(np.zeros(1, dtype="i4"))
        self.fill(self._one, 0)
        self.spin()
        self.total(self._one)
        self.stream.synchronize()

    def spin(self) -> None:
        self._spin[1, 1, self.stream](self._one)

    def fill(self, array: Any, value: int) -> None:
        self._fill[BLOCKS, 256, self.stream](array, value)

    def total(self, array: Any) -> Any:
        total = self.cuda.device_array(1, np.int64)
        self._fill[1, 1, self.stream](total, 0)
        self._add_up[BLOCKS, 256, self.stream](array, total)
        return total


def test_an_import_waits_for_pending_writes_of_numba(ctx: sa.Context) -> None:
    """Numba's arrays export the stream that they are bound to."""
    numba = Numba()
    wrong = 0
    for number in range(1, ROUNDS + 1):
        array = numba.cuda.device_array(ROWS, np.int32, stream=numba.stream)
        numba.spin()
        numba.fill(array, number)
        column = sa.from_cuda_array(array, ctx)
        values = column.to_numpy(copy=True)
        wrong += not (values == number).all()
        del column, array
    assert wrong == 0, f"{wrong} of {ROUNDS} reads saw the array before it was written"


def test_memory_is_not_reused_before_numba_has_read_it(ctx: sa.Context) -> None:
    numba = Numba()
    totals = []
    for number in range(1, ROUNDS + 1):
        column = sa.from_dlpack(np.full(ROWS, number, dtype=np.int32), ctx)
        view = column.to_numba()
        numba.spin()
        totals.append(numba.total(view))
        del view, column
        overwritten = sa.from_dlpack(np.full(ROWS, -1, dtype=np.int32), ctx)
        del overwritten
    numba.stream.synchronize()
    wrong = sum(int(total.copy_to_host()[0]) != number * ROWS for number, total in enumerate(totals, 1))
    assert wrong == 0, f"{wrong} of {ROUNDS} sums read memory that had been given away"


@pytest.fixture
def jax() -> Any:
    found = pytest.importorskip("jax")
    if all(device.platform != "gpu" for device in found.devices()):
        pytest.skip("JAX sees no GPU: run this file with JAX_PLATFORMS=cuda,cpu")
    return found


def delayed(jax: Any) -> Any:
    """Returns a function that adds zero to an array after a long loop on the device."""
    lax, jnp = jax.lax, jax.numpy

    @jax.jit
    def run(array: Any, start: Any) -> Any:
        end = lax.fori_loop(0, 20_000, lambda _, value: jnp.sin(value) + 1, start)
        return array + (end > 1e30).astype(array.dtype)

    return run


def test_an_import_waits_for_pending_writes_of_jax(ctx: sa.Context, jax: Any) -> None:
    late = delayed(jax)
    start = jax.numpy.float32(1)
    late(jax.numpy.zeros(ROWS, np.int32), start).block_until_ready()
    wrong = 0
    for number in range(1, ROUNDS + 1):
        array = late(jax.numpy.full(ROWS, number, np.int32), start)
        values = sa.from_dlpack(array, ctx).to_numpy(copy=True)
        wrong += not (values == number).all()
    assert wrong == 0, f"{wrong} of {ROUNDS} reads saw the array before it was written"


def test_memory_is_not_reused_before_jax_has_read_it(ctx: sa.Context, jax: Any) -> None:
    late = delayed(jax)
    start = jax.numpy.float32(1)
    totals = []
    for number in range(1, ROUNDS + 1):
        column = sa.from_dlpack(np.full(ROWS, number, dtype=np.int32), ctx)
        view = column.to_jax()
        totals.append(late(view, start).max())
        del view, column
        overwritten = sa.from_dlpack(np.full(ROWS, -1, dtype=np.int32), ctx)
        del overwritten
    wrong = sum(int(total) != number for number, total in enumerate(totals, 1))
    assert wrong == 0, f"{wrong} of {ROUNDS} results read memory that had been given away"
