"""Runs a function on several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_in_threads(count: int, work: Callable[[int], object]) -> None:
    """Calls `work` on each of `count` threads with the number of the thread. Raises the first failure."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
