"""bfloat16 and 8-bit floats, which Arrow lacks: Saeta stores them as an extension of fixed-size binary, and
exports tensors of the original type."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from dlpack_table import Managed, pointer_in
from protocols import OnlyStream

ml_dtypes = pytest.importorskip("ml_dtypes")
pl = pytest.importorskip("polars")

# DLPack's type codes.
CODES = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
NUMBERS = [0.5, 1.0, 2.0, 4.0, 8.0]


def values_of(name: str) -> Any:
    return np.array(NUMBERS, getattr(ml_dtypes, name))


def bits_of(name: str) -> Any:
    values = values_of(name)
    return values.view(f"u{values.dtype.itemsize}")


def tensor_in(capsule: Any) -> Any:
    return ctypes.cast(pointer_in(capsule, b"dltensor_versioned"), ctypes.POINTER(Managed)).contents.tensor


class Narrow:
    """A producer of an array of integers whose tensor has a float type with the same bits."""

    def __init__(self, name: str, bits: Any) -> None:
        self.name, self.bits = name, bits

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **wanted: Any) -> Any:
        capsule = self.bits.__dlpack__(**wanted)
        tensor_in(capsule).dtype.code = CODES[self.name]
        return capsule


def exported_as(column: Any, **wanted: Any) -> tuple[int, int, int, Any]:
    """Returns code, bits and lanes of a column's tensor, and its values as unsigned integers."""
    capsule = column.__dlpack__(max_version=(1, 3), **wanted)
    dtype = tensor_in(capsule).dtype
    found = dtype.code, dtype.bits, dtype.lanes
    dtype.code = 1  # unsigned, because NumPy can't read narrow floats

    class Given:
        __dlpack_device__ = staticmethod(lambda: (1, 0))
        __dlpack__ = staticmethod(lambda **_: capsule)

    return *found, np.from_dlpack(Given()).tolist()


@pytest.mark.parametrize("name", CODES)
def test_a_tensor_makes_the_round_trip(host, name):
    bits = bits_of(name)
    column = sa.from_dlpack(Narrow(name, bits), host, copy=False, name="x")
    assert column.type.extension_name == f"saeta.{name}"
    assert (column.type.format, column.type.dtype) == (f"w:{bits.itemsize}", name)
    assert column.type == sa.DataType(name) == sa.DataType(str(column.type))
    assert exported_as(column) == (CODES[name], 8 * bits.itemsize, 1, bits.tolist())
    assert exported_as(column[1:4]) == (CODES[name], 8 * bits.itemsize, 1, bits[1:4].tolist())
    bits[0] ^= 1
    assert exported_as(column)[3] == bits.tolist()  # a view
    assert exported_as(sa.from_dlpack(Narrow(name, bits[::-2]), host))[3] == bits[::-2].tolist()
    again = sa.from_dlpack(column, host)
    assert again.type == column.type


@pytest.mark.parametrize("name", CODES)
def test_matrices_of_narrow_floats_are_lists_or_tables(host, name):
    bits = bits_of(name)[:4].reshape(2, 2)
    column = sa.from_dlpack(Narrow(name, bits), host)
    assert column.type.dtype == name
    assert exported_as(column) == (CODES[name], 8 * bits.itemsize, 1, bits.tolist())
    table = sa.from_dlpack(Narrow(name, bits), host, columns=True)
    assert [each.type.dtype for each in table.columns] == [name, name]
    assert exported_as(table["col_1"])[3] == bits[:, 1].tolist()
    assert exported_as(table)[3] == bits.tolist()
    assert exported_as(sa.concat_tables([table, table]))[3] == bits.tolist() * 2  # copied from two chunks
    named = sa.schema([("a", name), ("b", name)])
    assert sa.table(Narrow(name, bits), host, schema=named).schema == named


@pytest.mark.parametrize("name", CODES)
def test_arrays_of_ml_dtypes_are_imported(host, name):
    values = values_of(name)
    for made in (
        sa.from_dlpack(values, host),
        sa.column(values, host, name="x"),
        sa.table({"x": values}, host)["x"],
    ):
        assert exported_as(made) == (CODES[name], 8 * values.itemsize, 1, bits_of(name).tolist())
    assert exported_as(sa.column(values, host, name="x", type=name))[3] == bits_of(name).tolist()
    assert (
        exported_as(sa.from_dlpack(values[:4].reshape(2, 2), host))[3]
        == bits_of(name)[:4].reshape(2, 2).tolist()
    )
    schema = sa.schema([("a", name), ("b", name)])
    table = sa.table(values[:4].reshape(2, 2), host, schema=schema)
    assert table.schema == schema
    assert exported_as(table["b"])[3] == bits_of(name)[1:4:2].tolist()
    masked = sa.column(np.ma.array(values.view(f"u{values.itemsize}"), mask=[1, 0, 0, 0, 0]), host, name="x")
    assert masked.null_count == 1
    with pytest.raises(sa.TypeMismatch, match="2 columns and the schema 1 fields"):
        sa.table(values[:4].reshape(2, 2), host, schema=sa.schema([("a", name)]))


@pytest.mark.parametrize("name", CODES)
def test_columns_of_narrow_floats_become_arrays_of_ml_dtypes(host, name):
    values = values_of(name)
    column = sa.column(values, host, name="x")
    for made in (column.to_numpy(), np.asarray(column), column[:].to_numpy(copy=False)):
        assert made.dtype == values.dtype
        assert made.tolist() == values.tolist()
    assert column[2:].to_numpy().tolist() == values[2:].tolist()


@pytest.mark.parametrize("name", CODES)
def test_nulls_of_narrow_floats_need_an_option(host, name):
    bits = bits_of(name)
    raw = pa.array([None, *(each.tobytes() for each in bits[1:])], pa.binary(bits.itemsize))
    column = sa.column(raw.to_pylist(), host, name="x", type=name)
    assert (column.type.dtype, column.null_count) == (name, 1)
    with pytest.raises(BufferError, match=r"1 of 5 values .* null"):
        column.__dlpack__()
    from saeta._core import _ChosenTensor as Exported
    from saeta._core import _TensorChoices as Choices

    shown = exported_as(Exported(column, Choices(nulls="nan")))[3]
    assert (
        np.isnan(np.array(shown, bits.dtype).view(getattr(ml_dtypes, name)).astype("f4")).tolist()
        == [True] + [False] * 4
    )
    assert exported_as(Exported(column[1:], Choices(nulls="nan")))[3] == bits[1:].tolist()
    masked = exported_as(Exported(column, Choices(nulls="mask")))
    assert masked[3][1:] == bits[1:].tolist()
    if name == "float8_e8m0fnu":  # this type has no zero
        with pytest.raises(sa.OutOfRange, match="can only be filled with 0 or nulls='nan'"):
            exported_as(Exported(column, Choices(fill=0)))
    else:
        assert exported_as(Exported(column, Choices(fill=0)))[3] == [0, *bits[1:].tolist()]
    with pytest.raises(sa.OutOfRange, match="filled with 0"):
        exported_as(Exported(column, Choices(fill=1)))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_narrow_floats_are_not_converted(host, name):
    from saeta._core import _ChosenTensor as Exported
    from saeta._core import _TensorChoices as Choices

    column = sa.column(values_of(name), host, name="x")
    with pytest.raises(sa.TypeMismatch, match="narrow floats are exported as they are"):
        exported_as(Exported(column, Choices(dtype="float32")))
    with pytest.raises(sa.TypeMismatch, match="narrow floats are exported as they are"):
        exported_as(Exported(sa.column([1.5], host, name="x"), Choices(dtype=name)))
    assert exported_as(Exported(column, Choices(dtype=name)))[3] == bits_of(name).tolist()
    mixed = sa.table({"a": values_of(name), "b": NUMBERS}, host)
    with pytest.raises(sa.TypeMismatch, match="name it with dtype"):
        mixed.__dlpack__()


@pytest.mark.parametrize("name", CODES)
def test_narrow_floats_pass_through_arrow_and_files(host, name, tmp_path):
    bits = bits_of(name)
    width = bits.itemsize
    table = sa.table({"x": values_of(name), "y": [1, 2, 3, 4, 5]}, host)
    table.write_ipc(tmp_path / "t.arrow")
    read = sa.read_ipc(tmp_path / "t.arrow", host)
    arrow = table.to_arrow()
    stored = arrow.schema.field("x")
    assert stored.type == pa.binary(width)
    assert stored.metadata[b"ARROW:extension:name"] == f"saeta.{name}".encode()
    assert arrow["x"].to_pylist() == [each.tobytes() for each in bits]
    for back in (read, read[1:], sa.from_arrow(arrow, host), sa.from_arrow(OnlyStream(table), host)):
        assert back["x"].type == table["x"].type
        assert exported_as(back["x"])[3] == bits[-len(back) :].tolist()
    with_null = sa.column([bits[0].tobytes(), None], host, name="x", type=name)
    again = sa.from_arrow(pa.table(sa.table([with_null])), host)["x"]
    assert (again.type, again.to_pylist()) == (with_null.type, [bits[0].tobytes(), None])


def test_polars_and_pandas_get_the_bytes(host):
    table = sa.table({"x": values_of("bfloat16")}, host)
    expected = [each.tobytes() for each in bits_of("bfloat16")]
    assert pl.DataFrame(table)["x"].to_list() == expected
    assert list(table.to_pandas()["x"]) == expected


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
def test_jax_imports_and_exports_narrow_floats(host, name):
    jnp = pytest.importorskip("jax.numpy")
    values = jnp.asarray(NUMBERS, getattr(jnp, name))
    column = sa.from_dlpack(values, host)
    assert column.type.dtype == name
    back = column.to_jax()
    assert back.dtype == values.dtype
    assert np.asarray(back).tolist() == np.asarray(values).tolist()
    assert np.asarray(column[1:3].to_jax()).tolist() == np.asarray(values[1:3]).tolist()
    matrix = sa.from_dlpack(values[:4].reshape(2, 2), host).to_jax()
    assert (matrix.shape, matrix.dtype) == ((2, 2), values.dtype)


def test_sub_byte_floats_and_lanes_are_refused(host):
    bits = np.zeros(4, np.uint8)

    class Packed(Narrow):
        def __dlpack__(self, **wanted: Any) -> Any:
            capsule = self.bits.__dlpack__(**wanted)
            dtype = tensor_in(capsule).dtype
            dtype.code, dtype.bits, dtype.lanes = self.name  # type: ignore[assignment]
            return capsule

    for code, width, lanes in ((17, 4, 1), (17, 4, 2), (15, 6, 1), (10, 8, 2), (4, 8, 1)):
        with pytest.raises(
            sa.ExchangeError, match=f"code {code} .*, {width} bits and {lanes} lanes has no column type"
        ):
            sa.from_dlpack(Packed((code, width, lanes), bits), host)  # type: ignore[arg-type]
