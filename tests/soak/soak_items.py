"""The items that tests/soak/soak.py holds: buffers, exported views, imported arrays and tables. Each can
check its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import saeta as sa
from soak_peers import Peer


class WrongError(Exception):
    """An invariant of the memory layers is violated."""


def require(true: bool, text: str) -> None:
    if not true:
        raise WrongError(text)


def require_sum(found: int, expected: int, what: str) -> None:
    require(found == expected, f"the values of {what} add up to {found}, not {expected}")


class Block:
    """A buffer filled with one int32 value, accessed under use tokens.

    If no installed framework can access the memory, it is only allocated.
    """

    def __init__(self, buffer: sa.Buffer, kernels: Peer | None) -> None:
        self.buffer = buffer
        self.kernels = kernels
        self.value = 0

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    @property
    def tag(self) -> str:
        return self.buffer.tag

    def token(self, read: sa.Buffer, writes: Sequence[sa.Buffer] = ()) -> sa.UseToken:
        """Opens a use token. If the framework rejects read-only arrays, it declares reads as writes."""
        if self.kernels is not None and not self.kernels.reads_read_only:
            return sa.use(writes=[read, *writes])
        return sa.use(reads=[read], writes=writes)

    def write(self, value: int) -> None:
        if self.kernels is None:
            return
        with sa.use(writes=[self.buffer]) as token, self.kernels.on(token.stream):
            self.kernels.fill(self.kernels.view(token.array(self.buffer, "i4")), value)
        self.value = value

    def copy_from(self, source: Block) -> None:
        if self.kernels is None:
            return
        with self.token(source.buffer, writes=[self.buffer]) as token, self.kernels.on(token.stream):
            target = self.kernels.view(token.array(self.buffer, "i4"))
            target[:] = self.kernels.view(token.array(source.buffer, "i4"))
        self.value = source.value

    def check(self) -> None:
        if self.kernels is None:
            return
        half = self.buffer[: self.nbytes // 8 * 4]
        for part in (self.buffer, half):
            with self.token(part) as token, self.kernels.on(token.stream):
                found = int(self.kernels.total(self.kernels.view(token.array(part, "i4"))))
            require_sum(found, self.value * (part.nbytes // 4), repr(part))


class View:
    """An export of a column that has been dropped: the sum that a framework computes of it on its own stream,
    maybe still pending, and sometimes the framework's view.
    """

    def __init__(
        self, peer: Peer, stream: AbstractContextManager[Any], view: Any, total: Any, expected: int
    ) -> None:
        self.peer = peer
        self.stream = stream
        self.view = view
        self.total = total
        self.expected = expected

    def check(self) -> None:
        with self.stream:
            require_sum(int(self.total), self.expected, f"a view of {self.peer.name}")
            if self.view is not None:
                found = int(self.peer.total(self.view))
                require_sum(found, self.expected, f"a kept view of {self.peer.name}")


class Loan:
    """A column imported without a copy from a framework's array, which has been dropped."""

    def __init__(self, column: sa.Column, expected: int) -> None:
        self.column = column
        self.expected = expected

    def check(self) -> None:
        found = int(self.column.to_numpy(copy=True).sum(dtype=np.int64))
        require_sum(found, self.expected, f"a loan, {self.column!r}")


class Rows:
    """A table read from a file with the columns `number` (0, 1, ...) and `half` (0, 0.5, ...)."""

    def __init__(self, table: sa.Table, rows: int) -> None:
        self.table = table
        self.rows = rows

    def check(self) -> None:
        numbers = np.arange(self.rows)
        for name, expected in (("number", numbers), ("half", numbers / 2)):
            found = self.table[name].to_numpy(copy=True)
            require(np.array_equal(found, expected), f"column '{name}' of the file has changed")
