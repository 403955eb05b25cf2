"""Writes Parquet files table by table, encoded by a device or by pyarrow."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from saeta._convert.numbers import require_count, whole_number
from saeta._core import Schema
from saeta._files import sinks
from saeta._files.filesystems import place_of
from saeta._files.progress import hook as progress_hook
from saeta._files.table_writer import TableWriter
from saeta._optional import load
from saeta._parquet.engine import Engine, require_engine
from saeta._parquet.options import Options
from saeta._parquet.row_groups import RowGroups
from saeta._text import did_you_mean, number_text
from saeta.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saeta._core import Table
    from saeta._files.progress import ProgressArgument
    from saeta._files.sinks import Target

    Codec: TypeAlias = Literal["none", "snappy", "zstd", "lz4", "gzip", "brotli"]

CODECS = ("none", "snappy", "zstd", "lz4", "gzip", "brotli")


class ParquetWriter(TableWriter):
    """Writes a Parquet file table by table.

    `saeta.parquet_writer` makes it.

    It is a context manager. The file is complete when the block ends, or when `close` returns. If the block
    ends with an exception, there is no new file. Several threads may write: their tables take turns. A child
    of fork can't use the writer of its parent (ClosedError). A writer that is dropped without `close` leaves
    no file and a ResourceWarning.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.parquet")
        >>> with sa.parquet_writer(path) as writer:
        ...     for number in range(3):
        ...         writer.write(sa.table({"a": [number]}, "host"))
        >>> sa.read_parquet(path, "host")["a"].to_pylist()
        [0, 1, 2]
    """

    def __init__(self, encoder: RowGroups, name: str, ends: ExitStack) -> None:
        super().__init__(encoder, name, ends)
        self._expect = encoder.expect

    def write(self, rows: Any) -> None:
        """Takes a table, and encodes and writes the row groups that have all their rows.

        The rest is held: don't change its memory before its row group is written. Dropping the table is
        allowed at once.

        Args:
            rows: a Table of any context, or an object with the Arrow C stream, array or device interface,
                which is taken where its memory is. Its columns have the names and types of the schema, in the
                same order.

        Raises:
            TypeMismatch: names the column that does not fit. The writer goes on.
            UnsupportedError: names a column that a Parquet file can't hold, or what the device can't encode
                that `engine` asks for. The writer goes on.
            FileError, BudgetExceeded and others: a row group could not be written. Later calls raise
                ClosedError.
            ClosedError: the writer is closed, or has failed.

        Example:
            >>> import saeta as sa, io
            >>> with sa.parquet_writer(io.BytesIO()) as writer:
            ...     writer.write(sa.table({"a": [1, 2]}, "host"))
        """
        self._write(rows)

    def flush(self) -> None:
        """Writes the rows that are held as a row group, which may be small.

        Afterwards the memory of the tables may be changed.
        """
        self._encoder.flush()

    def close(self) -> int:
        """Writes the rest and the end, and gives a file its name.

        Returns:
            The size of the file in bytes, again in later calls.

        Raises:
            InvalidError: there was neither a schema nor a table. No file is written.
            Errors of the target. No file is written, unless the message says that the new one is in place and
                its folder could not be synced.

        Example:
            >>> import saeta as sa, io
            >>> target = io.BytesIO()
            >>> writer = sa.parquet_writer(target)
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
            >>> writer = sa.parquet_writer(os.path.join(folder, "a.parquet"))
            >>> writer.write(sa.table({"a": [1, 2]}, "host"))
            >>> writer.abort()
            >>> os.listdir(folder)
            []
        """
        self._abort()


def parquet_writer(
    path: Target,
    schema: Any = None,
    *,
    row_group_size: int | None = None,
    compression: Codec = "snappy",
    compression_level: int | None = None,
    use_dictionary: bool | Sequence[str] = True,
    engine: Engine | None = None,
    progress: ProgressArgument = None,
    durable: bool = True,
    replace_read_only: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ParquetWriter:
    """Begins a Parquet file that is written table by table, in bounded memory.

    Tables are gathered into row groups of one size, however large or small they are. Row groups are encoded
    in the thread of the call: on the device of the first table with pylibcudf installed, otherwise by the
    writer of pyarrow. Both store the Arrow schema, so that a reader that knows it gets the types back. A file
    on this machine appears under its name when the writer is closed, as with `write_ipc`: an exception in the
    block, Ctrl-C or the end of the process leaves the previous file as it was.

    Memory: the tables of one row group are held. While a device encodes it, RMM's current resource takes
    memory from the context of the first table, under the tag "parquet". For pyarrow, tables of a device are
    downloaded when the row group is complete, which is charged to the host's budget. What pyarrow needs to
    encode it is not: up to 32 MiB for the dictionary of a column and the pages that wait for it, 1 MiB
    without dictionaries.

    Args:
        path, durable, replace_read_only, filesystem, storage_options: as for `write_ipc`. An object with
            `write()` is flushed by `close`.
        schema: names, types and nullability of the columns: a Schema, what `saeta.schema` takes, or an object
            with `__arrow_c_schema__`. None: the schema of the first table.
        row_group_size: number of rows of a row group; the last one may have fewer. None: at most 1,048,576
            rows and 64 MiB of values, or an eighth of what the budget has left, of the host or of the context
            whose device encodes.
        compression: "none", "snappy", "zstd", "lz4", "gzip" or "brotli".
        compression_level: as pyarrow has it for the codec; None: the codec's own.
        use_dictionary: whether repeated values are written as dictionaries: for all columns, or only for
            those that are named.
        engine: "device" encodes on the device of the first table's context, "host" by pyarrow. None: on the
            device if it can, else by pyarrow, and the logger "saeta.parquet" says why (level INFO). A device
            writes types that come back as from a file of pyarrow, without `compression_level`, with a
            dictionary for all columns or none, and "none", "snappy", "zstd" and "lz4".
        progress: as for `write_ipc`; a batch is a row group.

    Returns:
        A ParquetWriter, a context manager.

    Raises:
        MissingDependency: pyarrow is not installed.
        FileError: the target can't be written (MissingFileError if its folder does not exist).
        UnsupportedError: names a column of a type that Parquet can't hold: unions, run-end encoded columns,
            intervals, structs without fields, dictionaries of nested values or views. Nothing is written.
            A table without columns that has rows. In `write`: `engine` is "device", and something needs
            pyarrow; the message names it.
        InvalidError: a codec, level or engine that does not exist.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.parquet")
        >>> with sa.parquet_writer(path, compression="zstd", row_group_size=4) as writer:
        ...     for first in (0, 2, 4):
        ...         writer.write(sa.table({"a": [first, first + 1]}, "host"))
        >>> sa.read_parquet(path, "host")["a"].to_pylist()
        [0, 1, 2, 3, 4, 5]
    """
    load("pyarrow.parquet", "saeta.parquet_writer")
    fields = None if schema is None else Schema(schema)
    options = _options(row_group_size, compression, compression_level, use_dictionary, engine)
    target = sinks.resolve_target(path, place_of(filesystem, storage_options))
    with ExitStack() as ends:
        hook = ends.enter_context(progress_hook(progress, "writing"))
        if isinstance(target, sinks.Sink | sinks.Upload):
            name = target.name
            put = ends.enter_context(sinks.writing(target))
        else:
            name = os.fsdecode(target)
            put = ends.enter_context(
                sinks.writing_file(target, durable=durable, replace_read_only=replace_read_only)
            )
        encoder = RowGroups(put, name, fields, options, hook)
        return ParquetWriter(encoder, name, ends.pop_all())


def write_parquet(self: Table, path: Target, **options: Any) -> int:
    """Implements `Table.write_parquet`."""
    with parquet_writer(path, self.schema, **options) as writer:
        writer._expect(self)
        writer.write(self)
    return writer.close()


def _options(
    size: int | None,
    codec: str,
    level: int | None,
    dictionary: bool | Sequence[str],
    engine: Engine | None,
) -> Options:
    """Checks how values are encoded."""
    require_engine(engine)
    rows = None if size is None else require_count("row_group_size", size, "rows")
    if codec not in CODECS:
        meant = did_you_mean(codec, CODECS)
        raise InvalidError(f"compression {codec!r}: expected one of {', '.join(CODECS)}{meant}")
    if level is not None:
        level = _level(codec, level)
    if not isinstance(dictionary, bool):
        dictionary = [dictionary] if isinstance(dictionary, str) else list(dictionary)
    return Options(rows, codec, level, dictionary, engine)


def _level(codec: str, level: int) -> int:
    number = whole_number(level, -(1 << 31), (1 << 31) - 1)
    if number is None:
        raise InvalidError(f"compression_level is {number_text(level)}, expected a whole number")
    pyarrow = load("pyarrow", "saeta.parquet_writer")
    if codec == "none":
        raise InvalidError(f"compression_level is {number} without compression")
    try:
        pyarrow.Codec(codec, number)
    except (pyarrow.ArrowException, OSError, ValueError) as failure:
        raise InvalidError(f"compression_level={number} of {codec!r}: {failure}") from failure
    return number
