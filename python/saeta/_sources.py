"""What a reader reads: paths, bytes, and objects of pyarrow, fsspec and Python that read ranges."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from saeta._optional import load
from saeta.errors import FileError, MissingFileError, TypeMismatch

if TYPE_CHECKING:
    from saeta._ipc import Reader

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]

# A scheme of one letter is a drive.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Ranges(NamedTuple):
    """A source that is read by ranges."""

    name: str
    size: int
    read: Callable[[int, int], Any]  # offset, bytes: what is there; from several threads
    keep: Any  # lives as long as the reader

    def fill(self, offset: int, target: memoryview) -> None:
        content = self.read(offset, len(target))
        if len(content) != len(target):
            raise FileError(
                f"can't read {len(target)} bytes at offset {offset} of '{self.name}': it gave {len(content)}"
            )
        target[:] = memoryview(content).cast("B")


def open_reader(
    ipc: Any,
    opened: Any,
    columns: Sequence[str] | None = None,
    batches: tuple[int, int] | None = None,
    copy: bool | None = None,
    validate: bool | str = True,
    rechunk: bool | None = None,
) -> Reader:
    """A reader of the module `_ipc` for what `resolved` has returned."""
    options = (columns, batches, copy, validate, rechunk)
    reader: Reader
    if isinstance(opened, Ranges):
        reader = ipc.open_ranges(opened.fill, opened.name, opened.size, *options)
    elif isinstance(opened, str | os.PathLike):
        reader = ipc.open_file(opened, *options)
    else:
        reader = ipc.open_bytes(opened, *options)
    return reader


def resolved(source: Any, filesystem: Any = None) -> Any:
    """A path of this machine, bytes, or Ranges."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if filesystem is not None:
            return _of_filesystem(filesystem, path)
        return _of_url(path) if URL.match(path) else source
    if filesystem is not None:
        raise TypeMismatch(f"filesystem is for a path, and source is of type {type(source).__name__}")
    if isinstance(source, bytes | bytearray | memoryview):
        return source
    if hasattr(source, "read"):
        return _of_file(source)
    try:
        return memoryview(source)
    except TypeError:
        raise TypeMismatch(
            f"source is of type {type(source).__name__}, expected a path, bytes or an object with read()"
        ) from None


def _of_url(url: str) -> Any:
    """By pyarrow's file systems, by fsspec where they don't know the scheme."""
    fs = load("pyarrow.fs", "reading from a URL")
    try:
        found, path = fs.FileSystem.from_uri(url)
    except (ValueError, NotImplementedError):  # pyarrow.ArrowInvalid is a ValueError
        found, path = load("fsspec.core", "reading from this URL").url_to_fs(url)
    return _of_filesystem(found, path)


def _of_filesystem(filesystem: Any, path: str) -> Any:
    if hasattr(filesystem, "open_input_file"):  # of pyarrow
        try:
            return _of_file(filesystem.open_input_file(path), name=path)
        except FileNotFoundError as failure:
            raise MissingFileError(str(failure)) from failure
    if hasattr(filesystem, "cat_file"):  # of fsspec
        try:
            size = filesystem.info(path)["size"]
        except FileNotFoundError as failure:
            raise MissingFileError(f"can't open '{path}': {failure}") from failure
        return Ranges(path, size, lambda at, count: filesystem.cat_file(path, at, at + count), filesystem)
    raise TypeMismatch(
        f"filesystem is of type {type(filesystem).__name__}, expected one of pyarrow.fs or of fsspec"
    )


def _of_file(file: Any, name: str | None = None) -> Any:
    called = name or _name_of(file)
    if hasattr(file, "read_at"):  # of pyarrow: for any thread, without the GIL
        with suppress(OSError, ValueError):
            return Ranges(called, file.size(), lambda at, count: file.read_at(count, at), file)
    if _of_fsspec(file):
        first = file.tell()  # the object has one position for all threads, its file system none
        return Ranges(
            called,
            file.size - first,
            lambda at, count: file.fs.cat_file(file.path, first + at, first + at + count),
            file,
        )
    if _seekable(file):
        return _of_position(file, called)
    return file.read()


def _of_fsspec(file: Any) -> bool:
    """Whether its file system reads the same bytes; not all such files have a mode."""
    return (
        hasattr(getattr(file, "fs", None), "cat_file")
        and isinstance(getattr(file, "path", None), str)
        and isinstance(getattr(file, "size", None), int)
        and getattr(file, "mode", "rb") == "rb"
    )


def _seekable(file: Any) -> bool:
    try:
        return bool(file.seekable())
    except AttributeError:
        return False


def _of_position(file: Any, name: str) -> Ranges:
    """From the position on where it is now, one thread after the other."""
    turn = threading.Lock()
    first = file.tell()
    size = file.seek(0, os.SEEK_END) - first
    file.seek(first)

    def read(offset: int, count: int) -> bytes:
        parts = []
        with turn:
            file.seek(first + offset)
            while count > 0 and (part := file.read(count)):
                parts.append(part)
                count -= len(part)
        return b"".join(parts)

    return Ranges(name, size, read, file)


def _name_of(file: Any) -> str:
    name = getattr(file, "path", None) or getattr(file, "name", None)
    return name if isinstance(name, str) else type(file).__name__
