"""Waits for events in other threads and processes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def eventually(true: Callable[[], bool], *, collect: bool = True) -> bool:
    """Calls `true` until it returns True, for at most a minute. Returns whether it did.

    Args:
        collect: run the garbage collector between calls, for conditions that depend on reference cycles.
    """
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            return False
        if collect:
            gc.collect()
        time.sleep(0.005)
    return True
