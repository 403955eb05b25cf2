"""Counted tables: their row count is a value in device memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa


def counted(ctx, rows, dtype=np.uint32):
    room = sa.table({"x": np.arange(6), "s": pa.array(["a", "b", None, "d", "", ""])}, ctx)
    return sa.counted_table(room, sa.column(np.array([rows], dtype), ctx, name="n"))


def test_the_count_is_read_once(anywhere):
    table = counted(anywhere, 3)
    anywhere.reset_counters()
    assert table.known_num_rows is None
    assert "unread" in repr(table)
    assert anywhere.counters()["scalars"]["transfers"] == 0
    assert (table.num_rows, len(table), table.num_rows) == (3, 3, 3)
    assert table.known_num_rows == 3
    assert anywhere.counters()["scalars"]["transfers"] == 1
    assert "3 of 6 rows" in repr(table)
    assert table.count.to_pylist() == [3]
    assert not table.count.field.nullable


def test_reading_the_count_is_not_counted_as_a_download(anywhere):
    with anywhere.forbid_downloads():
        assert counted(anywhere, 3).num_rows == 3


def test_polars_gets_only_the_valid_rows(anywhere):
    frame = pytest.importorskip("polars").DataFrame
    assert frame(counted(anywhere, 3)).to_dict(as_series=False) == {"x": [0, 1, 2], "s": ["a", "b", None]}


def test_only_valid_rows_are_exported(anywhere):
    table = counted(anywhere, 3)
    expected = {"x": [0, 1, 2], "s": ["a", "b", None]}
    assert table.to_table().to_pydict() == expected
    assert pa.table(table).to_pydict() == expected
    assert sa.from_arrow(table, anywhere).to_pydict() == expected
    assert table.capacity.num_rows == 6
    assert table.count.to_pylist() == [3]
    assert table.schema == table.capacity.schema


def test_the_valid_rows_are_views(host):
    table = counted(host, 2)
    assert table.to_table()["x"].to_numpy().ctypes.data == table.capacity["x"].to_numpy().ctypes.data


@pytest.mark.parametrize(
    ("rows", "dtype"), [(7, np.uint32), (2**64 - 1, np.uint64), (-1, np.int32), (-(2**63), np.int64)]
)
def test_the_error_names_a_count_beyond_the_capacity(anywhere, rows, dtype):
    table = counted(anywhere, rows, dtype)
    said = f"the row count is {rows}, the table has room for 6 rows"
    for use in (
        lambda: table.num_rows,
        table.to_table,
        lambda: len(table),
        table.__arrow_c_stream__,
        table.__arrow_c_device_stream__,
    ):
        with pytest.raises(sa.OutOfRange, match=said):
            use()
    assert table.known_num_rows is None
    assert repr(table)


def test_a_known_count_is_not_read(host):
    room = sa.table({"x": [1, 2, 3]}, host)
    table = sa.counted_table(room, np.array([9], np.uint64), num_rows=2)
    assert (table.known_num_rows, table.to_table().to_pydict()) == (2, {"x": [1, 2]})
    with pytest.raises(sa.OutOfRange, match="the row count is 4"):
        sa.counted_table(room, np.array([9], np.uint64), num_rows=4)


def test_the_error_names_an_invalid_count(host):
    room = sa.table({"x": [1, 2, 3]}, host)
    with pytest.raises(sa.TypeMismatch, match="type double, expected uint32"):
        sa.counted_table(room, np.array([1.0]))
    with pytest.raises(sa.InvalidError, match="one number, not 2 rows"):
        sa.counted_table(room, [1, 2])
    with pytest.raises(sa.InvalidError, match="1 nulls"):
        sa.counted_table(room, pa.array([None], pa.uint32()))
    with pytest.raises(sa.TypeMismatch, match="the capacity is of type dict"):
        sa.counted_table({"x": [1]}, [1])
    with pytest.raises(sa.TypeMismatch, match=r"saeta\.counted_table"):
        sa.CountedTable()


def test_tables_in_batches_are_counted_across_them(host):
    room = sa.concat_tables([sa.table({"x": [1, 2]}, host), sa.table({"x": [3, 4]}, host)])
    assert sa.counted_table(room, np.array([3], np.int64)).to_table().to_pydict() == {"x": [1, 2, 3]}


def test_zero_dimensional_tensors_are_counts(host):
    room = sa.table({"x": [1, 2]}, host)
    assert sa.counted_table(room, np.array(1, np.uint32)).num_rows == 1
    assert sa.counted_table(room, np.int64(0)).num_rows == 0


def test_tensors_have_only_the_valid_rows(host):
    tensor = np.from_dlpack(counted(host, 3).to_table()["x"])
    assert tensor.shape == (3,)
    assert tensor.tolist() == [0, 1, 2]
