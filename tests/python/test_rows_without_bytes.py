"""Null and run-end encoded columns of 2^62 rows, which need few bytes but would exceed any memory if
expanded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

ROWS = 77777
MANY = 1 << 62


def runs():
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int64()), pa.array([5], pa.int64()))


KINDS = {"nulls": lambda: pa.nulls(ROWS), "runs": runs}


def table_of(kind, host):
    """Returns a table with a column of 2^62 rows, read from a packed table."""
    metadata, body = sa.from_arrow(pa.table({"c": KINDS[kind]()}), host, copy=True).pack()
    old, new = ROWS.to_bytes(8, "little"), MANY.to_bytes(8, "little")
    return sa.unpack(bytes(metadata).replace(old, new), np.from_dlpack(body).tobytes().replace(old, new))


WAYS = {
    "to_pylist": lambda table: table["c"].to_pylist(),
    "rows": lambda table: table.to_pylist(),
    "column to_numpy": lambda table: table["c"].to_numpy(),
    "column to_numpy with a mask": lambda table: table["c"].to_numpy(nulls="mask"),
    "table to_numpy": lambda table: table.to_numpy(nulls="nan"),
    "column to_pandas": lambda table: table["c"].to_pandas(),
    "table to_pandas": lambda table: table.to_pandas(),
    "column to_polars": lambda table: table["c"].to_polars(),
    "table to_polars": lambda table: table.to_polars(),
    "is_null": lambda table: table["c"].is_null(),
    "is_valid": lambda table: table["c"].is_valid(),
    "loader in order": lambda table: next(
        iter(
            sa.loader(table, "host", batch_size=10, to="numpy", tensor_options=sa.TensorOptions(nulls="nan"))
        )
    ),
    "loader of rows": lambda table: next(
        iter(
            sa.loader(
                table,
                "host",
                batch_size=10,
                to="numpy",
                shuffle="rows",
                tensor_options=sa.TensorOptions(nulls="nan"),
            )
        )
    ),
    "loader of batches": lambda table: next(
        iter(
            sa.loader(
                table,
                "host",
                batch_size=10,
                to="numpy",
                shuffle="batches",
                world_size=2,
                tensor_options=sa.TensorOptions(nulls="nan"),
            )
        )
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_expanding_more_rows_than_memory_holds_raises_a_saeta_error(host, kind, way):
    for name in ("pandas", "polars"):
        if name in way:
            pytest.importorskip(name)
    with pytest.raises((sa.OutOfMemory, sa.SizeOverflow, sa.ExchangeError, sa.TypeMismatch)):
        WAYS[way](table_of(kind, host))


@pytest.mark.parametrize("kind", KINDS)
def test_huge_columns_can_be_sliced_and_written(host, kind):
    many = table_of(kind, host)
    assert many.num_rows == MANY
    assert len(many.slice(MANY - 3, 3)["c"].to_pylist()) == 3
    assert sa.read_ipc(many.to_ipc_bytes(), host).num_rows == MANY
    assert many.to_arrow().num_rows == MANY
    assert len(many["c"].slice(5, 4).to_pandas()) == 4
