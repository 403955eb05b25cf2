"""Gathers tables into row groups, which a device or pyarrow encodes as Parquet."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table, _united_schema, context
from saeta._ipc import Progress
from saeta._optional import load
from saeta._parquet.device_file import DeviceFile, context_to_encode
from saeta._parquet.engine import log_host
from saeta._parquet.storable import leaves_of, require_writable
from saeta.errors import BusyError, ClosedError, Error, InvalidError, UnsupportedError

if TYPE_CHECKING:
    from saeta._files.progress import Hook
    from saeta._parquet.options import Options

GROUP_ROWS = 1 << 20  # as pyarrow has them
GROUP_BYTES = 64 << 20
SHARE = 8  # a row group has at most this part of what the budget of its encoder has left
PIECE = 4 << 20  # bytes that are written at once
GATHERED = 1 << 16  # smaller writes are gathered


class RowGroups:
    """Encodes tables, one row group at a time. The methods are those of an `Encoder`.

    A table is held until its row group has all rows. The context of the first table with rows tells who
    encodes them: its device, or pyarrow, for which tables of devices are then downloaded.

    Args:
        put: takes the next bytes.
        name: of the target, for messages.
        fields: of every table; None: those of the first one.
        hook: called after each row group.
    """

    def __init__(
        self,
        put: Callable[[bytes], None],
        name: str,
        fields: Schema | None,
        options: Options,
        hook: Hook | None,
    ) -> None:
        pyarrow = load("pyarrow", "writing Parquet")
        self._output = _Output(put)
        self._file = pyarrow.BufferedOutputStream(pyarrow.PythonFile(self._output, mode="w"), GATHERED)
        self._name = name
        self._options = options
        self._hook = hook
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._user = 0  # the thread whose turn it is
        self._ended: str | None = None  # why nothing more is written
        self._fields: Schema | None = None
        self._held: list[Table] = []  # of the row group that is not complete
        self._held_rows = self._held_bytes = 0
        self._total = self._total_rows = -1  # row groups and rows, if that is known
        self._groups = self._rows = self._bytes = 0  # that were encoded
        self._writer: Any = None
        self._is_chosen = False  # whether it is known who encodes
        self._encoding: Context | None = None  # whose device encodes; None: pyarrow does
        self._group_rows, self._group_bytes = _limits(options, context("host"))
        if fields is not None:
            self._begin(fields)

    def expect(self, rows: Table) -> None:
        """Says that this table is all that is written."""
        self._choose(rows)
        row_bytes = _row_bytes(rows)
        of_group = (
            max(1, min(self._group_rows, self._group_bytes // row_bytes)) if row_bytes else self._group_rows
        )
        self._total = -(-rows.num_rows // of_group)
        self._total_rows = rows.num_rows

    def write(self, rows: Table) -> None:
        with self._taking_turn():
            if self._fields is None:
                self._begin(rows.schema)
            if not rows.num_columns and rows.num_rows:
                raise UnsupportedError(
                    f"{self._name}: a Parquet file has no rows without columns, and the table has "
                    f"{rows.num_rows}"
                )
            fields = _united_schema([rows.schema], [self._name], self._fields)
            self._choose(rows)
            with self._failing():
                self._gather(rows._with_schema(fields))

    def flush(self) -> None:
        """Ends the row group."""
        with self._taking_turn(), self._failing():
            self._encode()

    def close(self) -> int:
        if self._ended == "closed":
            return self._output.written
        with self._taking_turn(), self._failing():
            fields = self._fields
            if fields is None:
                raise InvalidError(
                    f"{self._name}: no table was written and no schema was given, so nothing says which "
                    "columns the file has"
                )
            self._encode()
            with self._naming_failures():
                if isinstance(self._writer, DeviceFile):
                    self._writer.close()
                else:
                    self._open(load("pyarrow", "writing Parquet").schema(fields)).close()
                    self._file.flush()
            self._writer = None
            self._ended = "closed"
            return self._output.written

    def abort(self) -> None:
        """Ends the writing, that of another thread at its next piece."""
        if self._ended is None:
            self._ended = "abandoned"
            self._output.failure = ClosedError(f"{self._name}: the writer was abandoned")
        if self._user != threading.get_ident():
            with self._turn:
                self._drop()

    def _begin(self, fields: Schema) -> None:
        schema = load("pyarrow", "writing Parquet").schema(fields)
        require_writable(schema)
        if not isinstance(self._options.use_dictionary, bool):
            leaves_of(schema, self._options.use_dictionary)
        self._fields = fields

    def _gather(self, rows: Table) -> None:
        """Holds rows, and encodes each row group that is complete."""
        row_bytes = _row_bytes(rows)
        first = 0
        while first < rows.num_rows:
            left = self._group_rows - self._held_rows
            if row_bytes:
                left = min(left, (self._group_bytes - self._held_bytes) // row_bytes)
            if left < 1 and self._held:
                self._encode()
                continue
            part = rows.slice(first, min(max(left, 1), rows.num_rows - first))
            self._held.append(part)
            self._held_rows += part.num_rows
            self._held_bytes += part.num_rows * row_bytes
            first += part.num_rows
        if self._held_rows >= self._group_rows or self._held_bytes >= self._group_bytes:
            self._encode()

    def _encode(self) -> None:
        """Writes what is held as a row group."""
        if not self._held:
            return
        rows = self._held[0] if len(self._held) == 1 else _joined(self._held)
        nbytes = self._held_bytes
        self._held = []
        self._held_rows = self._held_bytes = 0
        if self._encoding is None or not self._encode_on_device(self._encoding, rows):
            rows = rows if rows.device == "host" else rows.to("host")
            table = rows.to_arrow()
            with self._naming_failures():
                self._open(table.schema).write_table(table, row_group_size=rows.num_rows)
        self._groups += 1
        self._rows += rows.num_rows
        self._bytes += nbytes
        if self._hook is not None:
            self._hook(Progress(self._groups, self._total, self._rows, self._bytes, self._total_rows))

    def _choose(self, rows: Table) -> None:
        """Decides who encodes, by the first table with rows."""
        if self._is_chosen or not rows.num_rows:
            return
        schema = load("pyarrow", "writing Parquet").schema(self._fields or rows.schema)
        self._encoding = context_to_encode(rows, schema, self._options)
        self._is_chosen = True
        if self._encoding is not None:
            self._group_rows, self._group_bytes = _limits(self._options, self._encoding)

    def _encode_on_device(self, ctx: Context, rows: Table) -> bool:
        """Returns False if cuDF refuses the first row group, which pyarrow may write then."""
        if self._writer is None:
            schema = load("pyarrow", "writing Parquet").schema(self._fields)
            self._writer = DeviceFile(self._output.write, schema, self._options, ctx)
        try:
            with self._naming_failures():
                self._writer.write(rows)
        except UnsupportedError as refusal:
            if self._groups or self._options.engine is not None:
                raise
            log_host(str(refusal), does="encodes")
            self._encoding = self._writer = None
            return False
        return True

    def _open(self, schema: Any) -> Any:
        if self._writer is None:
            chosen = self._options.use_dictionary
            self._writer = load("pyarrow.parquet", "writing Parquet").ParquetWriter(
                self._file,
                schema,
                compression=self._options.compression,
                compression_level=self._options.compression_level,
                use_dictionary=chosen if isinstance(chosen, bool) else leaves_of(schema, chosen),
            )
        return self._writer

    @contextmanager
    def _taking_turn(self) -> Iterator[None]:
        if self._process != os.getpid():  # before the lock, which a thread of the parent may have held
            raise ClosedError("the writer belongs to the parent of this forked process: make one here")
        if self._user == threading.get_ident():
            raise BusyError(f"{self._name}: the writer is used by its own target or progress hook")
        with self._turn:
            self._user = threading.get_ident()
            try:
                if self._ended is not None:
                    raise ClosedError(f"{self._name}: the writer is {self._ended}")
                yield
            finally:
                self._user = 0

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Ends the writer if the block fails: pyarrow can't go on inside of a row group."""
        try:
            yield
        except BaseException:
            self._ended = self._ended or "ended by a failure, and nothing more is written"
            self._drop()
            raise

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """Turns exceptions of pyarrow into errors of ours, and raises that of the target."""
        pyarrow = load("pyarrow", "writing Parquet")
        try:
            yield
            self._output.raise_failure()
        except Error:
            raise
        except (pyarrow.ArrowException, OSError) as failure:
            kind = UnsupportedError if isinstance(failure, pyarrow.ArrowNotImplementedError) else InvalidError
            raise kind(f"{self._name}: pyarrow can't write the rows: {failure}") from failure

    def _drop(self) -> None:
        self._output.drop()
        self._held = []
        self._writer = None


class _Output:
    """The file object that pyarrow writes to.

    After a failure of the target it takes what pyarrow writes and drops it. An exception would stay in
    pyarrow's writer with all frames of its traceback.
    """

    closed = False

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self.written = 0
        self.failure: BaseException | None = None
        self._put: Callable[[bytes], None] | None = put

    def write(self, data: Any) -> None:
        try:
            with memoryview(data) as view:
                for first in range(0, len(view), PIECE):
                    if self._put is None or self.failure is not None:
                        return
                    piece = bytes(view[first : first + PIECE])
                    self._put(piece)
                    self.written += len(piece)
        except BaseException as failure:
            self.failure = failure

    def raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            self._put = None
            try:
                raise failure
            finally:
                del failure

    def drop(self) -> None:
        """Ends the writing: pyarrow's writer writes the end of a file when it is dropped."""
        self._put = None
        self.failure = None

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _limits(options: Options, ctx: Context) -> tuple[int, int]:
    """Returns the rows and the bytes of values of a row group that is encoded with memory of a context."""
    if options.row_group_size is not None:
        return options.row_group_size, 1 << 62
    left = ctx.memory.statistics()["remaining"]
    return GROUP_ROWS, GROUP_BYTES if left is None else max(1, min(GROUP_BYTES, left // SHARE))


def _row_bytes(rows: Table) -> int:
    return -(-rows.nbytes // max(rows.num_rows, 1))


def _joined(parts: list[Table]) -> Table:
    """Joins tables, of several devices on the host."""
    if len({part.device for part in parts}) > 1:
        parts = [part.to("host") for part in parts]
    return concat_tables(parts)
