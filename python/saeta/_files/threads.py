"""Threads of Python that an interrupt of the main thread can't leave half started.

Python runs signal handlers on the main thread only, between any two of its lines. `Thread.start` is made of
many: after an interrupt nobody knows whether the thread runs, and `Thread.join` may refuse to wait for it.
"""

from __future__ import annotations

import threading
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable


class Worker:
    """A daemon thread: the end of the program does not wait for it."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._run = run
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._begun = False
        self._running = allocate_lock()  # from `start` to the end of the work
        self._running.acquire()

    def start(self) -> None:
        """Starts the thread. Call it once. RuntimeError if the system has no more threads."""
        if self._begun:
            return
        start = self._start
        self._begun = True  # one call starts the thread, so no interrupt can come between the two
        try:
            start_new_thread(start, ())
        except RuntimeError:
            self._begun = False
            raise

    def wait(self) -> None:
        """Waits until the thread has ended, if it was started. Does nothing on the thread itself."""
        if self._begun and self._thread is not threading.current_thread():
            with self._running:
                pass
            if self._thread.ident is not None:
                self._thread.join()

    def _start(self) -> None:
        """Starts the thread from another thread, where Python runs no signal handlers."""
        try:
            self._thread.start()
        except RuntimeError:  # the system has no more threads: this thread does the work
            self._work()

    def _work(self) -> None:
        try:
            self._run()
        finally:
            # `_run` often refers to this worker. Without this cycle its source is released at once, not by
            # the next garbage collection.
            self._run = _nothing
            self._running.release()


def _nothing() -> None:
    pass
