"""`sa.table`, `sa.column` and similar functions: accepted and refused arguments, with the exact error
messages."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta._convert import build


def test_a_tensor_becomes_a_table_with_the_names_of_the_schema(host):
    values = np.arange(6, dtype="i4").reshape(3, 2)
    assert sa.table(values, host).column_names == ["col_0", "col_1"]
    named = sa.table(values, host, schema=sa.schema({"x": "int32", "y": "int32"}))
    assert named.to_pydict() == {"x": [0, 2, 4], "y": [1, 3, 5]}
    bits = sa.table(values, host, schema=sa.schema({"x": "uint32", "y": "uint32"}), reinterpret=True)
    assert bits["x"].type == "uint32"
    with pytest.raises(sa.InvalidError, match="truncate=True is for columns: a tensor keeps its type or is"):
        sa.table(values, host, truncate=True)
    del named, bits


def test_a_cast_needs_a_type_and_columns(host):
    with pytest.raises(sa.InvalidError, match="needs a type to convert to, and no type is given"):
        sa.table({"a": [1.5]}, host, truncate=True)
    with pytest.raises(sa.InvalidError, match="truncate=True and reinterpret=True exclude each other"):
        sa.column([1], host, name="a", type="int8", truncate=True, reinterpret=True)
    with pytest.raises(
        sa.InvalidError, match="truncate=True needs a type to convert to, and no type is given"
    ):
        sa.column([1], host, name="a", truncate=True)
    with pytest.raises(
        sa.InvalidError, match="truncate=True is for columns, and Table is a table: convert it"
    ):
        sa.table(pa.table({"a": [1.5]}), host, schema=sa.schema({"a": "int8"}), truncate=True)
    field = sa.field("a", "int8")
    assert sa.column([1.5], host, name=field, truncate=True).to_pylist() == [1]
    with pytest.raises(
        sa.InvalidError,
        match="column 'a': truncate=True converts Python values and NumPy arrays, and Int64Array has",
    ):
        sa.column(pa.array([1]), host, name="a", type="int8", truncate=True)


def test_a_table_is_made_from_pairs_columns_or_a_table(host):
    numbers = sa.column([1, 2], host, name="n")
    assert sa.table([("a", [1, 2]), ("a", [3, 4])], host).column_names == ["a", "a"]
    assert sa.table([numbers, ["b", [3, 4]]]).context == host
    assert sa.table([(sa.field("f", "int8"), [1, 2])], host)["f"].type == "int8"
    for wrong, text in (
        ("ab", "str is not a table: expected a mapping from names to columns, pairs of both, a sequence of"),
        (3, "int is not a table"),
        ([3], "column number 0 is of type int: expected a pair"),
        ([{"a": 1}], "or an array; pyarrow.Table.from_pylist makes a table of rows"),
        ([numbers, ("a", 1, 2)], "column number 1 is of type tuple: expected a pair"),
        ([(3, [1])], "column number 0 is of type tuple"),
        ([SimpleNamespace(name="x")], "column number 0 is of type SimpleNamespace"),
    ):
        with pytest.raises(sa.TypeMismatch, match=text):
            sa.table(wrong, host)
    with pytest.raises(sa.TypeMismatch, match="Int64Array is a column, not a table: expected a mapping from"):
        sa.table(pa.array([1]), host)
    with pytest.raises(sa.InvalidError, match=r"the schema has columns \['b'\], the table \['a'\]"):
        sa.table({"a": [1]}, host, schema=sa.schema({"b": "int8"}))
    whole = sa.table({"a": [1]}, host)
    assert sa.table(whole) is whole
    assert sa.table(whole, schema=sa.schema({"a": "int64"}, metadata={"k": "v"})).schema.metadata == {
        b"k": b"v"
    }


def test_objects_that_are_not_columns_are_refused(host):
    for wrong, text in (
        (
            3,
            "column 'a': int has neither DLPack, an Arrow protocol nor the CUDA Array Interface and is not a",
        ),
        ("text", "column 'a': str has neither"),
        ({"x": 1}, "column 'a': dict has neither"),
        (pa.table({"x": [1]}), "column 'a': Table is a table, not a column"),
        (pa.record_batch({"x": [1]}), "column 'a': RecordBatch is a table, not a column"),
    ):
        with pytest.raises(sa.TypeMismatch, match=text):
            sa.column(wrong, host, name="a")
    assert sa.column(range(3), host, name="a").to_pylist() == [0, 1, 2]
    assert sa.column((each for each in (1, 2)), host, name="a").to_pylist() == [1, 2]


def test_nulls_in_a_non_nullable_field_are_refused(host):
    field = sa.field("a", "int8", nullable=False, metadata={"unit": "m"})
    column = sa.column([1, 2], host, name=field)
    assert (column.field.nullable, column.field.metadata) == (False, {b"unit": b"m"})
    with pytest.raises(sa.InvalidError, match="column 'a' has 2 nulls, and its field allows none"):
        sa.column([1, None, None], host, name=field)


def test_columns_are_inserted_and_replaced_by_index(host):
    table = sa.table({"a": [1], "b": [2]}, host)
    assert table.add_column(0, "c", [3]).column_names == ["c", "a", "b"]
    assert table.add_column(2, "c", [3]).column_names == ["a", "b", "c"]
    assert table.append_column("c", [3]).column_names == ["a", "b", "c"]
    assert table.set_column(1, "c", [3]).to_pydict() == {"a": [1], "c": [3]}
    assert table.set_column("a", "a", [3]).to_pydict() == {"a": [3], "b": [2]}
    assert table.set_column("b", sa.field("b", "int8"), [3])["b"].type == "int8"
    assert table.append_column("c", [3]).to_pydict() == {"a": [1], "b": [2], "c": [3]}
    with pytest.raises(sa.OutOfRange):
        table.set_column(2, "c", [3])
    with pytest.raises(sa.OutOfRange):
        table.add_column(3, "c", [3])
    twice = sa.table([("a", [1]), ("a", [2])], host)
    with pytest.raises(sa.InvalidError, match="2 columns"):
        twice.set_column("a", "a", [3])
    with pytest.raises(sa.ColumnNameError, match="no column 'z'"):
        table.set_column("z", "z", [3])


def test_from_bytes_makes_the_columns_of_a_schema(host):
    schema = sa.schema({"n": "uint16", "f": "uint8"})
    assert sa.from_bytes(iter([b"\1\0", b"a"]), host, schema=schema).to_pydict() == {"n": [1], "f": [97]}
    for wrong in ("ab", b"ab", {"n": b"ab"}, 3):
        with pytest.raises(
            sa.TypeMismatch, match=f"columns are of type {type(wrong).__name__}, expected a sequence with the"
        ):
            sa.from_bytes(wrong, host, schema=schema)
    with pytest.raises(
        sa.TypeMismatch, match="column 'f': list does not offer its memory as contiguous bytes"
    ):
        sa.from_bytes([b"\1\0", [1]], host, schema=schema)
    with pytest.raises(sa.TypeMismatch, match="column 2: list does not offer its memory"):
        sa.from_bytes([b"\1\0", b"a", [1]], host, schema=schema)
    with pytest.raises(sa.TypeMismatch, match="column 'n': ndarray does not offer its memory"):
        sa.from_bytes([np.arange(4, dtype="u2")[::2], b"ab"], host, schema=schema)
    masked = np.ma.array([1], "u1", mask=[True])
    with pytest.raises(
        sa.InvalidError, match="column 'f': a masked array has nulls, which bytes can't represent"
    ):
        sa.from_bytes([b"\1\0", masked], host, schema=schema)


def test_the_count_of_a_counted_table_is_any_object_with_one_number(host):
    table = sa.table({"x": [7, 8, 0, 0]}, host)
    for count in (np.array(2, "u4"), np.array([2], "u8"), sa.column([2], host, name="c", type="int32")):
        assert sa.counted_table(table, count).num_rows == 2
    assert sa.counted_table(table, np.array([2], "u8"), num_rows=3).num_rows == 3
    with pytest.raises(sa.TypeMismatch, match="the capacity is of type dict, expected a Table"):
        sa.counted_table({}, 2)


@pytest.mark.parametrize(
    ("found", "wanted", "possible"),
    [
        ("int32", "uint32", True),
        ("uint64", "int64", True),
        ("int32", "date32[day]", True),
        ("int64", "timestamp[us]", True),
        ("int64", "duration[ms]", True),
        ("int32", "time32[s]", True),
        ("int32", "month_interval", False),
        ("int32", "int64", False),
        ("int32", "float32", False),
        ("float32", "int32", False),
        ("timestamp[us]", "timestamp[us, tz=UTC]", True),
        ("timestamp[us]", "timestamp[ms, tz=UTC]", False),
        ("timestamp[us, tz=UTC]", "timestamp[us]", False),
        ("timestamp[us]", "int64", False),
    ],
)
def test_reinterpret_needs_integers_of_the_same_width(host, found, wanted, possible):
    if found.startswith("timestamp"):
        made = sa.column([1, 2], host, name="n")._with_type_of_bytes(sa.DataType(found))
    else:
        made = sa.column(np.arange(2).astype(found), host, name="n")
    if possible:
        assert sa.column(made, host, name="n", type=wanted, reinterpret=True).type == wanted
    else:
        with pytest.raises(
            sa.TypeMismatch, match="reinterpret=True reads integers as others of the same width"
        ):
            sa.column(made, host, name="n", type=wanted, reinterpret=True)


def test_reinterpreting_python_numbers(host):
    column = sa.column([2**32 - 1, None, 1], host, name="n", type="int32", reinterpret=True)
    assert column.to_pylist() == [-1, None, 1]
    column = sa.column([-1, 1], host, name="n", type="uint8", reinterpret=True)
    assert column.to_pylist() == [255, 1]
    assert build.SIGNED == ("c", "s", "i", "l")
    assert build.UNSIGNED == ("C", "S", "I", "L")
