"""File systems of pyarrow and of fsspec behind one interface, and those of URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from saeta._optional import load
from saeta.errors import Error, FileError, InvalidError, MissingDependency, MissingFileError, TypeMismatch

# A scheme of one letter is the letter of a drive.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
RETRY_SECONDS = 10  # for a store that does not answer


class FileSystem(Protocol):
    """What the readers and writers need of a file system. `file_system` makes one."""

    def kind(self, path: str) -> str:
        """Returns "file", "directory", or "" if there is nothing, or the file system can't tell."""

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        """Returns the paths of the files in a folder; if `deep`, also of those in folders below it."""

    def open(self, path: str) -> Any:
        """Returns a file with `size()` and `read_at(count, offset)`, which any thread may call."""

    def target(self, path: str) -> tuple[str, bool]:
        """Returns the path of a file to write, and whether it is a path on this machine."""

    def create(self, path: str) -> Any:
        """Opens a file to write."""

    def abort(self, file: Any, path: str) -> None:
        """Removes a partly written file, as far as the file system can."""


class _OfPyarrow(NamedTuple):
    system: Any

    def kind(self, path: str) -> str:
        types = load("pyarrow.fs", "reading from a file system").FileType
        with raise_as_file_errors(path):
            found = self.system.get_file_info(path).type
        return {types.File: "file", types.Directory: "directory"}.get(found, "")

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        fs = load("pyarrow.fs", "reading from a file system")
        infos = self.system.get_file_info(fs.FileSelector(folder, recursive=deep))
        return [info.path for info in infos if info.type == fs.FileType.File]

    def open(self, path: str) -> Any:
        return self.system.open_input_file(path)

    def target(self, path: str) -> tuple[str, bool]:
        return path, self.system.type_name == "local"

    def create(self, path: str) -> Any:
        return self.system.open_output_stream(path, compression=None)  # otherwise by the suffix of the name

    def abort(self, file: Any, path: str) -> None:
        _close_and_remove(file, self.system.delete_file, path)


class _OfFsspec(NamedTuple):
    system: Any

    def kind(self, path: str) -> str:
        try:
            return str(self.system.info(path).get("type", ""))
        except OSError:
            return ""  # the attempt to open it reports the error

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        found: list[str] = self.system.find(folder, maxdepth=None if deep else 1)
        return found

    def open(self, path: str) -> Any:
        return _RangesOfFsspec(self.system, path, self.system.info(path)["size"])

    def target(self, path: str) -> tuple[str, bool]:
        local = load("fsspec.implementations.local", "writing to this file system").LocalFileSystem
        is_local = isinstance(self.system, local)
        path = self.system._strip_protocol(path)
        if is_local and self.system.auto_mkdir:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return path, is_local

    def create(self, path: str) -> Any:
        return self.system.open(path, "wb")

    def abort(self, file: Any, path: str) -> None:
        if _drops_parts(file):
            file.closed = True  # closing the file would complete the upload
        else:
            _close_and_remove(file, self.system.rm_file, path)


class _RangesOfFsspec(NamedTuple):
    """A file whose ranges the file system reads: an open file of fsspec has one position for all threads."""

    system: Any
    path: str
    bytes: int

    def size(self) -> int:
        return self.bytes

    def read_at(self, count: int, offset: int) -> Any:
        return self.system.cat_file(self.path, offset, offset + count)


def file_system(system: Any) -> FileSystem:
    """Returns the interface to a file system of pyarrow or of fsspec. TypeMismatch for another object."""
    if hasattr(system, "open_input_file"):
        return _OfPyarrow(system)
    if hasattr(system, "cat_file"):
        return _OfFsspec(system)
    raise TypeMismatch(
        f"filesystem is of type {type(system).__name__}, expected one of pyarrow.fs or of fsspec"
    )


def _close_and_remove(file: Any, remove: Any, path: str) -> None:
    with suppress(Exception):
        file.close()
    with suppress(Exception):
        remove(path)


def _drops_parts(file: Any) -> bool:
    """Discards the multipart upload of a file of fsspec. Returns whether its parts are dropped."""
    buffered = load("fsspec.spec", "this file").AbstractBufferedFile
    if not isinstance(file, buffered):
        return False
    drops = type(file).discard is not buffered.discard
    with suppress(Exception):
        file.discard()
    return drops or file.offset is None  # offset None: no bytes were sent


def filesystem_of(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL and the path in it.

    It is a file system of pyarrow, or of fsspec if pyarrow is not installed or does not know the scheme.
    """
    known: tuple[Any, str]
    with raise_as_file_errors(without_secrets(url)):
        try:
            known = load("pyarrow.fs", "a URL").FileSystem.from_uri(_limit_retries(url))
            return known
        except (ValueError, NotImplementedError, MissingDependency) as failure:
            of_pyarrow = failure  # its ArrowInvalid is a ValueError
        try:
            known = load("fsspec.core", "this URL").url_to_fs(url)
            return known
        except (ValueError, ImportError) as failure:
            kind = InvalidError if isinstance(failure, ValueError) else MissingDependency
            why = f"pyarrow says: {of_pyarrow}; fsspec says: {failure}".replace(url, without_secrets(url))
            raise kind(f"can't open '{without_secrets(url)}': {why}") from None


def without_secrets(url: str) -> str:
    """Returns a URL for messages, without user, password and options."""
    return re.sub(r"//[^/?]*@", "//", url).partition("?")[0]


def _limit_retries(url: str) -> str:
    """Adds a retry limit to URLs of Google's store, whose client retries for 15 minutes by default."""
    if not url.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}retry_limit_seconds={RETRY_SECONDS}"


@contextmanager
def raise_as_file_errors(name: str) -> Iterator[None]:
    """Turns exceptions of a file system into FileError."""
    try:
        yield
    except Error:
        raise
    except OSError as failure:
        verb = "open" if isinstance(failure, FileNotFoundError) else "read"
        raise file_error(f"can't {verb} '{name}': {failure}", failure) from failure


def file_error(message: str, failure: Exception) -> FileError:
    """Returns the error for an exception of a file system or file object, with its errno if it has one."""
    kind = MissingFileError if isinstance(failure, FileNotFoundError) else FileError
    number = getattr(failure, "errno", None)  # may be anything in an OSError that a library made
    return kind(message, errno=number if type(number) is int else None)
