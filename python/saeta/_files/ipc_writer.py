"""Writes an Arrow IPC file or stream table by table, while the next tables are made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from saeta import _core, _ipc
from saeta._convert.numbers import MOST, whole_number
from saeta._core import Schema
from saeta._files import sinks
from saeta._files.filesystems import place_of
from saeta._files.progress import hook as progress_hook
from saeta._files.table_writer import TableWriter
from saeta._text import number_text
from saeta.errors import InvalidError

if TYPE_CHECKING:
    from saeta._files.progress import ProgressArgument
    from saeta._files.sinks import Compression, Format, Target


class IpcWriter(TableWriter):
    """Writes an Arrow IPC file or stream table by table.

    `saeta.ipc_writer` makes it.

    It is a context manager. The file is complete when the block ends, or when `close` returns. If the block
    ends with an exception, there is no new file. Several threads may write: their tables take turns. A child
    of fork can't use the writer of its parent (ClosedError). A writer that is dropped without `close` leaves
    no file and a ResourceWarning.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> with sa.ipc_writer(path) as writer:
        ...     for number in range(3):
        ...         writer.write(sa.table({"a": [number]}, "host"))
        >>> sa.read_ipc(path, "host")["a"].to_pylist()
        [0, 1, 2]
    """

    def write(self, rows: Any) -> None:
        """Takes a table. It is downloaded, compressed and written in the background.

        Waits while the tables that are not written have more than `pending` bytes. The table is not copied:
        don't change its memory before `flush` or `close` returns. Work that is pending on the table is waited
        for on its device. Dropping the table is allowed at once.

        Args:
            rows: a Table of any context, or an object with the Arrow C stream, array or device interface,
                which is taken where its memory is. Its columns have the names and types of the schema, in the
                same order.

        Raises:
            TypeMismatch: names the column that does not fit. The writer goes on.
            FileError and others: an earlier table could not be written. This is raised once; later calls
                raise ClosedError.
            ClosedError: the writer is closed, or has failed.

        Example:
            >>> import saeta as sa, io
            >>> with sa.ipc_writer(io.BytesIO()) as writer:
            ...     writer.write(sa.table({"a": [1, 2]}, "host"))
        """
        self._write(rows)

    def flush(self) -> None:
        """Waits until everything that was written is in the file, or was passed to the object.

        Afterwards the memory of the tables may be changed.
        """
        self._encoder.flush()

    def close(self) -> int:
        """Writes the rest and the end, and gives a file its name.

        Returns:
            The size of the file or stream in bytes, again in later calls.

        Raises:
            InvalidError: there was neither a schema nor a table. No file is written.
            Errors of the background and of the target. No file is written, unless the message says that the
            new one is in place and its folder could not be synced.

        Example:
            >>> import saeta as sa, io
            >>> target = io.BytesIO()
            >>> writer = sa.ipc_writer(target)
            >>> writer.write(sa.table({"a": [1, 2]}, "host"))
            >>> writer.close() == len(target.getvalue())
            True
        """
        return self._close()

    def abort(self) -> None:
        """Ends the writer without a file. Does nothing after `close`.

        An object with `write()` keeps the bytes that it got.

        Example:
            >>> import saeta as sa, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> writer = sa.ipc_writer(os.path.join(folder, "a.arrow"))
            >>> writer.write(sa.table({"a": [1, 2]}, "host"))
            >>> writer.abort()
            >>> os.listdir(folder)
            []
        """
        self._abort()


def ipc_writer(
    path: Target,
    schema: Any = None,
    *,
    compression: Compression | None = None,
    compression_level: int | None = None,
    batch_size: int | None = None,
    format: Format | None = None,  # noqa: A002 - the word that pyarrow and pandas use
    pending: int | str = "256MiB",
    progress: ProgressArgument = None,
    durable: bool = True,
    replace_read_only: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> IpcWriter:
    """Begins an Arrow IPC file or stream that is written table by table, in bounded memory.

    The tables are downloaded, compressed and written in the background while the caller makes the next ones.
    A file on this machine appears under its name when the writer is closed, as with `write_ipc`. An exception
    in the block, Ctrl-C or the end of the process leaves the previous file as it was.

    A dictionary of a later table may add values to the one in the file, which are written as a delta.
    pyarrow and Saeta read deltas; some other libraries do not. A stream can also replace a dictionary.

    Args:
        path, compression, compression_level, batch_size, format, durable, replace_read_only, filesystem,
            storage_options: as for `write_ipc`. An object with `write()` is called on a thread of the writer,
            and flushed by `close`.
        schema: names, types and nullability of the columns: a Schema, what `saeta.schema` takes, or an object
            with `__arrow_c_schema__`. None: the schema of the first table.
        pending: the maximum number of bytes of tables that were given and are not written, as a number or as
            text like "64MiB". One table may be larger. `write_ipc` tells what else is in memory.
        progress: as for `write_ipc`. A callable is called on a thread of the writer.

    Returns:
        An IpcWriter, a context manager.

    Raises:
        FileError: the target can't be written (MissingFileError if its folder does not exist).
        UnsupportedError: names a column that a file can't hold. From `write` and `close`: a dictionary would
            have to be replaced in a file.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> with sa.ipc_writer(path, compression="lz4") as writer:
        ...     for first in (0, 2, 4):
        ...         writer.write(sa.table({"a": [first, first + 1]}, "host"))
        >>> sa.read_ipc(path, "host")["a"].to_pylist()
        [0, 1, 2, 3, 4, 5]
    """
    fields = None if schema is None else Schema(schema)
    target = sinks.resolve_target(path, place_of(filesystem, storage_options))
    options = sinks.encoding(target, compression, format, compression_level, batch_size)
    most = _bytes(pending)
    with ExitStack() as ends:
        hook = ends.enter_context(progress_hook(progress, "writing"))
        if isinstance(target, sinks.Sink | sinks.Upload):
            put = ends.enter_context(sinks.writing(target))
            name = target.name
            writer = _ipc.create_sink(put, name, fields, *options, hook, most)
        else:
            name = os.fsdecode(target)
            writer = _ipc.create_file(target, fields, *options, hook, most, durable, replace_read_only)
        return IpcWriter(writer, name, ends.pop_all())


def _bytes(pending: int | str) -> int:
    if isinstance(pending, str):
        return _core._parse_bytes(pending)
    number = whole_number(pending, 1, MOST)
    if number is None:
        raise InvalidError(
            f"pending is {number_text(pending)}, expected a number of bytes from 1 on, or text like '64MiB'"
        )
    return number
