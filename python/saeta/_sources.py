"""What a reader reads: paths, bytes, and objects of pyarrow, fsspec and Python that read ranges."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from saeta._optional import load
from saeta.errors import Error, FileError, InvalidError, MissingDependency, MissingFileError, TypeMismatch

if TYPE_CHECKING:
    from saeta._ipc import Reader

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]

# A scheme of one letter is a drive.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
RETRY_SECONDS = 10  # of a store that does not answer


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
        return _of_filesystem(*filesystem_of(path)) if URL.match(path) else source
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


def filesystem_of(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it: one of pyarrow's, or of fsspec where they don't know the scheme."""
    fs = load("pyarrow.fs", "reading from a URL")
    known: tuple[Any, str]
    with _as_file_errors(without_secrets(url)):
        try:
            known = fs.FileSystem.from_uri(_bounded(url))
            return known
        except (ValueError, NotImplementedError) as failure:  # pyarrow.ArrowInvalid is a ValueError
            of_pyarrow = failure
        try:
            known = load("fsspec.core", "reading from this URL").url_to_fs(url)
            return known
        except (ValueError, ImportError) as failure:
            kind = InvalidError if isinstance(failure, ValueError) else MissingDependency
            why = f"pyarrow says: {of_pyarrow}; fsspec says: {failure}".replace(url, without_secrets(url))
            raise kind(f"can't open '{without_secrets(url)}': {why}") from None


def without_secrets(url: str) -> str:
    """A URL for messages: without user, password and options."""
    return re.sub(r"//[^/?]*@", "//", url).partition("?")[0]


def _bounded(url: str) -> str:
    """Google's client tries for 15 minutes where nothing else is said."""
    if not url.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}retry_limit_seconds={RETRY_SECONDS}"


@contextmanager
def _as_file_errors(name: str) -> Iterator[None]:
    """What a file system raises becomes a FileError."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError as failure:
        raise MissingFileError(f"can't open '{name}': {failure}") from failure
    except OSError as failure:
        raise FileError(f"can't read '{name}': {failure}") from failure


def _of_filesystem(filesystem: Any, path: str) -> Any:
    if hasattr(filesystem, "open_input_file"):  # of pyarrow
        with _as_file_errors(path):
            found = _of_file(filesystem.open_input_file(path), name=path)
        return _with_file_errors(found) if isinstance(found, Ranges) else found
    if hasattr(filesystem, "cat_file"):  # of fsspec
        with _as_file_errors(path):
            size = filesystem.info(path)["size"]
        return _with_file_errors(
            Ranges(path, size, lambda at, count: filesystem.cat_file(path, at, at + count), filesystem)
        )
    raise TypeMismatch(
        f"filesystem is of type {type(filesystem).__name__}, expected one of pyarrow.fs or of fsspec"
    )


def _with_file_errors(source: Ranges) -> Ranges:
    def read(offset: int, count: int) -> Any:
        with _as_file_errors(source.name):
            return source.read(offset, count)

    return source._replace(read=read)


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
