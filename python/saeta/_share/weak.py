"""Values that are known as long as somebody else has them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Reference(weakref.ref[Any]):
    __slots__ = ("key",)

    key: Any


class WeakValues(Generic[K, V]):
    """Finds values by keys.

    `weakref.WeakValueDictionary` runs lines of Python when a value is dropped, and Ctrl-C in these is lost.
    Here keys of dropped values are removed by later calls.
    """

    def __init__(self) -> None:
        self._references: dict[K, _Reference] = {}
        self._ended: deque[_Reference] = deque()

    def get(self, key: K) -> V | None:
        found = self._references.get(key)
        return None if found is None else found()

    def __setitem__(self, key: K, value: V) -> None:
        self._forget_ended()
        made = _Reference(value, self._ended.append)
        made.key = key
        self._references[key] = made

    def __len__(self) -> int:
        self._forget_ended()
        return len(self._references)

    def clear(self) -> None:
        self._references.clear()
        self._ended.clear()

    def _forget_ended(self) -> None:
        while self._ended:
            ended: _Reference = self._ended.popleft()
            key = ended.key
            if self._references.get(key) is ended:
                del self._references[key]
