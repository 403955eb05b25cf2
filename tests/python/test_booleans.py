"""Boolean types: bools of tensors are exported as Arrow's bool, and the extension type arrow.bool8
unchanged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import copies
from protocols import OnlyArray, OnlyStream

FLAGS = [True, False, False, True, True] * 20


def flags_in(ctx: sa.Context) -> sa.Column:
    return sa.from_dlpack(np.array(FLAGS), ctx, name="flag")


def test_bools_of_a_tensor_are_imported_as_bool8_without_a_copy(host):
    array = np.array(FLAGS)
    column = sa.from_dlpack(array, host)
    assert column.type == "bool8"
    assert column.type.is_bool8
    assert column.type.extension_name == ""
    assert column.address == array.ctypes.data
    assert column.to_numpy().ctypes.data == array.ctypes.data
    assert column.to_pylist() == FLAGS
    assert copies(host) == 0


def test_every_arrow_protocol_exports_arrows_bool(anywhere):
    flags = flags_in(anywhere)
    given = [
        OnlyArray(flags),
        OnlyStream(flags),
        flags.__arrow_c_device_array__(),
        flags.__arrow_c_device_stream__(),
    ]
    for each in given:
        seen = sa.from_arrow(each, anywhere)
        assert seen.type == "bool"
        assert seen.to_pylist() == FLAGS
    table = sa.table({"flag": flags}, anywhere)
    for each in (OnlyStream(table), table.__arrow_c_device_stream__()):
        assert sa.from_arrow(each, anywhere)["flag"].to_pylist() == FLAGS
    assert pa.schema(table.schema).types == [pa.bool_()]


def test_pyarrow_shows_bool(anywhere):
    flags = flags_in(anywhere)
    assert flags.to_arrow().type == pa.bool_()
    assert flags.slice(3, 9).to_arrow().to_pylist() == FLAGS[3:12]
    assert flags.slice(3, 0).to_arrow().to_pylist() == []


def test_polars_pandas_and_duckdb_show_bool(anywhere):
    flags = flags_in(anywhere)
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    rows = sa.table({"flag": flags})
    assert rows.to_polars().schema == {"flag": polars.Boolean}
    assert rows.to_polars()["flag"].to_list() == FLAGS
    assert rows.to_pandas()["flag"].dtype == np.bool_
    if flags.device == "host":
        with duckdb.connect() as connection:
            assert connection.sql("select distinct typeof(flag) from rows").fetchall() == [("BOOLEAN",)]


def test_files_store_bool(anywhere, tmp_path):
    flags = flags_in(anywhere)
    sa.table({"flag": flags}).write_ipc(tmp_path / "flags.arrow")
    assert pa.ipc.open_file(tmp_path / "flags.arrow").read_all()["flag"].type == pa.bool_()
    assert sa.read_ipc(tmp_path / "flags.arrow", anywhere)["flag"].to_pylist() == FLAGS


def test_a_mask_is_exported_as_bool(anywhere):
    column = sa.from_arrow(pa.array([1, None, 3]), anywhere)
    for each in (column, column.slice(0, 1), sa.from_arrow(pa.array([1, 2]), anywhere)):
        assert each.is_valid().type == "bool8"
        assert each.is_valid().to_arrow().type == pa.bool_()


def test_any_nonzero_byte_is_true(host):
    bytes_ = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    assert sa.from_dlpack(bytes_, host).to_arrow().to_pylist() == [False, True, True, True]


def test_arrows_bool8_extension_is_kept_without_a_copy(host):
    source = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    column = sa.from_arrow(source, host)
    assert column.type == "extension<arrow.bool8>"
    assert column.type.is_bool8
    again = column.to_arrow().chunk(0)
    assert again.equals(source)
    assert again.storage.buffers()[1].address == column.address


def test_a_requested_bool8_is_exported_without_a_copy(host):
    flags = sa.from_dlpack(np.array(FLAGS), host)
    asked = flags.as_bool8()
    assert asked.type == "extension<arrow.bool8>"
    assert asked.address == flags.address
    shown = asked.to_arrow().chunk(0)
    assert shown.type == pa.bool8()
    assert shown.storage.buffers()[1].address == flags.address
    assert copies(host) == 0
    back = asked.as_bool8(extension=False)
    assert back.type == "bool8"
    assert back.to_arrow().type == pa.bool_()
    with pytest.raises(sa.TypeMismatch, match="double"):
        sa.from_dlpack(np.arange(3.0), host).as_bool8()


def test_python_values_become_bool8_if_the_schema_says_so(host):
    column = sa.column([True, None, False], host, name="flag", type="bool8")
    assert column.type == "bool8"
    assert column.to_pylist() == [True, None, False]
    assert column.to_arrow().equals(pa.chunked_array([[True, None, False]]))
    assert sa.column(np.array(FLAGS), host, name="flag", type="bool8").type == "bool8"


def test_a_nested_bool8_is_the_extension_type():
    assert sa.DataType("bool8").name == "bool8"
    assert sa.DataType("bool8") != sa.DataType("extension<arrow.bool8>")
    assert sa.DataType("list<item: bool8>").name == "list<item: extension<arrow.bool8>>"
    assert (
        sa.DataType("dictionary<values=bool8, indices=int8>").name
        == "dictionary<values=extension<arrow.bool8>, indices=int8, ordered=0>"
    )
