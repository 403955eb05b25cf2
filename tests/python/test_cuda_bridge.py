"""Device arrays of pyarrow's released wheels: conversion in both directions, stream ordering, and null
counts."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from cuda_module import CPU, DEVICES, KINDS, cuda, example, opened, simulated


@pytest.fixture(params=DEVICES)
def gpu(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


@pytest.fixture(params=KINDS)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


def on_device(ctx: Any, data: Any) -> Any:
    return sa.from_arrow(data, ctx.saeta)


def test_a_table_converts_to_a_record_batch_on_the_device(gpu: Any) -> None:
    batch = example()
    table = on_device(gpu, batch)
    gpu.saeta.reset_counters()
    shown = pa.record_batch(table)
    assert gpu.saeta.counters()["device_to_device"]["transfers"] == 0
    assert shown.schema == batch.schema
    assert not shown.is_cpu
    assert shown.device_type == gpu.device.device_type
    assert shown["ints"].buffers()[1].address == table["ints"].address
    assert shown.copy_to(CPU).equals(batch)


@pytest.mark.parametrize("name", example().schema.names)
def test_a_column_converts_to_an_array_on_the_device(gpu: Any, name: str) -> None:
    array = example()[name]
    column = on_device(gpu, example())[name]
    shown = pa.array(column)
    assert shown.type == array.type
    assert not shown.is_cpu
    assert shown.copy_to(CPU).equals(array)
    assert shown.slice(1, 2).copy_to(CPU).equals(array.slice(1, 2))
    assert str(shown) == str(array)


def test_device_batches_can_be_printed(gpu: Any) -> None:
    batch = example()
    shown = pa.record_batch(on_device(gpu, batch))
    assert str(shown) == str(batch)
    assert repr(shown["words"])
    assert repr(pa.Table.from_batches([shown]))


def test_pyarrow_copies_to_a_device_and_back(ctx: Any) -> None:
    batch = example()
    for destination in (ctx.memory_manager, ctx.device):
        there = batch.copy_to(destination)
        if ctx.saeta.device != "host":
            assert not there.is_cpu
            assert there["ints"].buffers()[1].device == ctx.device
        assert there.copy_to(CPU).equals(batch)


def test_memory_copied_by_pyarrow_is_charged_and_freed(gpu: Any) -> None:
    before = gpu.saeta.memory.statistics()["current"]
    there = pa.array(np.arange(1000)).copy_to(gpu.memory_manager)
    assert gpu.saeta.memory.statistics()["current"] >= before + 8000
    gpu.saeta.memory.limit = before + 8200
    try:
        with pytest.raises(MemoryError, match="8"):
            pa.array(np.arange(1000)).copy_to(gpu.memory_manager)
    finally:
        gpu.saeta.memory.limit = None
    del there
    gpu.synchronize()
    assert gpu.saeta.memory.statistics()["current"] == before


def test_memory_of_the_context_is_recognised_on_import(gpu: Any) -> None:
    table = on_device(gpu, example())
    address = table["ints"].address
    gpu.saeta.reset_counters()
    again = sa.from_arrow(pa.record_batch(table), gpu.saeta)
    assert again["ints"].address == address
    assert gpu.saeta.counters()["imports"] == 0, "memory of the context itself is not an import"
    assert again.equals(table)


def test_arrays_made_by_pyarrow_on_the_device_are_imported(gpu: Any) -> None:
    batch = example()
    taken = sa.from_arrow(batch.copy_to(gpu.memory_manager), gpu.saeta)
    assert pa.record_batch(taken.to_arrow().to_batches()[0]).equals(batch)


def test_a_chunked_array_and_a_table(gpu: Any) -> None:
    host = pa.table(
        {"a": pa.chunked_array([[1, 2], [None, 4]]), "b": pa.chunked_array([["x"], ["y", None, "z"]])}
    )
    table = sa.from_arrow(host, gpu.saeta)
    with pytest.raises(sa.ExchangeError, match=r"combine_chunks\(\) joins them"):
        pa.record_batch(table)
    assert pa.record_batch(table.combine_chunks()).copy_to(CPU).equals(host.combine_chunks().to_batches()[0])
    for start, stop in ((0, 1), (1, 2)):
        assert pa.record_batch(table[start:stop]).copy_to(CPU).num_rows == 1


def test_rows_of_a_slice(gpu: Any) -> None:
    batch = example()
    table = on_device(gpu, batch)
    for start, stop in ((0, 0), (1, 3), (3, 4)):
        assert pa.record_batch(table[start:stop]).copy_to(CPU).equals(batch.slice(start, stop - start))


def test_unknown_null_counts_are_counted_on_the_device(gpu: Any) -> None:
    """When libarrow exports an array, it counts unknown nulls on the CPU, even in device memory."""
    batch = example()
    part = on_device(gpu, batch)[0:3]
    back = sa.from_arrow(pa.record_batch(part), gpu.saeta)
    assert pa.record_batch(back).copy_to(CPU).equals(batch.slice(0, 3))


def test_arrays_with_unknown_null_counts_are_imported(gpu: Any) -> None:
    """pyarrow would count unknown nulls on the CPU when it exports the array, so they must be counted
    before."""
    uncounted = pa.array(["a", None, "ccc"]).cast(pa.large_string())
    array = uncounted.copy_to(gpu.memory_manager)
    assert sa.from_arrow(array, gpu.saeta).to_pylist() == ["a", None, "ccc"]
    batch = pa.record_batch({"s": uncounted, "l": pa.array([[1], None, [2]]).cast(pa.large_list(pa.int32()))})
    assert (
        sa.from_arrow(batch.copy_to(gpu.memory_manager), gpu.saeta).to_arrow().to_batches()[0].equals(batch)
    )


def test_tables_and_chunked_arrays_of_pyarrow_on_a_device_are_imported(gpu: Any) -> None:
    batch = example().drop_columns(["codes"])
    there = batch.copy_to(gpu.memory_manager)
    table = sa.from_arrow(pa.Table.from_batches([there, there]), gpu.saeta)
    assert (table.num_rows, table.num_columns) == (8, batch.num_columns)
    assert table.to_arrow().equals(pa.Table.from_batches([batch, batch]))
    column = sa.from_arrow(pa.chunked_array([there["words"], there["words"]]), gpu.saeta)
    assert column.to_pylist() == 2 * ["a", None, "ccc", ""]


@pytest.mark.parametrize("number", [7, -1, 2**40])
def test_arrays_on_a_missing_device_are_refused(number: int) -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    with simulated() as (device,):
        column = sa.from_arrow(pa.array([1, 2, 3]), device.context)
        schema, array = column.__arrow_c_device_array__()
        size_of_an_array = 80  # struct ArrowArray; the device number follows it
        ctypes.c_int64.from_address(pointer(array, b"arrow_device_array") + size_of_an_array).value = number
        with pytest.raises((pa.ArrowException, OSError, ValueError), match=str(number)):
            pa.Array._import_from_c_device_capsule(schema, array)
        del column, schema, array


def test_a_view_of_pyarrow_keeps_the_memory(gpu: Any) -> None:
    table = on_device(gpu, example())
    shown = pa.array(table["words"])
    del table
    gc.collect()
    gpu.synchronize()
    assert shown.copy_to(CPU).to_pylist() == ["a", None, "ccc", ""]


def test_pyarrow_reads_after_pending_foreign_writes() -> None:
    with simulated() as (device,):
        memory = cuda.Context(0).buffer_from_data(bytes(64))
        shown = pa.Array.from_buffers(pa.uint8(), 64, [None, memory])
        for value in range(1, 20):
            work = device.fill_late(memory.address, 64, value, 0.01)
            assert shown.copy_to(CPU).to_pylist() == [value] * 64
            del work
        del memory, shown


def test_imported_arrays_are_read_after_pending_foreign_writes() -> None:
    with simulated() as (device,):
        memory = cuda.Context(0).buffer_from_data(bytes(64))
        for value in range(1, 20):
            capsules = pa.Array.from_buffers(pa.uint8(), 64, [None, memory]).__arrow_c_device_array__()
            work = device.fill_late(memory.address, 64, value, 0.01)
            shown = pa.Array._import_from_c_device_capsule(*capsules)
            assert shown.copy_to(CPU).to_pylist() == [value] * 64
            del work, shown, capsules
        del memory


def test_memory_of_a_view_is_kept_until_foreign_reads_finish() -> None:
    with simulated() as (device,):
        home = device.context
        for value in range(1, 20):
            column = sa.from_arrow(pa.array(np.full(4096, value, dtype="u1")), home)
            view = pa.array(column)
            home.synchronize()  # does not wait for the foreign read
            work = device.read_late(view.buffers()[1].address, 4096, 0.01)
            del column, view
            other = sa.from_arrow(pa.array(np.zeros(4096, dtype="u1")), home)
            assert work.seen() == bytes([value]) * 4096
            del other, work


def test_arrays_are_built_from_device_buffers(ctx: Any) -> None:
    values = ctx.buffer_from_data(np.arange(10, dtype="i4"))
    array = pa.Array.from_buffers(pa.int32(), 10, [None, values])
    assert array.copy_to(CPU).to_pylist() == list(range(10))
    column = sa.from_arrow(array, ctx.saeta)
    assert column.to_pylist() == list(range(10))


def test_install_replaces_the_module_pyarrow_cuda() -> None:
    program = """
        import sys
        import saeta.cuda
        saeta.cuda.install()
        saeta.cuda.install()
        import pyarrow as pa
        import pyarrow.cuda as cuda
        from pyarrow.cuda import Context
        assert cuda is saeta.cuda and pa.cuda is cuda and Context is cuda.Context
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=300)


def test_every_name_of_pyarrow_cuda_exists() -> None:
    published = {
        "Context", "IpcMemHandle", "CudaBuffer", "HostBuffer", "BufferReader", "BufferWriter",
        "new_host_buffer", "serialize_record_batch", "read_message", "read_record_batch",
    }  # fmt: skip
    assert published <= set(dir(cuda))
