"""Reads by several threads at once: their order, their number, refusals of the budget, and their end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import saeta as sa
from saeta._parquet.memory import DecodingMemory
from saeta._parquet.ordered_reads import OrderedReads


def all_of(reads: OrderedReads) -> list[Any]:
    return list(iter(reads.next, None))


def parallel_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "saeta-parquet"]


def test_results_come_in_the_order_of_the_jobs():
    later = threading.Event()

    def first() -> Iterator[str]:
        assert later.wait(60)  # the second job has to run beside this one
        yield "a"
        yield "b"

    def second() -> Iterator[str]:
        later.set()
        yield "c"

    def third() -> Iterator[str]:
        return iter(())

    ended: list[int] = []
    reads = OrderedReads([first, second, third, second], 2, lambda: ended.append(1))
    assert all_of(reads) == ["a", "b", "c", "c"]
    assert reads.next() is None
    assert ended == [1]
    reads.close()
    assert ended == [1]


def test_no_more_jobs_run_than_threads_and_each_holds_one_result():
    turn, begun, results = threading.Lock(), [], []

    def job(number: int) -> Iterator[int]:
        begun.append(number)
        for part in range(3):
            with turn:
                results.append((number, part))
            yield number

    reads = OrderedReads([partial(job, number) for number in range(6)], 2)
    assert reads.next() == 0
    while len(results) < 3:  # the second result of the first job, and the first one of the second job
        pass
    assert sorted(begun) == [0, 1]
    assert set(results) <= {(0, 0), (0, 1), (1, 0)}
    assert all_of(reads) == [0, 0, *[number for number in range(1, 6) for _ in range(3)]]


def refusing(times: dict[int, int], number: int, runs: list[int]) -> Iterator[str]:
    runs.append(number)
    yield f"{number} a"
    if times.get(number, 0):
        times[number] -= 1
        raise sa.BudgetExceeded(f"no room for {number}")
    yield f"{number} b"


def test_a_job_that_the_budget_refused_goes_on_where_it_was():
    runs: list[int] = []
    times = {1: 2}
    reads = OrderedReads([partial(refusing, times, number, runs) for number in range(4)], 3)
    taken = [reads.next() for _ in range(3)]
    assert taken == ["0 a", "0 b", "1 a"]
    for _ in range(2):
        with pytest.raises(sa.BudgetExceeded, match="no room for 1"):
            reads.next()
        assert parallel_threads() == []
    assert all_of(reads) == ["1 b", "2 a", "2 b", "3 a", "3 b"]


def test_a_failure_is_raised_in_its_turn_and_ends_the_threads():
    def good() -> Iterator[int]:
        yield 1

    def bad() -> Iterator[int]:
        yield 2
        raise ValueError("damaged")

    reads = OrderedReads([good, bad, good], 3)
    assert [reads.next(), reads.next()] == [1, 2]
    with pytest.raises(ValueError, match="damaged"):
        reads.next()
    assert parallel_threads() == []


def test_close_ends_a_wait_of_another_thread_and_drops_what_was_read():
    begun, gate, raised = threading.Event(), threading.Event(), []

    def slow() -> Iterator[int]:
        begun.set()
        assert gate.wait(60)
        yield 1

    reads = OrderedReads([slow, slow], 2)

    def take() -> None:
        try:
            reads.next()
        except sa.ClosedError as closed:
            raised.append(closed)

    taker = threading.Thread(target=take)
    taker.start()
    assert begun.wait(60)
    closer = threading.Thread(target=reads.close)
    closer.start()
    gate.set()
    closer.join(60)
    taker.join(60)
    assert not closer.is_alive()
    assert not taker.is_alive()
    assert len(raised) == 1
    assert parallel_threads() == []
    with pytest.raises(sa.ClosedError):
        reads.next()


class Upstream:
    """A resource of RMM that numbers its addresses."""

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.last = 1000

    def allocate(self, nbytes: int, stream: Any) -> int:
        self.last += 1
        self.live.add(self.last)
        return self.last

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        self.live.remove(address)


class Mr:
    """Stands in for `rmm.mr`."""

    class CallbackMemoryResource:
        def __init__(self, allocate: Callable[..., int], deallocate: Callable[..., None]) -> None:
            self.allocate, self.deallocate = allocate, deallocate

    def __init__(self) -> None:
        self.current: Any = Upstream()

    def get_per_device_resource(self, ordinal: int) -> Any:
        return self.current

    def set_per_device_resource(self, ordinal: int, resource: Any) -> None:
        self.current = resource


class Stream:
    @staticmethod
    def __cuda_stream__() -> tuple[int, int]:
        return 0, 1


def test_rmm_takes_memory_of_a_decoding_thread_from_its_context():
    mr = Mr()
    upstream = mr.current
    memory = DecodingMemory(0, mr)
    ctx = sa.context("host").memory.child("decoding", "1MiB")
    memory.begin()
    memory.begin()
    foreign = mr.current.allocate(10, Stream())
    assert upstream.live == {foreign}
    with memory.of(ctx) as resource:
        assert resource is mr.current
        own = resource.allocate(1000, Stream())
    assert ctx.memory.by_tag() == {"parquet": 1000} or ctx.memory.by_tag()["parquet"] >= 1000
    memory.end()
    assert mr.current is resource
    memory.end()
    assert mr.current is upstream
    resource.deallocate(own, 1000, Stream())  # later, and on any thread
    resource.deallocate(foreign, 10, Stream())
    assert upstream.live == set()
    assert ctx.memory.statistics()["current"] == 0


def test_a_refusal_behind_a_memory_error_of_rmm_has_its_numbers():
    memory = DecodingMemory(0, Mr())
    ctx = sa.context("host").memory.child("decoding", "1MiB")

    def allocate_by_rmm(resource: Any) -> None:
        try:
            resource.allocate(2 << 20, Stream())
        except MemoryError:
            raise MemoryError("std::bad_alloc") from None  # as it comes out of C++

    memory.begin()
    with pytest.raises(sa.BudgetExceeded) as refusal, memory.of(ctx) as resource:
        allocate_by_rmm(resource)
    assert (refusal.value.requested, refusal.value.limit) == (2 << 20, 1 << 20)
    memory.end()


def test_a_resource_that_a_program_sets_meanwhile_stays():
    mr = Mr()
    memory = DecodingMemory(0, mr)
    memory.begin()
    mr.current = other = Upstream()
    memory.end()
    assert mr.current is other
