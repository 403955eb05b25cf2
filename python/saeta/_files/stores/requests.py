"""Threads of the process that wait for answers of stores, as many as stores take.

A thread that has no request waits a moment for another one: to start a thread takes as long as the rest of a
request does. They are daemons: the end of the program does not wait for them. A child of fork begins with
none.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, TypeVar

from saeta._core import _check_interrupt
from saeta._files.filesystems import raise_as_file_errors
from saeta._files.stores.retries import is_throttling, is_transient, pauses
from saeta.errors import FileError

MOST_AT_ONCE = 256  # requests, of the whole process
MOST_BYTES = 512 << 20  # that they bring together: 128 pieces of 4 MiB
LEAST_AT_ONCE = 4  # after a store has asked for fewer
SECONDS_BETWEEN_CUTS = 1.0  # refusals of requests that were sent together count once
DEADLINE = 120.0  # seconds without an answer to any request
LOOK_AGAIN = 0.05  # seconds between two looks for an interrupt
MOST_IDLE = 0.25  # seconds that a thread waits for another request

Result = TypeVar("Result")


class Requests:
    """Runs requests in the order in which they were added, at once as many as `most` and MOST_BYTES allow."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._highest = most
        self.reset()

    def limit(self, most: int) -> None:
        """Sets the largest number of requests that are sent at once."""
        self._highest = self._most = most

    def reset(self) -> None:
        """Forgets all requests and threads: those of the parent, in a child of fork."""
        self._state = allocate_lock()
        self._waiting: deque[Request] = deque()
        self._running = 0
        self._idle = 0  # threads that wait for a request, beside those that are being woken
        self._wakes: SimpleQueue[None] = SimpleQueue()  # a token for each thread that is woken
        self._bytes = 0  # of the requests that run
        self._lost: set[Request] = set()  # whose threads are not counted any more
        self._most = self._highest
        self._answers = 0  # since the number was changed
        self._last_cut = -SECONDS_BETWEEN_CUTS
        self.last_answer = monotonic()

    @property
    def most(self) -> int:
        """The number of requests that are sent at once."""
        return self._most

    @property
    def running(self) -> int:
        """The number of threads that have requests."""
        return self._running

    @property
    def idle(self) -> int:
        """The number of threads that wait for requests."""
        return self._idle

    def add(self, requests: Iterable[Request], *, first: bool = False) -> None:
        """Queues requests, `first`: before all others."""
        if first:
            self._waiting.extendleft(reversed(list(requests)))
        else:
            self._waiting.extend(requests)
        # It wakes or starts the others, where no handler of a signal runs.
        start_new_thread(self._work, ())

    def slow_down(self) -> None:
        """Halves the number of requests: a store returned "too many requests" or "slow down"."""
        with self._state:
            now = monotonic()
            if now - self._last_cut >= SECONDS_BETWEEN_CUTS:
                self._last_cut = now
                self._most = max(self._most // 2, min(LEAST_AT_ONCE, self._highest))
                self._answers = 0

    def give_up(self, request: Request) -> None:
        """Lets another thread take the place of one whose request does not return."""
        with self._state:
            if not request.finished and request not in self._lost:
                self._lost.add(request)
                self._running -= 1
                self._bytes -= request.size

    def _start_one(self) -> None:
        """Lets one more thread look for requests."""
        with self._state:
            is_idle = self._idle > 0
            if is_idle:
                self._idle -= 1
                self._wakes.put(None)
        if not is_idle:
            start_new_thread(self._work, ())

    def _work(self) -> None:
        while self._run_all() and self._wait_for_more():
            pass

    def _run_all(self) -> bool:
        """Runs requests until none is left that may run now. Returns whether the thread goes on."""
        with self._state:
            if self._running >= self._most or not self._waiting:
                return True
            self._running += 1
        while (request := self._take()) is not None:
            request.run()
            if not self._note_answer(request):
                return False
        return True

    def _wait_for_more(self) -> bool:
        """Waits until there may be requests. False: the thread is not needed any more."""
        with self._state:
            wakes = self._wakes
            if self._running + self._idle >= self._most:
                return False
            self._idle += 1
        try:
            wakes.get(timeout=MOST_IDLE)
        except Empty:
            with self._state:
                if wakes is not self._wakes:  # after `reset`
                    return False
                if wakes.empty():
                    self._idle -= 1
                    return False
                wakes.get()  # a token that was put meanwhile
        return True

    def _take(self) -> Request | None:
        with self._state:
            while self._has_room(self._running - 1):
                request = self._waiting.popleft()
                if not request.cancelled:
                    self._bytes += request.size
                    more = self._has_room(self._running)
                    break
            else:
                self._running -= 1
                return None
        if more:
            self._start_one()
        return request

    def _has_room(self, running: int) -> bool:
        """Whether the next request may run beside so many others."""
        if not self._waiting or running >= self._most:
            return False
        return self._bytes == 0 or self._bytes + self._waiting[0].size <= MOST_BYTES

    def _note_answer(self, request: Request) -> bool:
        """Lets the number of requests grow again, by one for each round of answers.

        Returns whether the thread goes on.
        """
        with self._state:
            if request in self._lost:
                self._lost.discard(request)
                return False
            self._bytes -= request.size
            self.last_answer = monotonic()
            self._answers += 1
            if self._most < self._highest and self._answers >= self._most:
                self._answers = 0
                self._most += 1
            return True


REQUESTS = Requests()
os.register_at_fork(after_in_child=REQUESTS.reset)


class Request:
    """A call that one of the threads makes, and makes again after failures that pass.

    Attributes:
        size: the bytes that it brings, 0 for few.
    """

    def __init__(self, name: str, what: str, size: int = 0) -> None:
        self.size = size
        self.cancelled = False
        self.finished = False
        self._name = name
        self._what = what
        self._begun = False
        self._failure: BaseException | None = None
        self._end = allocate_lock()
        self._end.acquire()

    def attempt(self) -> None:
        """Makes the call."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Says that nobody waits any more. A call that has begun is not ended, but not repeated."""
        self.cancelled = True

    def run(self) -> None:
        """Makes the call. Raises nothing: `wait` does."""
        self._begun = True
        try:
            self._attempt_again_and_again()
        except BaseException as failure:  # raised in the thread that waits
            self._failure = failure
        self.finished = True
        self._end.release()

    def wait(self) -> None:
        """Waits for the end of the call. Raises what it raised, and what ends waits of the library."""
        begin = monotonic()
        while not self.finished:
            if self._end.acquire(timeout=LOOK_AGAIN):
                self._end.release()
                continue
            _check_interrupt()
            if monotonic() - max(begin, REQUESTS.last_answer) > DEADLINE:
                if self._begun:
                    REQUESTS.give_up(self)
                raise FileError(f"can't {self._what} '{self._name}': no answer within {DEADLINE:g} s")
        if self._failure is not None:
            with raise_as_file_errors(self._name):
                raise self._failure

    def _attempt_again_and_again(self) -> None:
        for pause in (*pauses(), None):
            try:
                self.attempt()
                return
            except Exception as failure:
                if is_throttling(failure):
                    REQUESTS.slow_down()
                if pause is None or self.cancelled or not is_transient(failure):
                    raise
            end = monotonic() + pause
            while not self.cancelled and (left := end - monotonic()) > 0:
                sleep(min(left, LOOK_AGAIN))


class _Call(Request):
    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        super().__init__(name, "open")
        self._function = function
        self.result: Any = None

    def attempt(self) -> None:
        self.result = self._function()


def call_all(calls: Sequence[tuple[str, Callable[[], Result]]]) -> list[Result]:
    """Calls functions at once, each with the name of what it opens, and returns their results in order."""
    asked = [_Call(name, function) for name, function in calls]
    try:
        REQUESTS.add(asked)
        for call in asked:
            call.wait()
    finally:
        for call in asked:
            call.cancel()
    return [call.result for call in asked]
