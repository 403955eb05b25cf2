"""Reads Parquet files: pyarrow's dataset reader decodes a batch while the previous one is uploaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from saeta._convert.numbers import require_count
from saeta._convert.tables import concat_tables
from saeta._core import Context, Schema, Table
from saeta._files import parquet_set
from saeta._files.filesystems import file_error
from saeta._files.scan import Scan, read_ahead
from saeta._files.sources import name_of
from saeta._optional import load
from saeta._parquet.limited import LimitedReader, limited_host
from saeta.errors import ClosedError, Error, FormatError, UnsupportedError
from saeta.exchange import ContextLike, context_of, from_arrow

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

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
    batch_rows: int = 1 << 20,
    filesystem: Any = None,
    partitioning: Any = "hive",
) -> Table:
    """Reads Parquet into a table of a context (a Context or the name of its device; None: the best device).

    pyarrow's dataset reader decodes on all cores, one batch ahead of the upload. It skips row groups that the
    filter excludes.

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
        batch_rows: the maximum number of rows in a batch. A limited budget makes batches smaller.
        filesystem: a file system of `pyarrow.fs` or of fsspec, for paths in it.
        partitioning: "hive": folders that are named key=value, in the folder or the pattern that `source`
            names, are columns, behind those of the files; in a list of files, all folders of the paths are.
            A column that the files have as well gets the values of the folders. Values are int32 if all of
            them are such numbers, else strings, unless `schema` or the files give the type;
            "__HIVE_DEFAULT_PARTITION__" is null. None: no columns of folders. Or what
            `pyarrow.dataset.dataset` takes.

    Returns:
        A Table with the batches as they were decoded. On the host they are copied into memory of the context.

    Raises:
        MissingDependency: pyarrow is not installed.
        MissingFileError: the file does not exist, or no file matches.
        TypeMismatch: the schema of a file does not go with the others; names the file, the column and both
            types.
        FormatError: the file is not Parquet or is damaged.
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
    rows = require_count("batch_rows", batch_rows, "rows")
    where = context_of(ctx)
    with naming_failures(source, "saeta.read_parquet"):
        found = parquet_set.find(
            source,
            filesystem,
            partitioning=partitioning,
            columns=columns,
            schema=schema,
            index=index,
        )
        if filters is None:
            require_room(where, found.schema.types, sum(each.metadata.num_rows for each in found.fragments))
        host = limited_host(where)
        if host is not None:
            return read_limited(where, LimitedReader(host, found, _expression(filters), rows))
        return take_batches(where, _scanner(found, filters, batch_size=rows).to_reader())


def scan_parquet(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    index: bool = False,
    batch_rows: int | None = None,
    in_flight: int = 2,
    filesystem: Any = None,
    partitioning: Any = "hive",
) -> Scan:
    """Reads Parquet into a context batch by batch, in bounded memory.

    pyarrow's dataset reader decodes row groups on all cores. A thread uploads batches ahead of the consumer.
    Where the budget of the host has a limit, pyarrow decodes as `read_parquet` tells: the memory does not
    depend on the size of row groups. Three columns of 116 MB in one row group, under 16 MiB: pyarrow's pool
    has at most 8.2 MiB.

    Args:
        source, columns, filters, schema, index, filesystem, partitioning: as for `read_parquet`.
        batch_rows: the number of rows of each Table; the last one may have fewer. None: batches as the files
            have them, of at most 131,072 rows, fewer under a limited budget.
        in_flight: the maximum number of batches that are uploaded ahead, and that pyarrow decodes ahead
            (none, where the budget of the host has a limit). A batch that has no room is uploaded when it is
            requested. On the host, too, batches are copied into memory of the context.

    Returns:
        A Scan: an iterator of Tables, also for `async for`, and a context manager that releases the files.
        Leaving it waits for a batch that is being decoded.

    Raises:
        The errors of `read_parquet`: errors in schemas at once, errors in a batch when it is requested.

    Example:
        >>> import saeta as sa, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("a", "b"):
        ...     pq.write_table(pa.table({"n": [1, 2, 3]}), os.path.join(folder, name + ".parquet"))
        >>> with sa.scan_parquet(folder, "host", batch_rows=4) as scan:
        ...     [batch["n"].to_pylist() for batch in scan]
        [[1, 2, 3, 1], [2, 3]]
    """
    uploaded = require_count("in_flight", in_flight, "batches")
    rows = 0 if batch_rows is None else require_count("batch_rows", batch_rows, "rows")
    where = context_of(ctx)
    with naming_failures(source, "saeta.scan_parquet"):
        found = parquet_set.find(
            source,
            filesystem,
            partitioning=partitioning,
            columns=columns,
            schema=schema,
            index=index,
        )
        host = limited_host(where)
        batches: Any
        if host is not None:
            batches = LimitedReader(host, found, _expression(filters), rows or BATCH_ROWS)
        else:  # what pyarrow decodes ahead is in memory, in files and in batches
            ahead = {"batch_readahead": uploaded, "fragment_readahead": 1}
            batches = _Scanned(_scanner(found, filters, batch_size=rows or BATCH_ROWS, **ahead))
        reader = _BatchReader(source, batches)
    return Scan(reader, read_ahead(reader, where, rows, uploaded))


class _Scanned:
    """The batches of a scanner, with the methods of a `LimitedReader`."""

    def __init__(self, scanner: Any) -> None:
        self.schema = scanner.projected_schema
        self._batches = scanner.to_reader()

    def next(self) -> Any:
        for batch in self._batches:
            if batch.num_rows:  # a filter may leave no rows
                return batch
        return None


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
        self._batches = self._batch = None  # a call of another thread has them until it returns


@contextmanager
def naming_failures(source: Any, purpose: str) -> Iterator[None]:
    """Turns exceptions of pyarrow into errors of ours."""
    try:
        yield
    except Error:
        raise
    except OSError as failure:
        raise file_error(f"can't read '{name_of(source)}': {failure}", failure) from failure
    except load("pyarrow", purpose).ArrowInvalid as failure:
        raise FormatError(f"{name_of(source)}: {failure}") from failure
    except load("pyarrow", purpose).ArrowNotImplementedError as failure:
        raise UnsupportedError(f"{name_of(source)}: {failure}") from failure


def take_batches(ctx: Context, decoded: Any) -> Table:
    """Takes what pyarrow decoded. On the host too it becomes memory of the context, under its budget."""
    made: Table = from_arrow(decoded, ctx, copy=True if ctx.device == "host" else None)
    return made


def read_limited(ctx: Context, batches: LimitedReader) -> Table:
    """Returns all rows as a table of the context. At no time is more than a batch held twice."""
    tables: list[Table] = []
    try:
        while (batch := batches.next()) is not None:
            tables.append(take_batches(ctx, batch))
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


def _scanner(found: parquet_set.ParquetSet, filters: Any, **options: Any) -> Any:
    return found.dataset.scanner(columns=found.columns, filter=_expression(filters), **options)


def _expression(filters: Any) -> Any:
    return (
        None if filters is None else load("pyarrow.parquet", "reading Parquet").filters_to_expression(filters)
    )
