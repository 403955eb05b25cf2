"""Reading and writing Arrow IPC files and streams.

The work is done by the module `saeta._ipc`, which stands on the libarrow inside the installed pyarrow: it works with the
pyarrow release that it was built with and says so where another one is found.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from saeta import _libarrow, _progress, _sinks, _sources
from saeta._core import Table
from saeta.errors import FileError, InvalidError, MissingFileError, TypeMismatch
from saeta.exchange import ContextLike, context_of

if TYPE_CHECKING:
    from saeta._ipc import Progress, Reader
    from saeta._sinks import Target
    from saeta._sources import Source

    ProgressArgument = bool | Callable[[Progress], object] | None


def read_ipc(
    source: Source,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    batches: int | slice | range | tuple[int, int] | None = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    rechunk: bool | None = None,
    progress: ProgressArgument = None,
    filesystem: Any = None,
) -> Table:
    """Reads an Arrow IPC file or stream into a table of a context (a Context or the name of its device; None: the best
    device).

    Args:
        source: a path, bytes, a URL ("s3://..."), or an object with `read()` that gives bytes: files of pyarrow.fs and of
            fsspec, and seekable ones, are read by ranges, the large ones several at a time. An object that can't seek (a pipe,
            a socket's `makefile("rb")`, `sys.stdin.buffer`), and a path that names a pipe (`/dev/stdin`), is read as far as the
            end of the stream: what follows stays unread. The file format needs all of it.
        columns: only these, in this order; one name or several.
        batches: only these: the number of one, or a range, slice or pair of batch numbers [first, last).
        copy: on the host, None views the mapped file where it can and True copies into memory of the context, under
            its budget. A file that is cut short while it is copied is a FileError; a column that views it ends the
            process (SIGBUS).
        validate: checks every offset and dictionary index before anything follows it. False checks sizes only: for
            files that you trust. "utf8" checks strings and string views, too: one that is not UTF-8 is a FormatError with its
            batch, column and row.
        rechunk: True joins the batches, so that each column is one piece; where 32-bit offsets could not count its
            bytes, or a stream replaces a dictionary, it has as few as go. False keeps the batches of the file. None
            joins on a device and keeps the batches on the host, where they can be views.
        progress: True shows a progress bar; a callable is called with a Progress now and then, at least at the end
            and, where batches are read one by one, after each.
        filesystem: of pyarrow.fs or of fsspec: `source` is a path that it knows.

    On a device, and wherever batches are joined, copied or compressed, a source is read at once: one allocation for the table,
    one transfer that streams through the staging ring, and at most one chunk of memory a thread beside it. Each compressed
    buffer is decoded by one thread, all threads of the ring side by side. Metadata older than version 5 are read batch by
    batch; joining them takes the memory of both for a moment.

    Raises:
        FileError (MissingFileError where there is none), FormatError (not Arrow, which names Parquet and others by their
        first bytes, truncated, hostile), UnsupportedError (names the column and its type), TypeMismatch (`read()` gives
        text), BudgetExceeded. Nothing of a failed read stays allocated.
    """
    where = context_of(ctx)
    reader = opened(source, filesystem, columns, batches, copy, validate, rechunk)
    with _naming_missing_files(source), _progress.hook(progress, "reading") as hook:
        made: Table = reader.read_all(where, hook)
        return made


def opened(
    source: Any,
    filesystem: Any,
    columns: str | Iterable[str] | None,
    batches: Any,
    copy: bool | None,
    validate: bool | str,
    rechunk: bool | None = None,
) -> Reader:
    """The compiled reader of a source, with the arguments as the public functions take them."""
    ipc = module()
    chosen = _names(columns)
    with _naming_missing_files(source):
        found = _sources.resolved(source, filesystem)
        live = isinstance(found, _sources.Live)
        numbers = _batch_range(batches, lambda: -1 if live else _sources.open_reader(ipc, found).num_batches)
        return _sources.open_reader(ipc, found, chosen, numbers, copy, validate, rechunk)


def write_ipc(
    source: Table,
    path: Target,
    *,
    compression: str | None = None,
    format: str = "file",  # noqa: A002 - the word that pyarrow and pandas use
    progress: ProgressArgument = None,
    durable: bool = True,
    replace_read_only: bool = False,
    filesystem: Any = None,
) -> int:
    """Writes a table as an Arrow IPC file and returns its size in bytes.

    A file of this machine appears under its name when everything is written. A failure, Ctrl-C and the end of the process leave
    what was there before, and no temporary file. A file that is replaced hands its permissions on, and its owner where the
    system allows that; of a symbolic link the file that it names is replaced. Batches are as the table has them; a device table
    is downloaded by windows of 64 MiB, of several batches or of a part of one, while the one before is written, by several
    threads. Windows and what is compressed are charged to the host's budget; of a compressed batch that is all of its body.

    Other targets get the bytes in order, each window before the next one is downloaded. Writing to them is not atomic:

    - An object with `write()` has what was written before a failure. It is flushed, and neither closed nor moved.
    - A URL, or a path with `filesystem=`, is opened for the first bytes and closed after the last. A failure aborts an
      upload by parts of fsspec (S3, Google Cloud), which leaves what was there before; elsewhere the half file is removed, and
      what it replaced is gone.

    Args:
        path: a path, a URL ("s3://...", "memory://..."), or an object with `write()` that takes bytes: a file that is open in
            binary mode, BytesIO, a file of a socket, of gzip, of pyarrow or of fsspec. An object that takes a part of what it
            gets is given the rest again.
        compression: of batch bodies: None, "lz4" or "zstd".
        format: "file", or "stream" for the streaming format.
        progress: as for `read_ipc`.
        durable: of a file of this machine: True waits until the disk has the file and its name: they outlast a crash of the
            system. False returns when the system has the file: it outlasts the process, and a crash soon after may leave it
            empty or broken.
        replace_read_only: replaces a file of this machine that may not be written, too; otherwise that is a FileError.
        filesystem: of pyarrow.fs or of fsspec: `path` is a path that it knows. A local one, as a "file://" URL, is written
            like a path.

    Raises:
        FileError (MissingFileError where there is no folder; what an object or a file system raised is its cause),
        TypeMismatch (an object for text; nothing is written), UnsupportedError (dictionaries that one file can't hold),
        BudgetExceeded (of the host).

    Example:
        >>> import io
        >>> import saeta as sa
        >>> target = io.BytesIO()
        >>> size = sa.write_ipc(sa.table({"a": [1, 2]}, "host"), target, format="stream")
        >>> size == len(target.getvalue())
        True
    """
    ipc = module()
    target = _sinks.resolved(path, filesystem)
    options = (compression or "none", format)
    with _progress.hook(progress, "writing") as hook:
        written: int
        if isinstance(target, _sinks.Sink | _sinks.Upload):
            with _sinks.writing(target) as put:
                written = ipc.write_sink(source, put, target.name, *options, hook)
        else:
            with _naming_missing_files(target, of_folder=True):
                written = ipc.write_file(source, target, *options, hook, durable, replace_read_only)
        return written


def to_ipc_bytes(self: Table, *, compression: str | None = None, format: str = "file") -> bytes:  # noqa: A002
    """Body of `Table.to_ipc_bytes`."""
    content: bytes = module().write_bytes(self, compression or "none", format)
    return content


def inspect(source: Source, *, filesystem: Any = None) -> dict[str, Any]:
    """What a file or stream says about itself: format, bytes, compression, rows of each batch, metadata, and for each column
    its name, type, nulls, number of dictionary values and whether a context can hold it.

    Args:
        source, filesystem: as for `read_ipc`. Bodies are not read, but those of a stream that is still being sent are read
            and dropped, to its end.
    """
    ipc = module()
    with _naming_missing_files(source):
        return _sources.inspected(ipc, _sources.resolved(source, filesystem))


@functools.cache
def module() -> Any:
    """The compiled module, or MissingDependency that says what is missing."""
    return _libarrow.load("_ipc", "Arrow IPC")


def _names(columns: str | Iterable[str] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        return [columns]
    chosen = list(columns) if isinstance(columns, Iterable) else [columns]
    for each in chosen:
        if not isinstance(each, str):
            raise TypeMismatch(
                f"columns: {each!r} is of type {type(each).__name__}, expected the name of a column"
            )
    return chosen


def _batch_range(batches: Any, count: Callable[[], int]) -> tuple[int, int] | None:
    """[first, last) of a number, a range, a slice or a pair. `count` tells how many there are: slices may go beyond, or count
    from the end."""
    if batches is None:
        return None
    if isinstance(batches, range | slice) and batches.step not in (None, 1):
        raise InvalidError(f"batches: {batches} has step {batches.step}; only 1 is read")
    if isinstance(batches, slice):
        known = count()
        if known < 0:
            raise InvalidError(
                "batches: a stream does not say how many it has: give a pair of numbers, not a slice"
            )
        first, last, _ = batches.indices(known)
        return first, max(first, last)
    if isinstance(batches, range):
        return batches.start, batches.stop
    if isinstance(batches, int) and not isinstance(batches, bool):
        return batches, batches + 1
    if isinstance(batches, tuple | list) and len(batches) == 2:
        return int(batches[0]), int(batches[1])
    raise TypeMismatch(
        f"batches is of type {type(batches).__name__}, expected the number of a batch, or a range, slice or pair of them"
    )


@contextmanager
def _naming_missing_files(path: Any, *, of_folder: bool = False) -> Iterator[None]:
    """Turns the refusal of a file (or, for writing, a folder) that is not there into the class that Python programs
    expect."""
    try:
        yield
    except FileError as failure:
        if isinstance(path, os.PathLike) or (isinstance(path, str) and not _sources.URL.match(path)):
            named = Path(os.fsdecode(path))
            try:
                (named.parent if of_folder else named).stat()
            except (FileNotFoundError, NotADirectoryError):
                raise MissingFileError(str(failure)) from None
            except (OSError, ValueError):  # a folder that can't be searched, a name that is too long
                pass
        raise
