"""Tables and columns of every type become frames of pandas and polars, or ExchangeError says why not."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

ARRAYS = {
    **arrow_data.arrays(),
    **arrow_data.nested_twice(),
    "list of list_view": pa.array([[[1], None], None], pa.list_(pa.list_view(pa.int8()))),
    "map of list_view": pa.array([[("a", [1])], None], pa.map_(pa.string(), pa.list_view(pa.int8()))),
}
LIBRARIES = ("pandas", "polars")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", sorted(ARRAYS))
def test_a_type_is_taken_or_refused_by_name(host, name, library):
    pytest.importorskip(library)
    source = pa.table({"x": ARRAYS[name]})
    without_chunks = pa.table([pa.chunked_array([], source["x"].type)], ["x"])
    for rows in (source, source[:0], without_chunks):
        table = sa.from_arrow(rows, host)
        for given in (table, table["x"]):
            convert = getattr(given, f"to_{library}")
            try:
                taken = convert()
            except sa.ExchangeError:
                with pytest.raises(sa.ExchangeError, match=rf"{library} can't take it: .*to_arrow\(\) keeps"):
                    convert()
            else:
                assert len(taken) == len(rows)


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_rows_have_the_columns_and_the_types_of_some(host, library):
    pytest.importorskip(library)
    source = pa.table({"a": [1, 2], "b": ["x", None], "c": pa.array([[1], None], pa.list_view(pa.int8()))})
    if library == "polars":  # it has no list views
        source = source.drop_columns("c")
    table = sa.from_arrow(source, host)
    convert = f"to_{library}"
    some, none = getattr(table, convert)(), getattr(table[:0], convert)()
    assert list(some.columns) == list(none.columns)
    assert list(map(str, some.dtypes)) == list(map(str, none.dtypes))


@pytest.mark.parametrize("large", [False, True])
def test_pandas_gets_the_values_of_sliced_list_views(host, large):
    values = [[1, 2], None, [3], [], [4, 5, 6]]
    views = (pa.large_list_view if large else pa.list_view)(pa.int64())
    inner = pa.array(values, views)
    outer = pa.array([[each, [7]] for each in values], pa.list_(views))
    table = sa.from_arrow(pa.table({"x": inner, "y": outer}), host)[1:]
    frame = table.to_pandas()
    assert [None if row is None else row.tolist() for row in frame["x"]] == values[1:]
    assert [[None if part is None else part.tolist() for part in row] for row in frame["y"]] == [
        [each, [7]] for each in values[1:]
    ]
    assert [None if row is None else row.tolist() for row in table["x"].to_pandas()] == values[1:]


@pytest.mark.parametrize("type_", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2)])
def test_polars_gets_short_decimals_alone(host, type_):
    """polars 2.1 reads memory behind short decimals inside of other types."""
    pytest.importorskip("polars")
    values = [Decimal("1.50"), None, Decimal("-2.25")]
    alone = pa.array(values, type_)
    assert sa.from_arrow(alone, host).to_polars().to_list() == values
    for inside in (pa.StructArray.from_arrays([alone], ["d"]), pa.ListArray.from_arrays([0, 3], alone)):
        table = sa.from_arrow(pa.table({"x": inside}), host)
        if type_ == pa.decimal128(20, 2):
            assert table.to_polars()["x"].to_list() == table["x"].to_pylist()
            continue
        for given in (table, table["x"]):
            with pytest.raises(sa.ExchangeError, match=r"column 'x' .*misreads decimals of 32 and 64 bits"):
                given.to_polars()
