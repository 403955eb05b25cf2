"""The targets of writers: paths, file systems, stores, and objects with `write()`."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from saeta import _ipc
from saeta._convert.numbers import require_count, whole_number
from saeta._files.filesystems import FileSystem, file_error, file_system, filesystem_of, is_url
from saeta._files.sources import _name_of
from saeta._files.stores.retries import reason_of
from saeta._text import did_you_mean, number_text
from saeta.errors import Error, FileError, InvalidError, TypeMismatch

if TYPE_CHECKING:
    Target: TypeAlias = str | os.PathLike[str] | IO[bytes]
    """What a file is written to: a path, a URL, or an object with `write`."""
    Compression: TypeAlias = Literal["lz4", "zstd"]
    """The compression of the buffers of Arrow files. None: none."""
    Format: TypeAlias = Literal["file", "stream"]
    """The format of Arrow IPC. None: the ending of the path, else the file format."""


COMPRESSIONS = ("lz4", "zstd", "none")
FORMS = ("file", "stream")


class Sink:
    """Passes bytes in order to an object with `write()`. The object is neither closed nor moved."""

    def __init__(self, file: Any, name: str) -> None:
        self.name = name
        self._file = file
        self._written = 0

    def put(self, piece: bytes) -> None:
        """Writes the whole piece.

        Some objects take a part at a time, like unbuffered files and sockets.
        """
        taken = self._write(piece, len(piece))
        rest = memoryview(piece)[taken:]
        while rest:
            rest = rest[self._write(rest, len(rest)) :]

    def finish(self) -> None:
        """Flushes the object."""
        flush = getattr(self._file, "flush", None)
        if callable(flush):
            self._attempt(flush, "flush what was written to")

    def _write(self, piece: bytes | memoryview, size: int) -> int:
        taken = self._attempt(
            lambda: self._file.write(piece), f"write {size} bytes at offset {self._written} to"
        )
        count = self._count(taken, size)
        self._written += count
        return count

    def _attempt(self, action: Callable[[], Any], deed: str) -> Any:
        try:
            return action()
        except Error:
            raise
        except Exception as failure:
            if isinstance(failure, TypeError) and not self._written:
                raise TypeMismatch(
                    f"write() of {type(self._file).__name__} does not take bytes: expected a file that is "
                    f"open in binary mode: {failure}"
                ) from failure
            raise file_error(f"can't {deed} '{self.name}': {reason_of(failure)}", failure) from failure

    def _count(self, taken: Any, size: int) -> int:
        """Returns how many bytes the object took, from the return value of its `write()`."""
        if taken is None and not isinstance(self._file, io.RawIOBase):
            return size
        if taken is None:
            raise FileError(
                f"can't write to '{self.name}' without waiting: it is non-blocking and full after "
                f"{self._written} bytes"
            )
        if isinstance(taken, bool) or not hasattr(taken, "__index__"):
            if inspect.iscoroutine(taken):
                taken.close()
            raise TypeMismatch(
                f"write() of {type(self._file).__name__} returned an object of type {type(taken).__name__}, "
                "expected the number of bytes that it took, or None for all"
            )
        count = taken.__index__()
        if not 0 < count <= size:
            raise FileError(f"write() of '{self.name}' returned {count}, expected a number from 1 to {size}")
        return int(count)


class Upload:
    """A file in a file system. It is opened for its first bytes; `abort` removes a partial file if it can."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self.name = path
        self._files = files
        self._file: Any = None
        self._sink: Sink | None = None

    def put(self, piece: bytes) -> None:
        if self._sink is None:
            self._file = self._naming_failures("create", lambda: self._files.create(self.name))
            self._sink = Sink(self._file, self.name)
        self._sink.put(piece)

    def finish(self) -> None:
        self._naming_failures("finish", self._file.close)

    def abort(self) -> None:
        if self._file is not None:
            self._files.abort(self._file, self.name)

    def _naming_failures(self, verb: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as failure:
            raise file_error(f"can't {verb} '{self.name}': {reason_of(failure)}", failure) from failure


def format_of(target: Any, given: Format | None) -> Format:
    """Returns the format to write in: what is given, else what the suffix of a path or URL stands for."""
    if given is not None:
        return given
    path = target.name if isinstance(target, Upload) else target
    named = isinstance(path, str | bytes | os.PathLike)
    return "stream" if named and os.fsdecode(path).lower().endswith(".arrows") else "file"


def _level(given: Any) -> int:
    number = whole_number(given, 1, 99)  # `_ipc` knows how many levels a compression has
    if number is None:
        raise InvalidError(f"compression_level is {number_text(given)}, expected a number from 1 on")
    return number


class Encoding(NamedTuple):
    """How a table is encoded, in the order of the arguments of `_ipc`."""

    compression: str
    format: str
    level: int
    batch_size: int


def encoding(
    target: Any,
    compression: Compression | None,
    format: Format | None,  # noqa: A002
    level: int | None,
    batch_size: int | None,
) -> Encoding:
    """Checks the arguments of a writer of Arrow IPC."""
    for name, given, known in (("compression", compression, COMPRESSIONS), ("format", format, FORMS)):
        expected = f"{', '.join(known[:-1])} or {known[-1]}"
        if given is not None and given not in known:
            raise InvalidError(f"{name} {given!r}: expected {expected}{did_you_mean(given, known)}")
    return Encoding(
        compression or "none",
        format_of(target, format),
        0 if level is None else _level(level),
        0 if batch_size is None else require_count("batch_size", batch_size, "rows"),
    )


def resolve_target(target: Any, filesystem: Any = None) -> Any:
    """Turns a target into a path on this machine, an Upload or a Sink."""
    if isinstance(target, str | os.PathLike):
        path = os.fspath(target)
        if isinstance(path, str) and is_url(path, filesystem):
            filesystem, path = filesystem_of(path, filesystem)
        return target if filesystem is None else _open_on_filesystem(filesystem, path)
    if filesystem is not None:
        raise TypeMismatch(f"filesystem is for a path, and the target is of type {type(target).__name__}")
    if not callable(getattr(target, "write", None)):
        raise TypeMismatch(
            f"the target is of type {type(target).__name__}, expected a path, a URL or an object with write()"
        )
    if isinstance(target, io.TextIOBase) or isinstance(getattr(target, "encoding", None), str):
        raise TypeMismatch(
            f"'{_name_of(target)}' is open for text: open it in binary mode ('wb'), or take its .buffer"
        )
    return Sink(target, _name_of(target))


@contextmanager
def writing(target: Sink | Upload) -> Iterator[Callable[[bytes], None]]:
    """Returns the function that takes the next bytes.

    An Upload is completed at the end of the block and aborted after an error.
    """
    try:
        yield target.put
        target.finish()
    except BaseException:
        if isinstance(target, Upload):
            target.abort()
        raise


@contextmanager
def writing_file(
    path: str | os.PathLike[str], *, durable: bool, replace_read_only: bool
) -> Iterator[Callable[[bytes], None]]:
    """Returns the function that takes the next bytes of a file on this machine.

    The file gets its name at the end of the block, none after an error.
    """
    file = _ipc.AtomicFile(path, durable, replace_read_only)
    try:
        yield file.put
        file.commit()
    finally:
        file.discard()


def _open_on_filesystem(filesystem: Any, path: str) -> Any:
    files = file_system(filesystem)
    path, is_local = files.target(path)
    return path if is_local else Upload(files, path)
