"""A dict of weakly referenced values that is safe against Ctrl-C."""

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
    """A dict that does not keep its values alive.

    `weakref.WeakValueDictionary` runs lines of Python when a value is dropped. Ctrl-C that arrives in them is
    lost. Here later calls remove the keys of dropped values.
    """

    def __init__(self) -> None:
        self._references: dict[K, _Reference] = {}
        self._ended: deque[_Reference] = deque()

    def get(self, key: K) -> V | None:
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __setitem__(self, key: K, value: V) -> None:
        self._forget_ended()
        reference = _Reference(value, self._ended.append)
        reference.key = key
        self._references[key] = reference

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
