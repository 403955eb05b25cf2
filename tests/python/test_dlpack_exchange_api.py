"""The DLPack C exchange API: each function of the table of Saeta's columns, and imports by a producer's
table."""

from __future__ import annotations

import ctypes
import gc
import sys
import types

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import copies
from dlpack_table import (
    SET_ERROR,
    DType,
    Managed,
    Table,
    Tensor,
    managed_of,
    new_table,
    numbers_of,
    object_of,
    producer,
    table_of,
)


@pytest.fixture
def table() -> Table:
    return table_of(sa.Column)


def test_the_type_has_a_complete_table(table):
    assert (table.version.major, table.version.minor) == (1, 3)
    assert not table.previous
    for name in ("allocate", "from_object", "to_object", "borrow", "stream"):
        assert ctypes.cast(getattr(table, name), ctypes.c_void_p).value, name


def test_a_column_is_exported_as_a_tensor_owned_by_the_consumer(host, table):
    column = sa.from_dlpack(np.arange(10, dtype=np.int32), host)[2:7]
    tensor = managed_of(table, column)
    seen = tensor.contents.tensor
    assert seen.data == column.address
    assert (seen.ndim, seen.shape[0], seen.strides[0], seen.byte_offset) == (1, 5, 1, 0)
    assert (seen.dtype.code, seen.dtype.bits, seen.dtype.lanes) == (0, 32, 1)
    assert (seen.device.type, seen.device.number) == (1, 0)
    assert tensor.contents.flags == 1, "read-only"
    del column
    gc.collect()
    assert host.memory.statistics()["external"] > 0, "the tensor must keep the memory alive"
    tensor.contents.deleter(tensor)


def test_a_borrowed_tensor_lives_as_long_as_its_column(host, table):
    columns = [sa.from_dlpack(np.arange(n, dtype=np.float64), host) for n in (3, 5, 0)]
    borrowed = []
    for column in columns:
        tensor = Tensor()
        assert table.borrow(column, ctypes.byref(tensor)) == 0
        borrowed.append(tensor)
    assert [tensor.shape[0] for tensor in borrowed] == [3, 5, 0]
    assert [tensor.strides[0] for tensor in borrowed] == [1, 1, 1]
    assert [tensor.data for tensor in borrowed[:2]] == [column.address for column in columns[:2]]
    assert borrowed[2].data is None
    assert copies(host) == 0


@pytest.mark.parametrize("function", ["from_object", "borrow"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1, None]), "1 of 2 values"),
        (pa.array(["a"]), "type string has no tensor type"),
        (pa.array([None], pa.null()), "type null has no tensor type"),
    ],
    ids=["nulls", "strings", "null type"],
)
def test_columns_that_are_not_tensors_are_a_buffer_error(host, table, function, values, message):
    column = sa.from_arrow(values, host)
    out = ctypes.POINTER(Managed)() if function == "from_object" else Tensor()
    with pytest.raises(BufferError, match=message):
        getattr(table, function)(column, ctypes.byref(out))


def test_chunks_are_joined_but_not_borrowed(host, table):
    column = sa.from_arrow(pa.chunked_array([[1], [2]]), host)
    tensor = managed_of(table, column)
    assert tensor.contents.tensor.shape[0] == 2
    assert tensor.contents.flags == 2, "copied"
    tensor.contents.deleter(tensor)
    with pytest.raises(BufferError, match="2 chunks"):
        table.borrow(column, ctypes.byref(Tensor()))


def test_only_views_are_borrowed(host, table):
    bits = sa.from_arrow(pa.array([True, False]), host)
    with pytest.raises(BufferError, match="bool has no tensor type"):
        table.borrow(bits, ctypes.byref(Tensor()))
    tensor = managed_of(table, bits)
    assert tensor.contents.flags == 2, "copied"
    tensor.contents.deleter(tensor)


def test_an_object_of_another_type_is_a_type_error(table):
    with pytest.raises((TypeError, RuntimeError)):
        table.from_object(3, ctypes.byref(ctypes.POINTER(Managed)()))


def test_a_tensor_becomes_a_column(host, table):
    source = np.arange(6, dtype=np.int16)
    out = ctypes.POINTER(Managed)()
    calls: list[str] = []
    kind = producer(calls)
    assert new_table(calls).from_object(kind(source), ctypes.byref(out)) == 0
    column = object_of(table, out)
    assert isinstance(column, sa.Column)
    assert column.address == source.ctypes.data
    assert column.to_pylist() == [0, 1, 2, 3, 4, 5]


def test_a_tensor_that_can_not_be_a_column_is_released(table):
    given_back = []
    tensor = Managed()
    tensor.version.major = 1
    tensor.tensor.dtype = DType(5, 64, 1)
    tensor.tensor.device.type = 1
    deleter = type(tensor.deleter)(lambda _: given_back.append(True))
    tensor.deleter = deleter
    with pytest.raises(BufferError, match="complex"):
        table.to_object(ctypes.byref(tensor), ctypes.byref(ctypes.c_void_p()))
    assert given_back == [True]


def test_tensors_are_allocated_under_the_budget_and_freed(host, table):
    shape = (ctypes.c_int64 * 2)(3, 4)
    prototype = Tensor(None, (1, 0), 2, DType(2, 32, 1), shape, None, 0)
    out = ctypes.POINTER(Managed)()
    said: list[tuple[bytes, bytes]] = []
    set_error = SET_ERROR(lambda _, kind, message: said.append((kind, message)))
    before = host.memory.statistics()["current"]
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(out), None, set_error) == 0
    made = out.contents
    assert host.memory.statistics()["current"] == before + 48
    assert numbers_of(made.tensor.shape, 2) == [3, 4]
    assert numbers_of(made.tensor.strides, 2) == [4, 1]
    assert made.flags == 0
    ctypes.memset(made.tensor.data, 0, 48)
    column = object_of(table, out)
    assert column.to_numpy().tolist() == [[0.0] * 4] * 3
    del column
    gc.collect()
    host.synchronize()
    assert host.memory.statistics()["current"] == before
    host.memory.limit = before + 47
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(out), None, set_error) == -1
    assert not out
    shape[0] = -1
    host.memory.limit = None
    assert table.allocate(ctypes.byref(prototype), ctypes.byref(out), None, set_error) == -1
    assert [kind for kind, _ in said] == [b"MemoryError", b"BufferError"]
    assert b"-1" in said[1][1]


def test_the_host_has_no_work_stream(table):
    stream = ctypes.c_void_p(7)
    assert table.stream(1, 0, ctypes.byref(stream)) == 0
    assert stream.value is None
    with pytest.raises(BufferError, match="device type 77"):
        table.stream(77, 0, ctypes.byref(stream))


def test_the_table_of_a_producer_is_used(host):
    calls: list[str] = []
    source = np.arange(12, dtype=np.int64).reshape(3, 4)
    made = producer(calls)(source)
    column = sa.from_dlpack(made, host)
    assert calls == ["from_object"], "neither __dlpack_device__ nor the stream function may be called"
    np.testing.assert_array_equal(column.to_numpy(), source)
    assert sa.from_dlpack(made).to_numpy().ctypes.data == source.ctypes.data
    assert sa.table(made, host).shape == (3, 4)


def test_a_refused_tensor_of_a_producers_table_is_released(host):
    calls: list[str] = []
    array = np.arange(10)[::2]
    made = producer(calls)(array)
    with pytest.raises(sa.ExchangeError, match="a copy was forbidden"):
        sa.from_dlpack(made, host, copy=False)
    assert host.memory.statistics()["external"] == 0


def test_invalid_tables_are_ignored(host):
    class Producer:
        __dlpack_c_exchange_api__ = "no capsule"

        def __dlpack__(self, **options):
            return np.arange(3).__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    assert sa.from_dlpack(Producer(), host).to_pylist() == [0, 1, 2]


def test_the_error_names_a_table_that_fails_without_an_exception(host):
    calls: list[str] = []
    table = new_table(calls)
    for result in (-1, 0):  # 0 reports success, but no tensor is returned
        table.from_object = type(table.from_object)(lambda source, out, said=result: said)
        with pytest.raises(sa.ExchangeError, match=r"exchange API of .*Producer failed without an exception"):
            sa.from_dlpack(producer(calls, table)(), host)


def test_an_error_set_by_a_table_is_propagated(host):
    """Saeta's own columns are exported by their table, which sets BufferError."""
    holes = sa.from_arrow(pa.array([1, None]), host)
    with pytest.raises(BufferError, match="1 of 2 values"):
        sa.from_dlpack(holes, host)


def test_an_older_table_is_found_through_a_newer_one(host):
    calls: list[str] = []
    known = new_table(calls)
    newer = new_table(calls, version=(2, 0), previous=known)
    column = sa.from_dlpack(producer(calls, newer)(), host)
    assert calls == ["from_object"]
    assert column.to_pylist() == [0, 1, 2, 3, 4]
    calls.clear()
    unknown = producer(calls, new_table(calls, version=(2, 0)))
    assert len(sa.from_dlpack(unknown(), host)) == 5
    assert calls == ["__dlpack_device__", "__dlpack__"]


def pretend_torch(monkeypatch, **attributes):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(**attributes))


def test_to_torch_uses_torchs_table(host, monkeypatch):
    pretend_torch(monkeypatch, Tensor=sa.Column)  # a type whose table makes columns
    column = sa.from_dlpack(np.arange(5), host)
    made = column.to_torch()
    assert isinstance(made, sa.Column)
    assert made.address == column.address
    chunks = sa.from_arrow(pa.chunked_array([[1, 2], [3]]), host)
    assert chunks.to_torch().to_pylist() == [1, 2, 3]
    with pytest.raises(sa.ExchangeError, match="1 of 2 values"):
        sa.from_arrow(pa.array([1, None]), host).to_torch()


def test_to_torch_calls_from_dlpack_of_a_torch_without_a_table(host, monkeypatch):
    asked = []
    pretend_torch(monkeypatch, Tensor=object, from_dlpack=asked.append)
    column = sa.from_dlpack(np.arange(5), host)
    column.to_torch()
    pretend_torch(monkeypatch, Tensor=sa.Column, from_dlpack=asked.append)
    column.to_torch(dtype="int32")
    assert asked[0] is column
    assert len(asked) == 2, "the table has no arguments, so keywords need from_dlpack"


def test_the_error_names_a_table_that_returns_no_object(host, monkeypatch):
    table = new_table([])
    table.to_object = type(table.to_object)(lambda tensor, out: tensor.contents.deleter(tensor) or -1)
    pretend_torch(monkeypatch, Tensor=producer([], table))
    with pytest.raises(sa.ExchangeError, match=r"exchange API of .*Producer failed without an exception"):
        sa.from_dlpack(np.arange(5), host).to_torch()


def test_saetas_columns_are_imported_by_their_table(host):
    column = sa.from_dlpack(np.arange(5), host)
    assert sa.from_dlpack(column, host).address == column.address
