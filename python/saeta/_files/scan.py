"""Reads sources batch by batch, in windows or one by one, ahead of the consumer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, Protocol

from saeta._convert.numbers import require_count
from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table, _Ending, _IteratorOfStream, _parse_bytes
from saeta._files.data_sets import IPC_ENDINGS, list_sources
from saeta._files.filesystems import place_of
from saeta._files.progress import Counted, batches_of
from saeta._files.progress import hook as progress_hook
from saeta._files.readers import ReadArguments, open_reader
from saeta._files.threads import Worker
from saeta._optional import load
from saeta.errors import BudgetExceeded, ClosedError, FormatError, TypeMismatch, UnsupportedError
from saeta.exchange import ContextLike, context_of, from_arrow

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from saeta._files.batch_numbers import BatchNumbers
    from saeta._files.progress import ProgressArgument
    from saeta._files.sources import Sources
    from saeta._ipc import Reader, WindowScan

# What to do where a budget has no room for one batch.
SMALLER_ADVICE = (
    "write smaller batches, with batch_size= of write_ipc or `saeta convert --batch-size`, or give the "
    "context a larger budget"
)
WHOLE_ADVICE = f"a compressed batch is read as a whole: {SMALLER_ADVICE}"


class Readable(Protocol):
    """The interface of a reader that a scan needs."""

    @property
    def schema(self) -> Schema: ...

    @property
    def num_batches(self) -> int: ...

    def next(self, where: Context, /) -> Table | None: ...

    def close(self) -> None: ...


class Scan:
    """Reads files or streams in parts, each into a Table.

    `saeta.scan_ipc` and `saeta.scan_parquet` make it.

    It is an iterator, an asynchronous iterator and a context manager. Threads read ahead. An error is raised
    when its batch is requested. A stream that is still being sent is read when a batch is requested. Several
    threads may take batches: each batch goes to one of them. A child of fork can't use the scan of its parent
    (ClosedError).

    Example:
        >>> import saeta as sa
        >>> content = sa.table({"a": [1, 2, 3]}, "host").to_ipc_bytes()
        >>> with sa.scan_ipc(content, "host", batch_size=2) as scan:
        ...     [batch["a"].to_pylist() for batch in scan]
        [[1, 2], [3]]
    """

    def __init__(
        self,
        reader: Readable,
        batches: WindowScan | ReadAhead | ReadOnRequest,
        advice: Callable[[], str] | None = None,
        progress: ProgressArgument = None,
        totals: tuple[int, int] | None = None,
    ) -> None:
        self._schema = reader.schema
        self._num_batches = reader.num_batches
        self._batches = batches
        self._end = _Ending(batches.close)
        self._advice = advice
        self._shown = ExitStack()  # a bar of `progress`
        hook = self._shown.enter_context(progress_hook(progress, "scanning")) if progress else None
        self._counted = None if hook is None else Counted(hook, *(totals or (-1, -1)))

    @property
    def schema(self) -> Schema:
        """The schema of every batch."""
        return self._schema

    @property
    def num_batches(self) -> int:
        """Number of the requested batches; -1 if it is known only at the end, as of a stream or Parquet."""
        return self._num_batches

    def __iter__(self) -> Iterator[Table]:
        return self

    def __next__(self) -> Table:
        try:
            batch: Table | None = self._batches.next()
        except BudgetExceeded as refusal:
            advice = "" if self._advice is None else self._advice()
            if advice:  # the window was made smaller until it had one batch, or a few rows of one
                refusal.args = (f"{refusal}; {advice}", *refusal.args[1:])
            raise
        if batch is None:
            self._shown.close()
            raise StopIteration
        if self._counted is not None:
            self._counted.add(batch)
        return batch

    def __aiter__(self) -> AsyncIterator[Table]:
        return self

    async def __anext__(self) -> Table:
        import asyncio

        batch = await asyncio.get_running_loop().run_in_executor(None, next, self, None)
        if batch is None:
            raise StopAsyncIteration
        return batch

    def close(self) -> None:
        """Stops reading ahead within 50 ms and releases the source. Batches that were taken stay valid."""
        self._shown.close()
        self._end()
        if isinstance(self._batches, ReadAhead):
            self._batches.wait()

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __arrow_c_schema__(self) -> CapsuleType:
        """Returns an "arrow_schema" capsule of a struct (Arrow PyCapsule Interface)."""
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType:
        """Returns a capsule of a stream of the remaining batches, in host memory.

        Each batch is taken on request.

        The stream takes batches from the scan as an iterator does. `close` ends it: the next request of the
        stream then returns an error with the text of ClosedError. ClosedError if the scan is closed or at its
        end. Needs pyarrow.
        """
        return _stream(self, requested_schema)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeMismatch(
            "a Scan belongs to its process and can't be pickled: pass the source, and scan it there"
        )

    def _repr_html_(self) -> str:
        from saeta._report.html import described

        number = "a number known at the end" if self._num_batches < 0 else f"{self._num_batches:,}"
        return described("Scan", "yields tables", [("batches", number)], schema=self._schema)

    def __repr__(self) -> str:
        number = "a stream" if self._num_batches < 0 else f"{self._num_batches} batches"
        return f"<saeta.Scan of {number}>"


def _advice(reader: Reader) -> str:
    """Returns what to do where a budget has no room for a window; nothing if it is not about batches."""
    try:
        if not any(reader.batch_compressed):
            return ""
    except (FormatError, UnsupportedError):  # the error of a broken batch is raised when the batch is taken
        return ""
    if reader.undivided:
        return f"a compressed batch is read as a whole because of {reader.undivided}: {SMALLER_ADVICE}"
    return (
        "a large compressed batch is read in parts, with a decoder in memory for each of its buffers: drop "
        f"the tables of earlier parts, {SMALLER_ADVICE}"
    )


class Closable(Protocol):
    """Something that a thread reads. `close` ends a read of another thread."""

    def close(self) -> None: ...


class _Batches:
    """Batches that Python reads one by one: the state that the consumers of a scan share.

    Like a `WindowScan` it has no reference to the Scan, so that dropping the Scan stops the reading.
    """

    def __init__(self, reader: Closable, read: Callable[[], Any], owner: str = "scan") -> None:
        self._reader = reader
        self._owner = owner
        self._read = read
        self._process = os.getpid()
        self._stopped = False
        self._done = False

    def require_open(self) -> None:
        if self._process != os.getpid():  # before any lock, which a thread of the parent may have held
            raise ClosedError(
                f"the {self._owner} belongs to process {self._process}, the parent of this forked process: "
                "open its source again"
            )
        if self._stopped:
            raise ClosedError(f"the {self._owner} is closed")

    def require_more(self) -> None:
        """Raises ClosedError if no batch can be taken any more."""
        self.require_open()
        if self._is_spent():
            raise ClosedError("the scan is at its end: scan the source again")

    def _is_spent(self) -> bool:
        return self._done


class ReadOnRequest(_Batches):
    """Batches that are read when they are taken, by one thread at a time.

    Used for batches of a stream that is still being sent, because nothing could end the wait of a thread that
    reads ahead; for views, which cost less than a thread; and for windows that had no room.
    """

    def __init__(self, reader: Closable, read: Callable[[], Any], owner: str = "scan") -> None:
        super().__init__(reader, read, owner)
        self._turn = threading.Lock()

    def next(self) -> Any:
        """Returns the next batch, or None at the end."""
        self.require_open()
        with self._turn:
            self.require_open()
            batch = self._read()
            self._done = batch is None
            return batch

    def close(self) -> None:
        """Ends the reading.

        A thread inside a call of the source releases the source when the call returns.
        """
        self._stopped = True
        self._reader.close()


class ReadAhead(_Batches):
    """What a thread reads ahead, one by one: the batches of a scan, the windows of a loader.

    An interrupt may come between any two lines of the thread that takes. So both threads wait at queues,
    which take or leave a token by one call, and what is ready stays ready until it is returned. A Condition
    would keep its lock, or lose it.
    """

    def __init__(
        self, reader: Closable, read: Callable[[], Any], in_flight: int, owner: str = "scan"
    ) -> None:
        super().__init__(reader, read, owner)
        self._state = threading.Lock()
        self._turn = threading.Lock()  # held by threads that read in place of the reading thread
        self._ready: deque[Any] = deque()
        self._failure: BaseException | None = None
        self._rooms: SimpleQueue[None] = SimpleQueue()  # one token for each batch that may be read
        # One token when waiting threads have to look at the state again.
        self._news: SimpleQueue[None] = SimpleQueue()
        for _ in range(in_flight):
            self._rooms.put(None)
        self._worker = Worker(self._run, f"saeta-{owner}")

    def next(self) -> Any:
        """Returns the next batch, or None at the end."""
        while True:
            self.require_open()
            with self._state:
                self.require_open()
                self._worker.start()
                if self._ready:
                    try:
                        return self._ready.popleft()
                    finally:  # the token first, by one call: the thread would wait for ever without it
                        self._rooms.put(None)
                        self._tell()
                failure, done = self._failure, self._done
            if isinstance(failure, BudgetExceeded):
                del failure
                with self._turn:
                    if self._failure is not None:
                        return self._read_again()
            elif failure is not None:
                self._done = True
                self._failure = None  # its traceback would keep the frames that catch the failure alive
                try:
                    raise failure
                finally:
                    del failure
            elif done:
                self._tell()
                return None
            else:
                self._wait_for_news()

    def _tell(self) -> None:
        """Wakes one waiting thread, which looks at the state and wakes the next one."""
        if self._news.empty():
            self._news.put(None)

    def _wait_for_news(self) -> None:
        with suppress(Empty):  # an interrupt may have taken a token away from another thread
            self._news.get(timeout=1)
        if self._stopped:
            self._tell()

    def _is_spent(self) -> bool:
        return self._done and not self._ready

    def _read_again(self) -> Any:
        """Reads a batch again that had no room in the budget, on the calling thread.

        The batch before it may have been released meanwhile. If there is room now, the thread reads ahead
        again.
        """
        batch = self._read()
        self._done = batch is None
        if not self._done:
            self._worker = Worker(self._run, f"saeta-{self._owner}")
        self._failure = None
        if not self._done:
            with self._state:  # `next` of another thread may have started it already
                self._worker.start()
        return batch

    def _run(self) -> None:
        while True:
            self._rooms.get()
            if self._stopped:
                return
            try:
                batch = self._read()
            except BaseException as failure:  # the thread that takes the batch raises it
                with self._state:
                    if not self._stopped:  # the traceback of the failure keeps the source alive
                        self._failure = failure
                self._rooms.put(None)  # gives the token back, for a thread that reads ahead later
                self._tell()
                return
            with self._state:
                if self._stopped:
                    return
                if batch is None:
                    self._done = True
                else:
                    self._ready.append(batch)
            self._tell()
            if batch is None:
                return
            del batch  # the consumer may release the batch while the next one is read

    def close(self) -> None:
        """Ends the reading."""
        if self._process != os.getpid():
            return
        with self._state:
            self._stopped = True
            self._failure = None
            self._ready.clear()
        self._rooms.put(None)
        self._tell()
        self._reader.close()  # ends the thread's read or wait

    def wait(self) -> None:
        """Waits until the reading has ended."""
        if self._process == os.getpid():
            self._worker.wait()
        self._ready.clear()


class _Rows:
    """Batches of a number of rows, the last one with fewer, from batches of any number."""

    def __init__(self, read: Callable[[], Table | None], rows: int) -> None:
        self._read = read
        self._rows = rows
        self._left: Table | None = None

    def next(self) -> Table | None:
        while self._left is None or self._left.num_rows < self._rows:
            batch = self._read()
            if batch is None:
                break
            self._left = batch if self._left is None else concat_tables([self._left, batch])
        if self._left is None or self._left.num_rows == 0:
            return None
        made = self._left.slice(0, min(self._rows, self._left.num_rows)).combine_chunks()
        self._left = self._left.slice(made.num_rows)
        return made


def read_ahead(reader: Readable, ctx: Context, batch_size: int, in_flight: int) -> ReadAhead:
    """Returns batches that a thread reads ahead; 0 `batch_size` keeps the batches of the source."""
    return ReadAhead(reader, _one_by_one(reader, ctx, batch_size), in_flight)


def _one_by_one(reader: Readable, ctx: Context, batch_size: int) -> Callable[[], Table | None]:
    def read() -> Table | None:
        return reader.next(ctx)

    return _Rows(read, batch_size).next if batch_size else read


def _batches(reader: Reader, ctx: Context, batch_size: int, in_flight: int) -> ReadAhead | ReadOnRequest:
    """Returns the batches of a reader that can't read windows."""
    if reader.live or (reader.near_by and _gives_views(reader)):
        return ReadOnRequest(reader, _one_by_one(reader, ctx, batch_size))
    return read_ahead(reader, ctx, batch_size, in_flight)


def _rows_of(reader: Reader) -> int:
    """Returns the number of all rows, or -1 where the metadata of all batches are not at hand."""
    try:
        return sum(reader.batch_rows) if reader.near_by and reader.num_batches >= 0 else -1
    except FormatError:  # the metadata of a batch are broken: the error is raised when the batch is taken
        return -1


def _gives_views(reader: Reader) -> bool:
    """Whether batches that are read one by one are views of the file."""
    try:
        return reader.planned and not any(reader.batch_compressed)
    except FormatError:  # the metadata of a batch are broken: the error is raised when the batch is taken
        return False


class _Requested(NamedTuple):
    """A table that is exported with the schema that the consumer of a stream requested."""

    table: Table
    schema: Any

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType:
        return self.table.__arrow_c_stream__(self.schema)


def _stream(scan: Scan, requested: Any) -> CapsuleType:
    """Implements `Scan.__arrow_c_stream__`."""
    scan._batches.require_more()
    pyarrow = load("pyarrow", "Scan.__arrow_c_stream__")
    reader = pyarrow.RecordBatchReader

    def shown(table: Table) -> Any:
        return reader.from_stream(_Requested(table, requested))

    def batches() -> Iterator[Any]:
        scan._batches.require_more()  # another stream may have taken all batches since
        for batch in scan:
            yield from shown(batch)

    nothing = from_arrow(reader.from_batches(pyarrow.schema(scan.schema), []), "host")
    values = _IteratorOfStream(batches())
    capsule: CapsuleType = reader.from_batches(shown(nothing).schema, values).__arrow_c_stream__()
    return capsule


def scan_ipc(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    batches: BatchNumbers = None,
    schema: Any = None,
    index: bool = False,
    window: int | str = "128MiB",
    batch_size: int | None = None,
    in_flight: int = 2,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    progress: ProgressArgument = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Scan:
    """Reads Arrow IPC files or streams into a context batch by batch, in bounded memory.

    On a device, and wherever batches are copied or decompressed, several batches are read at once: a window,
    by one allocation and one planned transfer. Batches are views into the columns of their window, whose
    memory is free when the last of them is gone. The next window is read while one is used.

    Args:
        source, columns, batches, schema, index, copy, validate, filesystem, storage_options: as for
            `read_ipc`.
        window: bytes that are read at once, as a number or a text ("256MiB"). A larger batch is read in
            parts; a compressed one only if the budget has no room for it, and not with views, list views,
            dense unions or run ends. At most a part of the budget is used; a window that has no room is made
            smaller.
        batch_size: the number of rows of each Table; the last one may have fewer. None: batches as the
            source has them.
        in_flight: the maximum number of windows that are read ahead. Where batches come from an object or
            become symbols, they are read one by one, and this is a number of batches. A batch that has no
            room in the budget is read when it is requested, and so is a view of a file.
        progress: as for `read_ipc`, after each batch that is taken: its rows and the bytes of its values.

    Returns:
        A Scan: an iterator of Tables of one batch, also for `async for`, and a context manager that releases
        the source.

    Raises:
        The errors of `read_ipc`: errors in the schema at once, errors in a batch when it is requested.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> host = sa.context("host")
        >>> _ = sa.write_ipc(sa.concat_tables([sa.table({"a": [1, 2]}, host)] * 3), path)
        >>> with sa.scan_ipc(path, host) as scan:
        ...     [batch.num_rows for batch in scan]
        [2, 2, 2]
    """
    ahead = require_count("in_flight", in_flight, "batches")
    rows = 0 if batch_size is None else require_count("batch_size", batch_size, "rows")
    given = _parse_bytes(window) if isinstance(window, str) else window
    window_bytes = require_count("window", given, "bytes")
    target = context_of(ctx)
    place = filesystem if storage_options is None else place_of(filesystem, storage_options)
    files = list_sources(source, place, IPC_ENDINGS)
    reader = open_reader(files, ReadArguments(columns, batches, schema, index, copy, validate))
    windows = reader.scan_windows(target, window_bytes, ahead, rows)
    all_rows = _rows_of(reader) if progress else -1
    total = batches_of(all_rows, rows) if rows else reader.num_batches
    if windows is None:
        one_by_one = _batches(reader, target, rows, ahead)
        return Scan(reader, one_by_one, None, progress, (total, all_rows))
    return Scan(reader, windows, lambda: _advice(reader), progress, (total, all_rows))
