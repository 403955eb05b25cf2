"""Stream ordering at hand-over and at release, against torch and CuPy on side streams that Saeta does not
know.

A kernel that spins for some 20 ms runs before each tested access, so a missing wait gives wrong results in
every round. To see a test fail, remove its wait and build again:

* pending write: `wait` in `order_handover` (saeta/memory/export_hold.cpp)
* early release: the body of `set_unknown` in saeta/order/ordering.cpp
* release of imported memory: clear `release.after` in `passed` of saeta/order/reaper.cpp
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import saeta as sa
from gpu_frameworks import cupy_spinner, cupy_with_a_device, torch_with_a_device

pytestmark = pytest.mark.gpu

ROUNDS = 100
ROWS = 1 << 20
SPIN_CYCLES = 40_000_000  # some 20 ms


class TorchPeer:
    """torch on a side stream of its own."""

    def __init__(self) -> None:
        self.torch = torch_with_a_device()
        self.stream = self.torch.cuda.Stream()

    def fresh(self, value: int) -> Any:
        return self.torch.full((ROWS,), value, dtype=self.torch.int32, device="cuda")

    def array(self, value: int) -> Any:
        made = self.fresh(value)
        self.synchronize()
        return made

    def on_side_stream(self) -> Any:
        return self.torch.cuda.stream(self.stream)

    def spin(self) -> None:
        self.torch.cuda._sleep(SPIN_CYCLES)

    def fill(self, array: Any, value: int) -> None:
        array.fill_(value)

    def take(self, column: sa.Column) -> Any:
        return self.torch.from_dlpack(column)

    def total(self, array: Any) -> Any:
        return array.sum(dtype=self.torch.int64)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()


class CupyPeer:
    """CuPy on a side stream of its own."""

    def __init__(self) -> None:
        self.cupy = cupy_with_a_device()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.spinner = cupy_spinner(self.cupy)

    def fresh(self, value: int) -> Any:
        return self.cupy.full(ROWS, value, dtype=self.cupy.int32)

    def array(self, value: int) -> Any:
        made = self.fresh(value)
        self.synchronize()
        return made

    def on_side_stream(self) -> Any:
        return self.stream

    def spin(self) -> None:
        self.spinner(SPIN_CYCLES)

    def fill(self, array: Any, value: int) -> None:
        array.fill(value)

    def take(self, column: sa.Column) -> Any:
        return self.cupy.from_dlpack(column)

    def total(self, array: Any) -> Any:
        return array.sum(dtype=self.cupy.int64)

    def synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()


Peer = TorchPeer | CupyPeer


@pytest.fixture(params=[TorchPeer, CupyPeer], ids=["torch", "cupy"])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    make: Callable[[], Peer] = request.param
    made = make()
    made.array(0)
    with made.on_side_stream():  # compile all kernels first: a compilation can take longer than the spin
        made.spin()
        made.total(made.array(1))
    yield made
    made.synchronize()


@pytest.fixture
def ctx() -> sa.Context:
    if not any(device.name.startswith("cuda") for device in sa.devices()):
        pytest.skip("no usable CUDA device")
    return sa.context("cuda:0")


def test_hand_over_waits_for_pending_writes(peer: Peer, ctx: sa.Context) -> None:
    """The producer's write is pending when Saeta imports its array and exports it to another stream."""
    reader = TorchPeer() if isinstance(peer, CupyPeer) else CupyPeer()
    wrong = 0
    for number in range(1, ROUNDS + 1):
        array = peer.array(0)
        with peer.on_side_stream():
            peer.spin()
            peer.fill(array, number)
            column = sa.from_dlpack(array, ctx)
        with reader.on_side_stream():
            wrong += int(reader.total(reader.take(column))) != number * ROWS  # int() synchronizes the stream
    assert wrong == 0, f"{wrong} of {ROUNDS} sums saw the array before it was written"


def test_memory_is_not_reused_before_the_consumer_has_read_it(peer: Peer, ctx: sa.Context) -> None:
    """The consumer's read is pending when view and column are dropped and the memory is requested again."""
    totals = []
    for number in range(1, ROUNDS + 1):
        column = sa.from_dlpack(np.full(ROWS, number, dtype=np.int32), ctx)
        with peer.on_side_stream():
            view = peer.take(column)
            peer.spin()
            totals.append(peer.total(view))
        del view, column
        overwritten = sa.from_dlpack(np.full(ROWS, -1, dtype=np.int32), ctx)
        del overwritten
    peer.synchronize()
    wrong = sum(int(total) != number * ROWS for number, total in enumerate(totals, 1))
    assert wrong == 0, f"{wrong} of {ROUNDS} sums read memory that had been given away"


def test_imported_memory_is_released_after_saetas_last_use(peer: Peer, ctx: sa.Context) -> None:
    """Saeta's read of an imported array is pending when the array is dropped and its producer reuses the
    memory."""
    columns = []
    for number in range(1, ROUNDS + 1):
        array = peer.array(number)
        with peer.on_side_stream():
            peer.spin()
            columns.append(sa.from_dlpack(array, ctx, copy=True))  # the copy waits for the side stream
        del array
        peer.fresh(-1)  # the framework's allocator reuses returned memory
    sums = [int(column.to_numpy(copy=True).sum(dtype=np.int64)) for column in columns]
    wrong = sum(total != number * ROWS for number, total in enumerate(sums, 1))
    assert wrong == 0, f"{wrong} of {ROUNDS} copies read memory that its owner had taken back"


def test_the_result_of_a_framework_is_imported_without_a_copy(peer: Peer, ctx: sa.Context) -> None:
    column = sa.from_dlpack(np.arange(ROWS, dtype=np.int32), ctx)
    ctx.reset_counters()
    with peer.on_side_stream():
        view = peer.take(column)
        doubled = view + view
        back = sa.from_dlpack(doubled, ctx)
    counted = ctx.counters()
    assert counted["host_to_device"]["transfers"] == 0
    assert counted["device_to_device"]["transfers"] == 0
    assert counted["device_to_host"]["transfers"] == 0
    assert counted["synchronizations"] == 0
    pointer = doubled.data_ptr() if isinstance(peer, TorchPeer) else doubled.data.ptr
    assert back.address == pointer
    np.testing.assert_array_equal(back.to_numpy(copy=True), 2 * np.arange(ROWS, dtype=np.int32))
