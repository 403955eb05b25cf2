"""DLPack on the host in both directions: pointers, flags, versions, errors, and calls of the deleter."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saeta as sa
from contexts import copies
from dlpack_table import KEPT, Managed, pointer_in
from protocols import OldTensor, Tensor, capsule_name, new_capsule

DTYPES = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


class Producer:
    """Lends a NumPy array and sets `gone` when its memory is released."""

    def __init__(self, rows: int = 100) -> None:
        self.gone = threading.Event()
        gone = self.gone

        class Watched(np.ndarray):
            def __del__(self) -> None:
                gone.set()

        self.array = np.arange(rows).view(Watched)

    def lend(self) -> np.ndarray:
        array = self.array
        del self.array
        return array


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_every_dtype_passes_in_both_directions_without_a_copy(host, dtype):
    source = (np.arange(100) % 2).astype(dtype)
    column = sa.from_dlpack(source, host)
    back = np.from_dlpack(column)
    assert column.type.dtype == back.dtype.name == dtype
    assert column.address == source.ctypes.data == back.ctypes.data
    np.testing.assert_array_equal(back, source)
    counted = host.counters()
    assert copies(host) == 0
    assert counted["allocations"] == 0
    assert (counted["imports"], counted["exports"]) == (1, 1)


def test_memory_is_shared_unless_a_copy_is_requested(host):
    source = np.arange(10)
    shared = sa.from_dlpack(source, host)
    copied = sa.from_dlpack(source, host, copy=True)
    source[3] = -1
    assert shared[3] == -1
    assert copied[3] == 3
    assert copied.address != source.ctypes.data
    assert copies(host) == 1


def test_slices_export_their_window(host):
    source = np.arange(100, dtype=np.int16)
    part = sa.from_dlpack(source, host)[7:40].slice(2, 10)
    view = np.from_dlpack(part)
    assert view.ctypes.data == source.ctypes.data + 9 * 2
    np.testing.assert_array_equal(view, source[9:19])
    assert len(np.from_dlpack(part.slice(0, 0))) == 0


def test_views_are_read_only_and_copies_are_not(host):
    column = sa.from_dlpack(np.arange(10), host)
    assert not np.from_dlpack(column).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        column.to_numpy()[0] = 1
    owned = column.to_numpy(copy=True)
    owned[0] = 99
    assert column[0] == 0


def test_the_version_follows_max_version(host):
    column = sa.from_dlpack(np.arange(3), host)
    assert capsule_name(column.__dlpack__()) == "dltensor"
    assert capsule_name(column.__dlpack__(max_version=(0, 8))) == "dltensor"
    for version in ((1, 0), (1, 3), (2, 0)):
        assert capsule_name(column.__dlpack__(max_version=version)) == "dltensor_versioned"
    assert column.__dlpack_device__() == (1, 0)


def test_copy_false_imports_in_place_or_fails(anywhere):
    source = np.arange(10)
    if anywhere.device == "host":
        assert sa.from_dlpack(source, anywhere, copy=False).address == source.ctypes.data
        assert sa.from_dlpack(source.__dlpack__(), anywhere, copy=False).address == source.ctypes.data
    else:
        for tensor in (source, source.__dlpack__(), source.__dlpack__(max_version=(1, 0))):
            with pytest.raises(sa.ExchangeError, match="a copy was forbidden"):
                sa.from_dlpack(tensor, anywhere, copy=False)
    assert copies(anywhere) == 0


def test_a_tensor_of_torch_is_exported_while_its_device_is_current(host, monkeypatch):
    """torch raises BufferError if a tensor's device is not the current one."""
    torch = types.ModuleType("torch")
    current = [0]

    class TorchTensor(Tensor):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, **wanted: Any) -> Any:
            if current[-1] != 1:
                raise BufferError("Can't export tensors on a different CUDA device index.")
            return super().__dlpack__(**wanted)

    @contextmanager
    def device(ordinal: int) -> Iterator[None]:
        current.append(ordinal)
        yield
        current.pop()

    torch.Tensor = TorchTensor
    torch.cuda = types.SimpleNamespace(device=device)
    monkeypatch.setitem(sys.modules, "torch", torch)
    column = sa.from_dlpack(TorchTensor(np.arange(3)), host)
    assert column.to_pylist() == [0, 1, 2]
    assert current == [0]


def test_a_producers_methods_are_called_once(host):
    producer = Tensor(np.arange(5))
    column = sa.from_dlpack(producer, host)
    assert producer.asked_device == 1
    assert producer.asked_tensor == [{"max_version": (1, 3)}]
    assert column.to_pylist() == list(range(5))


def test_an_old_producer_is_called_again_without_new_keywords(host):
    producer = OldTensor(np.arange(5))
    assert sa.from_dlpack(producer, host).to_pylist() == list(range(5))
    assert producer.asked_tensor == [{"stream": None}]


def test_a_type_error_raised_by_the_producer_is_propagated(host, monkeypatch):
    class Broken:
        def __init__(self, device: tuple[int, int] = (1, 0)) -> None:
            self.device, self.asked = device, []

        def __dlpack_device__(self):
            return self.device

        def __dlpack__(self, **wanted):
            self.asked.append(wanted)
            raise TypeError("the tensor is sparse")

    for keywords in ({}, {"copy": False}, {"copy": True}, {"columns": True}):
        with pytest.raises(TypeError, match="the tensor is sparse"):
            sa.from_dlpack(Broken(), host, **keywords)
        with pytest.raises(TypeError, match="the tensor is sparse"):
            sa.column(Broken(), host, name="x")
    on_device = Broken((2, 0))
    with pytest.raises(TypeError, match="the tensor is sparse"):
        sa.from_dlpack(on_device, host)
    assert len(on_device.asked) == 1  # no retry: without `dl_device` the host could not read the tensor
    assert on_device.asked[0]["dl_device"] == (1, 0)
    torch = types.ModuleType("torch")
    torch.Tensor = Broken
    torch.cuda = types.SimpleNamespace(device=lambda _: nullcontext())
    monkeypatch.setitem(sys.modules, "torch", torch)
    again = Broken((2, 0))
    with pytest.raises(TypeError, match="the tensor is sparse"):
        sa.from_dlpack(again, host)
    assert again.asked == on_device.asked  # called like any other producer


def test_an_old_producer_on_a_device_is_not_called_again(host):
    old = OldTensor(np.arange(3))
    old.__class__ = type("OldOnDevice", (OldTensor,), {"__dlpack_device__": lambda self: (2, 0)})
    with pytest.raises(TypeError, match=r"unexpected keyword"):
        sa.from_dlpack(old, host)
    assert old.asked_tensor == []


def test_never_copy_is_passed_on(host):
    producer = Tensor(np.arange(5))
    sa.from_dlpack(producer, host, copy=False)
    assert producer.asked_tensor == [{"max_version": (1, 3), "copy": False}]


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_capsules_are_renamed_when_they_are_consumed(host, version):
    name = "dltensor" if version is None else "dltensor_versioned"
    capsule = np.arange(6).__dlpack__(max_version=version)
    assert capsule_name(capsule) == name
    column = sa.from_dlpack(capsule, host)
    assert capsule_name(capsule) == f"used_{name}"
    del capsule
    assert column.to_pylist() == list(range(6))


def test_a_capsule_is_consumed_once(host):
    capsule = sa.from_dlpack(np.arange(6), host).__dlpack__(max_version=(1, 0))
    again = sa.from_dlpack(capsule, host)
    with pytest.raises(sa.ClosedError, match="used_dltensor_versioned"):
        sa.from_dlpack(capsule, host)
    assert len(again) == 6


def test_a_refused_import_leaves_the_tensor_in_its_capsule(host):
    host.memory.limit = 10
    capsule = np.arange(1000).__dlpack__()
    with pytest.raises(sa.BudgetExceeded):
        sa.from_dlpack(capsule, host, copy=True)
    assert capsule_name(capsule) == "dltensor"
    host.memory.limit = None
    assert len(sa.from_dlpack(capsule, host, copy=True)) == 1000


def test_objects_that_are_not_tensors_are_refused(host):
    for source in (None, 3, object(), [1, 2]):
        with pytest.raises(sa.TypeMismatch):
            sa.from_dlpack(source, host)
    with pytest.raises(sa.InvalidError, match="something"):
        sa.from_dlpack(new_capsule(b"something"), host)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(3.0), "ndim is 0"),
        (np.zeros((2, 3)).T, "strides"),
        (np.arange(10)[::2], "stride"),
        (np.zeros(3, np.complex128), "complex|type|code"),
    ],
    ids=["scalar", "transposed", "strided", "complex"],
)
def test_errors_for_unsupported_tensors_name_the_field(host, array, message):
    with pytest.raises((sa.ExchangeError, sa.FormatError, sa.UnsupportedError), match=message):
        sa.from_dlpack(array, host, copy=False)


@pytest.mark.parametrize("window", [(None, None, 2), (None, None, -1), (90, 3, -7), (5, 6, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64", "bool"])
def test_strided_tensors_are_gathered_into_the_context(anywhere, window, dtype):
    source = (np.arange(100) % 3).astype(dtype)[slice(*window)]
    column = sa.from_dlpack(source, anywhere)
    assert column.to_numpy().tolist() == source.tolist()
    if len(source) > 1:
        assert column.address != source.ctypes.data
        with pytest.raises(sa.ExchangeError, match="a copy was forbidden"):
            sa.from_dlpack(source, anywhere, copy=False)


def test_a_stride_of_zero_repeats_one_value(host):
    column = sa.from_dlpack(np.broadcast_to(np.int32(7), (1000,)), host)
    assert column.to_numpy().tolist() == [7] * 1000
    assert column.nbytes == 4000


def test_copied_bools_are_0_and_1(host):
    source = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    assert bytes(sa.from_dlpack(source, host, copy=True).to_numpy().view(np.uint8)) == b"\0\1\1\1"
    assert bytes(sa.from_dlpack(source, host).to_numpy().view(np.uint8)) == b"\0\1\2\xff"


def test_tensors_of_at_most_one_element_may_have_any_stride(host):
    assert sa.from_dlpack(np.arange(10)[3:4:2], host).to_pylist() == [3]
    assert sa.from_dlpack(np.arange(10)[3:3:2], host).to_pylist() == []


def test_exports_that_would_lose_information_are_buffer_errors(host):
    table = sa.table({"holes": [1, None, 3], "text": ["a", "b", "c"], "bits": [True, False, True]}, host)
    with pytest.raises(BufferError, match="null"):
        table["holes"].__dlpack__()
    with pytest.raises(BufferError, match="string"):
        table["text"].__dlpack__()
    with pytest.raises(BufferError, match="bool"):
        table["bits"].__dlpack__(copy=False)
    assert np.from_dlpack(table["bits"]).tolist() == [True, False, True]


def test_several_chunks_can_not_be_viewed(host):
    column = sa.Column.from_chunks([sa.from_dlpack(np.arange(3), host)] * 2, name="twice")
    with pytest.raises(BufferError, match=r"twice.*2 chunks.*a copy was forbidden"):
        column.__dlpack__(copy=False)
    assert [np.from_dlpack(chunk).tolist() for chunk in column.chunks] == [[0, 1, 2]] * 2
    with pytest.raises(sa.ExchangeError, match=r"combine_chunks"):
        column.to_numpy(copy=False)
    assert np.from_dlpack(column).tolist() == column.to_numpy().tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("stream", [0, 1, 2, -1, 12345])
def test_the_host_has_no_streams(host, stream):
    column = sa.from_dlpack(np.arange(3), host)
    with pytest.raises((sa.InvalidError, sa.ExchangeError), match="stream"):
        column.__dlpack__(stream=stream)


def test_copy_and_device_are_honoured(host):
    column = sa.from_dlpack(np.arange(3), host)
    assert np.from_dlpack(column, device="cpu").ctypes.data == column.address
    copied = np.from_dlpack(column, copy=True)
    assert copied.ctypes.data != column.address
    assert copied.flags.writeable
    with pytest.raises(BufferError):
        column.__dlpack__(dl_device=(2, 0), copy=False)


def test_the_producers_memory_is_released_with_the_last_view(host):
    producer = Producer()
    column = sa.from_dlpack(producer.lend(), host)
    view = np.from_dlpack(column.slice(5, 10))
    del column
    gc.collect()
    assert not producer.gone.is_set(), "the view must keep the memory alive"
    assert view.tolist() == list(range(5, 15))
    del view
    gc.collect()
    host.synchronize()
    assert producer.gone.is_set()


def test_an_unused_capsule_releases_its_tensor(host):
    producer = Producer()
    column = sa.from_dlpack(producer.lend(), host)
    capsule = column.__dlpack__(max_version=(1, 0))
    del column
    gc.collect()
    assert not producer.gone.is_set()
    del capsule
    gc.collect()
    assert producer.gone.is_set()


def test_views_may_be_dropped_on_any_thread(host):
    producer = Producer()
    views = [np.from_dlpack(sa.from_dlpack(producer.lend(), host))]
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert producer.gone.is_set()


def test_many_exchanges_leak_no_memory(host):
    source = np.arange(1000)
    matrix = np.asfortranarray(np.zeros((50, 4)))

    def exchange(rounds: int) -> int:
        for _ in range(rounds):
            sa.from_dlpack(np.from_dlpack(sa.from_dlpack(source, host)), host)
        for _ in range(rounds // 10):
            np.from_dlpack(sa.table(matrix, host))
        return resident_bytes()

    before = exchange(2_000)
    assert exchange(100_000) - before < 4 << 20
    assert host.memory.statistics()["buffers"] == 0
    assert host.memory.statistics()["external"] == 0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def test_saetas_own_tensors_are_reimported_as_the_same_memory(host):
    column = sa.from_dlpack(np.arange(100), host, copy=True)
    charged = host.memory.statistics()["current"]
    for capsule in (column[10:].__dlpack__(), column[10:].__dlpack__(max_version=(1, 0))):
        back = sa.from_dlpack(capsule, host)
        assert back.address == column.address + 80
        assert host.memory.statistics()["current"] == charged
        assert host.memory.statistics()["external"] == 0
    del column
    gc.collect()
    assert back.to_pylist() == list(range(10, 100))


def test_an_attribute_error_raised_by_the_producer_is_propagated(host):
    class Producer:
        def __dlpack__(self, **options):
            raise AssertionError

        def __dlpack_device__(self):
            return self.place

    with pytest.raises(AttributeError, match="place"):
        sa.from_dlpack(Producer(), host)


def test_deleters_run_on_any_thread_and_after_the_interpreter_ends(run_python):
    program = """
import ctypes, threading
import numpy as np
import saeta as sa
from dlpack_table import managed_of, table_of

ctx = sa.context("host")
table = table_of(sa.Column)
at_exit = ctypes.CDLL(None).__cxa_atexit
at_exit.argtypes = [ctypes.c_void_p] * 3
for copy in (True, None):
    for _ in range(3):
        column = sa.from_dlpack(np.arange(1000), ctx, copy=copy)
        tensor = managed_of(table, column)
        # Runs in exit(), after the interpreter has ended.
        deleter = ctypes.cast(tensor.contents.deleter, ctypes.c_void_p).value
        at_exit(deleter, ctypes.cast(tensor, ctypes.c_void_p).value, None)
        other = managed_of(table, column)
        thread = threading.Thread(target=other.contents.deleter, args=(other,))
        thread.start()
        thread.join()
del column
assert ctx.memory.statistics()["external"] > 0
print("done")
"""
    support = Path(__file__).resolve().parents[1] / "python_support"
    done = run_python(program, PYTHONPATH=f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{support}")
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert "rror" not in done.stderr


def test_exports_outlive_all_saeta_objects(run_python):
    program = """
import gc
import numpy as np
import saeta as sa

ctx = sa.context("host")
column = sa.from_dlpack(np.arange(1000), ctx, copy=True)
view = np.from_dlpack(column)
ctx.close()
del ctx, column
gc.collect()
assert view.sum() == 499500
print("alive")
"""
    done = run_python(program)
    assert done.stdout.strip() == "alive", done.stderr


def test_views_may_live_until_the_interpreter_ends(run_python, flights):
    program = """
import ctypes
import sys
import numpy as np
import saeta as sa

ctx = sa.context("host")
column = sa.from_dlpack(np.arange(1000), ctx)
of_bytes = sa.read_ipc(open(sys.argv[1], "rb").read(), ctx)
# Kept by the interpreter until after the end of all modules, so that their memory is never released.
for held in (column, np.from_dlpack(column), column.__dlpack__(), of_bytes):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
# Dropped during interpreter shutdown.
sys.kept = [np.from_dlpack(column), column.__arrow_c_stream__(), of_bytes.__arrow_c_stream__()]
print("done")
"""
    done = run_python(program, str(flights))
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert "Traceback" not in done.stderr
    assert "atal" not in done.stderr


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_a_column_of_lists(anywhere, order):
    source = np.asarray(np.arange(12, dtype=np.int32).reshape(4, 3), order=order)
    column = sa.from_dlpack(source, anywhere, name="rows")
    assert column.type == "fixed_size_list<item: int32>[3]"
    assert column.name == "rows"
    np.testing.assert_array_equal(column.to_numpy(), source)
    if anywhere.device == "host":
        assert (column.to_numpy().ctypes.data == source.ctypes.data) == (order == "C")
    cube = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(sa.from_dlpack(cube, anywhere).to_numpy(), cube)
    np.testing.assert_array_equal(sa.from_dlpack(cube.T, anywhere).to_numpy(), cube.T)


def test_a_matrix_of_bools_keeps_its_memory(host):
    source = np.array([[True, False, True], [False, False, True]])
    column = sa.from_dlpack(source, host)
    assert column.type.name == "fixed_size_list<item: extension<arrow.bool8>>[3]"
    assert np.shares_memory(column.to_numpy(), source)
    assert column.to_numpy().tolist() == source.tolist()
    assert sa.from_dlpack(source, host, columns=True)["col_2"].to_pylist() == [True, True]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_a_table_of_columns(anywhere, order):
    source = np.asarray(np.arange(12, dtype=np.int32).reshape(4, 3), order=order)
    table = sa.from_dlpack(source, anywhere, columns=True)
    assert table.column_names == ["col_0", "col_1", "col_2"]
    assert table["col_1"].to_pylist() == [1, 4, 7, 10]
    np.testing.assert_array_equal(table.to_numpy(), source)
    if anywhere.device == "host":
        assert (table["col_1"].address == source[:, 1:].ctypes.data) == (order == "F")
        if order == "F":
            assert copies(anywhere) == 0
            assert np.from_dlpack(table).ctypes.data == source.ctypes.data
        else:
            with pytest.raises(sa.ExchangeError, match="a copy was forbidden"):
                sa.from_dlpack(source, anywhere, columns=True, copy=False)
    assert sa.table(source, anywhere).column_names == table.column_names


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (1, 4, 1), (0, 4)])
def test_the_stride_of_an_extent_of_one_is_ignored(anywhere, shape):
    """Producers store arbitrary strides there: the product of the other extents, 0, or those of a sliced
    array."""
    room = np.arange(64)
    count = int(np.prod(shape))
    expected = np.arange(count).reshape(shape)
    copy = False if anywhere.device == "host" else None  # the values are contiguous

    def said(odd):
        return strided(room[:count].__dlpack__(max_version=(1, 0)), shape, odd)

    for odd in (0, 3, -5, 7 * 10**18):
        assert sa.from_dlpack(said(odd), anywhere, copy=copy).to_pylist() == expected.tolist()
        if len(shape) == 2:
            table = sa.from_dlpack(said(odd), anywhere, columns=True, copy=copy)
            assert [each.to_pylist() for each in table.columns] == expected.T.tolist()


def strided(capsule, shape, odd):
    """Changes the tensor in a capsule to `shape`, with `odd` as the stride of each extent of one."""
    tensor = ctypes.cast(pointer_in(capsule, b"dltensor_versioned"), ctypes.POINTER(Managed)).contents.tensor
    dense = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    strides = [odd if extent == 1 else step for extent, step in zip(shape, dense, strict=True)]
    numbers = ctypes.c_int64 * len(shape)
    KEPT.append((numbers(*shape), numbers(*strides)))
    tensor.ndim = len(shape)
    tensor.shape, tensor.strides = (ctypes.cast(each, ctypes.POINTER(ctypes.c_int64)) for each in KEPT[-1])
    return capsule


def test_a_schema_names_the_columns_of_a_matrix(host):
    source = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(3, 2))
    schema = sa.schema([("a", "int32"), ("b", "uint32")])
    with pytest.raises(sa.TypeMismatch, match=r"column 'b' of uint32.*reinterpret=True"):
        sa.table(source, host, schema=schema)
    table = sa.table(source, host, schema=schema, reinterpret=True)
    assert table.schema == schema
    assert table["b"].to_pylist() == [1, 3, 5]
    assert table["b"].address == source[:, 1:].ctypes.data
    for wrong in ("float32", "int64", "date32"):
        with pytest.raises(sa.TypeMismatch, match="int32"):
            sa.table(source, host, schema=sa.schema([("a", "int32"), ("b", wrong)]), reinterpret=True)
    with pytest.raises(sa.TypeMismatch, match="2 columns and the schema 1 fields"):
        sa.table(source, host, schema=sa.schema([("a", "int32")]))


def test_invalid_arguments_for_a_matrix_are_refused(host):
    source = np.zeros((2, 2), np.int32)
    with pytest.raises(sa.InvalidError, match="columns=True"):
        sa.from_dlpack(source, host, reinterpret=True)
    with pytest.raises(sa.Error, match="reinterpret=str 'same'"):
        sa.from_dlpack(source, host, columns=True, reinterpret="same")
    with pytest.raises(sa.InvalidError, match="no type is given"):
        sa.table({"a": [1]}, host, reinterpret=True)
    with pytest.raises(BufferError, match="ndim is 1 and a table of columns has two"):
        sa.table(np.arange(3), host)


def test_a_producer_without_a_device_is_refused_by_name(host):
    class Wrong(Tensor):
        def __dlpack_device__(self):
            return self.device

    for device in (3, (1,), ("a", "b"), (1, 2**40)):
        producer = Wrong(np.arange(3))
        producer.device = device
        with pytest.raises(sa.FormatError, match=r"__dlpack_device__.. of .*Wrong"):
            sa.from_dlpack(producer, host)
    producer.device = (77, 0)
    with pytest.raises(sa.ExchangeError, match="device type 77"):
        sa.from_dlpack(producer)
