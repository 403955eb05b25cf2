"""File systems of pyarrow and fsspec and stores of obstore behind one interface, and those of URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from saeta._files.stores import obstores
from saeta._files.stores.opened import Opened
from saeta._files.stores.retries import reason_of
from saeta._optional import load
from saeta.errors import Error, FileError, InvalidError, MissingDependency, MissingFileError, TypeMismatch

# A scheme of one letter is the letter of a drive.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
RETRY_SECONDS = 10  # for a store that does not answer
# Libraries whose exceptions about stores are no OSErrors.
CLIENTS = frozenset({"aiohttp", "azure", "botocore", "gcsfs", "google", "obstore", "requests", "urllib3"})


class _FrontLater:
    """A file system that has to know a file's size before it reads its first bytes."""

    reads_fronts = False

    def read_front(self, path: str, count: int) -> tuple[Any, str | None]:
        raise NotImplementedError


class FileSystem(Protocol):
    """What the readers and writers need of a file system. `file_system` makes one."""

    def kind(self, path: str) -> str:
        """Returns "file", "directory", or "" if there is nothing, or the file system can't tell."""

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        """Returns the paths of the files in a folder; if `deep`, also of those in folders below it."""

    reads_fronts: bool  # whether `read_front` can be called before the size of a file is known

    def open(self, path: str, tail: int) -> Opened:
        """Opens a file to read. `tail`: so many of its last bytes will be read first."""

    def read_front(self, path: str, count: int) -> tuple[Any, str | None]:
        """Returns the first bytes of a file, or fewer if it has not so many, and the file's tag."""

    def target(self, path: str) -> tuple[str, bool]:
        """Returns the path of a file to write, and whether it is a path on this machine."""

    def create(self, path: str) -> Any:
        """Opens a file to write."""

    def abort(self, file: Any, path: str) -> None:
        """Removes a partly written file, as far as the file system can."""


class _OfPyarrow(_FrontLater):
    def __init__(self, system: Any) -> None:
        self.system = system

    def kind(self, path: str) -> str:
        types = load("pyarrow.fs", "reading from a file system").FileType
        with raise_as_file_errors(path):
            found = self.system.get_file_info(path).type
        return {types.File: "file", types.Directory: "directory"}.get(found, "")

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        fs = load("pyarrow.fs", "reading from a file system")
        infos = self.system.get_file_info(fs.FileSelector(folder, recursive=deep))
        return [info.path for info in infos if info.type == fs.FileType.File]

    def open(self, path: str, tail: int) -> Opened:
        file = self.system.open_input_file(path)
        return Opened(file.size(), lambda offset, count: file.read_at(count, offset))

    def target(self, path: str) -> tuple[str, bool]:
        return path, self.system.type_name == "local"

    def create(self, path: str) -> Any:
        return self.system.open_output_stream(path, compression=None)  # otherwise by the suffix of the name

    def abort(self, file: Any, path: str) -> None:
        _close_and_remove(file, self.system.delete_file, path)


class _OfFsspec(_FrontLater):
    def __init__(self, system: Any) -> None:
        self.system = system

    def kind(self, path: str) -> str:
        try:
            return str(self.system.info(path).get("type", ""))
        except OSError:
            return ""  # the attempt to open it reports the error

    def list_files(self, folder: str, *, deep: bool) -> list[str]:
        found: list[str] = self.system.find(folder, maxdepth=None if deep else 1)
        return found

    def open(self, path: str, tail: int) -> Opened:
        info = self.system.info(path)
        tag = info.get("ETag") if "http" in _protocols(self.system) else None
        options = {"headers": {"If-Match": tag}} if tag else {}

        def read(offset: int, count: int) -> Any:
            return self.system.cat_file(path, offset, offset + count, **options)

        return Opened(info["size"], read)

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


def _protocols(system: Any) -> tuple[str, ...]:
    protocol = getattr(system, "protocol", ())
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def file_system(system: Any) -> FileSystem:
    """Returns the interface to a file system of pyarrow or of fsspec. TypeMismatch for another object."""
    if hasattr(system, "open_input_file"):
        return _OfPyarrow(system)
    if hasattr(system, "cat_file"):
        return _OfFsspec(system)
    if obstores.is_store(system):
        return obstores.OfObstore(system)
    raise TypeMismatch(
        f"filesystem is of type {type(system).__name__}, expected one of pyarrow.fs, of fsspec or a store of "
        "obstore"
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


def is_local(system: Any) -> bool:
    """Whether a file system is that of this machine, of pyarrow or of fsspec."""
    return getattr(system, "type_name", "") == "local" or "local" in _protocols(system)


class StorageOptions:
    """What opens the file systems of URLs: the argument `storage_options` of a reader or a writer.

    It stands in the place of a file system where a path may be a URL.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)


def place_of(filesystem: Any, storage_options: Mapping[str, Any] | None) -> Any:
    """Returns the one of two arguments that was given, None for neither."""
    if storage_options is None:
        return filesystem
    if filesystem is not None:
        raise InvalidError(
            "filesystem and storage_options: give one of them, since a file system has its options already"
        )
    if not isinstance(storage_options, Mapping):
        raise TypeMismatch(
            f"storage_options is of type {type(storage_options).__name__}, expected a mapping from names to "
            "values"
        )
    return StorageOptions(storage_options)


def is_url(path: str, filesystem: Any) -> bool:
    """Whether a path is a URL that has to be opened. With a file system, paths lie in it."""
    if filesystem is None:
        return URL.match(path) is not None
    if not isinstance(filesystem, StorageOptions):
        return False
    if not URL.match(path):
        raise InvalidError(f"storage_options is for a URL, and '{path}' is a path on this machine")
    return True


def filesystem_of(url: str, options: StorageOptions | None = None) -> tuple[Any, str]:
    """Returns the file system of a URL and the path in it.

    It is a store of obstore if that is installed and knows the scheme, else a file system of pyarrow, else of
    fsspec. Options are for obstore or fsspec.
    """
    known: tuple[Any, str]
    with raise_as_file_errors(without_secrets(url)):
        store = obstores.store_of(url, None if options is None else options.options)
        if store is not None:
            return store
        if options is not None:
            try:
                known = load("fsspec.core", "storage_options for this URL").url_to_fs(url, **options.options)
                return known
            except (ValueError, TypeError) as failure:
                raise InvalidError(
                    f"can't open '{without_secrets(url)}' with storage_options: {failure}"
                ) from None
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
    """Turns exceptions of a file system, and of the libraries of stores, into FileError."""
    try:
        yield
    except Error:
        raise
    except Exception as failure:
        if not isinstance(failure, OSError) and type(failure).__module__.partition(".")[0] not in CLIENTS:
            raise
        verb = "open" if isinstance(failure, FileNotFoundError) else "read"
        raise file_error(f"can't {verb} '{name}': {reason_of(failure)}", failure) from failure


def file_error(message: str, failure: Exception) -> FileError:
    """Returns the error for an exception of a file system or file object, with its errno if it has one."""
    kind = MissingFileError if isinstance(failure, FileNotFoundError) else FileError
    number = getattr(failure, "errno", None)  # may be anything in an OSError that a library made
    return kind(message, errno=number if type(number) is int else None)
