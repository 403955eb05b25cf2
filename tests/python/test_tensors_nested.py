"""Multi-dimensional tensors of fixed-size lists, fixed-shape tensors, structs and tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import copies


def lists_in(ctx: sa.Context, nulls: bool = False) -> sa.Column:
    rows = [[1, 2, 3], None if nulls else [4, 5, 6], [7, 8, 9]]
    return sa.from_arrow(pa.array(rows, pa.list_(pa.int32(), 3)), ctx)


def test_fixed_size_lists_are_rows_of_a_matrix(anywhere):
    column = lists_in(anywhere)
    assert column.type.dtype == "int32"
    assert column.to_numpy().tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert column.slice(1, 1).to_numpy().tolist() == [[4, 5, 6]]
    nested = sa.from_arrow(
        pa.array([[[1.0, 2.0]], [[3.0, 4.0]]], pa.list_(pa.list_(pa.float64(), 2), 1)), anywhere
    )
    assert nested.to_numpy().shape == (2, 1, 2)


def test_a_host_matrix_is_the_memory_of_the_column(host):
    column = lists_in(host)
    seen = np.from_dlpack(column)
    assert seen.shape == (3, 3)
    assert seen.ctypes.data == column.to_numpy(copy=False).ctypes.data
    assert not seen.flags.writeable
    assert copies(host) == 0


def test_fixed_shape_tensors_have_their_shape_and_permutation(host):
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    plain = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
    np.testing.assert_array_equal(sa.from_arrow(plain, host).to_numpy(copy=False), numbers)
    turned = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [3, 4], permutation=[1, 0]), plain.storage
    )
    seen = sa.from_arrow(turned, host).to_numpy(copy=False)
    np.testing.assert_array_equal(seen, turned.to_numpy_ndarray())
    np.testing.assert_array_equal(seen, numbers.transpose(0, 2, 1))


def test_structs_of_one_type_are_the_columns_of_a_matrix(anywhere):
    points = pa.StructArray.from_arrays([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], ["x", "y"])
    column = sa.from_arrow(points, anywhere, as_column=True)
    assert column.type.dtype == "float64"
    assert column.to_numpy().tolist() == [[1, 3], [2, 4]]
    mixed = pa.StructArray.from_arrays([pa.array([1.0]), pa.array([3])], ["x", "y"])
    column = sa.from_arrow(mixed, anywhere, as_column=True)
    assert column.type.dtype is None
    with pytest.raises(BufferError, match="'x' and 'y' are of different types"):
        column.__dlpack__()


def test_null_rows_accept_the_options_of_every_column(anywhere):
    column = lists_in(anywhere, nulls=True)
    with pytest.raises(BufferError, match="1 nulls"):
        column.to_numpy()
    assert column.to_numpy(fill=0).tolist() == [[1, 2, 3], [0, 0, 0], [7, 8, 9]]
    values, mask = column.to_numpy(nulls="mask")
    assert values.shape == (3, 3)
    assert mask.tolist() == [True, False, True]


def test_the_error_names_nulls_inside_rows(anywhere):
    column = sa.from_arrow(pa.array([[1, None]], pa.list_(pa.int32(), 2)), anywhere)
    with pytest.raises(BufferError, match="1 of 2 values of type int32 inside of a fixed_size_list"):
        column.to_numpy(fill=0)


def test_a_column_is_converted_to_another_dtype(anywhere):
    column = sa.from_arrow(pa.array([1, None, 3], pa.int16()), anywhere)
    seen = column.to_numpy(dtype="float32", nulls="nan")
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, np.array([1, np.nan, 3], np.float32))
    assert column.to_numpy(dtype=np.int64, fill=-1).tolist() == [1, -1, 3]
    assert column.to_numpy(dtype=np.dtype("f2"), fill=2.0).dtype == np.float16
    values, mask = column.to_numpy(dtype="double", nulls="mask")
    assert (values.dtype, mask.dtype) == (np.float64, np.bool_)
    with pytest.raises(sa.TypeMismatch, match="int16 can't become uint8"):
        column.to_numpy(dtype="uint8", fill=0)


def test_a_table_is_a_matrix_of_rows_and_columns(anywhere):
    table = sa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}, anywhere)
    assert table.to_numpy().tolist() == [[1, 3], [2, 4]]
    by_rows = table.to_numpy(order="row")
    by_columns = table.to_numpy(order="column")
    assert by_rows.flags.c_contiguous
    assert by_columns.flags.f_contiguous
    assert by_rows.tolist() == by_columns.tolist() == [[1, 3], [2, 4]]
    assert table.to_numpy(dtype="float32").dtype == np.float32
    with pytest.raises(sa.InvalidError, match="expected 'row', 'column' or None"):
        table.to_numpy(order="C")


def test_a_table_of_one_allocation_is_a_matrix_without_a_copy(host):
    matrix = sa.from_dlpack(np.arange(12, dtype=np.int64), host)
    table = sa.table({"a": matrix[:4], "b": matrix[4:8], "c": matrix[8:]}, host)
    seen = np.from_dlpack(table)
    assert seen.ctypes.data == matrix.address
    assert seen.tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert not seen.flags.writeable
    assert table.to_numpy(copy=False).ctypes.data == matrix.address
    own = table.to_numpy(copy=True)
    assert own.ctypes.data != matrix.address
    assert own.flags.writeable
    with pytest.raises(BufferError, match="a copy was forbidden"):
        table.to_numpy(order="row", copy=False)
    assert table.__dlpack_device__() == (1, 0)


def test_columns_of_different_types_need_a_dtype(anywhere):
    table = sa.table({"a": [1, 2], "b": [0.5, None], "c": [True, False]}, anywhere)
    with pytest.raises(sa.TypeMismatch, match=r"'a' is of type int64, column 'b' of type double.*dtype="):
        table.to_numpy()
    seen = table.to_numpy(dtype="float32", nulls="nan")
    np.testing.assert_array_equal(seen, np.array([[1, 0.5, 1], [2, np.nan, 0]], np.float32))
    values, mask = table.to_numpy(dtype="float64", nulls="mask")
    assert mask.tolist() == [[True, True, True], [True, False, True]]
    assert values[mask].tolist() == [1, 0.5, 1, 2, 0]
    with pytest.raises(BufferError, match="1 of 6 values of the table are null"):
        table.to_numpy(dtype="float64")
    assert table.select(["a", "c"]).to_numpy(dtype="int64").tolist() == [[1, 1], [2, 0]]


def test_batches_are_joined_to_one_matrix(host):
    table = sa.from_arrow(
        pa.table({"a": pa.chunked_array([[1, 2], [3]]), "b": pa.chunked_array([[4, 5], [6]])}), host
    )
    assert table.num_batches == 2
    assert table.to_numpy().tolist() == [[1, 4], [2, 5], [3, 6]]
    with pytest.raises(BufferError, match="2 batches"):
        table.to_numpy(copy=False)
