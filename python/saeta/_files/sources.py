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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

from saeta._files.filesystems import (
    URL,
    file_error,
    file_system,
    filesystem_of,
    raise_as_file_errors,
    without_secrets,
)
from saeta.errors import FileError, TypeMismatch

if TYPE_CHECKING:
    Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
    Sources: TypeAlias = Source | Sequence[Source] | Iterator[Source]


class Ranges(NamedTuple):
    """A source that is read by ranges."""

    name: str
    size: int
    read: Callable[[int, int], Any]  # (offset, bytes) -> content; called by several threads
    keep: Any  # kept alive as long as the reader

    def fill(self, offset: int, target: memoryview) -> None:
        content = self.read(offset, len(target))
        if len(content) != len(target):
            raise FileError(
                f"can't read {len(target)} bytes at offset {offset} of '{self.name}': it returned "
                f"{len(content)}"
            )
        target[:] = memoryview(content).cast("B")


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
    """Turns a source into a path on this machine, bytes, Ranges or Live."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if filesystem is not None:
            return _open_on_filesystem(filesystem, path)
        if isinstance(path, str) and URL.match(path):
            return _open_on_filesystem(*filesystem_of(path))
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
    return type(source).__name__


def _open_on_filesystem(filesystem: Any, path: str) -> Any:
    files = file_system(filesystem)
    with raise_as_file_errors(path):
        found = _open_object(files.open(path), name=path)
    return _wrap_file_errors(found) if isinstance(found, Ranges) else found


def _wrap_file_errors(source: Ranges) -> Ranges:
    def read(offset: int, count: int) -> Any:
        with raise_as_file_errors(source.name):
            return source.read(offset, count)

    return source._replace(read=read)


def _open_object(file: Any, name: str | None = None) -> Any:
    called = name or _name_of(file)
    if isinstance(file, io.TextIOBase):
        raise _text_error(called)
    if hasattr(file, "read_at"):  # a file of pyarrow or of `file_system`: any thread can read
        with suppress(OSError, ValueError):
            size, first = file.size(), file.tell() if hasattr(file, "tell") else 0
            return Ranges(called, size - first, lambda at, count: file.read_at(count, first + at), file)
    if _is_of_fsspec(file):
        first = file.tell()  # the object has one position for all threads; its file system has none
        return Ranges(
            called,
            file.size - first,
            lambda at, count: file.fs.cat_file(file.path, first + at, first + at + count),
            file,
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


def _open_seekable(file: Any, name: str) -> Ranges:
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

    return Ranges(name, size, read, file)


def _name_of(file: Any) -> str:
    name = getattr(file, "path", None) or getattr(file, "name", None)
    return name if isinstance(name, str) else type(file).__name__
