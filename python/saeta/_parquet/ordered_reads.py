"""Reads by several threads at once, in the order of what is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

from saeta import _core
from saeta._files.threads import Worker
from saeta.errors import BudgetExceeded, ClosedError

END = object()
CLOSED = object()

Job = Callable[[], Iterator[Any]]


class _Failed:
    def __init__(self, failure: BaseException) -> None:
        self.failure = failure


class _Running:
    """A job on a thread of its own, which waits until its last result was taken before it makes another."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._taken: SimpleQueue[None] = SimpleQueue()
        self._stopped = False
        self._cancellation = _core._Cancellation()
        self._worker = Worker(self._run, "saeta-parquet")
        self._worker.start()

    def _run(self) -> None:
        try:
            with self._cancellation:
                for result in self._job():
                    self._results.put(result)
                    del result  # its consumer may release it while the next one is read
                    self._taken.get()
                    if self._stopped:
                        return
            self._results.put(END)
        except BaseException as failure:  # raised in the thread that takes the result
            self._results.put(_Failed(failure))

    def next(self) -> Any:
        """Returns the next result, END, a _Failed, or CLOSED after `stop`."""
        return self._results.get()

    def resume(self) -> None:
        self._taken.put(None)

    def stop(self) -> None:
        """Lets the job end after what it is reading. Drops its results."""
        self._stopped = True
        self._cancellation.cancel()
        self._drop_results()
        self._taken.put(None)

    def wait(self) -> None:
        """Waits for the end of the job, and drops what it read meanwhile."""
        self._worker.wait()
        self._drop_results()

    def _drop_results(self) -> None:
        while not self._results.empty():
            self._results.get()
        self._results.put(CLOSED)  # for a thread that waits for a result


class OrderedReads:
    """The results of jobs, one job after the other, of which `threads` run at the same time.

    Each job holds one result at most that was not taken. When the budget refuses a job, what later jobs have
    read is dropped, and the job is run again by the thread that asks next.
    """

    def __init__(self, jobs: Sequence[Job], threads: int, end: Callable[[], object] | None = None) -> None:
        self._jobs = jobs
        self._threads = threads
        self._end = end
        self._number = 0  # of the job whose results are taken
        self._taken = 0  # results of this job
        self._running: deque[_Running] = deque()
        self._alone: Iterator[Any] | None = None  # the job after a refusal, which no other runs beside
        self._refused = False
        self._closed = False

    def next(self) -> Any:
        """Returns the next result, None at the end. One thread may call it at a time."""
        while self._number < len(self._jobs):
            self._require_open()
            result = self._next_alone() if self._refused else self._next_of_threads()
            if result is not END:
                self._taken += 1
                return result
            self._number += 1
            self._taken = 0
        self._finish()
        return None

    def _next_of_threads(self) -> Any:
        while len(self._running) < min(self._threads, len(self._jobs) - self._number):
            self._running.append(_Running(self._jobs[self._number + len(self._running)]))
        first = self._running[0]
        result = CLOSED if self._closed else first.next()
        if self._closed:
            self._stop()
            self._require_open()
        if isinstance(result, _Failed):
            self._stop()
            self._require_open()
            self._refused = isinstance(result.failure, BudgetExceeded)
            try:
                raise result.failure
            finally:  # its traceback would keep what was read alive
                del result, first
        if result is END:
            self._running.popleft()
        else:
            first.resume()
        return result

    def _next_alone(self) -> Any:
        """Runs the refused job in the calling thread. Its results before the refusal were taken already."""
        try:
            if self._alone is None:
                self._alone = self._jobs[self._number]()
                for _ in range(self._taken):
                    next(self._alone)
            return next(self._alone)
        except StopIteration:
            self._alone, self._refused = None, False
            return END
        except BaseException:
            self._alone = None
            raise

    def _stop(self) -> None:
        for job in list(self._running):
            job.stop()
        while self._running:
            self._running.popleft().wait()

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("reading was closed")

    def close(self) -> None:
        """Ends reading, also that of another thread, and waits for what is being decoded."""
        self._closed = True
        for job in list(self._running):
            job.stop()
        for job in list(self._running):
            job.wait()
        self._finish()

    def _finish(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()
