"""Integer arguments: NumPy's integers are accepted like Python's, other types are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa


def table_of(host):
    return sa.table({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]}, host)


def rows_of(batches):
    return [batch.num_rows for batch in batches]


def parquet(folder):
    path = folder / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3, 4]}), path)
    return path


@pytest.mark.parametrize("kind", [int, np.int8, np.uint32, np.int64])
def test_integers_of_numpy_are_accepted_everywhere(host, tmp_path, kind):
    table = table_of(host)
    content = table.to_ipc_bytes()
    assert rows_of(table.to_batches(kind(3))) == [3, 1]
    assert table.drop_columns(kind(0)).column_names == ["b"]
    assert rows_of(sa.scan_ipc(content, host, batch_size=kind(3), in_flight=kind(1), window=kind(100))) == [
        3,
        1,
    ]
    assert rows_of(sa.scan_parquet(parquet(tmp_path), host, batch_size=kind(3), in_flight=kind(1))) == [3, 1]
    assert sa.read_parquet(parquet(tmp_path), host, batch_size=kind(3)).num_batches == 2
    with sa.ipc_writer(tmp_path / "a.arrow", table.schema, pending=kind(100)) as writer:
        writer.write(table)
    assert sa.read_ipc(tmp_path / "a.arrow", host).num_rows == 4


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, np.float64(1), 0, -1, np.int8(-1), 1 << 63, "x"])
def test_arguments_that_are_not_positive_integers_are_refused(host, tmp_path, wrong):
    table = table_of(host)
    content = table.to_ipc_bytes()
    requests = {
        "max_chunksize": lambda: table.to_batches(wrong),
        "in_flight": lambda: sa.scan_ipc(content, host, in_flight=wrong),
        "batch_size": lambda: sa.scan_ipc(content, host, batch_size=wrong),
    }
    if wrong != "x":
        requests["window"] = lambda: sa.scan_ipc(content, host, window=wrong)
        requests["pending"] = lambda: sa.ipc_writer(tmp_path / "b.arrow", table.schema, pending=wrong)
    for name, request in requests.items():
        with pytest.raises(sa.InvalidError, match=rf"{name} is .*, expected a number of \w+ from 1 on"):
            request()


def test_a_column_index_must_be_an_integer(host):
    table = table_of(host)
    with pytest.raises(sa.TypeMismatch, match="index is of type bool, expected the number of a column"):
        table.set_column(True, "a", [1])
    with pytest.raises(sa.OutOfRange, match="column 2 of a table with 2 columns"):
        table.set_column(np.int64(2), "a", [1])
