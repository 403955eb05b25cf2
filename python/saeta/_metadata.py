"""Metadata of schemas and fields: a mapping of bytes, as in the Arrow format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from saeta.errors import InvalidError, TypeMismatch

Pairs = list[tuple[bytes, bytes]]
EXTENSION = b"ARROW:extension:"


class Metadata(Mapping[bytes, bytes]):
    """An immutable mapping of bytes to bytes, in the order of the schema.

    A look-up by text uses its UTF-8 bytes.

    Arrow allows repeated keys: the mapping shows the first value of a key, `pairs` has all of them.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._pairs = tuple(pairs)
        self._first: dict[bytes, bytes] = {}
        for key, value in self._pairs:
            self._first.setdefault(key, value)

    @property
    def pairs(self) -> Pairs:
        """All keys and values in order, including repeated keys."""
        return list(self._pairs)

    def __getitem__(self, key: str | bytes) -> bytes:
        return self._first[_bytes_of(key)]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str | bytes) and _bytes_of(key) in self._first

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def __reduce__(self) -> tuple[Any, ...]:
        return Metadata, (self.pairs,)

    def __repr__(self) -> str:
        return repr(self._first)


def pairs_of(given: Any) -> Pairs:
    """Returns keys and values as bytes, from a mapping, from pairs, or from None."""
    if given is None:
        return []
    if isinstance(given, Metadata):
        return given.pairs
    if not isinstance(given, Mapping | list | tuple):
        raise TypeMismatch(f"metadata is of type {type(given).__name__}, expected a mapping of text or bytes")
    pairs = [
        (_bytes_of(key), _bytes_of(value))
        for key, value in (given.items() if isinstance(given, Mapping) else given)
    ]
    if any(key.startswith(EXTENSION) for key, _ in pairs):
        raise InvalidError("metadata: keys that begin with ARROW:extension: belong to the type of a field")
    return pairs


def _bytes_of(text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeMismatch(f"metadata: {text!r} is neither text nor bytes")
