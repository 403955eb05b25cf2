"""Creation of types, fields and schemas in Python, and tables with changed columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa


@pytest.mark.parametrize("type", [array.type for array in arrow_data.arrays(1).values()], ids=str)
def test_a_type_is_made_from_its_name_or_pyarrows_type(type):  # noqa: A002
    data_type = sa.DataType(type)
    assert data_type == sa.DataType(data_type.name) == sa.DataType(data_type) == str(data_type)
    assert pa.field(sa.Field("a", data_type)).type == type


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("float32", "float"),
        ("float64", "double"),
        ("float16", "halffloat"),
        ("str", "string"),
        ("date32", "date32[day]"),
        ("decimal128(12,2)", "decimal128(12, 2)"),
        ("dictionary<values=string, indices=int8>", "dictionary<values=string, indices=int8, ordered=0>"),
        ("bool8", "bool8"),
        ("extension<arrow.bool8>", "extension<arrow.bool8>"),
        (" int64 ", "int64"),
    ],
)
def test_pyarrows_type_names_are_accepted(text, name):
    assert sa.DataType(text).name == name


@pytest.mark.parametrize(
    "text",
    [
        "int65",
        "",
        "timestamp",
        "time32[ns]",
        "time64[s]",
        "duration[us, tz=UTC]",
        "decimal128(99, 2)",
        "fixed_size_binary[x]",
    ],
)
def test_text_that_is_not_a_type_is_refused(text):
    with pytest.raises((sa.InvalidError, sa.FormatError), match="type"):
        sa.DataType(text)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.int16, "int16"),
        (np.dtype("uint64"), "uint64"),
        (np.float16, "halffloat"),
        (np.dtype("float32"), "float"),
        (np.bool_, "bool"),
        (np.dtype("datetime64[D]"), "date32[day]"),
        (np.dtype("datetime64[us]"), "timestamp[us]"),
        (np.dtype("timedelta64[ms]"), "duration[ms]"),
        (bool, "bool"),
        (int, "int64"),
        (float, "double"),  # Python's float is 64-bit, but Arrow's "float" is 32-bit
        (str, "string"),
        (bytes, "binary"),
    ],
)
def test_a_numpy_dtype_is_a_type(host, dtype, name):
    assert sa.DataType(dtype) == name
    assert sa.Field("a", dtype).type == name
    column = sa.column([1, None], host, name="a")
    if sa.DataType(dtype).dtype not in (None, "bool"):
        assert column.cast(dtype).type == name
    if name in ("halffloat", "float", "double", "int64"):
        assert column.to_numpy(fill=0, dtype=dtype).dtype == np.dtype(dtype)


def test_dtypes_of_other_libraries_are_types(host):
    jax = pytest.importorskip("jax.numpy")
    narrow = pytest.importorskip("ml_dtypes")
    assert sa.DataType(jax.int8) == "int8"
    assert sa.DataType(jax.bfloat16) == sa.DataType(narrow.bfloat16) == sa.DataType("bfloat16")


def test_a_dtype_of_torch_is_a_type(host):
    torch = pytest.importorskip("torch")
    assert sa.DataType(torch.float64) == "double"
    assert sa.DataType(torch.bool) == "bool"
    assert sa.column([1], host, name="a").to_torch(dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize(
    "given", [3, None, object, list, np.object_, np.str_, np.dtype("U4"), pa, np.zeros(1)], ids=repr
)
def test_objects_that_are_not_types_are_refused(given):
    with pytest.raises(sa.TypeMismatch, match=r"\w+ is not a type: expected text"):
        sa.DataType(given)


@pytest.mark.parametrize("given", [">i4", "complex64", "V3", "i4,i4"])
def test_a_dtype_that_arrow_does_not_have_is_refused(given):
    with pytest.raises(sa.InvalidError, match="is not a type"):
        sa.DataType(np.dtype(given))


def test_a_schema_is_accepted_as_a_struct_type():
    assert sa.DataType(pa.schema([("a", pa.int8())])) == "struct<a: int8>"
    nested = pa.field("s", pa.struct([("a", pa.int8())]), nullable=False, metadata={"k": "v"})
    assert pa.field(sa.schema([nested])[0]).equals(nested, check_metadata=True)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("list<int64>", pa.list_(pa.int64())),
        ("list<item: int64 not null>", pa.list_(pa.field("item", pa.int64(), nullable=False))),
        ("list<timestamp[us, tz=UTC]>", pa.list_(pa.timestamp("us", "UTC"))),
        ("struct<>", pa.struct([])),
        (
            "struct< a : int8,b: decimal128(12, 2) >",
            pa.struct([("a ", pa.int8()), ("b", pa.decimal128(12, 2))]),
        ),
        ("map<string, list<int8>, keys_sorted>", pa.map_(pa.string(), pa.list_(pa.int8()), keys_sorted=True)),
        ("fixed_size_list<float32>[3]", pa.list_(pa.float32(), 3)),
        ("list<struct<a: map<string, int8>, b: list<bool>>>", None),
    ],
)
def test_a_nested_type_is_made_from_its_name(text, type):  # noqa: A002
    data_type = sa.DataType(text)
    assert type is None or pa.field(sa.Field("", data_type)).type == type
    assert sa.DataType(data_type.name) == data_type


@pytest.mark.parametrize(
    "text",
    [
        "list<>",
        "list<int8, int8>",
        "list<int8>[2]",
        "fixed_size_list<int8>",
        "map<int8>",
        "map<int8, int8, int8>",
        "dense_union<a: int8>",
        "run_end_encoded<int8>",
        "listing<int8>",
        "list<int65>",
        "struct<a: int8",
    ],
)
def test_nested_text_that_is_not_a_type_is_refused(text):
    with pytest.raises((sa.InvalidError, sa.FormatError), match="type"):
        sa.DataType(text)


def test_a_field_is_made_and_changed():
    field = sa.field("a", "int8", nullable=False, metadata={"unit": b"km"})
    assert (field.name, field.type, field.nullable, dict(field.metadata)) == (
        "a",
        "int8",
        False,
        {b"unit": b"km"},
    )
    assert field == sa.Field("a", pa.int8(), False, {"unit": "km"})
    assert field.equals(field)
    assert field.with_name("b").name == "b"
    assert field.with_type("string").type == "string"
    assert field.with_nullable(True).nullable
    assert repr(field.metadata) == "{b'unit': b'km'}"
    assert field.with_metadata(None).metadata == {}
    with pytest.raises(sa.InvalidError, match="ARROW:extension"):
        sa.Field("a", "int8", metadata={"ARROW:extension:name": "x"})
    with pytest.raises(sa.TypeMismatch, match="metadata is of type int"):
        sa.Field("a", "int8", metadata=3)


@pytest.mark.parametrize(
    "given",
    [
        [("a", "int8"), ("b", pa.string())],
        [sa.Field("a", "int8"), pa.field("b", pa.string())],
        {"a": "int8", "b": "string"},
        pa.schema([("a", pa.int8()), ("b", pa.string())]),
        sa.Schema([("a", "int8"), ("b", "string")]),
    ],
    ids=["pairs", "fields", "mapping", "pyarrow", "schema"],
)
def test_a_schema_is_made_from_every_kind_of_fields(given):
    schema = sa.schema(given, {"k": "v"})
    assert schema == sa.Schema([("a", "int8"), ("b", "string")], {b"k": b"v"})
    assert pa.schema(schema) == pa.schema([("a", pa.int8()), ("b", pa.string())])


@pytest.mark.parametrize("bad", ["a", 3, [3], [("a",)]], ids=repr)
def test_objects_that_are_not_schemas_are_refused(bad):
    with pytest.raises(sa.TypeMismatch, match="field"):
        sa.Schema(bad)


def test_a_schema_is_a_sequence_of_fields_with_names():
    schema = sa.Schema([("a", "int8"), ("b", "string"), ("b", "int8")])
    assert [field.name for field in schema] == ["a", "b", "b"]
    assert "a" in schema
    assert "c" not in schema
    assert schema[0] in schema
    assert sa.Field("a", "int16") not in schema
    assert schema["a"] == schema[0] == schema.field("a") == schema.field(-3)
    assert [schema.get_field_index(name) for name in "abc"] == [0, -1, -1]
    assert sa.Schema([("a", "int8"), ("a", "int16"), ("b", "int8")]).get_field_index("a") == -1
    for bad in (True, 1.5):
        with pytest.raises(sa.TypeMismatch, match="name or number"):
            _ = schema[bad]
    with pytest.raises(IndexError):
        _ = schema[3]


def test_a_column_is_made_with_a_type(host):
    assert sa.column([1, None], host, name="a", type="int16").type == "int16"
    when = sa.column([dt.datetime(2020, 1, 1)], host, name="t", type="timestamp[s]")
    assert (when.type, when[0]) == ("timestamp[s]", dt.datetime(2020, 1, 1))
    assert sa.column([Decimal("1.50")], host, name="d", type=pa.decimal128(5, 2))[0] == Decimal("1.50")
    assert sa.column(np.arange(3), host, name="n", type="float").to_pylist() == [0, 1, 2]
    assert sa.column(np.arange(3), host, name="x", type="int64").type == "int64"
    column = sa.column([1], host, name=sa.Field("f", "int8", metadata={"u": "v"}))
    assert (column.type, dict(column.field.metadata)) == ("int8", {b"u": b"v"})


def test_data_of_another_type_are_an_error(host):
    with pytest.raises(sa.TypeMismatch, match="column 'a' is of type int64, not int8"):
        sa.column(pa.array([1]), host, name="a", type="int8")
    with pytest.raises(sa.TypeMismatch, match="column 'a': row 0 is 'x', of type str"):
        sa.column(["x"], host, name="a", type="int8")
    with pytest.raises(sa.InvalidError, match="column 'a' has 1 nulls, and its field allows none"):
        sa.column([1, None], host, name=sa.Field("a", "int8", nullable=False))


def test_a_table_is_made_with_a_schema(host):
    schema = sa.Schema([("a", "int8"), ("b", "string")], {"k": "v"})
    table = sa.table({"a": [1], "b": ["x"]}, host, schema=schema)
    assert table.schema == schema
    assert (
        sa.table(pa.table({"a": pa.array([1], pa.int8()), "b": ["x"]}), host, schema=schema).schema == schema
    )
    with pytest.raises(sa.InvalidError, match=r"schema has columns \['a', 'b'\], the table \['b', 'a'\]"):
        sa.table({"b": [1], "a": ["x"]}, host, schema=schema)


def test_columns_are_renamed(host):
    table = sa.table({"a": [1], "b": [2]}, host).replace_schema_metadata({"k": "v"})
    renamed = table.rename_columns(["x", "y"])
    assert renamed.to_pydict() == {"x": [1], "y": [2]}
    assert renamed.schema.metadata == {b"k": b"v"}
    assert renamed["x"].address == table["a"].address
    assert table.rename_columns({"b": "z"}).column_names == ["a", "z"]
    with pytest.raises(sa.InvalidError, match="1 names for 2 columns"):
        table.rename_columns(["x"])
    with pytest.raises(sa.InvalidError, match="no column 'c': the columns are 'a', 'b'"):
        table.rename_columns({"c": "d"})
    with pytest.raises(sa.TypeMismatch, match="names is of type str"):
        table.rename_columns("xy")


def test_columns_are_added_set_and_removed_by_index(host):
    table = sa.table({"a": [1], "b": [2]}, host)
    assert table.add_column(1, "c", [3]).column_names == ["a", "c", "b"]
    assert table.add_column(2, "c", [3]).column_names == ["a", "b", "c"]
    assert table.set_column(0, sa.Field("c", "int8"), [3]).to_pydict() == {"c": [3], "b": [2]}
    assert table.drop_columns(-1).column_names == ["a"]
    assert table.append_column(sa.Field("c", "float"), [1])["c"].type == "float"
    for change in (lambda: table.add_column(3, "c", [3]), lambda: table.set_column(2, "c", [3])):
        with pytest.raises(sa.OutOfRange, match="of a table with 2 columns"):
            change()
    with pytest.raises(sa.TypeMismatch, match="index is of type float"):
        table.set_column(0.0, "a", [1])


def test_tables_are_concatenated(anywhere):
    source = arrow_data.table()
    table = sa.from_arrow(source, anywhere)
    anywhere.reset_counters()
    joined = sa.concat_tables([table, table[:0], table[3:]])
    assert sum(anywhere.counters()[way]["transfers"] for way in ("host_to_device", "device_to_device")) == 0
    assert joined.num_batches == 2
    assert joined.to_arrow().equals(pa.concat_tables([source, source[3:]]))


def test_a_concatenated_column_is_nullable_if_one_part_is(host):
    full = sa.table([(sa.Field("a", "int64", nullable=False), [1])], host)
    holes = sa.table([(sa.Field("a", "int64"), [None])], host)
    for tables in ([full, holes], [holes, full]):
        assert sa.concat_tables(tables).schema["a"].nullable
    assert not sa.concat_tables([full, full]).schema["a"].nullable


def test_tables_with_different_columns_are_not_concatenated(host):
    table = sa.table({"a": [1]}, host)
    with pytest.raises(sa.TypeMismatch, match=r"table 1: column 0 is 'b' \(int64\), expected 'a'"):
        sa.concat_tables([table, sa.table({"b": [1]}, host)])
    with pytest.raises(
        sa.TypeMismatch, match=r"table 1: column 0 is 'a' \(double\), expected 'a' \(int64\) as in table 0"
    ):
        sa.concat_tables([table, sa.table({"a": [1.0]}, host)])
    with pytest.raises(sa.InvalidError, match="no tables"):
        sa.concat_tables([])
    with pytest.raises(sa.TypeMismatch, match="number 1 is of type int"):
        sa.concat_tables([table, 3])
    with pytest.raises(sa.TypeMismatch, match="not one Table"):
        sa.concat_tables(table)


def test_a_table_becomes_python_objects(anywhere):
    source = pa.table({"a": [1, None], "b": ["x", "y"]})
    table = sa.from_arrow(source, anywhere)
    assert table.to_pydict() == source.to_pydict()
    assert table.to_pylist() == source.to_pylist()
    assert sa.from_arrow(source.select([]), anywhere).to_pylist() == [{}, {}]
    twice = table.rename_columns(["a", "a"])
    for make in (twice.to_pydict, twice.to_pylist):
        with pytest.raises(sa.InvalidError, match="several columns are named 'a'"):
            make()


def test_a_schema_of_a_schema_keeps_its_metadata():
    theirs = pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"})], metadata={"t": "w"})
    schema = sa.schema(theirs)
    assert pa.schema(schema).equals(theirs, check_metadata=True)
    assert sa.schema(schema) == schema
    assert dict(sa.schema(schema, {"u": "x"}).metadata) == {b"u": b"x"}
    assert dict(sa.schema(schema, {}).metadata) == {}
