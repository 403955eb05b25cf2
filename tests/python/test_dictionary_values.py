"""Dictionary columns with values of any type: conversion to arrays, codes and plain columns, and creation."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from loader_files import write_ipc, write_parquet
from loader_options import grouped
from sim_devices import DEVICES, contexts_of

pl = pytest.importorskip("polars")

HALF, MORE = decimal.Decimal("0.50"), decimal.Decimal("1.50")
PAIRS = {
    "int8": pa.array([3, 1], pa.int8()),
    "uint32": pa.array([3, 1], pa.uint32()),
    "int64": pa.array([3, 1]),
    "half": pa.array([0.5, 1.5], pa.float16()),
    "double": pa.array([0.5, 1.5]),
    "bool": pa.array([True, False]),
    "date": pa.array([dt.date(2020, 2, 29), dt.date(1969, 1, 1)]),
    "date64": pa.array([dt.date(2020, 2, 29), dt.date(1969, 1, 1)], pa.date64()),
    "moment": pa.array([dt.datetime(2020, 2, 29), dt.datetime(1969, 1, 1)]),
    "instant": pa.array([dt.datetime(2020, 2, 29), dt.datetime(1969, 1, 1)], pa.timestamp("ms", "UTC")),
    "time": pa.array([dt.time(1, 2), dt.time(3, 4)], pa.time32("s")),
    "duration": pa.array([dt.timedelta(1), dt.timedelta(2)]),
    "decimal32": pa.array([HALF, MORE], pa.decimal32(5, 2)),
    "decimal64": pa.array([HALF, MORE], pa.decimal64(12, 2)),
    "decimal128": pa.array([HALF, MORE], pa.decimal128(20, 2)),
    "decimal256": pa.array([HALF, MORE], pa.decimal256(50, 2)),
    "bytes": pa.array([b"x", b"y"]),
    "fixed bytes": pa.array([b"xx", b"yy"], pa.binary(2)),
    "byte views": pa.array([b"x", b"a view with its bytes elsewhere"], pa.binary_view()),
    "text": pa.array(["x", "y"]),
    "large text": pa.array(["x", "y"], pa.large_string()),
    "text views": pa.array(["x", "a view with its bytes elsewhere"], pa.string_view()),
}
kinds = pytest.mark.parametrize("kind", PAIRS)


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def encoded(kind, rows=(0, 1, 0)):
    return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int8()), PAIRS[kind])


def plain(kind, rows):
    values = PAIRS[kind].to_pylist()
    return pa.array([values[row] for row in rows], PAIRS[kind].type)


def column(kind, ctx, rows=(0, 1, 0)):
    return sa.from_arrow(pa.table({"k": encoded(kind, rows)}), ctx)["k"]


def codes_of(source, ctx, **options):
    loader = sa.loader(source, ctx, batch_size=3, to="numpy", **grouped(options))
    return [code for batch in loader for code in batch["k"].tolist()], loader.codes["k"]


@kinds
def test_to_numpy_decodes_dictionaries(ctx, kind):
    expected = sa.from_arrow(pa.table({"k": plain(kind, (0, 1, 0))}), "host")["k"].to_numpy()
    values = column(kind, ctx).to_numpy()
    assert values.dtype == expected.dtype
    assert values.tolist() == expected.tolist()
    if ctx.device == "host":
        assert np.asarray(column(kind, ctx)).tolist() == values.tolist()


@kinds
def test_to_numpy_returns_a_mask_with_decoded_values(ctx, kind):
    values, valid = column(kind, ctx, (0, None, 1)).to_numpy(nulls="mask")
    assert valid.tolist() == [True, False, True]
    assert values[valid].tolist() == column(kind, ctx).to_numpy()[:2].tolist()


@pytest.mark.parametrize("kind", ["int8", "uint32", "int64", "half", "double", "bool"])
def test_dictionaries_of_numbers_accept_the_options_for_numbers(ctx, kind):
    first, last = PAIRS[kind].to_pylist()
    gaps = column(kind, ctx, (0, None, 1))
    assert gaps.to_numpy(fill=0).tolist() == [first, 0, last]
    assert column(kind, ctx).to_numpy(dtype="float64").tolist() == [first, last, first]
    with pytest.raises(sa.ExchangeError, match="values are in a dictionary"):
        gaps.to_numpy(copy=False, fill=0)


@kinds
def test_a_cast_to_the_value_type_decodes_a_dictionary(ctx, kind):
    gaps = column(kind, ctx, (1, None, 0))
    taken = gaps.cast(gaps.type.value_type)
    assert taken.type == gaps.type.value_type
    assert taken.to_pylist() == gaps.to_pylist()
    assert column(kind, ctx, ()).cast(gaps.type.value_type).to_pylist() == []


def test_a_cast_to_another_number_converts_the_values(ctx):
    assert column("int64", ctx).cast("float32").to_pylist() == [3.0, 1.0, 3.0]
    with pytest.raises(sa.TypeMismatch, match="a column of string can't be cast to int8"):
        column("text", ctx).cast("int8")


@kinds
def test_nulls_are_filled_with_a_value_of_the_type(ctx, kind):
    first, last = PAIRS[kind].to_pylist()
    filled = column(kind, ctx, (0, None, None)).fill_null(last)
    assert filled.type == column(kind, ctx).type
    assert filled.to_pylist() == [first, last, last]


@kinds
def test_python_values_become_a_dictionary_of_the_type(kind):
    first, last = PAIRS[kind].to_pylist()
    wanted = column(kind, "host").type
    made = sa.column([first, None, last, first], "host", name="k", type=wanted)
    assert made.type == wanted
    assert made.to_pylist() == [first, None, last, first]
    assert made.to_arrow().chunk(0).to_pylist() == [first, None, last, first]


def test_more_values_than_the_index_type_can_number_are_refused():
    wanted = sa.DataType("dictionary<values=int64, indices=int8>")
    assert len(sa.column(list(range(128)), "host", name="k", type=wanted)) == 128
    with pytest.raises(sa.InvalidError, match="column 'k' has 129 different values, more than dictionary<"):
        sa.column(list(range(129)), "host", name="k", type=wanted)
    with pytest.raises(sa.TypeMismatch, match="row 1 is 'x', of type str, and int64 is a type of numbers"):
        sa.column([1, "x"], "host", name="k", type=wanted)


def test_half_floats_have_one_entry_for_each_value():
    wanted = sa.DataType("dictionary<values=halffloat, indices=int8>")
    column = sa.column([0.5, None, 1.5] * 100, "host", name="k", type=wanted)
    assert column.to_pylist() == [0.5, None, 1.5] * 100


@pytest.mark.parametrize("values", [[[1], [2, 3]], [{"a": 1}, {"a": 2}]])
def test_nested_values_can_be_dictionary_encoded(values):
    wanted = sa.from_arrow(pa.table({"k": pa.DictionaryArray.from_arrays([0, 1], pa.array(values))}), "host")
    column = sa.column([*values, None, values[0]], "host", name="k", type=wanted["k"].type)
    assert column.to_pylist() == [*values, None, values[0]]
    assert column.to_numpy(nulls="mask")[1].tolist() == [True, True, False, True]


@kinds
def test_a_loader_yields_the_codes_of_dictionaries(ctx, kind):
    values = PAIRS[kind].to_pylist()
    source = sa.table({"k": column(kind, ctx, (1, 0, 1, 1))}, ctx)
    assert codes_of(source, ctx, codes=True) == ([1, 0, 1, 1], values)
    assert codes_of(source, ctx, codes="k") == ([1, 0, 1, 1], values)
    assert codes_of(source, ctx, codes={"k": values[::-1]}) == ([0, 1, 0, 0], values[::-1])
    with pytest.raises(sa.OutOfRange, match=r"column 'k': the value .* has no code: name all values"):
        codes_of(source, ctx, codes={"k": values[:1]})
    with pytest.raises(sa.InvalidError, match="codes of column 'k': a value is named twice"):
        codes_of(source, ctx, codes={"k": values[:1] * 2})


@kinds
def test_a_loader_yields_codes_of_plain_columns_for_given_values(ctx, kind):
    values = PAIRS[kind].to_pylist()
    source = sa.from_arrow(pa.table({"k": plain(kind, (1, 0, 1, 1))}), ctx)
    assert codes_of(source, ctx, codes={"k": values[::-1]})[0] == [0, 1, 0, 0]
    with pytest.raises(sa.TypeMismatch, match=r"codes: column 'k' is of type .*: name its values"):
        codes_of(source, ctx, codes="k")


@kinds
@pytest.mark.parametrize("write", [write_ipc, write_parquet])
def test_codes_of_several_files_use_the_union_of_dictionaries(tmp_path, kind, write):
    if write is write_parquet and kind in ("text views", "byte views"):
        pytest.skip("pyarrow does not write dictionaries of views to Parquet")
    if write is write_parquet and kind in ("decimal32", "decimal64", "date64", "duration"):
        pytest.skip("Parquet keeps the values as another type")
    values = PAIRS[kind].to_pylist()
    files = [
        write(pa.table({"k": encoded(kind, (1, 1))}), tmp_path / "1", 2),
        write(pa.table({"k": encoded(kind, (0, 1, 0))}), tmp_path / "2", 2),
    ]
    found, named = codes_of(files, "host", codes=True)
    assert sorted(map(str, named)) == sorted(map(str, values))
    assert [named[code] for code in found] == [values[each] for each in (1, 1, 0, 1, 0)]


def test_different_dictionaries_of_batches_share_one_list_of_codes(tmp_path):
    table = pa.table(
        {"k": pa.chunked_array([pa.array(each).dictionary_encode() for each in ([7, 5], [9, 7])])}
    )
    pieces = sa.from_arrow(table, "host")
    assert codes_of(pieces, "host", codes={"k": [5, 7, 9]})[0] == [1, 0, 2, 1]
    assert codes_of(pieces.combine_chunks(), "host", codes=True) == ([0, 1, 2, 0], [7, 5, 9])


def test_nulls_and_null_entries_have_no_code(ctx):
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array([8, None, 6]))
    source = sa.from_arrow(pa.table({"k": entries}), ctx)
    assert codes_of(source, ctx, codes=True, fill=-1) == ([0, -1, -1, 1], [8, 6])
    with pytest.raises(sa.InvalidError, match="a value is named twice, or is a null"):
        codes_of(source, ctx, codes={"k": [8, None]}, fill=-1)


def test_equal_floats_have_one_code():
    values = pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.0])
    source = sa.from_arrow(pa.table({"k": pa.DictionaryArray.from_arrays([0, 1, 2, 3, 4], values)}), "host")
    assert codes_of(source, "host", codes=True)[0] == [0, 0, 1, 1, 2]
    assert codes_of(source, "host", codes={"k": [1, 0, float("nan")]})[0] == [1, 1, 2, 2, 0]


def test_given_values_of_codes_are_converted_to_the_column_type():
    source = sa.from_arrow(pa.table({"k": encoded("int64")}), "host")
    assert codes_of(source, "host", codes={"k": [np.int8(1), 3.0]}) == ([1, 0, 1], [1, 3])
    with pytest.raises(sa.InvalidError, match=r"row 0 is 1\.5, which int64 can't represent"):
        codes_of(source, "host", codes={"k": [1.5]})
    source = sa.from_arrow(pa.table({"k": encoded("date")}), "host")
    with pytest.raises(sa.TypeMismatch, match="row 0 is '2020-02-29', of type str"):
        codes_of(source, "host", codes={"k": ["2020-02-29"]})


def test_nested_values_have_no_codes():
    lists = pa.DictionaryArray.from_arrays([0, 0], pa.array([[1]]))
    with pytest.raises(
        sa.TypeMismatch, match=r"codes: column 'k' is of type dictionary<.*, whose values have parts"
    ):
        codes_of(sa.from_arrow(pa.table({"k": lists}), "host"), "host", codes=True)


def test_a_loader_decodes_dictionaries_of_numbers_with_a_dtype(ctx):
    source = sa.table({"k": column("int64", ctx), "x": [0.5, 1.5, 2.5], "city": column("text", ctx)}, ctx)
    [batch] = sa.loader(source, ctx, batch_size=3, to="numpy", columns=["k", "x"], dtype={"k": "float32"})
    assert (batch["k"].tolist(), batch["k"].dtype) == ([3, 1, 3], np.float32)
    [rows] = sa.loader(
        source, ctx, batch_size=3, to="numpy", columns=["k", "x"], dtype="float32", matrix=True
    )
    assert rows.tolist() == [[3, 0.5], [1, 1.5], [3, 2.5]]
    with pytest.raises(
        sa.TypeMismatch,
        match=r"column 'k' is a dictionary: .*codes=True, both in tensor_options, or dtype=\{'k': ",
    ):
        sa.loader(source, ctx, batch_size=3, to="numpy")
    with pytest.raises(
        sa.TypeMismatch, match=r"column 'city' is a dictionary: .*choose codes=True, both in tensor_options$"
    ):
        sa.loader(source, ctx, batch_size=3, to="numpy", columns="city", dtype="float32")


def test_codes_can_be_columns_of_a_matrix(ctx):
    source = sa.table({"k": column("text", ctx), "x": [0.5, 1.5, 2.5]}, ctx)
    [rows] = sa.loader(
        source,
        ctx,
        batch_size=3,
        to="numpy",
        matrix=True,
        dtype="float64",
        tensor_options=sa.TensorOptions(codes=True),
    )
    assert rows.tolist() == [[0, 0.5], [1, 1.5], [0, 2.5]]


def test_dictionaries_convert_to_categories_of_pandas_and_polars(ctx):
    stars = pd.DataFrame({"k": pd.Categorical([3, 1, 3])})
    assert codes_of(sa.table(stars, ctx), ctx, codes=True) == (stars["k"].cat.codes.tolist(), [1, 3])
    for dtype in (pl.Categorical, pl.Enum(["u", "v"])):
        frame = pl.DataFrame({"k": pl.Series(["u", None, "v"], dtype=dtype)})
        taken = sa.from_arrow(frame, ctx)["k"]
        assert taken.fill_null("v").to_pylist() == frame["k"].fill_null("v").to_list()
        assert taken.drop_null().to_numpy().tolist() == ["u", "v"]


def test_types_that_pandas_lacks_raise_saetas_error():
    halves = sa.table({"k": column("half", "host")})
    for convert in (halves.to_pandas, halves["k"].to_pandas):
        with pytest.raises(sa.ExchangeError, match="pandas can't take it"):
            convert()


def test_dictionaries_in_parquet_are_read_with_their_stored_type(tmp_path):
    pq.write_table(pa.table({"k": encoded("int64")}), tmp_path / "k.parquet")
    [batch] = sa.loader(tmp_path / "k.parquet", "host", batch_size=3, to="numpy")
    assert batch["k"].tolist() == [3, 1, 3]
