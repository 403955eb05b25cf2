"""Checks the byte ranges of copies."""

from __future__ import annotations


def bytes_to_copy(position: int, nbytes: int, available: int, size: int, whose: str) -> int:
    """Returns how many bytes to copy from `available` bytes to `position` of a buffer of `size` bytes.

    nbytes -1: as many as fit.
    """
    if not 0 <= position <= size:
        raise ValueError(f"position argument is out-of-range: {position} in a buffer of {size} bytes")
    if nbytes < 0:
        return min(size - position, available)
    if nbytes > available:
        raise ValueError(f"requested more to copy than available from {whose}: {nbytes} of {available} bytes")
    if nbytes > size - position:
        raise ValueError(
            f"requested more to copy than available in device buffer: {nbytes} bytes at {position} of {size}"
        )
    return nbytes
