"""The sources of readers: paths, bytes, and objects of pyarrow, fsspec and Python.

Objects are read by ranges, or forward if they can't seek.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

from saeta._files.filesystems import (
    file_error,
    file_system,
    filesystem_of,
    is_url,
    without_secrets,
)
from saeta._files.stores.ranges import ENDS_OF_MANY, MANY, USUAL_ENDS, RangeFile
from saeta._files.stores.requests import call_all
from saeta.errors import FileError, TypeMismatch

if TYPE_CHECKING:
    Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
    """What one file is read from: a path, a glob, a folder, a URL, bytes, or an object with `read`."""
    Sources: TypeAlias = Source | Sequence[Source] | Iterator[Source]
    """One source, or several whose rows come one after the other."""


class Live:
    """A stream that is still being sent: an object that can't seek.

    It is read forward, and only as far as requested.
    """

    MAGIC = b"ARROW1"
    MOST = 1 << 20  # bytes per call

    def __init__(self, file: Any, name: str) -> None:
        self.name = name
        # `read1` waits for some bytes and loses none that came before a Ctrl-C. It returns no bytes both at
        # the end and where it does not wait; `read` then tells which it is.
        self._take = file.read1 if isinstance(file, io.BufferedIOBase) else file.read
        self._take_at_end = file.read if isinstance(file, io.BufferedIOBase) else None
        self._begun = b""

    def fill(self, target: memoryview) -> int:
        """Copies the next bytes to the beginning of the target. Returns their number, 0 at the end."""
        if self._begun:
            part, self._begun = self._begun[: len(target)], self._begun[len(target) :]
        else:
            part = self._read(min(len(target), self.MOST))
        target[: len(part)] = part
        return len(part)

    def begins_a_file(self) -> bool:
        """Whether the source has the file format, whose end is the end of the source.

        Reads no more bytes than needed to decide.
        """
        while len(self._begun) < len(self.MAGIC) and self.MAGIC.startswith(self._begun):
            part = self._read(1 if len(self._begun) >= 4 else 4 - len(self._begun))
            if not part:
                return False
            self._begun += bytes(part)
        return self._begun == self.MAGIC

    def read_rest(self) -> bytes:
        """Returns all remaining bytes."""
        parts = [self._begun]
        while part := self._read(self.MOST):
            parts.append(bytes(part))
        return b"".join(parts)

    def _read(self, most: int) -> Any:
        try:
            part = self._take(most)
            if part == b"" and self._take_at_end is not None:
                part = self._take_at_end(1)
        except BlockingIOError as failure:
            raise self._no_bytes_error() from failure
        if part is None:
            raise self._no_bytes_error()
        part = bytes_of(part, self.name)
        if len(part) > most:
            raise FileError(f"'{self.name}' returned {len(part)} bytes when {most} were requested")
        return part

    def _no_bytes_error(self) -> FileError:
        return FileError(
            f"'{self.name}' is non-blocking and has no bytes now: make it blocking (os.set_blocking, "
            "setblocking)"
        )


def bytes_of(content: Any, name: str) -> Any:
    """Returns the result of a `read` call as bytes."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        raise _text_error(name)
    try:
        return memoryview(content).cast("B")
    except TypeError:
        raise TypeMismatch(f"read() of '{name}' returns {type(content).__name__}, expected bytes") from None


def _text_error(name: str) -> TypeMismatch:
    return TypeMismatch(
        f"read() of '{name}' returns text, expected bytes: open it in binary mode, or pass its .buffer "
        "(sys.stdin.buffer)"
    )


def resolve_source(source: Any, filesystem: Any = None) -> Any:
    """Turns a source into a path on this machine, bytes, a RangeFile or Live."""
    place = remote_place(source, filesystem)
    if place is not None:
        return open_remote([place])[0]
    if isinstance(source, str | os.PathLike):
        return _open_path(source)
    if filesystem is not None:
        raise TypeMismatch(f"filesystem is for a path, and source is of type {type(source).__name__}")
    if hasattr(source, "read"):
        return _open_object(source)
    try:
        return memoryview(source)  # bytes or any object with the buffer protocol
    except TypeError:
        raise TypeMismatch(
            f"source is of type {type(source).__name__}, expected a path, bytes or an object with read()"
        ) from None


class RemotePlace(NamedTuple):
    """A path in a file system."""

    filesystem: Any
    path: str


def remote_place(source: Any, filesystem: Any = None) -> RemotePlace | None:
    """Returns where a path is, if it is a URL or a path in a file system."""
    if not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    if isinstance(path, str) and is_url(path, filesystem):
        return RemotePlace(*filesystem_of(path, filesystem))
    return None if filesystem is None else RemotePlace(filesystem, path)


def open_remote(places: Sequence[RemotePlace]) -> list[RangeFile]:
    """Opens files of file systems at once, and begins to read their ends."""
    ends = USUAL_ENDS if len(places) <= MANY else ENDS_OF_MANY
    calls: list[tuple[str, Callable[[], Any]]] = []
    for filesystem, path in places:
        files = file_system(filesystem)
        calls.append((path, partial(files.open, path, ends.back)))
        if files.reads_fronts:
            calls.append((path, partial(files.read_front, path, ends.front)))
    answers = iter(call_all(calls))
    opened: list[RangeFile] = []
    for filesystem, path in places:
        file = next(answers)
        known = [] if file.tail is None else [file.tail]
        if file_system(filesystem).reads_fronts:
            content, tag = next(answers)
            if tag == file.tag and len(content) <= file.size:  # otherwise it has changed since
                known.insert(0, (0, content))
        opened.append(RangeFile(path, file.size, file.read))
        opened[-1].read_ends(ends, known)
    return opened


# Paths that name open file descriptors of the process.
_OPEN = re.compile(r"/dev/std(in)|/(?:dev|proc/self)/fd/(\d+)")


def is_live(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a pipe, a socket or a device, which can be read once."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a Path takes a tenth of the time of a small read
    except (OSError, ValueError):
        return False  # the attempt to open it reports the error
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


class _Descriptor:
    """A file descriptor that is closed when its last owner is gone."""

    def __init__(self, number: int) -> None:
        self._number = number

    def read(self, size: int) -> bytes:
        return os.read(self._number, size)

    def __del__(self) -> None:
        with suppress(OSError):  # the program has closed all descriptors
            os.close(self._number)


def _open_path(path: Any) -> Any:
    if not is_live(path):
        return path
    text = os.fsdecode(path)
    known = _OPEN.fullmatch(text)
    try:
        if known is not None and Path(text).is_socket():  # a socket can't be opened by its path
            opened = _Descriptor(os.dup(int(known[2] or 0)))
        else:
            opened = _Descriptor(os.open(path, os.O_RDONLY))
    except OSError as failure:
        reason = f"{failure.strerror} (errno {failure.errno})"
        raise file_error(f"can't open '{text}': {reason}", failure) from failure
    return _open_live(opened, text)


def _open_live(file: Any, name: str) -> Any:
    live = Live(file, name)
    return live.read_rest() if live.begins_a_file() else live


def name_of(source: Any) -> str:
    """Returns what messages call a source."""
    if isinstance(source, str | os.PathLike):
        return without_secrets(os.fsdecode(source))
    return source.name if isinstance(source, RangeFile) else type(source).__name__


def _open_object(file: Any) -> Any:
    called = _name_of(file)
    if isinstance(file, io.TextIOBase):
        raise _text_error(called)
    if hasattr(file, "read_at"):  # a file of pyarrow: any thread can read
        with suppress(OSError, ValueError):
            size, first = file.size(), file.tell() if hasattr(file, "tell") else 0
            return RangeFile(called, size - first, lambda at, count: file.read_at(count, first + at))
    if _is_of_fsspec(file):
        first = file.tell()  # the object has one position for all threads; its file system has none
        return RangeFile(
            called,
            file.size - first,
            lambda at, count: file.fs.cat_file(file.path, first + at, first + at + count),
        )
    if _seekable(file):
        return _open_seekable(file, called)
    if not _takes_a_size(file.read):
        return bytes_of(file.read(), called)
    return _open_live(file, called)


def _takes_a_size(read: Callable[..., Any]) -> bool:
    try:
        inspect.signature(read).bind(1)
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        pass
    return True


def _is_of_fsspec(file: Any) -> bool:
    """Whether the file system of the file can read the same bytes. Some of these files have no mode."""
    return (
        hasattr(getattr(file, "fs", None), "cat_file")
        and isinstance(getattr(file, "path", None), str)
        and isinstance(getattr(file, "size", None), int)
        and getattr(file, "mode", "rb") == "rb"
    )


def _seekable(file: Any) -> bool:
    """Whether ranges can be read.

    Decompressing files are excluded: they seek back by decoding from the start.
    """
    if type(file).__module__ in ("gzip", "bz2", "lzma", "zipfile", "compression.zstd"):
        return False
    try:
        if not file.seekable():
            return False
        file.seek(file.tell())  # a wrapper of a pipe may claim to be seekable
    except (AttributeError, OSError):
        return False
    return True


def _open_seekable(file: Any, name: str) -> RangeFile:
    """Reads ranges relative to the current position, one thread at a time."""
    turn = threading.Lock()
    first = file.tell()
    file.seek(0, os.SEEK_END)
    size = file.tell() - first
    file.seek(first)

    def read(offset: int, count: int) -> bytes:
        parts = []
        with turn:
            file.seek(first + offset)
            while count > 0 and (part := bytes_of(file.read(count), name)):
                parts.append(part)
                count -= len(part)
        return b"".join(parts)

    return RangeFile(name, size, read, is_direct=True)


def _name_of(file: Any) -> str:
    name = getattr(file, "path", None) or getattr(file, "name", None)
    return name if isinstance(name, str) else type(file).__name__
