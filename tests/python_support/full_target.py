"""A file object whose disk is full."""

from __future__ import annotations

import io
from typing import Any


class FullTarget(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(28, "no space left")
