"""Tables and columns of every type become frames of pandas and polars, or ExchangeError says why not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

ARRAYS = arrow_data.arrays() | arrow_data.nested_twice()
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
