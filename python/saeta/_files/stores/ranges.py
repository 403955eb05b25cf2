"""Reads ranges of files and of objects in stores: by many requests at once, and ahead of their use.

A large range is read in pieces, each by a request of its own. `RangeFile.ahead` begins to read ranges that
will be needed, so that requests are in flight while earlier bytes are used. All files share the threads of
`requests.REQUESTS`.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from saeta._core import _copy_bytes
from saeta._files.stores.requests import REQUESTS, Request
from saeta._files.stores.retries import ShortBody
from saeta._ipc import FetchedBytes
from saeta.errors import FileError

PIECE = 4 << 20  # bytes of a request
MORE = PIECE // 4  # that a range may have beyond its pieces: a batch of 8 MiB has some bytes of metadata
SMALL_GAP = 128 << 10  # bytes between two ranges that are read by one request

OFFSET = attrgetter("offset")


class Ends(NamedTuple):
    """The number of the first and of the last bytes of a file that are read when it is opened."""

    front: int
    back: int


# Schemas and the metadata of the first batch, and footers. Readers keep them as long as files are open.
USUAL_ENDS = Ends(64 << 10, 256 << 10)
ENDS_OF_MANY = Ends(16 << 10, 32 << 10)
MANY = 256  # files


class _Piece(Request):
    """A range that is read by one request, into a target or into the bytes that the file has fetched."""

    def __init__(self, file: RangeFile, offset: int, size: int, target: memoryview | None = None) -> None:
        super().__init__(file.name, f"read {size} bytes at offset {offset} of", size)
        self.offset = offset
        self.end = offset + size
        self.holders = 1
        self.content: memoryview | None = None  # if it has no other place
        self.listeners: list[tuple[list[tuple[int, int]], Callable[[int], None]]] = []
        self._file = file
        self._target = target
        self._copying = allocate_lock()

    def attempt(self) -> None:
        content = self._file.read_once(self.offset, self.size)
        with self._copying:
            if self.cancelled:
                return
            if self._target is None:
                self.add(content)
            else:
                _copy_bytes(self._target, content)

    def add(self, content: memoryview) -> None:
        """Keeps the bytes, unless they have a place where they are read."""
        if self._file.fetched.add(self.offset, content):
            self.content = content

    def wait(self) -> None:
        try:
            super().wait()
        except ShortBody as failure:
            raise FileError(str(failure)) from None

    @classmethod
    def of(cls, file: RangeFile, offset: int, content: memoryview) -> _Piece:
        """Makes a piece that has been read."""
        piece = cls(file, offset, len(content))
        piece.add(content)
        piece.finished = True
        return piece

    def note_read(self, begin: int, end: int) -> None:
        """Tells those who asked for the piece how many of their bytes were read."""
        for ranges, listener in self.listeners:
            listener(sum(max(0, min(end, last) - max(begin, first)) for first, last in ranges))

    def cancel(self) -> None:
        """Ends the use of the target: nothing is written to it from now on."""
        self.cancelled = True
        with self._copying:
            if self._target is None:
                self._file.fetched.remove(self.offset, self.end)
            self._target = self.content = None


class Ahead:
    """Ranges that are being read. Their bytes are kept until this is closed or dropped."""

    def __init__(self, file: RangeFile, pieces: list[_Piece]) -> None:
        self._file = file
        self._pieces = pieces

    def close(self) -> None:
        """Drops the bytes, and the requests that were not sent."""
        pieces, self._pieces = self._pieces, []
        self._file.drop(pieces)

    def __del__(self) -> None:
        self.close()


class RangeFile:
    """A source of `size` bytes that is read by ranges.

    Args:
        read: (offset, count) -> content. Several threads call it, unless `is_direct`.
        is_direct: reads are calls of `read` by the thread that needs the bytes: others would wait for it.
        file: kept alive.

    Attributes:
        fetched: what was read ahead, where the library finds it without Python.
    """

    def __init__(
        self,
        name: str,
        size: int,
        read: Callable[[int, int], Any],
        *,
        is_direct: bool = False,
        file: Any = None,
    ) -> None:
        self.name = name
        self.size = size
        self.read = read
        self.is_direct = is_direct
        self.fetched = FetchedBytes()
        self._file = file
        self._state = allocate_lock()
        self._pieces: list[_Piece] = []  # that are read ahead, in rising order, without overlaps
        self._left: deque[_Piece] = deque()  # to be dropped
        self._process = os.getpid()
        self._ends: Ahead | None = None
        self._known: Ahead | None = None

    def read_ends(self, ends: Ends, known: Iterable[tuple[int, Any]]) -> None:
        """Begins to read what readers of files ask for first, and keeps it: the first and the last bytes.

        Args:
            known: parts of it that have been read: (offset, content).
        """
        held: list[_Piece] = []
        for offset, content in known:
            at = held[-1].end if held else 0
            part = memoryview(content).cast("B")[max(at - offset, 0) :]
            if len(part):
                held.append(_Piece.of(self, max(at, offset), part))
        self._pieces = held
        back = min(ends.back, self.size)
        self._ends = self.ahead([(0, ends.front), (self.size - back, back)])
        self._known = Ahead(self, held)

    def fill(self, offset: int, target: memoryview) -> None:
        """Fills the target with the bytes from `offset` on."""
        if self.is_direct:
            try:
                _copy_bytes(target, self.read_once(offset, len(target)))
            except ShortBody as failure:
                raise FileError(str(failure)) from None
            return
        end = offset + len(target)
        there = self._hold(offset, end)
        asked: list[_Piece] = []
        try:
            at = offset
            for piece in (*there, None):
                until = end if piece is None else max(at, piece.offset)
                asked += self._ask(at, target[at - offset : until - offset])
                at = end if piece is None else piece.end
            for piece in there:
                piece.wait()
                first, last = max(piece.offset, offset), min(piece.end, end)
                part = target[first - offset : last - offset]
                if not self.fetched.copy(first, part):  # their place is gone
                    asked += self._ask(first, part)
                piece.note_read(first, last)
            for piece in asked:
                piece.wait()
        finally:
            for piece in asked:
                piece.cancel()
            self.drop(there)

    def _ask(self, offset: int, target: memoryview) -> list[_Piece]:
        """Begins to read bytes that are waited for into a target."""
        asked = [
            _Piece(self, first, size, target[first - offset : first - offset + size])
            for first, size in _cut(offset, offset + len(target))
        ]
        if asked:
            REQUESTS.add(asked, first=True)
        return asked

    def view(self, offset: int, count: int) -> memoryview:
        """Returns the bytes from `offset` on, without a copy if one piece has them."""
        there = self._hold(offset, offset + count)
        try:
            if len(there) == 1 and there[0].offset <= offset and offset + count <= there[0].end:
                (piece,) = there
                piece.wait()
                if piece.content is not None:
                    piece.note_read(offset, offset + count)
                    return piece.content[offset - piece.offset : offset + count - piece.offset]
        finally:
            self.drop(there)
        target = memoryview(bytearray(count))
        self.fill(offset, target)
        return target

    def ahead(
        self, ranges: Iterable[tuple[int, int]], listener: Callable[[int], None] | None = None
    ) -> Ahead:
        """Begins to read ranges (offset, bytes), small neighbours together.

        Args:
            listener: called with numbers of bytes of these ranges when they were read from here.
        """
        ranges = sorted(ranges)
        held: list[_Piece] = []
        fresh: list[_Piece] = []
        with self._state:
            self._require_own_process()
            for begin, end in _joined(ranges, self.size):
                known = list(self._overlapping(begin, end))
                at = begin
                for piece in (*known, None):
                    until = end if piece is None else piece.offset
                    fresh += [_Piece(self, first, size) for first, size in _cut(at, until)]
                    at = end if piece is None else piece.end
                for piece in known:
                    piece.holders += 1
                held += known
            self._pieces = sorted([*self._pieces, *fresh], key=OFFSET)
            if listener is not None:
                for piece in (*held, *fresh):
                    wanted = [(first, first + count) for first, count in ranges]
                    own = [each for each in wanted if each[0] < piece.end and each[1] > piece.offset]
                    piece.listeners.append((own, listener))
        ahead = Ahead(self, held + fresh)
        if fresh:
            REQUESTS.add(fresh)
        self.drop(())
        return ahead

    def read_once(self, offset: int, count: int) -> memoryview:
        """Reads a range by one call. ShortBody if it returns another number of bytes."""
        content = memoryview(self.read(offset, count)).cast("B")
        if len(content) != count:
            raise ShortBody(
                f"can't read {count} bytes at offset {offset} of '{self.name}': it returned {len(content)}"
            )
        return content

    def drop(self, pieces: Iterable[_Piece]) -> None:
        """Ends the holding of pieces. Takes no lock that is held: a collection may call it anywhere."""
        self._left.extend(pieces)
        while self._left and self._state.acquire(blocking=False):
            dropped: set[_Piece] = set()
            try:
                while self._left:
                    piece = self._left.popleft()
                    piece.holders -= 1
                    if piece.holders == 0:
                        dropped.add(piece)
                if dropped:
                    self._pieces = [piece for piece in self._pieces if piece not in dropped]
            finally:
                self._state.release()
            for piece in dropped:
                piece.cancel()

    def _hold(self, begin: int, end: int) -> list[_Piece]:
        with self._state:
            self._require_own_process()
            pieces = list(self._overlapping(begin, end))
            for piece in pieces:
                piece.holders += 1
        return pieces

    def _overlapping(self, begin: int, end: int) -> Iterator[_Piece]:
        first = max(bisect_right(self._pieces, begin, key=OFFSET) - 1, 0)
        for piece in self._pieces[first:]:
            if piece.offset >= end:
                return
            if piece.end > begin:
                yield piece

    def _require_own_process(self) -> None:
        if self._process != os.getpid():  # the threads that would bring the pieces are the parent's
            self._process = os.getpid()
            self._pieces = []


def _joined(ranges: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yields ranges [begin, end), joined where gaps between them are small. `ranges` rise."""
    begin = end = -1
    for offset, count in ranges:
        if count <= 0 or offset >= size:
            continue
        if end >= 0 and offset - end <= SMALL_GAP:
            end = max(end, min(offset + count, size))
            continue
        if end > begin:
            yield begin, end
        begin, end = offset, min(offset + count, size)
    if end > begin:
        yield begin, end


def _cut(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields pieces (offset, bytes) of a range, of nearly the same size."""
    count = -(-max(end - begin - MORE, min(end - begin, 1)) // PIECE)
    for number in range(count):
        first = begin + (end - begin) * number // count
        yield first, begin + (end - begin) * (number + 1) // count - first
