"""numpy.ma.MaskedArray: every import turns masked values into nulls, or refuses the array."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

ma = np.ma
MASK = [False, True, False, True, False]
VALUES = {
    **{name: np.arange(5).astype(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32")},
    **{name: np.arange(5).astype(name) for name in ("int64", "uint64", "float16", "float32", "float64")},
    "bool": np.array([True, False, True, True, False]),
    "swapped": np.arange(5, dtype=">i4"),
    "strided": np.arange(10)[::-2],
    "days": np.arange(5).astype("M8[D]"),
    "moments": np.arange(5).astype("M8[ns]"),
    "durations": np.arange(5).astype("m8[us]"),
    "text": np.array(list("abcde")),
    "bytes": np.array([b"a", b"bc", b"d", b"e", b"f"]),
    "objects": np.array([1, "masked", 3, None, 5], object),
}
WAYS = {
    "table": lambda array, ctx: sa.table({"x": array}, ctx)["x"],
    "column": lambda array, ctx: sa.column(array, ctx, name="x"),
    "append_column": lambda array, ctx: sa.table({"y": [0] * 5}, ctx).append_column("x", array)["x"],
    "set_column": lambda array, ctx: sa.table({"y": [0] * 5}, ctx).set_column(0, "x", array)["x"],
    "from_dlpack": lambda array, ctx: sa.from_dlpack(array, ctx, name="x"),
}


def nulls_of(values, mask=MASK):
    """Returns the column's values as a list, with None for masked ones."""
    return [None if out else each for each, out in zip(values.to_pylist(), mask, strict=True)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", VALUES)
def test_masked_values_are_null(anywhere, kind, way):
    values = VALUES[kind]
    if way == "from_dlpack" and values.dtype.kind not in "biuf":
        pytest.skip("DLPack has no such type, with or without a mask")
    if kind == "objects":
        expected, type_ = [1, None, 3, None, 5], "int64"
    else:
        unmasked = WAYS[way](values, anywhere)
        expected, type_ = nulls_of(unmasked), unmasked.type
    made = WAYS[way](ma.array(values, mask=MASK), anywhere)
    assert made.to_pylist() == expected
    assert made.type == type_
    assert made.null_count == 2
    assert made.field.nullable


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_mask_gives_no_nulls(host, way):
    for array in (
        ma.array(np.arange(5)),
        ma.array(np.arange(5), mask=[0] * 5),
        ma.array(np.arange(5), mask=False),
    ):
        made = WAYS[way](array, host)
        assert made.to_pylist() == [0, 1, 2, 3, 4]
        assert made.null_count == 0
    assert sa.from_dlpack(ma.array(np.arange(5)), host, copy=False).to_pylist() == [0, 1, 2, 3, 4]


def test_the_values_under_a_mask_are_shared(host):
    values = np.arange(1000.0)
    before = host.memory.statistics()["current"]
    column = sa.column(ma.array(values, mask=values % 2 == 0), host, name="x")
    values[1] = 77
    assert column[1] == 77
    assert host.memory.statistics()["current"] - before < 1000


def test_every_kind_of_mask_is_accepted(host):
    hard = ma.array([1, 2, 3], mask=[0, 1, 0], hard_mask=True)
    assert sa.column(hard, host, name="x").to_pylist() == [1, None, 3]
    assert hard.hardmask
    assert hard.mask.tolist() == [False, True, False]
    assert sa.column(ma.array([1, 2], mask=True), host, name="x").to_pylist() == [None, None]
    assert sa.column(hard[1:], host, name="x").to_pylist() == [None, 3]
    assert sa.column(hard[::-1], host, name="x").to_pylist() == [3, None, 1]
    assert sa.column(ma.masked_invalid([1.5, np.nan]), host, name="x").to_pylist() == [1.5, None]

    class Named(ma.MaskedArray):
        pass

    assert sa.from_dlpack(Named([1, 2], mask=[1, 0]), host).to_pylist() == [None, 2]
    assert sa.column(ma.array([], dtype="int8"), host, name="x").to_pylist() == []


def test_masked_values_in_lists_are_null(host):
    assert sa.column([1.5, ma.masked], host, name="x").to_pylist() == [1.5, None]
    assert sa.column([1, ma.masked], host, name="x", type="int8").to_pylist() == [1, None]
    rows = [ma.array([1, 2], mask=[0, 1]), [3, ma.masked], (ma.masked, 6), None]
    assert sa.column(rows, host, name="x").to_pylist() == [[1, None], [3, None], [None, 6], None]
    assert sa.column([{"a": ma.masked}, {"a": 1}], host, name="x").to_pylist() == [{"a": None}, {"a": 1}]
    assert sa.column(np.array([1, ma.masked, 3], object), host, name="x").to_pylist() == [1, None, 3]


def test_a_masked_matrix_has_nulls_in_its_rows(anywhere):
    matrix = ma.array([[1, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [1, 0, 0]])
    column = sa.from_dlpack(matrix, anywhere)
    assert column.to_pylist() == [[1, None, 3], [None, 5, 6]]
    assert column.null_count == 0
    deep = ma.array(np.arange(8).reshape(2, 2, 2), mask=np.arange(8).reshape(2, 2, 2) % 3 == 0)
    assert sa.from_dlpack(deep, anywhere).to_pylist() == [[[None, 1], [2, None]], [[4, 5], [None, 7]]]
    bools = ma.array([[True, False]], mask=[[False, True]])
    assert sa.from_dlpack(bools, anywhere).to_pylist() == [[True, None]]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_masked_matrix_is_a_table_with_nulls(anywhere, order):
    matrix = ma.array(np.array([[1, 2, 3], [4, 5, 6]], order=order), mask=[[0, 1, 0], [1, 0, 0]])
    expected = {"col_0": [1, None], "col_1": [None, 5], "col_2": [3, 6]}
    assert sa.from_dlpack(matrix, anywhere, columns=True).to_pydict() == expected
    assert sa.table(matrix, anywhere).to_pydict() == expected
    assert sa.table(matrix.T, anywhere).to_pydict() == {"col_0": [1, None, 3], "col_1": [None, 5, 6]}
    named = sa.schema([("a", "uint64"), ("b", "int64"), ("c", "int64")], metadata={"made by": "a test"})
    table = sa.table(matrix, anywhere, schema=named, reinterpret=True)
    assert table.to_pydict() == {"a": [1, None], "b": [None, 5], "c": [3, 6]}
    assert table.schema == named
    assert table.schema.metadata == named.metadata


def test_masked_values_in_a_non_nullable_field_are_refused(host):
    matrix = ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    fields = [("a", "int64"), sa.field("b", "int64", nullable=False)]
    with pytest.raises(sa.InvalidError, match="column 'b' has 1 nulls, and its field allows none"):
        sa.table(matrix, host, schema=sa.schema(fields))
    with pytest.raises(sa.InvalidError, match="column 'b' has 1 nulls"):
        sa.column(matrix[:, 1], host, name=fields[1])


@pytest.mark.parametrize(
    "type_", ["int8", "float64", "decimal128(5, 2)", "dictionary<values=int64, indices=int8>"]
)
def test_masked_arrays_are_converted_with_their_nulls(host, type_):
    array = ma.array([1, 10**9, 3], mask=[0, 1, 0])
    column = sa.column(array, host, name="x", type=type_)  # the masked value is out of range for some types
    assert (column.to_pylist(), column.type) == ([1, None, 3], sa.DataType(type_))
    assert sa.column(ma.array(["a", "b"], mask=[1, 0]), host, name="x", type="symbol").to_pylist() == [
        None,
        "b",
    ]
    days = ma.array(np.array([1, 2], "M8[D]"), mask=[1, 0])
    assert sa.column(days, host, name="x", type="timestamp[s]").to_pylist() == [None, dt.datetime(1970, 1, 3)]


@pytest.mark.parametrize("array", [ma.array([1, 2], mask=[0, 1]), ma.array([[1, 2]], mask=[[0, 1]])])
def test_copy_false_refuses_a_mask(host, array):
    with pytest.raises(sa.ExchangeError, match=r"mask .* one byte per value and a validity buffer one bit"):
        sa.from_dlpack(array, host, copy=False)
    assert sa.from_dlpack(array, host, copy=True).to_arrow().null_count == (1 if array.ndim == 1 else 0)


def test_imports_that_can_not_represent_a_mask_refuse_it(host):
    fields = ma.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")], mask=[(True, False)])
    for type_ in (None, "struct<a: int32, b: double>"):
        with pytest.raises(sa.TypeMismatch, match="fields a, b"):
            sa.column(fields, host, name="x", type=type_)
    with pytest.raises(sa.TypeMismatch, match="fields a, b"):
        sa.from_dlpack(fields, host)
    with pytest.raises(
        sa.InvalidError, match="column 'n': a masked array has nulls, which bytes can't represent"
    ):
        sa.from_bytes([ma.array([1, 2], mask=[0, 1])], host, schema={"n": "int64"})
    assert sa.from_bytes([ma.array([1, 2])], host, schema={"n": "int64"}).to_pydict() == {"n": [1, 2]}
    room = sa.table({"x": [1, 2]}, host)
    with pytest.raises(sa.Error):
        sa.counted_table(room, ma.array([1], np.uint32, mask=[1]))
    with pytest.raises(sa.Error):
        sa.from_dlpack(ma.masked, host)


def test_pyarrow_sees_the_same_nulls(host):
    for values in VALUES.values():
        if values.dtype.kind in "biufMmUS" and values.dtype.isnative:
            array = ma.array(values, mask=MASK)
            assert sa.table({"x": array}, host)["x"].to_arrow().to_pylist() == pa.array(array).to_pylist()
