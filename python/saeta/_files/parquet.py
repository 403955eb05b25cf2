"""Reads Parquet files: pyarrow's dataset reader decodes a batch while the previous one is uploaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from saeta._core import Table
from saeta._files.sources import URL, filesystem_of, without_secrets
from saeta._optional import load
from saeta._text import number_text
from saeta.errors import ColumnNameError, Error, FileError, FormatError, InvalidError, MissingFileError
from saeta.exchange import ContextLike, context_of, from_arrow


def read_parquet(
    source: Any,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    batch_rows: int = 1 << 20,
    filesystem: Any = None,
    partitioning: Any = None,
) -> Table:
    """Reads Parquet into a table of a context (a Context or the name of its device; None: the best device).

    pyarrow's dataset reader decodes on all cores, one batch ahead of the upload. It skips row groups that the
    filter excludes.

    Args:
        source: a path, a folder of files, a list of paths, or a URL.
        columns: only these, in this order; one name or several.
        filters: rows to keep, as for `pyarrow.parquet.read_table`: a `pyarrow.dataset` expression, a list of
            tuples (column, operator, value), or a list of such lists, one of which must hold.
        batch_rows: the maximum number of rows in a batch.
        filesystem: a file system of `pyarrow.fs` or of fsspec, for paths in it.
        partitioning: for a folder, as for `pyarrow.dataset.dataset`: for example "hive".

    Returns:
        A Table with the batches as they were decoded.

    Raises:
        MissingDependency: pyarrow is not installed.
        MissingFileError: the file does not exist.
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
    dataset = load("pyarrow.dataset", "saeta.read_parquet")
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise InvalidError(f"batch_rows is {number_text(batch_rows)}, expected a number of rows from 1 on")
    where = context_of(ctx)
    path = os.fspath(source) if isinstance(source, os.PathLike) else source
    if filesystem is None and isinstance(path, str) and URL.match(path):
        filesystem, path = filesystem_of(path)
    try:
        found = dataset.dataset(path, format="parquet", filesystem=filesystem, partitioning=partitioning)
        scanner = found.scanner(
            columns=_names(columns, found.schema), filter=_expression(filters), batch_size=batch_rows
        )
        made: Table = from_arrow(scanner.to_reader(), where)
    except Error:
        raise
    except FileNotFoundError as failure:
        raise MissingFileError(str(failure)) from failure
    except OSError as failure:
        named = without_secrets(path) if isinstance(path, str) else type(source).__name__
        raise FileError(f"can't read '{named}': {failure}") from failure
    except load("pyarrow", "saeta.read_parquet").ArrowInvalid as failure:
        raise FormatError(f"{source}: {failure}") from failure
    return made


def _names(columns: str | Iterable[str] | None, schema: Any) -> list[str] | None:
    if columns is None:
        return None
    chosen = [columns] if isinstance(columns, str) else list(columns)
    for name in chosen:
        if schema.names.count(name) != 1:
            raise ColumnNameError(
                f"no column is named {name!r}; the columns are: {', '.join(map(repr, schema.names))}"
            )
    return chosen


def _expression(filters: Any) -> Any:
    if filters is None:
        return None
    return load("pyarrow.parquet", "saeta.read_parquet").filters_to_expression(filters)
