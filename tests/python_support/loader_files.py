"""Writes files for the tests of the training loader, and reads row numbers from its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import saeta as sa


def numbered(rows: int, first: int = 0) -> pa.Table:
    """Returns a table whose rows hold their own number, in columns of two types."""
    number = np.arange(first, first + rows)
    return pa.table({"row": number, "half": (number / 2).astype(np.float32)})


def write_ipc(table: pa.Table, path: Path, batch_rows: int, compression: str | None = None) -> str:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return str(path)


def write_parquet(table: pa.Table, path: Path, batch_rows: int) -> str:
    pq.write_table(table, path, row_group_size=batch_rows)
    return str(path)


def files_of_rows(
    folder: Path, counts: Iterable[int], batch_rows: int, write: Callable[..., str] = write_ipc
) -> list[str]:
    """Writes files whose rows are numbered consecutively from the first file to the last."""
    ending = "parquet" if write is write_parquet else "arrow"
    made, first = [], 0
    for number, rows in enumerate(counts):
        made.append(write(numbered(rows, first), folder / f"part-{number}.{ending}", batch_rows))
        first += rows
    return made


def rows_of(batches: Iterable[Any]) -> list[list[int]]:
    """Returns the row numbers of each batch, and checks that its columns agree."""
    found = []
    for batch in batches:
        if not isinstance(batch, dict):
            batch = {column.name: column.to_numpy() for column in batch.columns}
        assert np.array_equal(np.asarray(batch["half"]) * 2, np.asarray(batch["row"]))
        found.append(np.asarray(batch["row"]).tolist())
    return found


def flat(batches: Iterable[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def thirds(table: sa.Table) -> sa.Table:
    """Keeps the rows whose number, which the first column has, is a multiple of 3."""
    kept = table[table.column_names[0]].to_numpy() % 3 == 0
    return table.filter(sa.column(kept, table.context))
