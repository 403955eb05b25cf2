"""The early-release storm on the host: NumPy's sums run on another thread, JAX's on JAX's own threads.

To see it fail, remove a guarantee and build again:

* early release: end the constructor of `export_hold` in saeta/memory/export_hold.cpp with `storages_.clear()`
* child budgets: do not pass the limit on in `context::with_budget` (saeta/memory/context.cpp)
* forked children: remove `fetch_add` from saeta/base/process.cpp
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import saeta as sa
from soak_disturbances import fork_a_child, graph_of
from storm import Storm, make_all_at_once

THREADS = 4
ROUNDS = 500
ROWS = 1 << 12  # with values of at most 2,000, sums fit JAX's 32 bits


class NumpyConsumer:
    def __init__(self) -> None:
        self.elsewhere = ThreadPoolExecutor(1)

    def consume(self, column: sa.Column) -> Callable[[], int]:
        return self.elsewhere.submit(self._total, [np.from_dlpack(column)]).result

    @staticmethod
    def _total(views: list[Any]) -> int:
        """Empties the list, so that the view is released on this thread."""
        return int(views.pop().sum(dtype=np.int64))

    def close(self) -> None:
        self.elsewhere.shutdown()


class JaxConsumer:
    def __init__(self) -> None:
        self.numpy = pytest.importorskip("jax.numpy")

    def consume(self, column: sa.Column) -> Callable[[], int]:
        total = self.numpy.sum(self.numpy.from_dlpack(column))
        return lambda: int(total)

    def close(self) -> None:
        """Does nothing; the interface of a consumer requires it."""


@pytest.fixture
def restless() -> Iterator[None]:
    """Makes Python switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("kind", [NumpyConsumer, JaxConsumer], ids=["numpy", "jax"])
def test_no_memory_is_released_before_its_consumers_have_read_it(kind: Any, host: sa.Context) -> None:
    consumers = [kind() for _ in range(THREADS)]
    warm = sa.from_dlpack(np.ones(ROWS, dtype=np.int32), host, copy=True)
    assert [consumer.consume(warm)() for consumer in consumers] == [ROWS] * THREADS
    del warm
    storm = Storm(
        host,
        threads=THREADS,
        rounds=ROUNDS,
        rows=ROWS,
        pending=2,
        disturbances=[partial(fork_a_child, host), graph_of(host, None)],
    )
    storm.run(make_all_at_once(list(consumers)))
    for consumer in consumers:
        consumer.close()
    storm.expect_right()
