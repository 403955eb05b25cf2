"""Columns and tables compared on their device, against pyarrow on random arrays of every layout."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from property_settings import examples
from random_arrays import any_type, can_show, filled, holds, in_pieces, random_column

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

settings = hypothesis.settings(**examples(400))


def equal_values(left, right):
    """Compares the Python values of two arrays, ignoring dictionaries. NaNs of different lists are not
    identical objects, so they compare unequal."""
    return left.to_pylist() == right.to_pylist()


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_columns_are_equal_if_pyarrow_says_so(random):
    type_ = any_type(random)
    rows = random.randint(0, 4)
    one, other = filled(random, type_, rows), filled(random, type_, rows)
    if rows and random.random() < 0.5:  # single rows are more often equal
        source = random.choice([one, other])
        one, other = one.slice(random.randrange(rows), 1), source.slice(random.randrange(rows), 1)
    seen = in_pieces(random, one).equals(in_pieces(random, other))
    if not holds(type_, pa.types.is_dictionary):  # pyarrow compares whole dictionaries, not values
        assert seen == one.equals(other)
    if not holds(type_, pa.types.is_union) and can_show(type_):  # Python values have no type ids
        assert seen == equal_values(one, other)


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_the_same_rows_in_another_layout_are_equal(random):
    source, one = random_column(random)
    other = one.combine_chunks()
    # A visible NaN is unequal to itself, in both layouts.
    assert one.equals(other) == one.equals(one)
    if can_show(source.type):
        assert one.equals(other) == equal_values(source, source)


@pytest.mark.parametrize("name", arrow_data.arrays())
def test_every_type_is_compared_on_every_device(anywhere, name):
    source = arrow_data.arrays()[name]
    one = sa.from_arrow(source, anywhere, as_column=True)
    other = sa.from_arrow(source, anywhere, as_column=True, copy=True)
    assert one.equals(other) == source.equals(source)
    assert not one.equals(other.slice(1))
    if not holds(source.type, pa.types.is_union):
        for row in range(12):
            expected = equal_values(source.slice(0, 1), source.slice(row, 1))
            assert one.slice(0, 1).equals(other.slice(row, 1)) == expected


def test_chunks_that_share_memory_are_compared_by_their_rows(anywhere):
    numbers = sa.column([1, 2, 3], anywhere, name="n", type="int64")
    table = sa.table({"n": numbers}, anywhere)
    twice = sa.concat_tables([table, table])
    shifted = sa.concat_tables([table[:1], table, table[1:]])
    assert shifted["n"].to_pylist() == [1, 1, 2, 3, 2, 3]
    assert not twice.equals(shifted)
    assert not shifted["n"].equals(twice["n"])
    assert twice.equals(sa.concat_tables([table[:1], table[1:], table]))


def test_tables_are_compared(anywhere):
    source = arrow_data.table()
    without_nan = source.select([name for name in source.column_names if source[name].equals(source[name])])
    one, other = sa.from_arrow(without_nan, anywhere), sa.from_arrow(without_nan, anywhere, copy=True)
    assert one.equals(other)
    assert one.equals(sa.concat_tables([other[:7], other[7:]]))
    assert not one.equals(other[1:])
    assert not one.equals(sa.concat_tables([other[:7], other[6:7], other[8:]]))
    names = list(without_nan.column_names)
    assert not one.equals(other.rename_columns(["other", *names[1:]]))
    assert not one.equals(other.select(names[::-1]))


def test_metadata_are_compared_on_request(host):
    plain = sa.table({"a": [1, 2]}, host)
    described = plain.replace_schema_metadata({"k": "v"})
    assert plain.equals(described)
    assert not plain.equals(described, check_metadata=True)
    assert described.equals(plain.replace_schema_metadata({"k": "v"}), check_metadata=True)
    of_field = sa.table({"a": [1, 2]}, host, schema=sa.schema([sa.field("a", "int64", metadata={"k": "v"})]))
    assert plain.equals(of_field)
    assert not plain.equals(of_field, check_metadata=True)
    assert plain["a"].equals(of_field["a"])
    assert not plain["a"].equals(of_field["a"], check_metadata=True)
    not_null = sa.table({"a": [1, 2]}, host, schema=sa.schema([sa.field("a", "int64", nullable=False)]))
    assert not plain.equals(not_null)


def test_names_are_compared_for_tables_but_not_for_columns(host):
    one, other = sa.table({"a": [1, None]}, host), sa.table({"b": [1, None]}, host)
    assert not one.equals(other)
    assert one["a"].equals(other["b"])
    assert one["a"].equals(other["b"], check_metadata=True)
    assert not one["a"].equals(sa.column([1, None], host, name="a", type="int32"))


@pytest.mark.parametrize("other", [5, None, [1, 2], pa.array([1, 2]), pa.table({"a": [1, 2]})])
def test_other_objects_are_refused(host, other):
    table = sa.table({"a": [1, 2]}, host)
    with pytest.raises(sa.TypeMismatch, match="other"):
        table.equals(other)
    with pytest.raises(sa.TypeMismatch, match="other"):
        table["a"].equals(other)
    with pytest.raises(sa.TypeMismatch):
        table.equals(table["a"])


@pytest.mark.gpu
def test_columns_of_two_devices_are_refused(anywhere):
    if anywhere.device == "host":
        pytest.skip("needs a second device")
    here, there = sa.table({"a": [1]}, "host"), sa.table({"a": [1]}, anywhere)
    for one, other in ((here, there), (there, here), (here["a"], there["a"])):
        with pytest.raises(sa.InvalidError, match="copy one of them"):
            one.equals(other)


def test_only_the_result_is_downloaded(anywhere):
    source = pa.table({"a": list(range(1000)), "b": [str(i) for i in range(1000)]})
    one, other = sa.from_arrow(source, anywhere), sa.from_arrow(source, anywhere, copy=True)
    before = anywhere.counters()
    with anywhere.forbid_downloads():
        assert one.equals(other)
    after = anywhere.counters()
    for kind in ("host_to_device", "device_to_host", "device_to_device"):
        assert after[kind] == before[kind]


def test_two_imports_of_the_same_frame_are_equal(host):
    polars, pandas, duckdb = (pytest.importorskip(name) for name in ("polars", "pandas", "duckdb"))
    frame = polars.DataFrame(
        {
            "n": [1, None, 3],
            "s": ["x", None, "a string of more than twelve"],
            "l": [[1], [], None],
            "f": [0.5, -0.0, 1.0],
        }
    )
    expected = sa.from_arrow(frame, host)
    assert expected.equals(sa.from_arrow(polars.concat([frame[:1], frame[1:]], rechunk=False), host))
    assert not expected.equals(sa.from_arrow(frame.reverse(), host))
    categories = pandas.DataFrame({"c": pandas.Categorical(["u", "v", None, "u"])})
    reordered = pandas.DataFrame({"c": pandas.Categorical(["u", "v", None, "u"], categories=["v", "w", "u"])})
    assert sa.from_arrow(categories, host)["c"].equals(sa.from_arrow(reordered, host)["c"])
    query = "select i % 3 as k, [i, i + 1] as l, {'a': i, 'b': i::varchar} as s from range(4000) t(i)"
    one = sa.from_arrow(duckdb.sql(query), host)
    assert one.equals(sa.from_arrow(duckdb.sql(query), host, copy=True))
    changed = query + " where i <> 7 union all select 0, [0, 1], {'a': 0, 'b': '0'}"
    assert not one.equals(sa.from_arrow(duckdb.sql(changed), host))


def test_symbols_are_compared_by_their_numbers(host):
    one = sa.column(["b", "a", None, "b"], host, name="s", type="string").as_symbols()
    assert one.equals(
        sa.column(pa.array(["b", "a", None, "b"]).dictionary_encode(), host, name="t").as_symbols()
    )
    assert not one.equals(sa.column(["b", "a", None, "a"], host, name="s", type="string").as_symbols())
    assert not one.equals(sa.column(["b", "a", None, "b"], host, name="s", type="string"))
    assert not one.equals(
        sa.column(["b", "a", None, "b"], host, name="s", type="string").as_symbols(sa.SymbolTable())
    )
