"""The early-release storm: threads whose consumers drop their views while the work on them is pending.

In each round a thread uploads a column of one repeated value, and a consumer sums it on a stream that Saeta
does not know. The thread drops view and column at once, and uploads other values of the same size. The budget
has room for few columns, so memory that was released too early is overwritten before the sum has read it.
Columns of other sizes are allocated and freed too: the context must never hold more than the budget plus one
slab.

Each thread has a child budget. The sum of the child limits exceeds the parent's limit, so that both child and
parent refuse requests. Forks and graph captures (tests/soak/soak_disturbances.py) run concurrently until the
storm ends.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import saeta as sa

SLAB = 2 << 20  # bytes; the default of caching_options::slab
SIZES = 8
# Attempts to allocate: other threads may take the memory that a release returns, and an open capture delays
# releases.
ATTEMPTS = 100_000


class Consumer(Protocol):
    """A framework that one thread uses."""

    def consume(self, column: sa.Column) -> Callable[[], int]:
        """Queues a sum of the column and keeps no view of it. The returned function waits for the sum."""


class Storm:
    """`threads` threads with a consumer each run `rounds` rounds each. `run` fills in the counts."""

    def __init__(
        self,
        ctx: sa.Context,
        *,
        threads: int,
        rounds: int,
        rows: int,
        pending: int,
        disturbances: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.ctx = ctx
        self.rounds = rounds
        self.rows = rows
        self.threads = threads
        self.pending = pending  # maximum number of unchecked sums of a thread
        self.limit = 3 * threads // 2 * 4 * rows  # less than the sum of the child limits
        self.own_limit = 2 * 4 * rows
        self.most_held = 0
        self.children: list[sa.Context] = []
        self.disturbances = disturbances
        self.disturbed = [0] * len(disturbances)
        self.over = threading.Event()
        self.wrong: list[str] = []
        self.checked = 0
        self.addresses: set[int] = set()
        self.failures: list[BaseException] = []
        self.mutex = threading.Lock()

    def run(self, make_consumer: Callable[[], Consumer]) -> None:
        self.limit += self.ctx.memory.statistics()["current"]  # the host has GPUs' staging rings
        self.ctx.memory.limit = self.limit
        self.ctx.memory.reset_peak()
        self.children = [self.ctx.memory.child(f"thread {n}", self.own_limit) for n in range(self.threads)]
        ready = threading.Barrier(self.threads)
        threads = [
            threading.Thread(target=self._work, args=(number, make_consumer, ready))
            for number in range(self.threads)
        ]
        beside = [threading.Thread(target=self._disturb, args=(n,)) for n in range(len(self.disturbances))]
        for thread in [*threads, *beside]:
            thread.start()
        for thread in threads:
            thread.join()
        self.over.set()
        for thread in beside:
            thread.join()
        gc.collect()
        self.ctx.synchronize()
        self.ctx.memory.limit = None
        if self.failures:
            raise self.failures[0]

    def _disturb(self, which: int) -> None:
        try:
            while not self.over.is_set() or not self.disturbed[which]:
                self.disturbances[which]()
                self.disturbed[which] += 1
        except BaseException as failure:
            self.failures.append(failure)

    def _work(self, number: int, make_consumer: Callable[[], Consumer], ready: threading.Barrier) -> None:
        try:
            consumer = make_consumer()
            self._ask_for_too_much(self.children[number])
            ready.wait()
            pending: list[tuple[int, Callable[[], int]]] = []
            for turn in range(self.rounds):
                if self.failures:  # another thread failed; `run` raises its exception
                    return
                value = 1 + number * self.rounds + turn
                pending.append((value, self._round(consumer, value, self.children[number])))
                if len(pending) == self.pending or turn + 1 == self.rounds:
                    self._check(number, pending)
                    pending.clear()
        except BaseException as failure:
            self.failures.append(failure)
            ready.abort()

    def _ask_for_too_much(self, own: sa.Context) -> None:
        try:
            own.allocate(self.own_limit + 1)
        except sa.BudgetExceeded as refusal:
            if refusal.limit != self.own_limit:
                raise AssertionError("refused by another budget") from refusal
        else:
            raise AssertionError(f"more than {self.own_limit} bytes of a child budget")

    def _round(self, consumer: Consumer, value: int, own: sa.Context) -> Callable[[], int]:
        column = self._upload(value, self.rows, own)
        address = column.address
        total = consumer.consume(column)
        del column
        self._upload(-value, self.rows, own)
        self._upload(-value, self.rows * (1 + value % SIZES) // (1 + SIZES), own)
        with self.mutex:
            self.addresses.add(address)
        return total

    def _upload(self, value: int, rows: int, own: sa.Context) -> sa.Column:
        values = np.full(rows, value, dtype=np.int32)
        for _ in range(ATTEMPTS):
            if self.failures:
                break
            try:
                column = sa.from_dlpack(values, own, copy=True)
            except sa.BudgetExceeded:  # other threads took the released memory first
                self.ctx.synchronize()
            else:
                self._sample()
                return column
        raise AssertionError(
            f"no room for {values.nbytes} bytes in {ATTEMPTS} attempts, or another thread failed"
        )

    def _sample(self) -> None:
        held = self.ctx.memory.statistics()["held"] or 0
        with self.mutex:
            self.most_held = max(self.most_held, held)

    def _check(self, number: int, pending: list[tuple[int, Callable[[], int]]]) -> None:
        for value, total in pending:
            found = total()
            with self.mutex:
                self.checked += 1
                if found != value * self.rows:
                    self.wrong.append(f"thread {number}: {found} instead of {value} * {self.rows}")

    def expect_right(self) -> None:
        assert self.checked == self.threads * self.rounds
        assert not self.wrong, f"{len(self.wrong)} of {self.checked} sums are wrong: {self.wrong[:3]}"
        assert self.most_held <= self.limit + SLAB, f"{self.most_held} bytes with a budget of {self.limit}"
        self._expect_right_budgets()
        assert all(self.disturbed), f"disturbances took place so often: {self.disturbed}"
        used = f"{self.checked} columns at {len(self.addresses)} addresses"
        assert 4 * len(self.addresses) <= self.checked, f"{used}: without reuse the storm proves nothing"

    def _expect_right_budgets(self) -> None:
        """Each column was charged to its thread's budget, no limit was exceeded, nothing leaked."""
        for child in self.children:
            seen = child.memory.statistics()
            assert seen["requests"] == 3 * self.rounds, seen
            assert 4 * self.rows <= seen["peak"] <= self.own_limit, seen
            assert (seen["current"], seen["pending_releases"]) == (0, 0), seen
            child.close()
        assert self.ctx.memory.statistics()["peak"] <= self.limit


def make_all_at_once(consumers: list[Any]) -> Callable[[], Consumer]:
    """Hands out consumers that exist already, so that no kernel is compiled during the storm."""
    return consumers.pop
