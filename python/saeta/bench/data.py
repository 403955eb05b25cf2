"""Makes random tables for the jobs, and their files.

The values are random, because copying or compressing zeros would give meaningless rates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

NUMERIC_COLUMNS = 8
NUMERIC_ROW_BYTES = 8 * NUMERIC_COLUMNS
MIXED_ROW_BYTES = 8 + 8 + 4 + 1 + 4 + 16 + 1  # an estimate
WIDE_COLUMNS = 10_000
WIDE_VALUES = 1024  # of 4 bytes each
NULL_SHARE = 0.05
PART_ROWS = 1 << 20  # rows of a part of the mixed table; parts are made once and repeated
PARTS = 4


def numeric(size: int) -> Any:
    """Makes float64 and int64 columns without nulls, of about `size` bytes."""
    rng = np.random.default_rng(1)
    rows = max(1, size // NUMERIC_ROW_BYTES)
    columns = {
        f"f{i}": rng.random(rows) if i % 2 == 0 else rng.integers(0, 1 << 62, rows)
        for i in range(NUMERIC_COLUMNS)
    }
    return pa.table(columns)


def mixed(size: int) -> Any:
    """Makes columns of numbers, strings, a dictionary, nulls, bools and dates, of about `size` bytes."""
    rows = max(1, size // MIXED_ROW_BYTES)
    part_rows = min(PART_ROWS, rows)
    parts = [_mixed_part(number, part_rows) for number in range(min(PARTS, -(-rows // part_rows)))]
    batches = [parts[number % len(parts)] for number in range(-(-rows // part_rows))]
    return pa.Table.from_batches(batches).slice(0, rows)


def wide(columns: int = WIDE_COLUMNS) -> Any:
    """Makes many small columns of 4 KiB each."""
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 30, (columns, WIDE_VALUES), dtype=np.int32)
    return pa.table({f"c{i}": values[i] for i in range(columns)})


def write(path: Path, table: Any, batch_rows: int, compression: str | None = None) -> Path:
    """Writes the table as an IPC file with batches of at most `batch_rows` rows. Returns the path."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def buffers_of(table: Any) -> list[Any]:
    """Returns every non-empty buffer of all columns and their chunks."""
    return [
        buffer
        for column in table.columns
        for chunk in column.chunks
        for buffer in (
            *chunk.buffers(),
            *(chunk.dictionary.buffers() if pa.types.is_dictionary(chunk.type) else ()),
        )
        if buffer is not None and buffer.size
    ]


def _mixed_part(number: int, rows: int) -> Any:
    rng = np.random.default_rng([2, number])
    words = pa.array([f"{rng.integers(1 << 40):x}"[: 3 + i % 12] for i in range(5000)])
    kinds = pa.array([f"kind {i}" for i in range(200)])

    def nulls() -> Any:
        return rng.random(rows) < NULL_SHARE

    return pa.record_batch(
        {
            "id": pa.array(rng.integers(0, 1 << 62, rows)),
            "price": pa.array(np.round(rng.random(rows) * 1000, 2), mask=nulls()),
            "day": pa.array(rng.integers(0, 20_000, rows, dtype=np.int32), mask=nulls()).cast(pa.date32()),
            "paid": pa.array(rng.random(rows) < 0.5, mask=nulls()),
            "name": words.take(pa.array(rng.integers(0, len(words), rows, dtype=np.int32), mask=nulls())),
            "kind": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, len(kinds), rows, dtype=np.int32), mask=nulls()), kinds
            ),
        }
    )
