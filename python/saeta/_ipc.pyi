"""Arrow IPC files and streams."""

from collections.abc import Callable, Sequence
import os
from typing import Any, Never, SupportsIndex

import saeta._core


class Progress:
    """How far a read or a write has come."""

    @property
    def batches(self) -> int: ...

    @property
    def total_batches(self) -> int:
        """-1 for a stream, whose number is not known."""

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int:
        """Bytes of batch bodies."""

class WindowScan:
    """The batches of a source, read in windows."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def next(self) -> saeta._core.Table | None:
        """The next rows, None at the end."""

    def require_more(self) -> None:
        """Raises ClosedError if no rows can be taken any more."""

    def close(self) -> None:
        """Ends reading within 50 ms."""

class Reader:
    """One or several open Arrow IPC files or streams."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def format(self) -> str:
        """"file" or "stream", of the first source."""

    @property
    def schema(self) -> saeta._core.Schema: ...

    def choose(self, columns: Sequence[str]) -> None:
        """
        Reads only these columns of one source, of which nothing was read. For a choice that depends on the schema.
        """

    @property
    def num_batches(self) -> int:
        """Batches that were asked for; -1 for a stream."""

    @property
    def planned(self) -> bool:
        """Whether parts of batches can be read in any order, by `scan_spans`."""

    @property
    def batch_rows(self) -> list[int]:
        """
        Rows of each batch that was asked for, from metadata. UnsupportedError if not `planned`.
        """

    @property
    def batch_bytes(self) -> list[int]:
        """
        Bytes of the columns in each batch, as they are in the source. UnsupportedError if not `planned`.
        """

    @property
    def batch_compressed(self) -> list[bool]:
        """
        Whether each batch is compressed, and can only be read as a whole. UnsupportedError if not `planned`.
        """

    def read_all(self, where: saeta._core.Context, progress: Callable[[Progress], object] | None = None) -> saeta._core.Table:
        """
        All batches from here on, as a table of the context. `progress` is called now and then, at least at the end.
        """

    def scan_windows(self, where: saeta._core.Context, window_bytes: int, windows_ahead: int, batch_rows: int) -> WindowScan | None:
        """
        Begins to read all batches from here on in windows. None where batches are read one by one.
        """

    def scan_spans(self, where: saeta._core.Context, windows: Sequence[Sequence[tuple[int, int, int]]], windows_ahead: int) -> WindowScan:
        """
        Begins to read windows, each as one table. A window is a sequence of (batch, first row, rows); rows is -1 for all that follow. Batches may occur in any order and repeatedly. A window that the budget refuses can be requested again. UnsupportedError if not `planned`.
        """

    def next(self, where: saeta._core.Context) -> saeta._core.Table | None:
        """The next batch as a table, None at the end."""

    @property
    def live(self) -> bool:
        """Whether it reads a stream that is still being sent."""

    def close(self) -> None:
        """
        Lets the source go. Columns that view it keep it. Using the reader then is ClosedError, also for a thread that reads: it ends within 50 ms, of a live stream when its call has returned, and lets the source go.
        """

    def __enter__(self) -> Reader: ...

    def __exit__(self, *exception: object) -> None: ...

def open_file(path: str | os.PathLike[str], columns: Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool | str = True, rechunk: bool | None = None, keep_open: bool = True) -> Reader:
    """
    Opens a file. It is mapped only where columns view it. Files that are not kept open share a limited number of descriptors.
    """

def open_bytes(source: bytes | bytearray | memoryview, columns: Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool | str = True, rechunk: bool | None = None) -> Reader:
    """
    Opens bytes, which columns of a host context may view for as long as they live.
    """

def open_ranges(read: Callable[[int, memoryview], object], name: str, size: int, columns: Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool | str = True, rechunk: bool | None = None) -> Reader:
    """
    Opens a source of `size` bytes. `read(offset, target)` fills the target; several threads call it.
    """

def open_live(read: Callable[[memoryview], int], name: str, columns: Sequence[str] | None = None, batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool | str = True, rechunk: bool | None = None) -> Reader:
    """
    Opens a stream that is still being sent. `read(target)` fills the beginning of the target and returns how many bytes, 0 at the end.
    """

def join_readers(readers: Sequence[Reader], schema: saeta._core.Schema | None = None, batch_range: tuple[int, int] | None = None, batches: Sequence[int] | None = None) -> Reader:
    """
    Makes one reader of several that were opened with the same options and without batches. They are then closed. `schema` is that of the result, by default that of the rows of all. `batch_range` or `batches` are numbers through all of them.
    """

def write_file(source: saeta._core.Table, path: str | os.PathLike[str], compression: str = 'none', format: str = 'file', progress: Callable[[Progress], object] | None = None, durable: bool = True, replace_read_only: bool = False) -> int:
    """Writes a table, atomically; returns the bytes of the file."""

def write_sink(source: saeta._core.Table, put: Callable[[bytes], object], name: str, compression: str = 'none', format: str = 'file', progress: Callable[[Progress], object] | None = None) -> int:
    """
    Writes a table by calls of `put` with the next bytes, a few MiB at most; returns how many there were.
    """

class Writer:
    """An Arrow IPC file or stream that is written table by table."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def write(self, rows: saeta._core.Table) -> None:
        """
        Takes a table, and waits while those that are not written have too many bytes.
        """

    def flush(self) -> None:
        """Waits until everything is in the file or was passed on."""

    def close(self) -> int:
        """Writes the end and gives a file its name; returns its bytes."""

    def abort(self) -> None:
        """Ends the writer without a file."""

def create_file(path: str | os.PathLike[str], schema: saeta._core.Schema | None = None, compression: str = 'none', format: str = 'file', progress: Callable[[Progress], object] | None = None, pending_bytes: int = 268435456, durable: bool = True, replace_read_only: bool = False) -> Writer:
    """Begins a file, which appears when the writer is closed."""

def create_sink(put: Callable[[bytes], object], name: str, schema: saeta._core.Schema | None = None, compression: str = 'none', format: str = 'file', progress: Callable[[Progress], object] | None = None, pending_bytes: int = 268435456) -> Writer:
    """
    Begins a file or stream whose bytes `put` gets, on the thread of the writer.
    """

def write_bytes(source: saeta._core.Table, compression: str = 'none', format: str = 'file') -> bytes:
    """The bytes of a file or stream of the table."""

def pack(table: saeta._core.Table) -> tuple[bytes, saeta._core.Column]:
    """
    The packed form of a table: its metadata, and its body as a column of uint8.
    """

class BodyBytes:
    """
    The bytes of a body in host memory, for reading, with the buffer protocol.
    """

    def __init__(self, body: saeta._core.Column) -> None: ...

def body_over(ctx: saeta._core.Context, source: bytes | bytearray | memoryview, alignment: int, copy: bool | None) -> saeta._core.Column:
    """
    A column of uint8 of the memory of an object: a view where the context can use it, else a copy.
    """

def unpack(metadata: bytes | bytearray | memoryview, body: saeta._core.Column, validate: bool) -> saeta._core.Table:
    """
    The table of a packed form, in the context of its body, which it views.
    """

class SpillUse:
    """A spillable table in use."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def table(self) -> saeta._core.Table: ...

    def end(self) -> None:
        """Gives the table back to its handle."""

class SpillHandle:
    """A spillable table."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def use(self, ctx: saeta._core.Context | None = None) -> SpillUse:
        """Brings the table back. None: charged to the handle's own context."""

    def spill(self, tier: str | None = None) -> str:
        """Moves the table to a tier; which one."""

    def close(self) -> None:
        """Gives the table up."""

    @property
    def tier(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def priority(self) -> int: ...

    @property
    def context(self) -> saeta._core.Context: ...

def spillable(ctx: saeta._core.Context, table: saeta._core.Table, priority: int) -> SpillHandle:
    """Keeps a table where it may leave the device."""

def spill_statistics(memory: saeta._core.Memory) -> dict[str, Any]:
    """What became of the handles of a device."""

def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself."""

def inspect_bytes(source: bytes | bytearray | memoryview) -> dict[str, Any]:
    """What bytes say about themselves."""

def inspect_ranges(read: Callable[[int, memoryview], object], name: str, size: int) -> dict[str, Any]:
    """What a source says about itself, as `open_ranges` takes it."""

def inspect_live(read: Callable[[memoryview], int], name: str) -> dict[str, Any]:
    """
    What a stream says about itself, as `open_live` takes it. Reads it to its end.
    """
