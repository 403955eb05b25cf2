"""What has to happen when an object is dropped, also if an interrupt comes meanwhile."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from weakref import WeakSet

from saeta._core import _AtEnd, _call_to_the_end


class Ending:
    """Calls a function once: when it is told to, when its owner is dropped, or at the end of the program.

    Unlike `weakref.finalize` it runs the function to its end: an interrupt that comes meanwhile is raised in
    the program afterwards. The function may be begun several times for that. The owner keeps the Ending, and
    the function does not refer to the owner.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self._once = _Once(action)
        self._at_end = _AtEnd(self._once)
        _all.add(self._once)

    def __call__(self) -> None:
        _call_to_the_end(self._once)

    def detach(self) -> None:
        """Forgets the function."""
        self._once.action = None


class _Once:
    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def __call__(self) -> None:
        if self.action is not None:
            self.action()
            self.action = None


_all: WeakSet[_Once] = WeakSet()


def _end_all() -> None:
    for each in list(_all):
        each()


atexit.register(_end_all)
