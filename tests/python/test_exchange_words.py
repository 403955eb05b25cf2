"""Imports from other libraries and files: which protocol is used, and the exact errors for refused
arguments."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import saeta as sa
from protocols import OnlyArray, OnlySchema, OnlyStream
from saeta import _core, exchange
from saeta._files import batch_numbers, readers
from saeta._loader import batches, refusals
from saeta._loader.records import Conversion, Options


def test_a_context_argument_is_a_name_or_a_context(host):
    assert exchange.context_of(host) is host
    assert exchange.context_of("host") == host
    (device,) = [each for each in _core.devices() if each.name == "host"]
    assert exchange.context_of(device) == host
    with pytest.raises(
        sa.TypeMismatch, match="ctx is of type int, expected a Context or the name of a device"
    ):
        exchange.context_of(3)


def test_each_arrow_protocol_is_imported(host):
    numbers, frame = pa.array([1, 2]), pa.table({"a": [1, 2]})
    batch = pa.record_batch({"a": [1, 2]})
    assert sa.from_arrow(OnlyArray(numbers), host).to_pylist() == [1, 2]
    assert sa.from_arrow(OnlyStream(frame), host).to_pydict() == {"a": [1, 2]}
    assert sa.from_arrow(OnlyStream(pa.chunked_array([numbers, numbers])), host).to_pylist() == [1, 2, 1, 2]
    assert isinstance(sa.from_arrow(OnlyArray(batch), host), sa.Table)
    structs = sa.from_arrow(OnlyArray(batch), host, as_column=True)
    assert structs.to_pylist() == [{"a": 1}, {"a": 2}]
    assert sa.from_arrow(frame, host, as_column=True).to_pylist() == [{"a": 1}, {"a": 2}]
    assert sa.from_arrow(OnlySchema(frame.schema)) == sa.schema({"a": "int64"})
    assert sa.from_arrow(pa.field("f", pa.int8())).name == "f"
    assert sa.from_arrow(frame.__arrow_c_stream__(), host).num_rows == 2
    assert sa.from_arrow(numbers.__arrow_c_array__(), host).to_pylist() == [1, 2]
    assert sa.from_arrow(frame.schema.__arrow_c_schema__()).names == ["a"]
    assert sa.from_arrow(pd.array([1, None], "Int64"), host).to_pylist() == [1, None]
    assert sa.from_arrow(pd.Index(["x", "y"]), host).to_pylist() == ["x", "y"]
    for wrong in (3, "text", object(), (1, 2), pd.arrays.SparseArray([1, 0])):
        with pytest.raises(
            sa.TypeMismatch, match=f"{type(wrong).__name__} has none of __arrow_c_device_stream__"
        ):
            sa.from_arrow(wrong, host)
    del structs


def test_a_copy_is_made_on_request(host):
    numbers = pa.array(range(100), pa.int64())
    address = numbers.buffers()[1].address
    for source in (numbers, OnlyArray(numbers), OnlyStream(pa.chunked_array([numbers]))):
        for copy, shared in ((None, True), (False, True), (True, False)):
            assert (sa.from_arrow(source, host, copy=copy).address == address) == shared
    frame = pa.table({"a": numbers})
    for copy, shared in ((None, True), (False, True), (True, False)):
        assert (sa.from_arrow(frame, host, copy=copy)["a"].address == address) == shared
    wide = pd.array(np.arange(4), "Int64")
    ours = sa.column(wide, host, name="a", type="int64")
    assert ours.address == wide._data.ctypes.data, "the import must be a view"


def test_a_consumed_reader_is_an_error(host):
    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), [pa.record_batch({"a": [1]})])
    assert sa.from_arrow(reader, host).num_rows == 1
    with pytest.raises(
        sa.ClosedError, match="the rows of this RecordBatchReader were already consumed: make"
    ):
        sa.from_arrow(reader, host)

    class Once:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("this stream was released before")

    with pytest.raises(sa.ClosedError, match="the rows of this Once were already consumed: this stream was"):
        sa.from_arrow(Once(), host)

    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match=r"^out of order$"):
        sa.from_arrow(Broken(), host)


def test_column_names_must_be_text():
    assert readers._names("a") == ["a"]
    assert readers._names(iter("ab")) == ["a", "b"]
    for wrong in (3, ["a", 3]):
        with pytest.raises(sa.TypeMismatch, match="columns: 3 is of type int, expected the name of a column"):
            readers._names(wrong)


@pytest.mark.parametrize(
    ("batches", "expected"), [(2, (2, 3)), (range(1, 3), (1, 3)), (range(2, 1), (2, 1)), ((1, 3), (1, 3))]
)
def test_batches_can_be_a_range(batches, expected):
    assert readers._is_range(batches)
    assert batch_numbers.range_of(batches) == expected


@pytest.mark.parametrize(
    ("batches", "expected"),
    [([3, 0, 3], [3, 0, 3]), (np.array([1, 2]), [1, 2]), (range(0, 5, 2), [0, 2, 4]), ([], []), ([-1], [-1])],
)
def test_batches_can_be_a_list(batches, expected):
    assert not readers._is_range(batches)
    assert batch_numbers.is_list(batches)
    assert batch_numbers.list_of(batches) == expected


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (slice(1, 3), range(1, 3)),
        (slice(-2, None), range(3, 5)),
        (slice(4, 2), range(4, 4)),
        (slice(None, 99), range(5)),
        (slice(None, None, -2), range(4, -1, -2)),
    ],
)
def test_batches_can_be_a_slice(batches, expected):
    assert not readers._is_range(batches)
    numbers = batch_numbers.numbers_of_slice(batches, 5)
    assert (numbers.start, numbers.stop, numbers.step) == (expected.start, expected.stop, expected.step)


def test_batches_that_are_not_integers_are_refused():
    for wrong in ("1", 1.5, True, (1, 2, 3), object()):
        with pytest.raises(
            sa.TypeMismatch, match=f"batches is of type {type(wrong).__name__}, expected the number"
        ):
            batch_numbers.range_of(wrong)
    for wrong in ([True], ["1"], [1.5]):
        with pytest.raises(sa.TypeMismatch, match=r"batches: .* expected a number"):
            batch_numbers.list_of(wrong)
    for far in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(sa.OutOfRange, match=f"batches: {far} is not the number of a batch"):
            batch_numbers.list_of([far])
    assert batch_numbers.list_of([(1 << 63) - 1, -(1 << 63)]) == [(1 << 63) - 1, -(1 << 63)]
    with pytest.raises(
        sa.InvalidError, match="batches: the number of batches of a stream is unknown: pass a"
    ):
        batch_numbers.numbers_of_slice(slice(1), -1)
    assert batch_numbers.numbers_of_slice(slice(1), 0) == range(0)


def test_batches_of_all_sources_are_counted_unless_one_is_a_stream():
    def of(*counts):
        return [SimpleNamespace(num_batches=count) for count in counts]

    assert readers._count_batches(of(2, 0, 3)) == 5
    assert readers._count_batches(of(2, -1, 3)) == -1


def test_files_stay_open_if_enough_descriptors_remain(monkeypatch):
    limit = [100]
    monkeypatch.setattr(readers.resource, "getrlimit", lambda which: (limit[0], 1 << 20))
    assert [readers._may_stay_open(files) for files in (1, 25, 26)] == [True, True, False]
    limit[0] = resource.RLIM_INFINITY
    assert readers._may_stay_open(10**9)


def choices(**given):
    plain = {"to": "numpy", "matrix": None, "dtype": None, "nulls": "error", "fill": None, "lists": "jagged"}
    return Options(**{**plain, "codes": None, **given})


def test_options_of_a_loader_are_checked():
    batches.check_options(choices(nulls={"a": "nan", "b": "mask"}, lists={"a": "padded"}))
    batches.check_options(choices(to="table", nulls="mask"))
    for given, text in (
        ({"to": "tf"}, "to='tf': expected one of torch, cupy, jax, numpy, table"),
        ({"nulls": "drop"}, "nulls='drop': expected one of error, nan, fill, mask"),
        ({"nulls": {"a": "drop"}}, "nulls='drop': expected one of"),
        ({"lists": "ragged"}, "lists='ragged': expected one of jagged, padded"),
        ({"to": "table", "matrix": True}, "matrix is for tensors, and to='table' yields tables"),
        ({"to": "table", "dtype": "int8"}, "dtype is for tensors"),
        ({"to": "table", "fill": 0}, "fill is for tensors"),
        ({"to": "table", "codes": {}}, "codes is for tensors"),
    ):
        with pytest.raises(sa.InvalidError, match=text):
            batches.check_options(choices(**given))


SCHEMA = {"i": "int32", "f": "float32", "s": "string", "t": "timestamp[us]", "b": "bool"}


def made(**given):
    return batches.Features(sa.schema(SCHEMA), choices(**given), {})


def test_options_of_a_loader_may_only_name_yielded_columns():
    assert list(made()._plans) == list(SCHEMA)
    assert list(made(matrix=["i", "f"])._plans) == ["s", "t", "b", "matrix"]
    assert list(made(matrix={"m": "i", "n": ["f"]})._plans) == ["s", "t", "b", "m", "n"]
    for given, text in (
        ({"dtype": {"q": "int8"}}, "dtype names 'q'; the loader yields 'i', 'f', 's', 't', 'b'"),
        ({"nulls": {"q": "nan"}}, "nulls names 'q'; the loader yields"),
        (
            {"fill": {"i": 0}, "matrix": ["i"]},
            "fill names 'i'; the loader yields 'f', 's', 't', 'b', 'matrix'",
        ),
        (
            {"matrix": ["q"]},
            "matrix 'matrix': no column 'q': the columns are 'i', 'f', 's', 't', 'b'",
        ),
    ):
        with pytest.raises(sa.ColumnNameError, match=text):
            made(**given)
    with pytest.raises(sa.InvalidError, match="a matrix and a column are both named 'f'"):
        made(matrix={"f": ["i"]})
    dictionary = sa.schema({"d": "dictionary<values=string, indices=int8>"})
    with pytest.raises(
        sa.TypeMismatch, match=r"column 'd' is a dictionary: name its values, as codes=\{'d': "
    ):
        batches.Features(dictionary, choices(), {})


@pytest.mark.parametrize(
    ("given", "is_float", "more", "expected"),
    [
        ({}, False, {}, {}),
        ({"dtype": "float16"}, False, {}, {"dtype": "float16"}),
        ({"dtype": "float16"}, False, {"only_own_dtype": True}, {}),
        ({"dtype": {"k": "int8"}}, False, {"only_own_dtype": True}, {"dtype": "int8"}),
        ({"dtype": {"q": "int8"}}, False, {"dtype": "int64"}, {"dtype": "int64"}),
        ({"dtype": "int8"}, False, {"dtype": "int64"}, {"dtype": "int64"}),
        ({}, False, {"order": "row", "codes": False}, {"order": "row"}),
        ({"nulls": "mask"}, True, {}, {"nulls": "mask"}),
        ({"nulls": "nan"}, True, {}, {"nulls": "nan"}),
        ({"nulls": "nan"}, False, {}, {}),
        ({"nulls": "nan", "dtype": "float32"}, False, {}, {"nulls": "nan", "dtype": "float32"}),
        ({"fill": 7}, False, {}, {"fill": 7}),
        ({"fill": {"k": 7}}, False, {}, {"fill": 7}),
        ({"fill": {"q": 7}}, False, {}, {}),
        ({"nulls": "fill"}, False, {}, {"fill": 0}),
        ({"nulls": "mask", "fill": 7}, False, {}, {"nulls": "mask"}),
        ({"nulls": {"k": "fill"}, "fill": {"k": 3}}, False, {}, {"fill": 3}),
    ],
)
def test_tensor_keywords_follow_from_the_options(given, is_float, more, expected):
    made = batches.conversion_of(batches.choice_of(choices(**given), "k"), is_float, **more)
    assert made == Conversion(**expected)
    assert made.keywords() == expected


def test_an_error_names_the_batch():
    for failure, text in (
        (sa.FormatError("odd bytes"), "batch 3: odd bytes"),
        (sa.BudgetExceeded("no room", limit=5), "batch 3: no room; wait"),
        (sa.FormatError(), "batch 3: "),
    ):
        refusals.add_label(failure, "batch 3", "wait")
        assert str(failure) == text
    refused = sa.BudgetExceeded("no room", limit=5)
    refusals.add_label(refused, "batch 3")
    assert (str(refused), refused.limit) == ("batch 3: no room", 5)
