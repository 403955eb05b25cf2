"""Waits for what happens in other threads and processes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def eventually(true: Callable[[], bool], *, collect: bool = True) -> bool:
    """Returns whether something becomes true within a minute, which is long also on a busy machine.

    Args:
        collect: whether cycles are collected meanwhile, where what is waited for may hang in one.
    """
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            return False
        if collect:
            gc.collect()
        time.sleep(0.005)
    return True
