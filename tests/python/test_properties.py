"""Property tests: random pyarrow arrays with random slices and nulls make every round trip unchanged."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from property_settings import examples

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

INTEGERS = {f"{sign}int{bits}": (bits, not sign) for sign in ("", "u") for bits in (8, 16, 32, 64)}
settings = hypothesis.settings(**examples())


def integers(bits, signed):
    low = -(1 << (bits - 1)) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


VALUES = {
    **{name: (getattr(pa, name)(), integers(bits, signed)) for name, (bits, signed) in INTEGERS.items()},
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=12)),
    "large_string": (pa.large_string(), st.text(max_size=12)),
    "binary": (pa.binary(), st.binary(max_size=12)),
    "fixed_size_binary": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "timestamp": (pa.timestamp("us"), integers(62, True)),
    "dictionary": (pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["a", "b", "", "é"])),
    "string_view": (pa.string_view(), st.text(max_size=20)),
}
SIMPLE = tuple(VALUES)


@st.composite
def nested(draw, depth=3):
    """Draws a type of at most `depth` levels. Returns it with a strategy for its values."""
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from([name for name in SIMPLE if not name.startswith("float")]))
        return VALUES[name]
    kind = draw(st.sampled_from(["list", "large_list", "list_view", "fixed", "struct", "map"]))
    type_, values = draw(nested(depth - 1))
    values = st.none() | values
    if kind == "struct":
        other, others = draw(nested(depth - 1))
        return pa.struct([("a", type_), ("b", other)]), st.fixed_dictionaries(
            {"a": values, "b": st.none() | others}
        )
    if kind == "map":
        return pa.map_(pa.string(), type_), st.lists(st.tuples(st.text(max_size=3), values), max_size=3)
    if kind == "fixed":
        size = draw(st.integers(0, 3))
        return pa.list_(type_, size), st.lists(values, min_size=size, max_size=size)
    made = {"list": pa.list_, "large_list": pa.large_list, "list_view": pa.list_view}[kind]
    return made(type_), st.lists(values, max_size=4)


@st.composite
def nested_arrays(draw):
    """Draws a slice of an array of a nested type with nulls at every level."""
    type_, values = draw(nested())
    array = pa.array(draw(st.lists(st.none() | values, max_size=30)), type_)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:  # pyarrow makes invalid dictionary indices inside null structs
        hypothesis.reject()
    start = draw(st.integers(0, len(array)))
    return array.slice(start, draw(st.integers(0, len(array) - start)))


@st.composite
def arrays(draw, names=tuple(VALUES)):
    """Draws a slice of an array of one of the types. Half of the arrays have nulls."""
    type_, values = VALUES[draw(st.sampled_from(names))]
    if draw(st.booleans()):
        values = st.none() | values
    array = pa.array(draw(st.lists(values, max_size=80)), type_)
    start = draw(st.integers(0, len(array)))
    return array.slice(start, draw(st.integers(0, len(array) - start)))


def same(left, right):
    """Compares two arrays, with NaN equal to NaN."""
    if pa.types.is_floating(left.type):
        bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}[left.type]
        left, right = left.view(bits), right.view(bits)
    return left.type == right.type and left.equals(right)


@settings
@hypothesis.given(nested_arrays(), st.booleans(), st.data())
def test_nested_arrays_make_every_round_trip(source, copy, data):
    column = sa.from_arrow(source, sa.context("host"), copy=copy or None, as_column=True)
    assert column.null_count == source.null_count
    assert pa.array(column).equals(source)
    try:
        values = source.to_pylist()
    except OverflowError:  # out of range for Python's datetime
        with pytest.raises(sa.InvalidError, match="to_arrow"):
            column.to_pylist()
    else:
        assert column.to_pylist() == values
    start = data.draw(st.integers(0, len(source)))
    part = column.slice(start, data.draw(st.integers(0, len(source) - start)))
    expected = source.slice(start, len(part))
    seen = pa.array(sa.from_arrow(part, sa.context("host"), copy=True, as_column=True))
    seen.validate(full=True)
    assert seen.equals(expected)
    assert sa.DataType(column.type.name) == column.type
    repr(part)


@settings
@hypothesis.given(nested_arrays(), st.data())
def test_chunks_of_nested_arrays_are_joined(source, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=4)))
    edges = [0, *cuts, len(source)]
    pieces = [source.slice(first, last - first) for first, last in itertools.pairwise(edges)]
    column = sa.from_arrow(pa.chunked_array(pieces, source.type), sa.context("host"), as_column=True)
    whole = column.combine_chunks()
    assert whole.num_chunks == 1
    assert whole.null_count == source.null_count
    seen = pa.array(whole)
    seen.validate(full=True)
    assert seen.equals(source)


@settings
@hypothesis.given(arrays(), st.booleans(), st.data())
def test_arrow_round_trips(source, copy, data):
    column = sa.from_arrow(source, sa.context("host"), copy=copy or None)
    assert column.null_count == source.null_count
    assert same(pa.array(column), source)
    start = data.draw(st.integers(0, len(source)))
    length = data.draw(st.integers(0, len(source) - start))
    assert same(pa.array(column.slice(start, length)), source.slice(start, length))


@settings
@hypothesis.given(st.lists(arrays(), min_size=1, max_size=4), st.sampled_from([None, "lz4", "zstd"]))
def test_ipc_round_trips(tmp_path_factory, columns, compression):
    rows = min(map(len, columns))
    source = pa.table([column.slice(0, rows) for column in columns], names=[""] * len(columns))
    path = tmp_path_factory.mktemp("ipc") / "x.arrow"
    sa.from_arrow(source, sa.context("host")).write_ipc(path, compression=compression)
    written = pa.ipc.open_file(path).read_all()
    again = sa.read_ipc(path, sa.context("host"), copy=True).to_arrow()
    for ours, theirs, expected in zip(again.columns, written.columns, source.columns, strict=True):
        joined = [
            pa.chunked_array(each.chunks, expected.type).combine_chunks() for each in (ours, theirs, expected)
        ]
        assert same(joined[0], joined[2])
        assert same(joined[1], joined[2])


@settings
@hypothesis.given(arrays(names=(*INTEGERS, "float32", "float64")))
def test_tensors_are_views_or_refused(source):
    column = sa.from_arrow(source, sa.context("host"))
    if source.null_count:
        with pytest.raises(BufferError):
            np.from_dlpack(column)
        return
    view = np.from_dlpack(column)
    np.testing.assert_array_equal(view, source.to_numpy())
    assert len(source) == 0 or view.ctypes.data == column.address
    back = sa.from_dlpack(view, sa.context("host"))
    assert same(pa.array(back), source)


@settings
@hypothesis.given(arrays(names=("bool",)))
def test_bool_and_bool8_convert_in_both_directions(source):
    bits = sa.from_arrow(source, sa.context("host"))
    bytes_ = bits.as_bool8()
    assert bytes_.to_pylist() == source.to_pylist()
    assert same(pa.array(bytes_.as_bool()), source)
    assert bytes_.null_count == source.null_count
