"""Every export of a column passes its argument `copy=` on to the function that would copy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from dlpack_table import Managed, pointer_in
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices

READ_ONLY, IS_COPIED = 1, 2


def one_chunk_with_rows(host: sa.Context) -> tuple[Any, sa.Column]:
    values = np.arange(5)
    full = sa.from_dlpack(values, host)
    empty = sa.from_dlpack(np.arange(0), host)
    return values, sa.Column.from_chunks([empty, full, empty], name="x")


def flags_of(capsule: Any) -> int:
    import ctypes

    return int(
        ctypes.cast(pointer_in(capsule, b"dltensor_versioned"), ctypes.POINTER(Managed)).contents.flags
    )


def test_one_chunk_with_rows_is_viewed_without_a_copy(host):
    values, column = one_chunk_with_rows(host)
    assert column.num_chunks == 3
    tensor = column.__dlpack__(max_version=(1, 3), copy=False)
    assert flags_of(tensor) == READ_ONLY
    for view in (np.from_dlpack(column), column.to_numpy(copy=False), np.array(column, copy=False)):
        assert view.ctypes.data == values.ctypes.data
        assert view.tolist() == [0, 1, 2, 3, 4]
    empty = sa.Column.from_chunks([sa.from_dlpack(np.arange(0), host)] * 2)
    assert empty.to_numpy(copy=False).tolist() == []


def test_np_array_with_copy_true_copies(host):
    values = np.arange(5)
    column = sa.from_dlpack(values, host)
    copied = np.array(column, copy=True)
    assert copied.ctypes.data != values.ctypes.data
    assert copied.flags.writeable
    assert np.asarray(column).ctypes.data == values.ctypes.data
    assert np.array(column, copy=False).ctypes.data == values.ctypes.data
    assert np.array(column, dtype="int64", copy=False).ctypes.data == values.ctypes.data
    assert np.array(column, dtype="float32").tolist() == [0, 1, 2, 3, 4]


def test_np_array_with_copy_false_refuses_a_necessary_copy(host):
    numbers = sa.from_dlpack(np.arange(5), host)
    needs = {
        "bits": sa.from_arrow(pa.array([True, False]), host),
        "chunks": sa.Column.from_chunks([numbers, numbers]),
        "text": sa.from_arrow(pa.array(["a", "b"]), host),
    }
    for column in needs.values():
        assert len(np.array(column)) == len(column)
        with pytest.raises(sa.ExchangeError):
            np.array(column, copy=False)
    with pytest.raises(sa.ExchangeError, match="without a copy: its values are of type int64, not float32"):
        np.array(numbers, dtype="float32", copy=False)


def test_the_consumer_of_filled_nulls_decides_about_copies(host):
    values = np.arange(3.0)
    plain = Exported(sa.from_dlpack(values, host), Choices(fill=0))
    nulls = Exported(sa.from_arrow(pa.array([1.0, None]), host), Choices(fill=0))
    for wanted, flags in ((None, READ_ONLY), (False, READ_ONLY), (True, IS_COPIED)):
        assert flags_of(plain.__dlpack__(max_version=(1, 3), copy=wanted)) == flags
    assert np.from_dlpack(plain, copy=True).ctypes.data != values.ctypes.data
    assert np.from_dlpack(plain, copy=False).ctypes.data == values.ctypes.data
    assert flags_of(nulls.__dlpack__(max_version=(1, 3), copy=None)) == IS_COPIED
    with pytest.raises(BufferError, match="copy was forbidden"):
        nulls.__dlpack__(copy=False)
    own = Exported(sa.from_dlpack(values, host), Choices(fill=0), copy=False)
    assert flags_of(own.__dlpack__(max_version=(1, 3))) == READ_ONLY
    assert flags_of(own.__dlpack__(max_version=(1, 3), copy=True)) == IS_COPIED  # overrides False


@pytest.mark.parametrize("name", ["torch", "cupy"])
@pytest.mark.parametrize("copy", [True, False])
def test_to_torch_and_to_cupy_copy_if_the_library_requests_it(host, monkeypatch, name, copy):
    class Library:
        @staticmethod
        def from_dlpack(source: Any) -> Any:
            return np.from_dlpack(source, copy=copy)

    monkeypatch.setitem(sys.modules, name, Library)
    values = np.arange(3.0)
    column = sa.from_dlpack(values, host)
    table = sa.table({"x": column, "y": column})
    for taken in (getattr(column, f"to_{name}")(), getattr(column, f"to_{name}")(fill=0)):
        assert (taken.ctypes.data == values.ctypes.data) is not copy
    if copy:
        assert getattr(table, f"to_{name}")().tolist() == [[0, 0], [1, 1], [2, 2]]
    else:
        with pytest.raises(BufferError):
            getattr(table, f"to_{name}")()


def test_columns_and_tables_pass_the_consumers_arguments_on(host):
    values = np.arange(3)
    column = sa.from_dlpack(values, host)
    one = sa.table({"x": column})
    two = sa.table({"x": column, "y": column})
    for source in (column, one):
        assert flags_of(source.__dlpack__(max_version=(1, 3), copy=True)) == IS_COPIED
        assert flags_of(source.__dlpack__(max_version=(1, 3), copy=False)) == READ_ONLY
    with pytest.raises(BufferError, match="copy was forbidden"):
        two.__dlpack__(copy=False)
    assert one.to_numpy(copy=True).ctypes.data != values.ctypes.data
    assert one.to_numpy(copy=False).ctypes.data == values.ctypes.data
