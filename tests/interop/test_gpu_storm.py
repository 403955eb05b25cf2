"""The early-release storm with torch and CuPy, whose sums run on streams that Saeta does not know.

A view is exported to one stream and read on another, behind a kernel that spins for some 1 ms. Only an event
over all work of the device covers that read. Graph captures and forks run concurrently.

To see the storm fail, remove a guarantee and build again:

* early release: the body of `set_unknown` in saeta/order/ordering.cpp. Columns are then overwritten before
  their sums run, and most sums are wrong.
* captures: `captures_->active()` in `timelines::mark_device` (saeta/order/timeline.cpp). The driver then
  invalidates a capture.
* forked children: `parent_used_cuda` in saeta/backend/cuda/probe.cpp (return false)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import saeta as sa
from contexts import clean
from gpu_frameworks import cupy_spinner, cupy_with_a_device, torch_with_a_device
from soak_disturbances import fork_a_child, graph_of
from storm import Storm, make_all_at_once

pytestmark = pytest.mark.gpu

THREADS = 8
ROUNDS = 500
ROWS = 1 << 16
SPIN_CYCLES = 2_000_000  # some 1 ms


class TorchConsumer:
    def __init__(self) -> None:
        self.torch = self.module = torch_with_a_device()
        self.announced, self.unknown = self.torch.cuda.Stream(), self.torch.cuda.Stream()

    def consume(self, column: sa.Column) -> Callable[[], int]:
        with self.torch.cuda.stream(self.announced):
            view = self.torch.from_dlpack(column)
        self.unknown.wait_stream(self.announced)
        with self.torch.cuda.stream(self.unknown):
            self.torch.cuda._sleep(SPIN_CYCLES)
            total = view.sum(dtype=self.torch.int64)
        return lambda: self._result(total)

    def _result(self, total: Any) -> int:
        with self.torch.cuda.stream(self.unknown):
            return int(total)


class CupyConsumer:
    def __init__(self) -> None:
        self.cupy = self.module = cupy_with_a_device()
        self.announced, self.unknown = (self.cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.spin = cupy_spinner(self.cupy)

    def consume(self, column: sa.Column) -> Callable[[], int]:
        with self.announced:
            view = self.cupy.from_dlpack(column)
        self.unknown.wait_event(self.announced.record())
        with self.unknown:
            self.spin(SPIN_CYCLES)
            total = view.sum(dtype=self.cupy.int64)
        return lambda: int(total.get(stream=self.unknown))


@pytest.fixture
def ctx() -> Iterator[sa.Context]:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with clean("cuda:0") as found:
        yield found


@pytest.mark.parametrize("kind", [TorchConsumer, CupyConsumer], ids=["torch", "cupy"])
def test_no_memory_is_released_before_its_consumers_have_read_it(kind: Any, ctx: sa.Context) -> None:
    consumers = [kind() for _ in range(THREADS)]
    warm = sa.from_dlpack(np.ones(ROWS, dtype=np.int32), ctx)
    assert [consumer.consume(warm)() for consumer in consumers] == [ROWS] * THREADS
    del warm
    storm = Storm(
        ctx,
        threads=THREADS,
        rounds=ROUNDS,
        rows=ROWS,
        pending=32,
        disturbances=[partial(fork_a_child, ctx), graph_of(ctx, consumers[0].module)],
    )
    storm.run(make_all_at_once(consumers))
    storm.expect_right()
