"""The reader of ranges: requests at once, read ahead, attempts after failures, and ways to end a wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import saeta as sa
from saeta._files.stores import ranges, requests, retries
from saeta._files.stores.ranges import RangeFile
from saeta._files.stores.requests import REQUESTS, Requests
from waiting import eventually

MIB = 1 << 20
CONTENT = bytes(range(256)) * (64 << 10)  # 16 MiB


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Attempts follow each other at once. Every test ends without a thread."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1e-6)
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 1e-6)
    yield
    assert eventually(lambda: REQUESTS.running == 0), "a thread is left"
    REQUESTS.limit(requests.MOST_AT_ONCE)
    REQUESTS.reset()


class Store:
    """Content that is read by ranges. `before` is called first, with the range."""

    def __init__(self, content: bytes = CONTENT, before: Callable[[int, int], Any] | None = None) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []
        self._before = before

    def read(self, offset: int, count: int) -> Any:
        self.asked.append((offset, count))
        if self._before is not None:
            instead = self._before(offset, count)
            if instead is not None:
                return instead
        return self.content[offset : offset + count]

    def open(self) -> RangeFile:
        return RangeFile("a store", len(self.content), self.read)


def filled(file: RangeFile, offset: int, count: int) -> bytes:
    target = bytearray(count)
    file.fill(offset, memoryview(target))
    return bytes(target)


class Gate:
    """Holds reads until `number` of them wait."""

    def __init__(self, number: int) -> None:
        self._barrier = threading.Barrier(number)

    def __call__(self, offset: int, count: int) -> None:
        self._barrier.wait(60)


def test_a_large_range_is_read_by_requests_at_once() -> None:
    store = Store(before=Gate(4))
    assert filled(store.open(), 0, 16 * MIB) == CONTENT
    assert sorted(store.asked) == [(number * 4 * MIB, 4 * MIB) for number in range(4)]


def test_a_small_range_is_one_request() -> None:
    store = Store()
    assert filled(store.open(), 5, 1000) == CONTENT[5:1005]
    assert store.asked == [(5, 1000)]
    assert filled(store.open(), 5, 0) == b""


def test_a_range_of_little_more_than_its_pieces_has_no_further_one() -> None:
    store = Store()
    assert filled(store.open(), 0, 8 * MIB + 1000) == CONTENT[: 8 * MIB + 1000]
    assert [count for _, count in sorted(store.asked)] == [4 * MIB + 500] * 2
    assert filled(store.open(), 0, 5 * MIB) == CONTENT[: 5 * MIB]
    assert store.asked[2:] == [(0, 5 * MIB)]


def test_requests_at_once_have_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_BYTES", 8 * MIB + 1000)
    small = [(number * MIB, 10) for number in range(13, 16)]
    large, state, all_of_small = [], threading.Lock(), threading.Event()
    done, most = [], 0

    def hold(offset: int, count: int) -> None:
        nonlocal most
        with state:
            (large if count > 10 else done).append(offset)
            most = max(most, len(large))
            if len(done) == len(small):
                all_of_small.set()
        assert all_of_small.wait(60), "small requests run beside large ones"
        with state:
            if count > 10:
                large.remove(offset)

    file = Store(before=hold).open()
    kept = file.ahead([(0, 8 * MIB), *small]), file.ahead([(8 * MIB, 4 * MIB)])
    assert filled(file, 0, 12 * MIB) == CONTENT[: 12 * MIB]
    assert most == 2
    del kept
    assert eventually(lambda: REQUESTS.running == 0)
    assert REQUESTS._bytes == 0


def test_the_process_has_one_limit_for_all_files() -> None:
    REQUESTS.limit(3)
    running, most = set(), 0
    state, three = threading.Lock(), threading.Event()

    def hold(offset: int, count: int) -> None:
        nonlocal most
        here = object()
        with state:
            running.add(here)
            most = max(most, len(running))
            if len(running) == 3:
                three.set()
        assert three.wait(60)
        with state:
            running.discard(here)

    files = [Store(before=hold).open() for _ in range(3)]
    kept = [file.ahead([(0, 16 * MIB)]) for file in files]
    assert [filled(file, 0, 16 * MIB) for file in files] == [CONTENT] * 3
    assert most == 3
    del kept


def test_what_is_read_ahead_is_not_requested_again_until_it_is_dropped() -> None:
    store = Store()
    file = store.open()
    ahead = file.ahead([(0, 10), (1000, 24), (8 * MIB, 6 * MIB)])
    assert filled(file, 2, 5) == CONTENT[2:7]
    assert filled(file, 8 * MIB, 6 * MIB) == CONTENT[8 * MIB : 14 * MIB]
    near, *far = sorted(store.asked)
    assert near == (0, 1024), "small neighbours are one request"
    assert [count for _, count in far] == [3 * MIB] * 2
    assert filled(file, 8 * MIB - 10, 20) == CONTENT[8 * MIB - 10 : 8 * MIB + 10]
    assert store.asked[3:] == [(8 * MIB - 10, 10)], "only what is missing"
    ahead.close()
    assert filled(file, 2, 5) == CONTENT[2:7]
    assert store.asked[4:] == [(2, 5)]


def test_ranges_that_are_read_ahead_twice_are_kept_until_both_are_dropped() -> None:
    store = Store()
    file = store.open()
    first, second = file.ahead([(0, MIB)]), file.ahead([(MIB // 2, MIB)])
    first.close()
    assert filled(file, 0, 3 * MIB // 2) == CONTENT[: 3 * MIB // 2]
    assert sorted(store.asked) == [(0, MIB), (MIB, MIB // 2)]
    second.close()
    assert not file._pieces


def test_requests_that_nobody_needs_any_more_are_not_sent() -> None:
    REQUESTS.limit(1)
    begun, go_on = threading.Event(), threading.Event()

    def hold(offset: int, count: int) -> None:
        begun.set()
        assert go_on.wait(60)

    store = Store(before=hold)
    ahead = store.open().ahead([(0, 16 * MIB)])
    assert begun.wait(60)
    ahead.close()
    go_on.set()
    assert eventually(lambda: REQUESTS.running == 0)
    assert len(store.asked) == 1


class _Answer(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        super().__init__(f"answer {status}")
        self.status = status


class _Botocore(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        super().__init__("an error of a client")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


PASSING = [
    ConnectionResetError(104, "Connection reset by peer"),
    TimeoutError("timed out"),
    _Answer(503),
    _Answer(429),
    _Botocore(500),
    OSError("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate."),
    OSError("When reading: AWS Error UNKNOWN (HTTP status 503) during GetObject operation"),
    Exception("Generic S3 error: HTTP error: request or response body error"),
    Exception("Generic S3 error: HTTP error: error sending request"),
    OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 18"),
]
LASTING = [
    FileNotFoundError("no such key"),
    PermissionError("access denied"),
    ConnectionRefusedError("nobody listens"),
    _Answer(403),
    _Botocore(412),
    OSError("the store has gone"),
    Exception("error sending request\n\nDebug source:\nkind: ConnectionRefused"),
    Exception("status code: 403 Forbidden\n\nDebug source:\nretry_timeout: 10s, status 503"),
    sa.FileError("it has changed"),
    TypeError("a mistake"),
]


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_a_failure_that_passes_is_no_failure(failure: Exception) -> None:
    failures = [failure] * 3

    def fail(offset: int, count: int) -> None:
        if failures:
            raise failures.pop()

    store = Store(before=fail)
    assert filled(store.open(), 0, 100) == CONTENT[:100]
    assert len(store.asked) == 4


@pytest.mark.parametrize("failure", LASTING, ids=repr)
def test_another_failure_is_raised_at_once(failure: Exception) -> None:
    def fail(offset: int, count: int) -> None:
        raise failure

    store = Store(before=fail)
    with pytest.raises((sa.FileError, type(failure))):
        filled(store.open(), 0, 100)
    assert len(store.asked) == 1


def test_attempts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(offset: int, count: int) -> None:
        raise _Answer(503)

    store = Store(before=fail)
    with pytest.raises(_Answer):
        filled(store.open(), 0, 100)
    assert len(store.asked) == retries.ATTEMPTS


def test_pauses_grow_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pauses = list(retries.pauses())
    assert len(pauses) == retries.ATTEMPTS - 1
    longest = [min(0.1 * 2**number, 5.0) for number in range(len(pauses))]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))


def test_short_bodies_are_requested_again_and_refused_in_the_end() -> None:
    short = [b"", CONTENT[:50]]
    store = Store(before=lambda offset, count: short.pop() if short else None)
    assert filled(store.open(), 0, 100) == CONTENT[:100]
    store = Store(CONTENT[:60], before=None)
    file = RangeFile("a store", 100, store.read)
    with pytest.raises(sa.FileError, match="can't read 90 bytes at offset 10 of 'a store': it returned 50"):
        filled(file, 10, 90)


def test_a_store_that_asks_for_fewer_requests_gets_fewer_and_then_more_again() -> None:
    pool = Requests(64)
    pool.slow_down()
    assert pool.most == 32
    pool.slow_down()
    assert pool.most == 32, "refusals of requests that were sent together count once"
    pool._last_cut -= requests.SECONDS_BETWEEN_CUTS
    pool.slow_down()
    assert pool.most == 16

    class Done:
        finished, cancelled, size = True, False, 0

    for _ in range(16):
        pool._note_answer(Done())  # type: ignore[arg-type]
    assert pool.most == 17
    for _ in range(9):
        pool._last_cut -= requests.SECONDS_BETWEEN_CUTS
        pool.slow_down()
    assert pool.most == requests.LEAST_AT_ONCE


def test_throttling_slows_down_all_requests() -> None:
    failures = [_Answer(429)]

    def fail(offset: int, count: int) -> None:
        if failures:
            raise failures.pop()

    filled(Store(before=fail).open(), 0, 100)
    assert REQUESTS.most == requests.MOST_AT_ONCE // 2


def test_a_store_that_never_answers_is_an_error_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DEADLINE", 0.01)
    REQUESTS.limit(1)
    release = threading.Event()

    def hold(offset: int, count: int) -> None:
        assert release.wait(60)

    with pytest.raises(
        sa.FileError, match=r"can't read 100 bytes at offset 7 of 'a store': no answer within 0\.01 s"
    ):
        filled(Store(before=hold).open(), 7, 100)
    assert REQUESTS.running == 0, "the thread that waits for the store is not counted"
    monkeypatch.setattr(requests, "DEADLINE", 60)
    assert filled(Store().open(), 7, 100) == CONTENT[7:107]
    release.set()
    assert eventually(lambda: not REQUESTS._lost)


def test_ctrl_c_ends_a_wait_at_once_and_the_target_is_left_alone() -> None:
    begun, release = threading.Event(), threading.Event()

    def hold(offset: int, count: int) -> None:
        begun.set()
        assert release.wait(60)

    def interrupt() -> None:
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    target = bytearray(100)
    with pytest.raises(KeyboardInterrupt):
        Store(before=hold).open().fill(0, memoryview(target))
    sender.join()
    release.set()
    assert eventually(lambda: REQUESTS.running == 0)
    assert target == bytes(100)


def test_threads_serve_later_requests_and_end_when_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_IDLE", 1.0)
    gate, threads = Gate(4), []

    def hold(offset: int, count: int) -> None:
        threads.append(threading.get_native_id())
        gate(offset, count)

    for _ in range(3):
        assert filled(Store(before=hold).open(), 0, 16 * MIB) == CONTENT
        assert eventually(lambda: REQUESTS.idle >= 3)
    assert len(set(threads)) <= 6, "each of the later reads starts at most one"
    monkeypatch.setattr(requests, "MOST_IDLE", 0.0)
    assert eventually(lambda: REQUESTS.idle == 0)


def test_no_more_threads_wait_than_requests_may_run() -> None:
    REQUESTS.limit(2)
    file = Store().open()
    for offset in range(20):
        assert filled(file, offset, 100) == CONTENT[offset : offset + 100]
        assert REQUESTS.idle <= 2
    assert eventually(lambda: REQUESTS.idle == 0)


def test_a_forked_child_reads_with_threads_of_its_own() -> None:
    REQUESTS.limit(1)
    begun, release = threading.Event(), threading.Event()

    def hold(offset: int, count: int) -> None:
        if os.getpid() == parent:
            begun.set()
            assert release.wait(60)

    parent = os.getpid()
    file = Store(before=hold).open()
    ahead = file.ahead([(0, 100)])
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if filled(file, 0, 100) == CONTENT[:100] else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    release.set()
    assert status == 0
    ahead.close()


def test_a_source_of_one_thread_is_read_by_the_caller() -> None:
    seen: list[int] = []
    store = Store(before=lambda offset, count: seen.append(threading.get_ident()))
    file = RangeFile("a file", 100, store.read, is_direct=True)
    assert filled(file, 3, 50) == CONTENT[3:53]
    assert seen == [threading.get_ident()]


def test_a_view_of_one_piece_is_not_copied() -> None:
    file = Store().open()
    ahead = file.ahead([(0, 2 * MIB)])
    view = file.view(10, 1000)
    assert view == CONTENT[10:1010]
    assert view.obj is file._pieces[0].content.obj  # type: ignore[union-attr]
    ahead.close()
    assert view == CONTENT[10:1010]
    assert file.view(2 * MIB - 5, 10) == CONTENT[2 * MIB - 5 : 2 * MIB + 5]


def test_listeners_are_told_of_their_own_bytes() -> None:
    told: list[int] = []
    file = Store().open()
    ahead = file.ahead([(0, 100), (200, 100)], told.append)
    filled(file, 50, 200)
    assert sum(told) == 100
    filled(file, 0, 50)
    filled(file, 250, 50)
    assert sum(told) == 200
    ahead.close()


def test_calls_are_made_at_once_and_their_results_come_in_order() -> None:
    gate = threading.Barrier(5)

    def call(number: int) -> int:
        gate.wait(60)
        return number

    calls = [("a store", partial(call, number)) for number in range(5)]
    assert requests.call_all(calls) == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        requests.call_all([("a store", lambda: 1 // 0)])


def test_bytes_are_copied_only_into_a_target_of_their_size() -> None:
    with pytest.raises(sa.InvalidError, match="a target of 3 bytes for 2 bytes"):
        ranges._copy_bytes(memoryview(bytearray(3)), memoryview(b"ab"))
