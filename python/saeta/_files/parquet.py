"""Reads Parquet files, decoded on the device, or by pyarrow while the batch before is uploaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from saeta._convert.numbers import require_bytes, require_count
from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table
from saeta._files import parquet_set, read_clock
from saeta._files.filesystems import file_error, place_of
from saeta._files.progress import Counted, batches_of
from saeta._files.progress import hook as progress_hook
from saeta._files.scan import Scan, read_ahead
from saeta._files.sources import name_of
from saeta._optional import load
from saeta._parquet.decoder import Decoder
from saeta._parquet.engine import Engine, device_plan, require_engine
from saeta._parquet.filters import expression_of
from saeta._parquet.limited import LimitedReader, limited_host
from saeta._parquet.parts import Part
from saeta._parquet.plan import Plan
from saeta._parquet.reading import DeviceBatches, read_whole
from saeta.errors import ClosedError, Error, FormatError, UnsupportedError
from saeta.exchange import ContextLike, context_of, from_arrow

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from saeta._files.parquet_ranges import ColumnsAhead
    from saeta._files.progress import ProgressArgument

    Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterator[str | os.PathLike[str]]

BATCH_ROWS = 1 << 17  # of a scan


def read_parquet(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    index: bool = False,
    batch_size: int = 1 << 20,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
    progress: ProgressArgument = None,
) -> Table:
    """Reads Parquet into a table of a context (a Context or the name of its device; None: the best device).

    On a CUDA device, with pylibcudf installed, the device decodes the files. Otherwise pyarrow's dataset
    reader decodes on all cores, one batch ahead of the upload. Both skip row groups that the filter excludes,
    and both give the same schema and values. The guide to Parquet has the types and filters that need
    pyarrow.

    Where the budget of the host has a limit, of this context or above it, pyarrow decodes page by page
    instead. Beside the table it holds one batch of at most an eighth of what the budget has left, and for
    each column the pages that are being decoded and up to 256 KiB of the file (8 MiB of a store). This is
    charged while it is held, with pages of at most 1 MiB, also for a context of a device. Larger pages, and
    the state of decoders and codecs, are not charged. If the charge is refused, BudgetExceeded names it.

    Args:
        source: a path, a URL, a glob ("data/*.parquet", "**" for any folders), a folder, or a list of these.
            A folder stands for its files that end in .parquet, also in folders below, sorted by path. Names
            that begin with "." or "_" are skipped in folders.
        columns: only these, in this order; one name or several.
        filters: rows to keep, as for `pyarrow.parquet.read_table`: a `pyarrow.dataset` expression, a list of
            tuples (column, operator, value), or a list of such lists, one of which must hold.
        schema, index: as for `saeta.read_ipc`; a source is a file here.
        batch_size: the maximum number of rows in a batch that pyarrow decodes. A limited budget makes batches
            smaller.
        filesystem: a file system of pyarrow.fs or of fsspec, or a store of obstore; paths are then
            paths in it.
        storage_options: what opens the store of a URL, as keywords of obstore where that is installed and
            knows the scheme ("s3", "gs", "az", "abfs", "http"), else of fsspec.
        partitioning: "hive": folders that are named key=value, in the folder or the pattern that `source`
            names, are columns, behind those of the files; in a list of files, all folders of the paths are.
            A column that the files have as well gets the values of the folders. Values are int32 if all of
            them are such numbers, else strings, unless `schema` or the files give the type;
            "__HIVE_DEFAULT_PARTITION__" is null. None: no columns of folders. Or what
            `pyarrow.dataset.dataset` takes.
        engine: "device" decodes on the device of the context, "host" by pyarrow. None: on the device if it
            can, else by pyarrow, and the logger "saeta.parquet" says why (level INFO).
        progress: as for `saeta.read_ipc`, after each batch that is decoded: its rows and the bytes of its
            values.

    Returns:
        A Table with the batches as they were decoded. On the host they are copied into memory of the context.

    While the device decodes, RMM's current resource takes memory for it from the context, under the tag
    "parquet".

    Raises:
        InvalidError: `engine` is not known.
        UnsupportedError: `engine` is "device", and something needs pyarrow: the message names the column.
        MissingDependency: pyarrow is not installed, or `engine` is "device" and pylibcudf is not.
        MissingFileError: the file does not exist, or no file matches.
        TypeMismatch: the schema of a file does not go with the others; names the file, the column and both
            types.
        FormatError: the file is not Parquet or is damaged; names it, or the first of several.
        ColumnNameError: a column does not exist.
        BudgetExceeded: the table does not fit. What its types and row counts tell is known before anything is
            read. After any failed read, nothing of it stays allocated.

    Example:
        >>> import saeta as sa, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.parquet")
        >>> pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), path)
        >>> sa.read_parquet(path, "host", columns="b", filters=[("a", ">", 1)])["b"].to_pylist()
        ['y', 'z']
    """
    rows = require_count("batch_size", batch_size, "rows")
    require_engine(engine)
    where = context_of(ctx)
    with naming_failures(source, "saeta.read_parquet"):
        data_set = parquet_set.find(
            source,
            place_of(filesystem, storage_options),
            partitioning=partitioning,
            columns=columns,
            schema=schema,
            index=index,
        )
        with progress_hook(progress, "reading") as hook:
            counted = None if hook is None else Counted(hook, -1, _rows_of(data_set, filters))
            return read_set(data_set, where, filters, engine, rows, counted)


def read_set(
    data_set: parquet_set.ParquetSet,
    where: Context,
    filters: Any,
    engine: Engine | None,
    rows: int,
    counted: Counted | None = None,
) -> Table:
    """Returns the rows of files as a table of a context."""
    decoder = device_decoder(engine, where, data_set, filters)
    if decoder is not None:
        return read_whole(decoder, counted)
    return _read_on_host(data_set, where, filters, rows, counted)


def _read_on_host(
    data_set: parquet_set.ParquetSet, where: Context, filters: Any, rows: int, counted: Counted | None = None
) -> Table:
    if filters is None:
        require_room(where, data_set.schema.types, _rows_of(data_set, filters))
    expression = _expression(filters)
    host = limited_host(where)
    if host is not None:
        return read_limited(where, LimitedReader(host, data_set, expression, rows), counted)
    scanner = _scanner(data_set, expression, batch_size=rows)
    fetched = data_set.fetch_all(expression)
    try:
        return _take_all(where, scanner.to_reader(), counted)
    finally:
        fetched.close()


def scan_parquet(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    index: bool = False,
    batch_size: int | None = None,
    in_flight: int | None = None,
    window: int | str = "128MiB",
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
    progress: ProgressArgument = None,
) -> Scan:
    """Reads Parquet into a context batch by batch, in bounded memory.

    On a CUDA device, with pylibcudf installed, threads decode windows of whole row groups on the device ahead
    of the consumer. Otherwise pyarrow's dataset reader decodes row groups on all cores, and a thread uploads
    batches ahead. Where the budget of the host has a limit, pyarrow decodes as `read_parquet` tells: the
    memory does not depend on the size of row groups. Three columns of 116 MB in one row group, under 16 MiB:
    pyarrow's pool has at most 8.2 MiB.

    Args:
        source, columns, filters, schema, index, filesystem, storage_options, partitioning, engine: as for
            `read_parquet`.
        batch_size: the number of rows of each Table; the last one may have fewer. None: the windows, or the
            batches of at most 131,072 rows that pyarrow decodes, fewer under a limited budget.
        in_flight: the maximum number of windows that the device decodes ahead, at the same time (None: as
            many as have 1 GiB together, from 2 to 8). With pyarrow the maximum number of batches that are
            uploaded ahead (None: 2), and that it decodes ahead (none, where the budget of the host has a
            limit). What has no room is read when it is requested. On the host, too, batches are copied into
            memory of the context.
        window: bytes of values that the device decodes at once, as a number or a text ("512MiB"). A larger
            row group is decoded in parts.
        progress: as for `saeta.scan_ipc`.

    Returns:
        A Scan: an iterator of Tables, also for `async for`, and a context manager that releases the files.
        Leaving it waits for a batch that is being decoded.

    A scan on a device holds the values of `in_flight` windows and what decoding them takes, beside the window
    that the program works on: up to `(1 + 3 * in_flight) * window` bytes, where the metadata of the files
    tell the size of the values. That is not reserved; the budget of the context is the limit.

    Raises:
        The errors of `read_parquet`: errors in schemas at once, errors in a batch when it is requested.

    Example:
        >>> import saeta as sa, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("a", "b"):
        ...     pq.write_table(pa.table({"n": [1, 2, 3]}), os.path.join(folder, name + ".parquet"))
        >>> with sa.scan_parquet(folder, "host", batch_size=4) as scan:
        ...     [batch["n"].to_pylist() for batch in scan]
        [[1, 2, 3, 1], [2, 3]]
    """
    if in_flight is not None:
        in_flight = require_count("in_flight", in_flight, "batches")
    window_bytes = require_bytes("window", window)
    require_engine(engine)
    rows = 0 if batch_size is None else require_count("batch_size", batch_size, "rows")
    where = context_of(ctx)
    with naming_failures(source, "saeta.scan_parquet"):
        data_set = parquet_set.find(
            source,
            place_of(filesystem, storage_options),
            partitioning=partitioning,
            columns=columns,
            schema=schema,
            index=index,
        )
        all_rows = _rows_of(data_set, filters) if progress else -1
        totals = batches_of(all_rows, rows) if rows else -1, all_rows
        decoder = device_decoder(engine, where, data_set, filters)
        if decoder is not None:
            windows = DeviceBatches(decoder, window_bytes, in_flight)
            ahead = read_ahead(windows, where, rows, 1)
            return Scan(windows, ahead, None, progress, totals)
        uploaded = in_flight or 2
        expression = _expression(filters)
        host = limited_host(where)
        batches: Any
        if host is not None:
            batches = LimitedReader(host, data_set, expression, rows or BATCH_ROWS)
        else:  # what pyarrow decodes ahead is in memory, in files and in batches
            depth = {"batch_readahead": uploaded, "fragment_readahead": 1}
            scanner = _scanner(data_set, expression, batch_size=rows or BATCH_ROWS, **depth)
            batches = _Scanned(scanner, data_set.fetch_all(expression))
        reader = _BatchReader(source, batches)
    return Scan(reader, read_ahead(reader, where, rows, uploaded), None, progress, totals)


def _rows_of(data_set: parquet_set.ParquetSet, filters: Any) -> int:
    """Returns the number of all rows, which the metadata tell; with filters -1."""
    if filters is not None:
        return -1
    return sum(group.num_rows for fragment in data_set.fragments for group in fragment.row_groups)


def device_decoder(
    engine: Engine | None, ctx: Context, data_set: parquet_set.ParquetSet, filters: Any
) -> Decoder | None:
    """Returns what decodes files on the device of a context. None: pyarrow does it on the host."""
    plan = device_plan(engine, ctx, data_set, filters)
    return None if plan is None else decoder_of(plan, engine, ctx, data_set, filters)


def decoder_of(
    plan: Plan, engine: Engine | None, ctx: Context, data_set: parquet_set.ParquetSet, filters: Any
) -> Decoder:
    """Returns what decodes as planned. With engine None, pyarrow reads what cuDF refuses."""

    def read(part: Part) -> Table:
        fragments = [data_set.fragments[file].subset(row_group_ids=of) for file, of in part.by_file.items()]
        read = parquet_set.of_fragments(fragments, data_set.dataset.schema, plan.schema.names, plan.schema)
        with naming_failures([fragment.path for fragment in fragments], "reading Parquet"):
            return _read_on_host(read, ctx, filters, part.rows)

    return Decoder(ctx, plan, read if engine is None else None)


class _Scanned:
    """The batches of a scanner, with the methods of a `LimitedReader`."""

    def __init__(self, scanner: Any, fetched: ColumnsAhead) -> None:
        self.schema = scanner.projected_schema
        self._batches = scanner.to_reader()
        self._fetched = fetched

    def next(self) -> Any:
        for batch in self._batches:
            if batch.num_rows:  # a filter may leave no rows
                return batch
        return None

    def close(self) -> None:
        self._fetched.close()


class _BatchReader:
    """Batches that are decoded as `scan.Readable`."""

    num_batches = -1

    def __init__(self, source: Any, batches: _Scanned | LimitedReader) -> None:
        self._source = source
        self.schema = Schema(batches.schema)
        self._batches: _Scanned | LimitedReader | None = batches
        self._batch: Any = None  # decoded, not uploaded yet

    def next(self, where: Context, /) -> Table | None:
        batches = self._batches
        if batches is None:
            raise ClosedError("the scan is closed")
        with naming_failures(self._source, "saeta.scan_parquet"):
            if self._batch is None:
                self._batch = batches.next()
                if self._batch is None:
                    return None
            table = take_batches(where, self._batch)
        self._batch = None
        return table

    def close(self) -> None:
        if isinstance(self._batches, _Scanned):
            self._batches.close()
        self._batches = self._batch = None  # a call of another thread has them until it returns


@contextmanager
def naming_failures(source: Any, purpose: str) -> Iterator[None]:
    """Turns exceptions of pyarrow into errors of ours."""
    try:
        yield
    except Error:
        raise
    except (OSError, load("pyarrow", purpose).ArrowInvalid) as failure:
        # What pyarrow's decoder raises is a plain OSError without a number.
        if isinstance(failure, OSError) and (type(failure) is not OSError or failure.errno is not None):
            raise file_error(f"can't read {_named(source)}: {failure}", failure) from failure
        raise FormatError(f"{_named(source)}: {failure}") from failure
    except load("pyarrow", purpose).ArrowNotImplementedError as failure:
        raise UnsupportedError(f"{_named(source)}: {failure}") from failure


def _named(source: Any) -> str:
    """Returns what messages call a source. pyarrow does not tell which of several files it means."""
    if not isinstance(source, list | tuple) or not source:
        return f"'{name_of(source)}'"
    others = {1: "", 2: " or the file behind it"}
    behind = others.get(len(source), f" or one of the {len(source) - 1} files behind it")
    return f"'{name_of(source[0])}'{behind}"


def take_batches(ctx: Context, decoded: Any) -> Table:
    """Takes what pyarrow decoded. On the host too it becomes memory of the context, under its budget."""
    made: Table = from_arrow(decoded, ctx, copy=True if ctx.device == "host" else None)
    return made


def _take_all(ctx: Context, reader: Any, counted: Counted | None) -> Table:
    """Takes the batches of a reader of pyarrow."""
    failures: list[BaseException] = []  # a stream has their text only

    def batches() -> Iterator[Any]:
        try:
            for batch in read_clock.each(reader, "decode"):
                yield batch
                if counted is not None:
                    counted.add(batch)
        except GeneratorExit:  # its consumer has failed
            raise
        except BaseException as failure:
            failures.append(failure)
            raise

    made = load("pyarrow", "reading Parquet").RecordBatchReader.from_batches(reader.schema, batches())
    try:
        return take_batches(ctx, made)
    except Error:
        if failures:
            raise failures[0] from None
        raise


def read_limited(ctx: Context, batches: LimitedReader, counted: Counted | None = None) -> Table:
    """Returns all rows as a table of the context. At no time is more than a batch held twice."""
    tables: list[Table] = []
    try:
        while True:
            with read_clock.timed("decode"):
                batch = batches.next()
            if batch is None:
                break
            tables.append(take_batches(ctx, batch))
            if counted is not None:
                counted.add(batch)
            del batch
    finally:
        batches.close()
    return concat_tables(tables) if tables else take_batches(ctx, batches.schema.empty_table())


def require_room(ctx: Context, types: Iterable[Any], rows: int) -> None:
    """Raises BudgetExceeded if values of fixed width alone need more memory than a host context has."""
    nbytes = rows * sum(map(_bits, types)) // 8
    if nbytes and ctx.device == "host":
        with ctx.memory.reserve(nbytes):
            pass


def _bits(type_: Any) -> int:
    """Returns the bits of a value, 0 if their number varies."""
    try:
        bits: int = type_.bit_width
    except ValueError:
        return 0
    return bits


def _scanner(data_set: parquet_set.ParquetSet, expression: Any, **options: Any) -> Any:
    return data_set.dataset.scanner(columns=data_set.columns, filter=expression, **options)


def _expression(filters: Any) -> Any:
    return None if filters is None else expression_of(filters)
