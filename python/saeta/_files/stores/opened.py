"""A file of a file system or a store that is open to be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Opened(NamedTuple):
    """A file to read.

    Attributes:
        read: (offset, count) -> content. Any thread may call it.
        tag: differs for every content of the file. None: the store has no such tags.
        tail: the offset and the content of its last bytes, if they came with its size.
    """

    size: int
    read: Callable[[int, int], Any]
    tag: str | None = None
    tail: tuple[int, Any] | None = None
