"""Arrow's device protocols: `__arrow_c_device_array__` and `__arrow_c_device_stream__`."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import copies
from protocols import capsule_name, device_array_in, stream_in
from sim_devices import DEVICES, contexts_of, simulator

NAMES = sorted(arrow_data.arrays(0))


class OnlyDevice:
    """Implements only the device protocols. With `downloads` also `__arrow_c_stream__`, whose calls it
    counts."""

    def __init__(self, of: Any, downloads: bool = False) -> None:
        self._of = of
        self.downloads = 0
        if hasattr(of, "__arrow_c_device_array__"):
            self.__dict__["__arrow_c_device_array__"] = of.__arrow_c_device_array__
        if hasattr(of, "__arrow_c_device_stream__"):
            self.__dict__["__arrow_c_device_stream__"] = of.__arrow_c_device_stream__
        if downloads:
            self.__dict__["__arrow_c_stream__"] = self._download

    def _download(self, requested_schema: object = None) -> object:
        self.downloads += 1
        return self._of.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("window", [(0, 67), (0, 0), (1, 65), (9, 8)], ids=str)
def test_every_type_makes_the_round_trip_on_its_device(anywhere, name, window):
    source = arrow_data.arrays()[name].slice(*window)
    column = sa.from_arrow(source, anywhere, as_column=True)
    anywhere.reset_counters()
    again = sa.from_arrow(column.__arrow_c_device_array__(), anywhere, as_column=True)
    pieces = sa.from_arrow(column.__arrow_c_device_stream__(), anywhere, as_column=True)
    assert copies(anywhere) == 0
    assert again.context.device == anywhere.device
    for seen in (again, pieces):
        assert seen.type == column.type
        assert seen.address == column.address or len(source) == 0
        assert seen.physical_null_count == source.null_count
        assert seen.to_arrow().combine_chunks().equals(source)


def test_a_table_makes_the_round_trip_on_its_device(anywhere):
    source = pa.concat_tables([arrow_data.table(), arrow_data.table(9)]).replace_schema_metadata({"k": "v"})
    table = sa.from_arrow(source, anywhere)
    anywhere.reset_counters()
    again = sa.from_arrow(OnlyDevice(table), anywhere)
    assert copies(anywhere) == 0
    assert len(again.batches) == len(table.batches)
    assert again.to_arrow().equals(source)
    assert again.to_arrow().schema.equals(source.schema, check_metadata=True)
    third = sa.from_arrow(OnlyDevice(again), anywhere)
    del table, again
    assert third.to_arrow().equals(source)


def test_an_import_uses_the_context_of_the_arrays_device(anywhere):
    column = sa.from_arrow(pa.array([1, 2, None]), anywhere, copy=True)
    assert sa.from_arrow(OnlyDevice(column)).device == column.device


def test_a_host_context_lets_the_producer_download(anywhere):
    column = sa.from_arrow(pa.array([1, 2, None]), anywhere, copy=True)
    wrapped = OnlyDevice(column, downloads=True)
    seen = sa.from_arrow(wrapped, "host")
    assert seen.device == "host"
    assert seen.to_pylist() == [1, 2, None]
    assert wrapped.downloads == (0 if anywhere.device == "host" else 1)


def test_pyarrow_objects_are_imported_by_the_device_protocol(host):
    batch = pa.record_batch(arrow_data.arrays())
    assert hasattr(batch, "__arrow_c_device_array__")
    table = sa.from_arrow(OnlyDevice(batch), host)
    assert table.to_arrow().to_batches() == [batch]
    assert table["int64"].address == batch["int64"].buffers()[1].address
    assert copies(host) == 0


def test_pyarrow_imports_host_arrays_by_the_device_protocol(host):
    column = sa.from_arrow(pa.array(["a", None, "ccc"]), host)
    seen = pa.Array._import_from_c_device_capsule(*column.__arrow_c_device_array__())
    seen.validate(full=True)
    assert seen.to_pylist() == ["a", None, "ccc"]
    assert seen.buffers()[2].address == column.to_arrow().chunk(0).buffers()[2].address


def test_nanoarrow_imports_and_exports_device_arrays(host):
    device = pytest.importorskip("nanoarrow.device")
    source = pa.array([[1, 2], None, []])
    column = sa.from_arrow(source, host)
    theirs = device.c_device_array(column)
    assert theirs.device_type_id == 1
    assert theirs.array.length == 3
    assert sa.from_arrow(OnlyDevice(theirs), host).to_arrow().combine_chunks().equals(source)


def test_capsules_have_the_names_of_the_standard(host):
    table = sa.from_arrow(pa.table({"a": [1]}), host)
    assert capsule_name(table.__arrow_c_device_stream__(None, later=1)) == "arrow_device_array_stream"
    schema, array = table["a"].__arrow_c_device_array__(later=2)
    assert (capsule_name(schema), capsule_name(array)) == ("arrow_schema", "arrow_device_array")
    assert capsule_name(table["a"].__arrow_c_device_stream__()) == "arrow_device_array_stream"


def test_a_device_capsule_is_consumed_once(host):
    capsules = sa.from_arrow(pa.array([1]), host).__arrow_c_device_array__()
    assert sa.from_arrow(capsules, host).to_pylist() == [1]
    with pytest.raises(sa.ClosedError, match="consumed"):
        sa.from_arrow(capsules, host)


def test_an_unused_capsule_releases_its_memory(anywhere):
    column = sa.from_arrow(pa.array(range(100)), anywhere, copy=True)
    for _ in range(100):
        column.__arrow_c_device_array__()
        column.__arrow_c_device_stream__()
    address = column.address
    del column
    assert (
        sa.from_arrow(pa.array(range(100)), anywhere, copy=True).address == address
        or anywhere.device != "host"
    )


def test_a_refused_import_leaves_the_array_in_its_capsule(host):
    column = sa.from_arrow(pa.array([1, 2]), host)
    schema, array = column.__arrow_c_device_array__()
    other = sa.from_arrow(pa.array(["x"]), host).__arrow_c_schema__()
    with pytest.raises(sa.FormatError):
        sa.from_arrow((other, array), host)
    assert sa.from_arrow((schema, array), host).to_pylist() == [1, 2]


def test_several_chunks_are_exported_as_a_stream_not_an_array(host):
    column = sa.from_arrow(pa.chunked_array([[1], [2]]), host)
    with pytest.raises(BufferError, match="chunks"):
        column.__arrow_c_device_array__()
    assert sa.from_arrow(column.__arrow_c_device_stream__(), host).to_pylist() == [1, 2]


def test_to_numpy_uses_the_stream_protocol_with_pyarrow(anywhere, monkeypatch):
    """pyarrow.array tries the device protocol first, which a pyarrow without CUDA refuses for GPU memory."""
    stamps = sa.from_arrow(pa.array([1, 2], pa.timestamp("us")), anywhere)
    texts = sa.from_arrow(pa.chunked_array([["a"], ["b", None]]), anywhere)
    none = sa.from_arrow(pa.array([], pa.string()), anywhere)

    def refuse(source: Any, *more: Any, **named: Any) -> None:
        raise AssertionError(f"pyarrow.array was asked for {type(source).__name__}")

    monkeypatch.setattr(pa, "array", refuse)
    assert stamps.to_numpy().astype("int64").tolist() == [1, 2]
    assert texts.slice(0, 2).to_numpy().tolist() == ["a", "b"]
    assert none.to_numpy().tolist() == []


def test_copying_an_array_on_its_device_allocates_new_memory(anywhere):
    table = sa.from_arrow(pa.table({"a": [1, None, 3], "s": ["x", "yy", None]}), anywhere, copy=True)
    with anywhere.forbid_downloads():
        copied = sa.from_arrow(table, anywhere, copy=True)
    assert copied["a"].address != table["a"].address
    del table
    assert copied.to_pydict() == {"a": [1, None, 3], "s": ["x", "yy", None]}


def test_reimported_memory_is_not_counted_as_an_import(anywhere):
    table = sa.from_arrow(pa.table({"a": [1, None, 3], "s": ["x", "yy", None]}), anywhere, copy=True)
    anywhere.reset_counters()
    again = sa.from_arrow(table, anywhere)
    assert anywhere.counters()["imports"] == 0
    assert again["a"].address == table["a"].address
    assert again["s"].to_pylist() == ["x", "yy", None]


def test_memory_reimported_from_pyarrow_is_not_counted_as_an_import(host):
    table = sa.from_arrow(pa.table({"a": [1, None, 3], "s": ["x", "yy", None]}), host, copy=True)
    theirs = pa.table(table).slice(1)
    host.reset_counters()
    again = sa.from_arrow(theirs, host)
    assert host.counters()["imports"] == 0
    del theirs, table
    assert again.to_pydict() == {"a": [None, 3], "s": ["yy", None]}
    assert "external" not in host.memory.by_tag()


def test_a_device_stream_that_fails_is_released_with_its_error(anywhere):
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    fail = call(lambda *_: errno.EIO)
    table = sa.from_arrow(pa.table({"a": [1, 2]}), anywhere)
    stream = table.__arrow_c_device_stream__()
    stream_in(stream).get_next = ctypes.cast(fail, ctypes.c_void_p).value
    with pytest.raises(sa.FileError, match="ArrowDeviceArrayStream: get_next failed with errno 5 "):
        sa.from_arrow(stream, anywhere)
    assert stream_in(stream).release is None


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[sa.Context]:
    yield from contexts_of(request.param)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (pa.array([1, 2, 3]), lambda array: (array, 1)),
        (pa.array([1, 2, 3], pa.int16()), lambda array: (array, 1)),
        (pa.array([0.5, None, 2.0]), lambda array: (array, 1)),
        (pa.array([[1], [2, 3], []]), lambda array: (array.children[0].contents, 1)),
        (pa.array([{"a": 1}, {"a": 2}]), lambda array: (array.children[0].contents, 1)),
        (pa.array(["a", "b"]).dictionary_encode(), lambda array: (array, 1)),
        (pa.array([7, 8]).dictionary_encode(), lambda array: (array.dictionary.contents, 1)),
    ],
    ids=str,
)
def test_a_misaligned_device_array_is_refused(device, values, place):
    """On a GPU, a kernel that loads from a misaligned address makes the whole CUDA context unusable."""
    column = sa.from_arrow(values, device, copy=True, as_column=True)
    if device.device == "host":
        pytest.skip("the host copies such arrays")
    capsules = column.__arrow_c_device_array__()
    array, number = place(device_array_in(capsules[1]).array)
    array.buffers[number] += 1
    for copy in (None, True, False):
        with pytest.raises(sa.ExchangeError, match="not aligned to their values"):
            sa.from_arrow(capsules, device, copy=copy, as_column=True)
    array.buffers[number] -= 1
    again = sa.from_arrow(capsules, device, as_column=True)  # the refused import did not consume it
    assert again.to_arrow().combine_chunks().equals(values)


def test_fixed_size_binary_arrays_of_a_device_need_no_alignment(device):
    column = sa.from_arrow(pa.array([b"abc", b"def"], pa.binary(3)), device, copy=True)
    assert sa.from_arrow(column[1:].__arrow_c_device_array__(), device).to_pylist() == [b"def"]


def test_the_first_export_to_pyarrow_registers_the_device(run_python):
    """pyarrow refuses device arrays until saeta.cuda has registered the device."""
    folder = str(Path(simulator().__file__).parent)
    program = """if True:
        import sys
        sys.path.append(sys.argv[1])
        import saeta as sa, saeta_sim
        device = saeta_sim.Device()
        import pyarrow
        host, there = (sa.column([1, 2], ctx, name="n") for ctx in ("host", device.context))
        host.__arrow_c_device_array__()
        print("saeta.cuda" in sys.modules)
        there.__arrow_c_device_array__()
        print("saeta.cuda" in sys.modules)
    """
    done = run_python(program, folder)
    assert done.stdout.split() == ["False", "True"], done.stdout + done.stderr
