"""Logical nulls of dictionaries, run-end encoded arrays and unions: a row is null if `to_pylist` has None for
it."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from property_settings import examples
from random_arrays import can_show, random_column
from sim_devices import DEVICES, contexts_of

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies
settings = hypothesis.settings(**examples(200))

LARGE = 2**53 + 1


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def runs(values, type_=None):
    """Returns a run-end encoded array with two rows per value."""
    ends = pa.array(range(2, 2 * len(values) + 2, 2), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, type_))


def words(codes, values):
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values))


def dense_union():
    ids, places = pa.array([3, 7, 3, 7, 7], pa.int8()), pa.array([0, 0, 1, 1, 2], pa.int32())
    children = [pa.array([1, None]), pa.array(["a", None, "b"])]
    return pa.UnionArray.from_dense(ids, places, children, ["n", "s"], [3, 7])


def sparse_union():
    children = [pa.array([1, None, None]), words([0, 1, 1], ["a", None])]
    return pa.UnionArray.from_sparse(pa.array([0, 0, 1], pa.int8()), children)


NESTED = {
    "runs": (runs([7, None, 8]), [7, 7, None, None, 8, 8]),
    "dictionary": (words([0, None, 1, 2], ["a", None, "c"]), ["a", None, None, "c"]),
    "dense union": (dense_union(), [1, "a", None, None, "b"]),
    "sparse union": (sparse_union(), [1, None, None]),
    "dictionary of runs": (
        pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 3], pa.int16()), runs(["x", None])),
        [None, "x", None, None],
    ),
    "runs of a dictionary": (
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int16()), words([1, 0], ["x", None])),
        [None, "x", "x"],
    ),
    "runs of nulls": (runs([None, None], pa.null()), [None] * 4),
    "a dictionary that no row refers to": (words([0, 0, 0], ["a", None]), ["a"] * 3),
}


def check_nulls(random, ctx):
    source, column = random_column(random, ctx)
    if not can_show(source.type):
        return
    null = [value is None for value in source.to_pylist()]
    assert column.null_count == sum(null)
    assert column.physical_null_count == source.null_count
    assert column.is_null().to_pylist() == null
    assert column.is_valid().to_pylist() == [not each for each in null]
    kept = column.drop_null()
    assert repr(kept.to_pylist()) == repr([value for value in source.to_pylist() if value is not None])
    assert kept.null_count == 0


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_null_counts_of_any_type_match_the_nones_of_to_pylist(random):
    check_nulls(random, sa.context("host"))


@pytest.mark.parametrize("seed", range(0, 120, 20))
def test_null_counts_of_any_type_match_the_nones_of_to_pylist_on_every_device(device, seed):
    for number in range(seed, seed + 20):
        check_nulls(Random(number), device)


@pytest.mark.parametrize("name", NESTED)
def test_rows_that_refer_to_nulls_are_null(device, name):
    source, values = NESTED[name]
    table = sa.from_arrow(pa.table({"x": source, "row": range(len(source))}), device)
    null = [value is None for value in values]
    assert table["x"].to_pylist() == values
    assert table["x"].null_count == sum(null)
    assert table["x"].physical_null_count == source.null_count
    assert table["x"].is_null().to_pylist() == null
    assert table["x"].slice(1).is_null().to_pylist() == null[1:]
    assert table["x"].slice(1, 2).null_count == sum(null[1:3])
    assert table.drop_null("x")["row"].to_pylist() == [row for row, each in enumerate(null) if not each]
    assert table.drop_null().num_rows == len(values) - sum(null)


@pytest.mark.parametrize("name", ["runs", "dictionary"])
def test_rows_that_refer_to_nulls_are_filled(device, name):
    source, values = NESTED[name]
    column = sa.from_arrow(pa.chunked_array([source, source.slice(1)]), device, as_column=True)
    both = [*values, *values[1:]]
    filled_column = column.fill_null(values[0])
    assert filled_column.type == column.type
    assert filled_column.to_pylist() == [values[0] if value is None else value for value in both]
    assert filled_column.null_count == 0


def test_a_fill_that_refers_to_a_null_is_refused(device):
    column = sa.from_arrow(words([0, None], ["a", None]), device, as_column=True)
    with pytest.raises(sa.InvalidError, match="the fill is null"):
        column.fill_null(sa.from_arrow(words([1], ["a", None]), device, as_column=True))


def test_a_column_of_unions_is_filled_with_a_row_of_its_type(device):
    column = sa.from_arrow(dense_union(), device, as_column=True)
    assert column.fill_null(column.slice(4, 1)).to_pylist() == [1, "a", "b", "b", "b"]


def test_a_dictionary_without_null_values_keeps_its_memory(device):
    column = sa.from_arrow(words([0, None, 1], ["a", "b"]), device, as_column=True)
    assert column.null_count == column.physical_null_count == 1
    whole = sa.from_arrow(words([0, 1], ["a", "b"]), device, as_column=True)
    assert whole.drop_null().address == whole.address
    assert whole.fill_null("b").address == whole.address


@pytest.mark.parametrize("values", [runs([LARGE, None]), words([0, 1], [LARGE, None])])
def test_integers_with_nulls_do_not_become_floats(host, values):
    column = sa.from_arrow(values, host, as_column=True)
    plain = sa.from_arrow(pa.array(values.to_pylist()), host, as_column=True)
    for convert in (sa.Column.to_numpy, np.asarray, np.array):
        with pytest.raises(BufferError, match="null"):
            convert(column)
        with pytest.raises(BufferError, match="null"):
            convert(plain)
    assert column.to_numpy(fill=-1).tolist() == plain.to_numpy(fill=-1).tolist()
    assert column.to_numpy(fill=-1).dtype == np.int64
    seen, valid = column.to_numpy(nulls="mask")
    assert valid.tolist() == plain.is_valid().to_pylist()
    assert seen[valid].tolist() == plain.drop_null().to_pylist()
    with pytest.raises(BufferError, match="no NaN"):
        column.to_numpy(nulls="nan")
    with pytest.raises(BufferError, match=r"without a copy|a copy was forbidden"):
        column.to_numpy(fill=-1, copy=False)


def test_nulls_of_encoded_floats_become_nan_on_request(device):
    for values in (runs([1.5, None]), words([0, 1, None], [1.5, None])):
        column = sa.from_arrow(values, device, as_column=True)
        expected = [np.nan if value is None else value for value in values.to_pylist()]
        np.testing.assert_array_equal(column.to_numpy(nulls="nan"), expected)
        np.testing.assert_array_equal(column.to_numpy(nulls="nan", dtype="float32"), expected)


def test_run_end_encoded_numbers_are_exported_by_a_copy(device):
    column = sa.from_arrow(runs([1, 2], pa.int16()), device, as_column=True)
    assert column.to_numpy(dtype="int64").tolist() == [1, 1, 2, 2]
    assert column.slice(1, 2).to_numpy(dtype="int16").tolist() == [1, 2]
    flags = sa.from_arrow(runs([True, False, None]), device, as_column=True)
    assert flags.to_numpy(fill=True).tolist() == [True, True, False, False, True, True]
    table = sa.from_arrow(pa.table({"a": runs([1.5, None]), "b": [1.0, 2.0, None, 4.0]}), device)
    assert table.to_numpy(fill=0).tolist() == [[1.5, 1], [1.5, 2], [0, 0], [0, 4]]
    with pytest.raises(BufferError, match="3 of 8 values of the table are null"):
        table.to_numpy()
    if device.device == "host":
        assert np.from_dlpack(column).tolist() == [1, 1, 2, 2]
        with pytest.raises(BufferError, match="become int16, and a copy was forbidden"):
            np.from_dlpack(column, copy=False)


def test_the_code_of_a_null_dictionary_value_is_null(device):
    column = sa.from_arrow(words([2, 0, None, 1, 2], ["a", None, "c"]), device, as_column=True)
    with pytest.raises(BufferError, match="null"):
        column.to_numpy(codes=True)
    assert column.to_numpy(codes=True, fill=-1).tolist() == [2, 0, -1, -1, 2]
    assert column.slice(1, 3).to_numpy(codes=True, fill=-1).tolist() == [0, -1, -1]
    codes, valid = column.to_numpy(codes=True, nulls="mask")
    assert valid.tolist() == [True, True, False, False, True]
    assert codes[valid].tolist() == [2, 0, 2]
    table = sa.table([column.with_name("x")], device)
    assert table.to_numpy(codes=True, fill=-1).tolist() == [[2], [0], [-1], [-1], [2]]
    values, mask = table.to_numpy(codes=True, nulls="mask")
    assert mask.ravel().tolist() == valid.tolist()
    assert values[mask].tolist() == [2, 0, 2]


def test_nested_codes_of_null_values_are_refused(host):
    lists = pa.FixedSizeListArray.from_arrays(words([0, 1, 0, 0], ["a", None]), 2)
    with pytest.raises(BufferError, match="1 of 4 values of type dictionary"):
        sa.from_arrow(lists, host, as_column=True).to_numpy(codes=True)


def test_a_non_nullable_field_refuses_logical_nulls(host):
    field = sa.field("x", sa.DataType(words([0], ["a"]).type), nullable=False)
    column = sa.from_arrow(words([0, 1], ["a", None]), host, as_column=True)
    with pytest.raises(sa.InvalidError, match="its field allows none"):
        sa.table({"x": column}, host, schema=sa.schema([field]))


def test_exports_to_arrow_keep_the_physical_nulls(host):
    for source, _ in NESTED.values():
        column = sa.from_arrow(source, host, as_column=True)
        shown = pa.chunked_array(column).combine_chunks()
        assert shown.null_count == source.null_count
