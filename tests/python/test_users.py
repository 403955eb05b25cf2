"""Tables and columns behave as users of pyarrow, polars and pandas expect, or raise an error that explains
why not."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import saeta as sa
from contexts import copies


def trips(ctx: sa.Context) -> sa.Table:
    return sa.table({"fare": [1.5, None, 3.5], "tip": [1, 2, 3]}, ctx)


def test_in_tests_a_table_for_a_column_name(host):
    table = trips(host)
    assert "fare" in table
    assert "far" not in table
    with pytest.raises(sa.TypeMismatch, match="name of a column"):
        _ = 3 in table


def test_in_tests_a_column_for_a_value(host):
    table = trips(host)
    assert 3.5 in table["fare"]
    assert None in table["fare"]
    assert 4 not in table["tip"]


def test_a_table_can_not_be_iterated(host):
    table = trips(host)
    for use in (list, iter, dict, tuple, sorted):
        with pytest.raises(TypeError, match=r"\.columns, \.column_names"):
            use(table)
    with pytest.raises(TypeError):
        reversed(table)


@pytest.mark.parametrize("key", [True, 1.0, ("fare", "tip"), b"fare"], ids=repr)
def test_keys_that_are_neither_names_nor_integers_are_refused(host, key):
    table = trips(host)
    with pytest.raises(sa.TypeMismatch, match=f"not by an object of type {type(key).__name__}"):
        _ = table[key]


@pytest.mark.parametrize("row", [True, 1.0, None, "1"], ids=repr)
def test_invalid_row_indices_are_refused(host, row):
    table = trips(host)
    with pytest.raises(sa.TypeMismatch, match=f"number of its row.*{type(row).__name__}"):
        _ = table["fare"][row]


def test_columns_are_selected_by_names_and_indices(host):
    table = trips(host)
    assert table[["tip", "fare"]].column_names == ["tip", "fare"]
    assert table[np.int64(1)].name == table.column("tip").name == table.column(-1).name == "tip"
    assert table.select("tip").column_names == table.select([1]).column_names == ["tip"]
    assert table.drop_columns("tip").column_names == table.drop_columns(["tip"]).column_names == ["fare"]
    assert table.field("tip").type == table.field(1).type == "int64"


def test_columns_of_wide_tables_are_found_by_name(host):
    one = sa.column([1], host, name="x")
    wide = sa.table([(f"column {number}", one) for number in range(1000)], host)
    assert [wide[f"column {number}"].name for number in (0, 517, 999)] == [
        "column 0",
        "column 517",
        "column 999",
    ]
    twice = sa.table([("a", one), ("b", one), ("a", one)], host)
    assert twice["b"].name == "b"
    with pytest.raises(sa.InvalidError, match="2 columns are named 'a'"):
        _ = twice["a"]


def test_equality_of_views_compares_no_values(host):
    table = trips(host)
    made = copies(table.context)
    assert table["fare"] == table["fare"]
    assert table["fare"][0:2] == table["fare"].slice(0, 2)
    assert table == table.slice(0)
    assert table.select(["fare", "tip"]) == table
    assert copies(table.context) == made


def test_other_fields_or_rows_are_not_equal(host):
    table = trips(host)
    assert table["fare"] != table["tip"]
    assert table["fare"] != table["fare"][1:]
    assert table["fare"] != table["fare"].with_name("other")
    assert table != table[1:]
    assert table != table.rename_columns(["a", "b"])
    assert table != 3
    assert table["fare"] != None  # noqa: E711 - the comparison itself is what is tested


def test_equality_that_needs_values_is_refused(host):
    table = trips(host)
    twin = sa.table({"fare": [1.5, None, 3.5], "tip": [1, 2, 3]}, host)
    for left, right in ((table, twin), (table["tip"], twin["tip"])):
        with pytest.raises(sa.UnsupportedError, match="different memory"):
            _ = left == right
    assert sa.table({"a": []}, host) == sa.table({"a": []}, host)


def test_tables_and_columns_are_not_hashable_and_take_weak_references(host):
    table = trips(host)
    for thing in (table, table["fare"]):
        with pytest.raises(TypeError, match="unhashable"):
            hash(thing)
        reference = weakref.ref(thing)
        assert reference() is thing
        del thing
    assert reference() is None


def test_copies_of_immutable_objects_are_the_same_object(host):
    table = trips(host)
    for thing in (table, table["fare"]):
        assert copy.copy(thing) is thing
        assert copy.deepcopy(thing) is thing


def test_the_first_value_of_a_column_decodes_few(host, monkeypatch):
    from saeta._convert import to_python

    asked: list[int] = []
    whole = to_python.column_list

    def counted(column):
        asked.append(len(column))
        return whole(column)

    monkeypatch.setattr(to_python, "column_list", counted)
    column = sa.from_dlpack(np.arange(1_000_000), host)
    assert next(iter(column)) == 0
    assert sum(asked) <= 64
    assert list(column[:1000]) == list(range(1000))


@pytest.mark.parametrize(
    ("library", "frame"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")]
)
def test_a_table_is_made_from_a_frame(host, library, frame):
    frame_of = getattr(pytest.importorskip(library), frame)
    table = sa.table(frame_of({"a": [1, 2], "b": [0.5, 1.5]}), host)
    assert table.to_pydict() == {"a": [1, 2], "b": [0.5, 1.5]}


def test_named_columns_keep_their_names(host):
    pl = pytest.importorskip("polars")
    table = sa.table(
        [pl.Series("p", [1, 2]), pd.Series([3, 4], name="q"), sa.column([5, 6], host, name="r")], host
    )
    assert table.to_pydict() == {"p": [1, 2], "q": [3, 4], "r": [5, 6]}
    assert sa.from_arrow(pl.Series("p", [1]), host).name == "p"
    assert sa.table({"a": pl.Series("p", [1])}, host).column_names == ["a"]


@pytest.mark.parametrize("bad", [3, "text", [1, 2], [("a", [1], 2)], [[1, 2], [3, 4]]], ids=repr)
def test_objects_that_are_not_tables_are_refused(host, bad):
    with pytest.raises(sa.TypeMismatch, match="expected"):
        sa.table(bad, host)
    with pytest.raises(sa.TypeMismatch, match="is a column, not a table"):
        sa.table(pa.array([1]), host)


def test_a_device_name_is_accepted_as_a_context(host, tmp_path):
    table = sa.table({"a": [1, 2]}, "host")
    assert table.context == host
    assert sa.from_arrow(table.to_arrow(), "host").context == host
    assert sa.from_dlpack(np.arange(3), "host").context == host
    assert sa.column([1], sa.devices()[-1], name="a").context == host
    table.write_ipc(tmp_path / "a.arrow")
    assert sa.read_ipc(tmp_path / "a.arrow", "host").context == host
    with pytest.raises(
        sa.TypeMismatch, match="ctx is of type int, expected a Context or the name of a device"
    ):
        sa.from_arrow(table.to_arrow(), 3)


def test_columns_and_batches_can_be_a_single_name_and_number(host, tmp_path):
    table = trips(host)
    file = tmp_path / "a.arrow"
    sa.concat_tables([table, table[:1], table]).write_ipc(file)
    assert sa.read_ipc(file, host, columns="fare").column_names == ["fare"]
    for batches, rows in (
        (slice(-1, 9), 3),
        (1, 1),
        (slice(1, None), 4),
        (slice(None, 2), 4),
        (range(1, 3), 4),
        ((0, 1), 3),
        ([0, 2], 6),
        ([1], 1),
        (None, 7),
    ):
        assert sa.read_ipc(file, host, batches=batches).num_rows == rows
    with pytest.raises(sa.TypeMismatch, match="batches is of type str"):
        sa.read_ipc(file, host, batches="1")
    with pytest.raises(sa.TypeMismatch, match="3 is of type int, expected the name of a column"):
        sa.read_ipc(file, host, columns=[3])
    with pytest.raises(sa.TypeMismatch, match="source is of type int, expected a path"):
        sa.read_ipc(3, host)


def test_reads_and_writes_can_be_a_single_object(host):
    table = trips(host)
    buffer = host.allocate(8)
    with sa.use(None, reads=table["tip"], writes=buffer) as token:
        assert token.writable(buffer)
        assert not token.writable(table["tip"])
    with pytest.raises(sa.TypeMismatch, match="reads is of type int, expected a Buffer, a Column or several"):
        sa.use(None, reads=3)


def test_metadata_is_a_mapping(host):
    schema = pa.schema([pa.field("a", pa.int8(), metadata={"unit": "km"})], metadata={"key": "value"})
    table = sa.from_arrow(pa.table({"a": [1]}, schema=schema), host)
    assert table.schema.metadata == {b"key": b"value"}
    assert table.schema.metadata["key"] == table.schema.metadata[b"key"] == b"value"
    assert table["a"].field.metadata.get("unit") == b"km"
    assert "other" not in table.schema.metadata
    assert dict(table.replace_schema_metadata().schema.metadata) == {}
    assert table.replace_schema_metadata({"x": "y"}).to_arrow().schema.metadata == {b"x": b"y"}


def test_repeated_keys_of_metadata_are_kept_as_pairs():
    pairs = [(b"k", b"1"), (b"k", b"2")]
    metadata = sa.Schema([], pairs).metadata
    assert metadata["k"] == b"1"
    assert metadata.pairs == pairs


def test_columns_become_series(host):
    column = sa.column([1, None, 3], host, name="a")
    assert column.to_pandas().name == "a"
    assert column.to_pandas().fillna(0).tolist() == [1, 0, 3]
    pytest.importorskip("polars")
    assert column.to_polars().name == "a"
    assert column.to_polars().to_list() == [1, None, 3]


def test_shapes_heads_and_tails(host):
    table = trips(host)
    assert table.shape == (3, 2)
    assert table.tail(2)["tip"].to_pylist() == [2, 3]
    assert table.tail(9).num_rows == 3
    assert table.head(-1)["tip"].to_pylist() == [1, 2]
    assert table.tail(-1)["tip"].to_pylist() == [2, 3]
    assert table.head(-9).num_rows == 0


def test_column_names_are_completed(host):
    table = trips(host)
    assert table._ipython_key_completions_() == table.schema._ipython_key_completions_() == ["fare", "tip"]


def test_a_column_has_html(host):
    table = trips(host)
    assert "fare" in table["fare"]._repr_html_()
    assert "&lt;" in table["fare"].with_name("<b>")._repr_html_()
