"""Tables and columns from DLPack and Arrow capsules. A capsule is consumed once, and only if the import
succeeds."""

from __future__ import annotations

import datetime
import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta import xlog


def capsule_of(values):
    return np.asarray(values).__dlpack__()


def assert_not_consumed(*capsules):
    """Requires that each capsule can still be imported once."""
    for each in capsules:
        assert sa.from_dlpack(each, "host").to_pylist()
        with pytest.raises(sa.ClosedError, match="consumed already"):
            sa.from_dlpack(each, "host")


def test_a_table_of_capsules_consumes_each_once(anywhere):
    a, b = capsule_of([1, 2]), capsule_of([0.5, 1.5])
    table = sa.table({"a": a, "b": b}, anywhere)
    assert table.to_pydict() == {"a": [1, 2], "b": [0.5, 1.5]}
    for each in (a, b):
        with pytest.raises(sa.ClosedError, match="the tensor was consumed already"):
            sa.table([each], anywhere)


def test_a_capsule_of_the_host_is_shared():
    source = np.arange(5)
    column = sa.column(source.__dlpack__(), "host", name="x")
    assert column.address == source.ctypes.data
    table = sa.table({"x": source.__dlpack__()}, "host")
    assert table["x"].address == source.ctypes.data


def test_memory_of_a_capsule_lives_as_long_as_its_column():
    class Released(np.ndarray):
        pass

    source = np.arange(5).view(Released)
    gone = []
    weakref.finalize(source, gone.append, True)
    column = sa.column(source.__dlpack__(), "host", name="x")
    del source
    gc.collect()
    assert (gone, column.to_pylist()) == ([], [0, 1, 2, 3, 4])
    del column
    gc.collect()
    assert gone == [True]


def test_unnamed_columns_are_named_by_their_index(anywhere):
    first = np.arange(2)
    column = sa.column([5, 6], anywhere, name="named")
    given = [first, column, pa.array([7, 8]), capsule_of([1.5, 2.5])]
    table = sa.table(given, anywhere)
    assert table.to_pydict() == {"col_0": [0, 1], "named": [5, 6], "col_2": [7, 8], "col_3": [1.5, 2.5]}
    assert sa.table(tuple(given[:2]), anywhere).column_names == ["col_0", "named"]
    assert sa.table((each for each in given[:2]), anywhere).column_names == ["col_0", "named"]
    assert sa.table([pa.chunked_array([[1], [2]])], anywhere).column_names == ["col_0"]
    assert sa.table([], anywhere).column_names == []
    for wrong in ([[1, 2]], [7], [first, "ab"], [("a", first), 7]):
        with pytest.raises(sa.TypeMismatch, match=r"expected a pair \(name, values\), a tensor or an array"):
            sa.table(wrong, anywhere)


def test_unnamed_pandas_series_are_named_by_their_index(host):
    pandas = pytest.importorskip("pandas")
    series = [pandas.Series([1, 2]), pandas.Series([3, 4], name="b")]
    assert sa.table(series, host).to_pydict() == {"col_0": [1, 2], "b": [3, 4]}


@pytest.mark.parametrize(
    "schema",
    [
        {"a": "int64", "b": "float64"},
        [("a", "int64"), ("b", pa.float64())],
        [sa.field("a", "int64"), pa.field("b", pa.float64())],
        pa.schema([("a", pa.int64()), ("b", pa.float64())]),
        sa.schema({"a": "int64", "b": "float64"}),
        ["a", "b"],
        ("a", "b"),
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_every_kind_of_schema_argument_is_accepted(anywhere, schema):
    expected = {"a": [0, 1], "b": [0.5, 1.5]}
    tensors = [np.arange(2), np.arange(2) + 0.5]
    types = ["int64", "double"]
    for given in (
        tensors,
        dict(zip("ab", tensors, strict=True)),
        pa.table(expected),
        [*map(capsule_of, tensors)],
    ):
        table = sa.table(given, anywhere, schema=schema)
        assert table.to_pydict() == expected
        assert [each.type.name for each in table.columns] == types
    with pytest.raises(sa.InvalidError, match=r"the schema has columns \['a', 'b'\], the table \['x', 'b'\]"):
        sa.table({"x": [1], "b": [2.0]}, anywhere, schema=schema)
    with pytest.raises(sa.InvalidError, match=r"the schema has columns \['a', 'b'\], the table \['col_0'\]"):
        sa.table(tensors[:1], anywhere, schema=schema)


def test_a_schema_names_the_columns_of_a_matrix(anywhere):
    matrix = np.arange(4).reshape(2, 2)
    for schema in (["a", "b"], {"a": "int64", "b": "int64"}):
        assert sa.table(matrix, anywhere, schema=schema).to_pydict() == {"a": [0, 2], "b": [1, 3]}
        assert sa.table(capsule_of(matrix), anywhere, schema=schema).column_names == ["a", "b"]
    with pytest.raises(sa.InvalidError, match="1 names for 2 columns"):
        sa.table(matrix, anywhere, schema=["a"])


@pytest.mark.parametrize("wrong", ["a", 7, [7], [("a", "no type")], {"a": 7}, b"a"])
def test_objects_that_are_not_schemas_are_refused(host, wrong):
    with pytest.raises(sa.Error):
        sa.table({"a": [1]}, host, schema=wrong)


FAILURES = {
    "lengths differ": lambda a, b: sa.table({"a": a, "b": b, "c": [1]}, "host"),
    "a later value is not a column": lambda a, b: sa.table({"a": a, "b": b, "c": 7}, "host"),
    "a type that no column has": lambda a, b: sa.table(
        {"a": a, "b": b, "c": np.array([1j, 2j]).__dlpack__()}, "host"
    ),
    "another type is wanted": lambda a, b: sa.table([a, b], "host", schema={"a": "int64", "b": "int8"}),
    "the names differ": lambda a, b: sa.table({"a": a, "b": b}, "host", schema=["a", "c"]),
    "one capsule twice": lambda a, b: sa.table([a, b, a], "host"),
    "no such device": lambda a, b: sa.table([a, b], "no device"),
    "no room": lambda a, b: sa.table(
        [a, b, np.arange(4096)[::2].__dlpack__()], sa.context("host").memory.child("small", 100)
    ),
    "a helper's": lambda a, b: xlog.export_arrow_device([a, b, 7], "host"),
    "a column of another type": lambda a, b: sa.column(a, "host", name="a", type="int8"),
    "a column of no device": lambda a, b: sa.column(a, "no device", name="a"),
    "a column that is too short": lambda a, b: sa.table({"x": [1, 2, 3]}, "host").append_column("a", a),
    "no place for a column": lambda a, b: sa.table({"x": [1, 2]}, "host").set_column(7, "a", a),
    "no count": lambda a, b: sa.counted_table(sa.table({"x": [1, 2]}, "host"), b),
    "no matrix": lambda a, b: sa.table(a, "host"),
    "no such names": lambda a, b: sa.table(np.ones((2, 3)).__dlpack__(), "host", schema=["a", "b"]),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_import_consumes_no_capsule(failure):
    a, b = capsule_of([1, 2]), capsule_of([0.5, 1.5])
    with pytest.raises((sa.Error, ValueError, TypeError)):
        failure(a, b)
    assert_not_consumed(a, b)


def test_saetas_own_memory_is_reimported_from_capsules(anywhere):
    source = sa.column([1, 2, 3], anywhere, name="x", type="int32")
    table = sa.table({"a": xlog.dlpack_roundtrip(source, anywhere.device)}, anywhere)
    assert table["a"].address == source.address
    again = sa.column(source.__dlpack__(), anywhere, name="b")
    assert again.address == source.address


def test_tables_take_columns_and_counts_from_capsules(host):
    table = sa.table({"x": [1, 2]}, host)
    assert table.append_column("a", capsule_of([3, 4]))["a"].to_pylist() == [3, 4]
    assert table.add_column(0, "a", capsule_of([3, 4])).column_names == ["a", "x"]
    assert table.set_column("x", "x", capsule_of([3, 4])).to_pydict() == {"x": [3, 4]}
    assert sa.counted_table(table, capsule_of(np.array([1], np.uint32))).num_rows == 1


def test_device_arrays_of_capsules(anywhere):
    given = [capsule_of([1, 2]), np.arange(2), capsule_of([0.5, 1.5])]
    pair = xlog.export_arrow_device(given, anywhere.device)
    assert sa.from_arrow(pair, anywhere).to_pydict() == {
        "col_0": [1, 2],
        "col_1": [0, 1],
        "col_2": [0.5, 1.5],
    }
    pair = xlog.export_arrow_device({"a": capsule_of([1])}, anywhere.device)
    assert sa.table(pair, anywhere).to_pydict() == {"a": [1]}
    tensors, names, _ = xlog.import_arrow_device(xlog.export_arrow_device([*given[1:2]], "host"), "host")
    assert sa.table(tensors, "host", schema=names).to_pydict() == {"col_0": [0, 1]}


def test_device_arrays_of_counted_tables_have_the_valid_rows(anywhere):
    room = sa.table({"x": [7, 8, 0, 0]}, anywhere)
    counted = sa.counted_table(room, sa.column([2], anywhere, name="n", type="uint32"))
    for pair in (counted.__arrow_c_device_array__(), xlog.export_arrow_device(counted, anywhere.device)):
        taken = sa.from_arrow(pair, anywhere)
        assert taken.to_pydict() == {"x": [7, 8]}
        assert taken["x"].address == room["x"].address
    wrong = sa.counted_table(room, sa.column([5], anywhere, name="n", type="uint32"))
    with pytest.raises(sa.OutOfRange):
        wrong.__arrow_c_device_array__()


def test_capsules_of_arrow_are_tables_and_columns(anywhere):
    whole = pa.table({"a": [1, 2]})
    batch = whole.to_batches()[0]
    device = sa.table(whole, anywhere)
    for given in (
        whole.__arrow_c_stream__(),
        batch.__arrow_c_array__(),
        device.__arrow_c_device_stream__(),
        device._device_array(),
    ):
        assert sa.table(given, anywhere).to_pydict() == {"a": [1, 2]}
    column = device["a"]
    for given in (
        pa.array([1, 2]).__arrow_c_array__(),
        pa.chunked_array([[1, 2]]).__arrow_c_stream__(),
        column.__arrow_c_device_array__(),
        column.__arrow_c_device_stream__(),
    ):
        assert sa.column(given, anywhere, name="b").to_pylist() == [1, 2]
    assert sa.table([pa.array([1, 2]).__arrow_c_array__()], anywhere).to_pydict() == {"col_0": [1, 2]}


ALONE = [
    (
        lambda: sa.table({"a": [1]}, "host")._device_array()[1],
        r"a capsule 'arrow_device_array' is not a table or a column: it does not say which columns it has: "
        r"pass the pair \(arrow_schema, arrow_device_array\)",
    ),
    (lambda: pa.array([1]).__arrow_c_array__()[1], r"pass the pair \(arrow_schema, arrow_array\)"),
]


@pytest.mark.parametrize(("make", "words"), ALONE)
def test_the_error_for_an_array_without_schema_says_what_to_pass(make, words):
    takers = [
        lambda capsule: sa.from_arrow(capsule, "host"),
        lambda capsule: sa.table(capsule, "host"),
        lambda capsule: sa.table([capsule], "host"),
        lambda capsule: sa.column(capsule, "host", name="a"),
        lambda capsule: xlog.import_arrow_device(capsule, "host"),
        lambda capsule: xlog.export_arrow_device(capsule, "host"),
        lambda capsule: xlog.export_arrow_device([capsule], "host"),
    ]
    for take in takers:
        with pytest.raises(sa.TypeMismatch, match=words):
            take(make())


def test_the_error_for_other_capsules_says_what_to_use():
    with pytest.raises(sa.TypeMismatch, match=r"it has a tensor: use saeta\.from_dlpack"):
        sa.from_arrow(capsule_of([1]), "host")
    with pytest.raises(sa.TypeMismatch, match="it has no data: pass the pair of it and its array"):
        sa.table(pa.int64().__arrow_c_schema__(), "host")
    with pytest.raises(
        sa.TypeMismatch, match=r"'datetime.datetime_CAPI' .* neither one of Arrow nor one of DLPack"
    ):
        sa.table(datetime.datetime_CAPI, "host")
