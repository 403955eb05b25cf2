"""Times the parts of reads that run outside of Saeta's own library, for `saeta.profile_read`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from time import perf_counter
from typing import Any


class Clock:
    """Sums of seconds by the name of a part, over all threads that wait for it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = Lock()

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[part] = self.seconds.get(part, 0.0) + perf_counter() - start


running: Clock | None = None  # set by a profile while it reads


def timed(part: str) -> AbstractContextManager[None]:
    """Returns a context whose time is counted to a part, if a profile is running."""
    return nullcontext() if running is None else running.timed(part)


def each(items: Iterable[Any], part: str) -> Iterator[Any]:
    """Yields the items of an iterable. The time of its steps is counted to a part."""
    steps = iter(items)
    while True:
        with timed(part):
            try:
                item = next(steps)
            except StopIteration:
                return
        yield item
        del item  # its consumer may release it while the next one is made
