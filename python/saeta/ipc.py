"""Reading and writing Arrow IPC files and streams.

The work is done by the module `saeta._ipc`, which stands on the libarrow inside the installed pyarrow: it works with the
pyarrow release that it was built with and says so where another one is found.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from saeta import _libarrow, _progress
from saeta._core import Table
from saeta.errors import FileError, InvalidError, MissingFileError, TypeMismatch
from saeta.exchange import ContextLike, context_of

if TYPE_CHECKING:
    from saeta._ipc import Progress

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
    ProgressArgument = bool | Callable[[Progress], object] | None


def read_ipc(
    source: Source,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    batches: int | slice | range | tuple[int, int] | None = None,
    copy: bool | None = None,
    validate: bool = True,
    progress: ProgressArgument = None,
) -> Table:
    """Reads an Arrow IPC file or stream into a table of a context (a Context or the name of its device; None: the best
    device).

    Args:
        source: a path (memory-mapped), bytes, or an object with `read()`.
        columns: only these, in this order; one name or several.
        batches: only these: the number of one, or a range, slice or pair of batch numbers [first, last).
        copy: on the host, None views the mapped file where it can and True copies into memory of the context, under
            its budget. A device gets one transfer a batch.
        validate: checks every offset and dictionary index before anything follows it. False checks sizes only: for
            files that you trust.
        progress: True shows a progress bar; a callable is called with a Progress after each batch.

    Raises:
        FileError (MissingFileError where there is none), FormatError (not Arrow, truncated, hostile), UnsupportedError
        (names the column and its type), BudgetExceeded. Nothing of a failed read stays allocated.
    """
    ipc = module()
    where = context_of(ctx)
    chosen = _names(columns)
    is_path = isinstance(source, str | os.PathLike)
    opened, kept = (ipc.open_file, source) if is_path else (ipc.open_bytes, _bytes_of(source))
    with _naming_missing_files(source):
        numbers = _batch_range(batches, lambda: opened(kept).num_batches)
        reader = opened(kept, chosen, numbers, copy, validate)
        with _progress.hook(progress, "reading") as hook:
            made: Table = reader.read_all(where, hook)
            return made


def write_ipc(
    source: Table,
    path: str | os.PathLike[str],
    *,
    compression: str | None = None,
    format: str = "file",  # noqa: A002 - the word that pyarrow and pandas use
    progress: ProgressArgument = None,
) -> int:
    """Writes a table as an Arrow IPC file and returns its size in bytes.

    The file appears by a rename after everything is written and synced: a failure leaves what was there before. Batches are
    as the table has them; a device table is downloaded batch by batch.

    Args:
        compression: of batch bodies: None, "lz4" or "zstd".
        format: "file", or "stream" for the streaming format.
        progress: as for `read_ipc`.
    """
    ipc = module()
    with _naming_missing_files(path, of_folder=True), _progress.hook(progress, "writing") as hook:
        written: int = ipc.write_file(source, path, compression or "none", format, hook)
        return written


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself: format, bytes, compression, rows of each batch, metadata, and for each column its
    name, type, nulls, number of dictionary values and whether a context can hold it."""
    with _naming_missing_files(path):
        summary: dict[str, Any] = module().inspect(path)
        return summary


@functools.cache
def module() -> Any:
    """The compiled module, or MissingDependency that says what is missing."""
    return _libarrow.load("_ipc", "Arrow IPC")


def _bytes_of(source: Any) -> bytes | bytearray | memoryview:
    if isinstance(source, bytes | bytearray | memoryview):
        return source
    if hasattr(source, "read"):
        content: bytes = source.read()
        return content
    try:
        return memoryview(source)
    except TypeError:
        raise TypeMismatch(
            f"source is of type {type(source).__name__}, expected a path, bytes or an object with read()"
        ) from None


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
        from pathlib import Path

        if isinstance(path, str | os.PathLike):
            needed = Path(path).parent if of_folder else Path(path)
            if not needed.exists():
                raise MissingFileError(str(failure)) from None
        raise
