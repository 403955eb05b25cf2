"""Tables and columns: construction, selection, display, and conversion to Python objects."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import copies


def test_a_table_is_built_from_mixed_sources(host):
    array = np.arange(4, dtype=np.int16)
    table = sa.table(
        {
            "column": sa.from_dlpack(np.arange(4.0), host),
            "numpy": array,
            "bools": np.array([True, False, True, True]),
            "dates": np.array(["2020-01-01"] * 4, "datetime64[D]"),
            "arrow": pa.array(["a", None, "c", "d"]),
            "list": [1, None, 3, 4],
            "chunks": pa.chunked_array([[1], [2, 3, 4]]),
        },
        host,
    )
    assert [str(each) for each in table.schema.types] == [
        "double", "int16", "bool8", "date32[day]", "string", "int64", "int64",
    ]  # fmt: skip
    assert [batch.num_rows for batch in table.batches] == [1, 3]
    assert table["numpy"].chunks[0].address == array.ctypes.data
    assert table.to_arrow()["list"].to_pylist() == [1, None, 3, 4]
    assert copies(host) == 1, "only converted Python values are copied, and charged to the budget"


def test_pairs_may_have_duplicate_names(host):
    table = sa.table([("a", [1]), ("a", [2]), ("", [3])], host)
    assert table.column_names == ["a", "a", ""]
    assert [table[place][0] for place in range(3)] == [1, 2, 3]
    assert table[-1][0] == 3
    with pytest.raises(sa.InvalidError, match="a"):
        _ = table["a"]
    with pytest.raises(sa.InvalidError, match="2 columns"):
        table.set_column("a", "a", [4])
    with pytest.raises(sa.OutOfRange, match="3"):
        _ = table[3]


def test_strided_and_swapped_arrays_are_made_contiguous(host):
    table = sa.table({"odd": np.arange(10)[1::2], "big": np.arange(5, dtype=">i4")}, host)
    assert table["odd"].to_pylist() == [1, 3, 5, 7, 9]
    assert table["big"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.zeros((2, 2)), sa.InvalidError),
        (3, sa.TypeMismatch),
        ("text", sa.TypeMismatch),
        (pa.table({"x": [1]}), sa.TypeMismatch),
    ],
    ids=["2-D", "int", "str", "table"],
)
def test_the_error_names_an_object_that_is_not_a_column(host, values, kind):
    with pytest.raises(kind, match="bad"):
        sa.table({"bad": values}, host)


def test_the_error_names_columns_of_different_lengths(host):
    with pytest.raises(sa.InvalidError, match=r"'b' has 2 rows.*'a' has 3"):
        sa.table({"a": [1, 2, 3], "b": [1, 2]}, host)


def test_columns_are_added_and_removed(host):
    table = sa.table({"a": [1, 2], "b": [3, 4]}, host)
    assert table.append_column("c", [5, 6]).column_names == ["a", "b", "c"]
    replaced = table.set_column("a", "a", np.array([7.5, 8.5]))
    assert replaced.column_names == ["a", "b"]
    assert replaced["a"].to_pylist() == [7.5, 8.5]
    assert table.append_column("a", [9, 9]).column_names == ["a", "b", "a"]
    assert table.drop_columns(["a"]).column_names == ["b"]
    assert table.select(["b", "a"]).column_names == ["b", "a"]
    assert (table.drop_columns(["a", "b"]).num_rows, table.select([]).num_columns) == (2, 0)
    assert table["a"].with_name("z").name == "z"
    assert table.to_arrow().column_names == ["a", "b"]
    with pytest.raises(sa.InvalidError, match="3 rows"):
        table.append_column("c", [1, 2, 3])
    with pytest.raises(sa.InvalidError, match="3 rows"):
        table.select([]).append_column("c", [1, 2, 3])


def test_a_column_with_other_chunks_splits_the_batches(host):
    table = sa.from_arrow(pa.table({"a": pa.chunked_array([[0, 1, 2], [3, 4]])}), host)
    other = sa.Column.from_chunks([sa.from_dlpack(np.arange(n), host) for n in (1, 0, 3, 1)])
    joined = table.append_column("b", other)
    assert [batch.num_rows for batch in joined.batches] == [1, 2, 1, 1]
    assert joined["a"].to_pylist() == [0, 1, 2, 3, 4]
    assert joined["b"].to_pylist() == [0, 0, 1, 2, 0]
    assert copies(host) == 0


def test_metadata_stays_with_the_table(host):
    source = pa.table({"a": [1]}).replace_schema_metadata({"key": "value"})
    table = sa.from_arrow(source, host)
    for changed in (
        table.append_column("b", [2]),
        table.select(["a"]),
        table[0:1],
        table.set_column("a", "a", [2]),
    ):
        assert changed.schema.metadata == {b"key": b"value"}


def test_rows_are_sliced_like_a_list(host):
    table = sa.from_arrow(pa.table({"a": pa.chunked_array([[0, 1, 2], [3, 4]])}), host)
    for part in (slice(1, 4), slice(-2, None), slice(None, 2), slice(4, 1), slice(0, 99)):
        assert table[part]["a"].to_pylist() == list(range(5))[part]
        assert table["a"][part].to_pylist() == list(range(5))[part]
    # A slice has only the chunks that overlap it.
    for first, rows, chunks in ((0, 3, 1), (1, 4, 2), (3, 2, 1), (3, 0, 0), (5, 0, 0)):
        assert table["a"].slice(first, rows).num_chunks == chunks
    with pytest.raises(sa.OutOfRange, match="6"):
        table["a"].slice(6, 0)
    with pytest.raises(sa.OutOfRange, match="5 rows"):
        table["a"].slice(3, 3)
    assert table.head(2).num_rows == 2
    assert table.head(99).num_rows == len(table) == 5
    assert table.slice(3).num_rows == 2
    with pytest.raises(sa.OutOfRange, match="6"):
        table.slice(6)


def test_values_equal_those_of_pyarrow(anywhere):
    source = arrow_data.table()
    table = sa.from_arrow(source, anywhere)
    for name in source.column_names:
        if name == "interval":
            expected = [None if value is None else tuple(value) for value in source[name].to_pylist()]
        else:
            expected = source[name].to_pylist()
        assert table[name].to_pylist() == expected, name
        assert [table[name][row] for row in (0, 3, -1)] == [expected[row] for row in (0, 3, -1)], name


def test_values_have_the_expected_python_type(host):
    table = sa.from_arrow(
        pa.table(
            {
                "decimal": pa.array([Decimal("-12345678901234567890123456789.0123")], pa.decimal256(60, 4)),
                "zone": pa.array([0], pa.timestamp("s", "+05:30")),
                "date": pa.array([dt.date(1, 1, 1)]),
                "time": pa.array([dt.time(23, 59, 59, 999999)]),
            }
        ),
        host,
    )
    assert table["decimal"][0] == Decimal("-12345678901234567890123456789.0123")
    assert table["zone"][0].utcoffset() == dt.timedelta(hours=5, minutes=30)
    assert table["date"][0] == dt.date(1, 1, 1)
    assert table["time"][0] == dt.time(23, 59, 59, 999999)


NANOSECONDS = [
    pa.timestamp("ns"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.timestamp("ns", "-03:30"),
    pa.duration("ns"),
    pa.time64("ns"),
]


@pytest.mark.parametrize("type_", NANOSECONDS)
def test_nanoseconds_are_converted_as_by_pyarrow(anywhere, type_):
    ticks = [0, 1, 1_999, 86_399_999_999_999, None]
    if not pa.types.is_time(type_):
        ticks += [-1, -(2**63), 1_234_567_890_123_456_789]
    source = pa.array(ticks, pa.int64()).view(type_)
    rows = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), source)
    for array in (source, source[1:], rows, source.dictionary_encode()):
        shown = sa.from_arrow(array, anywhere).to_pylist()
        assert repr(shown) == repr(array.to_pylist())  # also compares types and NaT
    assert sa.from_arrow(source, anywhere)[1] == source[1].as_py()


def test_without_pandas_nanoseconds_beyond_microseconds_are_an_error(host, monkeypatch):
    monkeypatch.setattr("saeta._convert.to_python._pandas", lambda: None)
    for type_ in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")):
        column = sa.from_arrow(pa.array([1_000, 1], pa.int64()).view(type_), host)
        with pytest.raises(sa.InvalidError, match=r"1 of type .* install pandas .* to_arrow"):
            _ = column[1]
        assert str(column[0]).removesuffix("+00:00").endswith("00:00.000001")
        assert "0.00" in repr(column)
    assert sa.from_arrow(pa.array([1_999], pa.time64("ns")), host).to_pylist() == [dt.time(0, 0, 0, 1)]


def test_uuids_are_converted_to_uuid_objects(anywhere):
    values = [uuid.UUID(int=5), None, uuid.uuid5(uuid.NAMESPACE_DNS, "arrow.apache.org")]
    column = sa.from_arrow(pa.array(values, pa.uuid()), anywhere)
    assert column.to_pylist() == values
    assert column[1:].to_pylist() == values[1:]
    rows = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(values[:2], pa.uuid()))
    assert sa.from_arrow(rows, anywhere).to_pylist() == [values[:2]]
    assert "00000000-0000" in repr(column)


@pytest.mark.parametrize(
    ("ticks", "type_"),
    [
        (-62135596800000001, pa.timestamp("us")),
        (-62135596800000000, pa.timestamp("us", "-05:00")),
        (253402300800, pa.timestamp("s", "UTC")),
        (2**60, pa.timestamp("ms")),
        (2**60, pa.duration("s")),
        (2**60, pa.date64()),
        (5, pa.timestamp("us", "Mars/Phobos")),
        (5, pa.timestamp("us", "../etc")),
        (5, pa.timestamp("us", "+25:00")),
    ],
)
def test_times_out_of_range_for_datetime_are_an_error(host, ticks, type_):
    column = sa.from_arrow(pa.array([ticks, None], pa.int64()).view(type_), host)
    with pytest.raises(sa.InvalidError, match="to_arrow") as caught:
        column.to_pylist()
    assert column.type.name in str(caught.value)
    assert column[1] is None
    assert repr(column)
    assert pa.array(column).equals(pa.array([ticks, None], pa.int64()).view(type_))


@pytest.mark.parametrize("days", [-719163, 2932897, -(2**31), 2**31 - 1])
def test_days_out_of_range_for_python_are_an_error(host, days):
    column = sa.from_arrow(pa.array([days], pa.int32()).view(pa.date32()), host)
    with pytest.raises(sa.InvalidError, match=f"^{days} of type"):
        column.to_pylist()


def test_indices_out_of_bounds_are_index_errors(host):
    column = sa.from_dlpack(np.arange(3), host)
    assert (column[0], column[-3]) == (0, 0)
    for row in (3, -4):
        with pytest.raises(IndexError):
            _ = column[row]
    assert list(column) == [0, 1, 2]


def test_a_repr_shows_device_types_and_a_head(anywhere):
    source = arrow_data.table()
    source = source.select([name for name in source.column_names if name not in arrow_data.nested(0)])
    text = repr(sa.from_arrow(source, anywhere))
    assert text.startswith(f"<saeta.Table on {anywhere.device}: 67 rows x {source.num_columns} columns")
    for name in source.column_names:
        assert name in text
    assert "timestamp[us, tz=Europe/Madrid]" in text
    assert "null" in text


def test_a_repr_copies_only_the_head(anywhere):
    rows = 1_000_000
    table = sa.from_arrow(pa.table({"a": np.arange(rows), "s": ["some text"] * rows}), anywhere, copy=True)
    anywhere.reset_counters()
    assert "1,000,000 rows" in repr(table)
    assert sum(anywhere.counters()[way]["bytes"] for way in ("device_to_host", "host_to_host")) < 10_000


def test_the_repr_of_unusual_tables(host):
    assert "0 rows x 0 columns" in repr(sa.table({}, host))
    assert "a" in repr(sa.table({"a": np.arange(0)}, host))
    wide = sa.table([(f"column {place}", [place]) for place in range(100)], host)
    assert "column 59" in repr(wide)
    assert "40 more columns" in repr(wide)
    strange = sa.from_arrow(pa.table({"t": pa.array([2**62], pa.timestamp("s")), "s": ["a\nb\t\x00"]}), host)
    assert str(2**62) in repr(strange)
    assert "a\\nb" in repr(strange)


def test_html_is_escaped(host):
    html = sa.table({"<b>": ["<script>", None]}, host)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;" in html


def test_types_compare_with_their_names(host):
    column = sa.from_arrow(pa.array([1, 2]), host)
    assert column.type == "int64"
    assert column.type != "int32"
    assert column.type != None  # noqa: E711 - the comparison itself is what is tested
    assert column.type == sa.from_arrow(pa.array([3]), host).type
    assert len({column.type, sa.from_arrow(pa.array([3]), host).type}) == 1
    assert repr(column.type) == "<saeta.DataType int64>"
    dictionary = sa.from_arrow(pa.array(["a"]).dictionary_encode(), host).type
    assert (dictionary.value_type, dictionary.index_type) == ("string", "int32")
