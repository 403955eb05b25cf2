"""Arrays and indexes of pandas, and other objects with `__arrow_array__`, are imported with their declared
type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

pd = pytest.importorskip("pandas")

ARRAYS = {
    "nullable integers": pd.array([7, None], "Int64"),
    "nullable floats": pd.array([0.5, None], "Float32"),
    "nullable bools": pd.array([True, None], "boolean"),
    "strings": pd.array(["a", None], "string"),
    "strings of Python": pd.array(["a", None], "string[python]"),
    "categories": pd.Categorical(["s", "m", None], ["s", "m", "l"]),
    "ordered categories": pd.Categorical(["s", "m", None], ["s", "m", "l"], ordered=True),
    "categories in an index": pd.CategoricalIndex(["a", "b"]),
    "times": pd.DatetimeIndex(["2031-05-01", None]).array,
    "times in a zone": pd.DatetimeIndex(["2031-05-01", None], tz="Europe/Berlin"),
    "durations": pd.TimedeltaIndex([5, None]),
    "periods": pd.period_range("2020", "2021", freq="Y"),
    "an index": pd.Index([1, 2]),
    "a nullable index": pd.Index([1, None], dtype="Int64"),
    "an index of text": pd.Index(["a", None]),
    "a range": pd.RangeIndex(3),
    "NumPy's": pd.array(np.arange(3), "int64"),
    "pyarrow's": pd.array([1, None], pd.ArrowDtype(pa.int8())),
}
WAYS = {
    "table": lambda array, ctx: sa.table({"x": array}, ctx)["x"],
    "column": lambda array, ctx: sa.column(array, ctx, name="x"),
    "append_column": lambda array, ctx: sa.table({"y": np.zeros(len(array))}, ctx).append_column("x", array)[
        "x"
    ],
    "from_arrow": lambda array, ctx: sa.from_arrow(array, ctx),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_pandas_keep_their_type_and_nulls(host, kind, way):
    array = ARRAYS[kind]
    expected = pa.array(array)
    made = WAYS[way](array, host).to_arrow()
    assert made.type == expected.type
    assert made.combine_chunks().equals(expected)


@pytest.mark.parametrize("kind", ["categories", "times in a zone", "nullable integers"])
def test_requesting_an_arrays_own_type_changes_nothing(host, kind):
    array = ARRAYS[kind]
    assert (
        sa.column(array, host, name="x", type=pa.array(array).type)
        .to_arrow()
        .equals(pa.chunked_array([pa.array(array)]))
    )


class Own:
    """Implements `__arrow_array__` and raises if it is iterated."""

    def __init__(self, made):
        self.made = made

    def __arrow_array__(self, type=None):  # noqa: A002
        return self.made

    def __iter__(self):
        raise AssertionError("it was iterated")


class OwnArray(np.ndarray):
    def __arrow_array__(self, type=None):  # noqa: A002
        return pa.array(["own"] * len(self))


@pytest.mark.parametrize("way", WAYS)
def test_arrow_array_is_called_instead_of_iterating(host, way):
    array = pa.array([1, None, 3], pa.int16())
    own = Own(array)
    own.__class__.__len__ = lambda self: 3
    assert WAYS[way](own, host).to_arrow().combine_chunks().equals(array)
    assert WAYS[way](Own(pa.chunked_array([[1], [2, None]])), host).to_pylist() == [1, 2, None]


def test_arrow_array_of_an_ndarray_subclass_is_called(host):
    assert sa.column(np.arange(2).view(OwnArray), host, name="x").to_pylist() == ["own", "own"]


def test_sparse_arrays_are_converted_value_by_value(host):
    assert sa.column(pd.arrays.SparseArray([0, 1, 0]), host, name="x").to_pylist() == [0, 1, 0]


def test_an_invalid_result_of_arrow_array_is_saetas_error(host):
    with pytest.raises(sa.InvalidError, match="column 'x'"):
        sa.column(Own("text"), host, name="x")
