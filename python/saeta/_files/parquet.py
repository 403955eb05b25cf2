"""Reads Parquet files: pyarrow's dataset reader decodes a batch while the previous one is uploaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from saeta._convert.numbers import require_count
from saeta._core import Context, Schema, Table, _unknown_column
from saeta._files import data_sets
from saeta._files.scan import Scan, read_ahead
from saeta._files.sources import URL, file_error, filesystem_of, without_secrets
from saeta._optional import load
from saeta.errors import (
    ClosedError,
    ColumnNameError,
    Error,
    FormatError,
    TypeMismatch,
)
from saeta.exchange import ContextLike, context_of, from_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterator[str | os.PathLike[str]]


def read_parquet(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    batch_rows: int = 1 << 20,
    filesystem: Any = None,
    partitioning: Any = None,
) -> Table:
    """Reads Parquet into a table of a context (a Context or the name of its device; None: the best device).

    pyarrow's dataset reader decodes on all cores, one batch ahead of the upload. It skips row groups that the
    filter excludes.

    Args:
        source: a path, a URL, a glob ("data/*.parquet", "**" for any folders), a folder, or a list of these.
            A folder stands for its files that end in .parquet, also in folders below, sorted by path. Names
            that begin with "." or "_" are skipped in folders.
        columns: only these, in this order; one name or several.
        filters: rows to keep, as for `pyarrow.parquet.read_table`: a `pyarrow.dataset` expression, a list of
            tuples (column, operator, value), or a list of such lists, one of which must hold.
        schema: what the files must have: a Schema, a schema of pyarrow, or another object with
            `__arrow_c_schema__`. None: what the first file has. Names, order, types and nullability of
            `columns` are compared; a column without nulls is accepted where nulls are allowed.
        batch_rows: the maximum number of rows in a batch.
        filesystem: a file system of `pyarrow.fs` or of fsspec, for paths in it.
        partitioning: for files in folders, as for `pyarrow.dataset.dataset`: for example "hive".

    Returns:
        A Table with the batches as they were decoded.

    Raises:
        MissingDependency: pyarrow is not installed.
        MissingFileError: the file does not exist, or no file matches.
        TypeMismatch: a file has another schema; names the file and the column.
        FormatError: the file is not Parquet or is damaged.
        ColumnNameError: a column does not exist.
        BudgetExceeded: the table does not fit. After any failed read, nothing of it stays allocated.

    Example:
        >>> import saeta as sa, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.parquet")
        >>> pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), path)
        >>> sa.read_parquet(path, "host", columns="b", filters=[("a", ">", 1)])["b"].to_pylist()
        ['y', 'z']
    """
    rows = require_count("batch_rows", batch_rows, "rows")
    where = context_of(ctx)
    with _naming_failures(source, "saeta.read_parquet"):
        scanner = _scanner(source, filesystem, partitioning, columns, filters, schema, batch_size=rows)
        made: Table = from_arrow(scanner.to_reader(), where)
    return made


def scan_parquet(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    batch_rows: int | None = None,
    in_flight: int = 2,
    filesystem: Any = None,
    partitioning: Any = None,
) -> Scan:
    """Reads Parquet into a context batch by batch, in bounded memory.

    pyarrow's dataset reader decodes row groups on all cores. A thread uploads batches ahead of the consumer.

    Args:
        source, columns, filters, schema, filesystem, partitioning: as for `read_parquet`.
        batch_rows: the number of rows of each Table; the last one may have fewer. None: batches as the files
            have them, of at most 131,072 rows.
        in_flight: the maximum number of batches that are uploaded ahead, and that pyarrow decodes ahead. A
            batch that has no room in the budget is uploaded when it is requested.

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
    with _naming_failures(source, "saeta.scan_parquet"):
        # What pyarrow decodes ahead is in memory, in files and in batches.
        ahead = {"batch_readahead": uploaded, "fragment_readahead": 1}
        reader = _BatchReader(
            source,
            _scanner(
                source,
                filesystem,
                partitioning,
                columns,
                filters,
                schema,
                batch_size=rows or 1 << 17,
                **ahead,
            ),
        )
    return Scan(reader, read_ahead(reader, where, rows, uploaded))


class _BatchReader:
    """The batches of a scanner as `scan.Readable`."""

    num_batches = -1

    def __init__(self, source: Any, scanner: Any) -> None:
        self._source = source
        self.schema = Schema(scanner.projected_schema)
        self._batches: Any = scanner.to_reader()
        self._batch: Any = None  # decoded, not uploaded yet

    def next(self, where: Context, /) -> Table | None:
        batches = self._batches
        if batches is None:
            raise ClosedError("the scan is closed")
        with _naming_failures(self._source, "saeta.scan_parquet"):
            while self._batch is None:
                try:
                    batch = batches.read_next_batch()
                except StopIteration:
                    return None
                self._batch = batch if batch.num_rows else None  # a filter may leave no rows
            pyarrow = load("pyarrow", "saeta.scan_parquet")
            made: Table = from_arrow(pyarrow.Table.from_batches([self._batch]), where)
        self._batch = None
        return made

    def close(self) -> None:
        self._batches = self._batch = None


@contextmanager
def _naming_failures(source: Any, purpose: str) -> Iterator[None]:
    """Turns exceptions of pyarrow into errors of ours."""
    try:
        yield
    except Error:
        raise
    except OSError as failure:
        raise file_error(f"can't read '{_named(source)}': {failure}", failure) from failure
    except load("pyarrow", purpose).ArrowInvalid as failure:
        raise FormatError(f"{_named(source)}: {failure}") from failure


def _named(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return without_secrets(os.fsdecode(source))
    return type(source).__name__


def _scanner(
    source: Any,
    filesystem: Any,
    partitioning: Any,
    columns: str | Iterable[str] | None,
    filters: Any,
    schema: Any,
    **options: Any,
) -> Any:
    """Returns a scanner of pyarrow over the files, whose schemas are compared."""
    dataset = load("pyarrow.dataset", "reading Parquet")
    file_format = dataset.ParquetFileFormat(arrow_extensions_enabled=True)  # as `read_table` has them
    listed = data_sets.list_sources(source, filesystem, data_sets.PARQUET_ENDINGS)
    parts = [
        dataset.dataset(
            paths,
            format=file_format,
            filesystem=place,
            partitioning=partitioning,
            partition_base_dir=_folder(source, listed, place),
        )
        for place, paths in _by_filesystem(listed)
    ]
    found = parts[0] if len(parts) == 1 else dataset.dataset(parts)
    meant = found.schema if schema is None else _meant(schema, parts[0])
    chosen = _names(columns, meant)
    if schema is not None or len(listed) > 1:
        _compare_schemas(parts, meant, chosen)
    if schema is not None:
        found = found.replace_schema(meant)
    return found.scanner(columns=chosen, filter=_expression(filters), **options)


def _by_filesystem(listed: list[data_sets.Listed]) -> list[tuple[Any, list[str]]]:
    """Groups consecutive paths by their file systems."""
    groups: list[tuple[Any, list[str]]] = []
    for source, filesystem, _ in listed:
        if not isinstance(source, str | os.PathLike):
            raise TypeMismatch(f"source is of type {type(source).__name__}, expected a path or URLs of files")
        place, path = filesystem, os.fsdecode(source)
        if place is None and URL.match(path):
            place, path = filesystem_of(path)
        if groups and (groups[-1][0] is place or groups[-1][0] == place):
            groups[-1][1].append(path)
        else:
            groups.append((place, [path]))
    return groups


def _folder(source: Any, listed: list[data_sets.Listed], filesystem: Any) -> str | None:
    """Returns the folder that the names of partitions begin in, if the source is a folder."""
    if not isinstance(source, str | os.PathLike) or any(source == each.source for each in listed):
        return None
    path = os.fsdecode(source)
    if data_sets.is_pattern(path):
        return None
    return filesystem_of(path)[1] if filesystem is not None and URL.match(path) else path


def _meant(schema: Any, part: Any) -> Any:
    """Returns the schema that is meant, with the fields of partitions, which no file has."""
    pyarrow = load("pyarrow", "reading Parquet")
    meant = pyarrow.schema(schema if isinstance(schema, Schema) else Schema(schema))
    inside = next(iter(part.get_fragments())).physical_schema.names
    added = [field for field in part.schema if field.name not in inside and field.name not in meant.names]
    return pyarrow.schema([*meant, *added], meant.metadata)


def _compare_schemas(parts: list[Any], meant: Any, chosen: list[str] | None) -> None:
    """Raises TypeMismatch if a file has other columns than are meant."""
    partitions = None
    for fragment in (each for part in parts for each in part.get_fragments()):
        seen = fragment.physical_schema
        if partitions is None:  # the fields that the first file does not have, if they come from its path
            expressions = load("pyarrow.dataset", "reading Parquet").get_partition_keys(
                fragment.partition_expression
            )
            partitions = {name for name in expressions if name not in seen.names}
        wanted = [field for field in meant if field.name not in partitions]
        if chosen is not None:
            wanted = [field for field in wanted if field.name in chosen]
            seen = [seen.field(field.name) for field in wanted if seen.names.count(field.name) == 1]
        for number in range(max(len(seen), len(wanted))):
            has = seen[number] if number < len(seen) else None
            expected = wanted[number] if number < len(wanted) else None
            if (
                has is None
                or expected is None
                or (has.name, has.type) != (expected.name, expected.type)
                or (has.nullable and not expected.nullable)
            ):
                raise TypeMismatch(
                    f"{fragment.path}: column {number} is {_described(has, 'missing')}, expected "
                    f"{_described(expected, 'no such column')}"
                )


def _described(field: Any, otherwise: str) -> str:
    if field is None:
        return otherwise
    return f"'{field.name}' ({field.type}{'' if field.nullable else ', not null'})"


def _names(columns: str | Iterable[str] | None, schema: Any) -> list[str] | None:
    if columns is None:
        return None
    chosen = [columns] if isinstance(columns, str) else list(columns)
    for name in chosen:
        if name not in schema.names:
            raise ColumnNameError(_unknown_column(name, schema.names))
        if schema.names.count(name) > 1:
            raise ColumnNameError(f"more than one column is named {name!r}")
    return chosen


def _expression(filters: Any) -> Any:
    if filters is None:
        return None
    return load("pyarrow.parquet", "saeta.read_parquet").filters_to_expression(filters)
