"""Casts of decimals to integers and floats, compared with Python's decimals."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from loader_options import grouped
from property_settings import examples
from sim_devices import DEVICES, contexts_of

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies
settings = hypothesis.settings(**examples(300))

TYPES = {pa.decimal32: 9, pa.decimal64: 18, pa.decimal128: 38, pa.decimal256: 76}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def scaled(number, scale):
    """Returns the decimal `number` / 10 ** `scale`, exact for any precision of Python's decimal context."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def column_of(numbers, type_, ctx):
    """Makes a decimal column from unscaled integers, because pyarrow can't convert to a negative scale."""
    data = b"".join((each or 0).to_bytes(type_.byte_width, "little", signed=True) for each in numbers)
    valid = pa.array([each is not None for each in numbers]).buffers()[1]
    array = pa.Array.from_buffers(type_, len(numbers), [valid, pa.py_buffer(data)])
    return sa.from_arrow(array, ctx, as_column=True)


def nearest_float(value, dtype):
    """Returns the nearest float of a type, ties to even."""
    exact = Fraction(value)
    near = np.dtype(dtype).type(float(value))
    around = [near, np.nextafter(near, -np.inf, dtype=dtype), np.nextafter(near, np.inf, dtype=dtype)]
    around = [each for each in around if np.isfinite(each)]
    even = "<u2" if dtype == np.float16 else "<u4" if dtype == np.float32 else "<u8"
    return min(around, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(even)) % 2))


def is_finite(value, dtype):
    with np.errstate(over="ignore"):
        return np.isfinite(dtype.type(float(value)))


def nearest_integer(value):
    return round(Fraction(value))


def draw(random):
    make = random.choice(list(TYPES))
    most = TYPES[make]
    scale = random.choice([0, 0, 1, 2, most // 2, most, random.randint(-most, most)])
    numbers = []
    for _ in range(random.randint(1, 8)):
        digits = random.randint(1, most)
        number = random.choice([random.randrange(10**digits), 10 ** (digits - 1), 5 * 10 ** (digits - 1), 0])
        if random.random() < 0.3 and scale > 0:
            number = random.randrange(10 ** max(most - scale, 0)) * 10**scale // random.choice([1, 2, 4])
        if random.random() < 0.2:
            near = random.choice([2**53, 2**63, 2**64, 2**24, 2**11]) + random.randint(-2, 2)
            number = near * 10 ** max(scale, 0) + random.choice([0, 5 * 10 ** max(scale - 1, 0), 1, -1])
        number = number % 10**most
        numbers.append(None if random.random() < 0.1 else random.choice([1, -1]) * number)
    return numbers, make(most, scale)


def check_casts(random, ctx):
    numbers, type_ = draw(random)
    column = column_of(numbers, type_, ctx)
    values = [None if each is None else scaled(each, type_.scale) for each in numbers]
    for name in ("float64", "float32", "float16"):
        dtype = np.dtype(name)
        rows = column.cast(name, round=True).to_pylist()
        for got, value in zip(rows, values, strict=True):
            if value is None or not is_finite(value, dtype):
                assert got == (None if value is None else float("inf") if value > 0 else float("-inf"))
            else:
                assert got == float(nearest_float(value, dtype)), (value, name)
        assert column.cast(name).to_pylist() == rows
    for name in INTEGERS:
        check_integers(column, values, name)


def check_integers(column, values, name):
    limits = np.iinfo(name)
    whole = [None if value is None else nearest_integer(value) for value in values]
    fits = [each is None or limits.min <= each <= limits.max for each in whole]
    if all(fits):
        assert column.cast(name, round=True).to_pylist() == whole
    else:
        with pytest.raises(sa.OutOfRange, match=f"in row {fits.index(False)} has no {name}"):
            column.cast(name, round=True)
    equal = [
        fit and (value is None or each == Fraction(value))
        for fit, each, value in zip(fits, whole, values, strict=True)
    ]
    if all(equal):
        assert column.cast(name).to_pylist() == whole
    else:
        with pytest.raises(sa.OutOfRange, match=f"in row {equal.index(False)} has no equal {name}"):
            column.cast(name)


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_decimals_are_cast_to_the_nearest_float_or_an_equal_integer(random):
    check_casts(random, sa.context("host"))


@pytest.mark.parametrize("seed", range(0, 80, 20))
def test_decimals_are_cast_to_the_nearest_float_or_an_equal_integer_on_every_device(device, seed):
    for number in range(seed, seed + 20):
        check_casts(Random(number), device)


@pytest.mark.parametrize("make", TYPES)
def test_decimals_of_every_width_are_cast(device, make):
    column = column_of([125, None, -350, 700], make(TYPES[make], 2), device)
    assert column.cast("float64").to_pylist() == [1.25, None, -3.5, 7.0]
    assert column.slice(3).cast("int16").to_pylist() == [7]
    assert column.slice(1, 2).cast("float32").to_pylist() == [None, -3.5]
    with pytest.raises(sa.OutOfRange, match=r"the decimal.* in row 0 has no equal int64"):
        column.cast("int64")
    assert column.cast("int64", round=True).to_pylist() == [1, None, -4, 7]
    with pytest.raises(sa.OutOfRange, match="in row 2 has no uint8"):
        column.cast("uint8", round=True)


def test_one_tenth_is_cast_to_pythons_float(device):
    column = column_of([1], pa.decimal128(38, 1), device)
    assert column.cast("float64").to_pylist() == [0.1]
    with pytest.raises(sa.OutOfRange, match=r"permit rounding \(round=True\)"):
        column.cast("int64")


def test_the_extreme_values_of_each_width_are_cast(device):
    for make, most in TYPES.items():
        largest = 10**most - 1
        column = column_of([largest, -largest], make(most, 0), device)
        assert column.cast("float64", round=True).to_pylist() == [float(largest), -float(largest)]
    bits = struct.pack("<4Q", 0, 0, 0, 2**63)  # the smallest 256-bit integer exceeds the precision
    lowest = pa.Array.from_buffers(pa.decimal256(76, 0), 1, [None, pa.py_buffer(bits)])
    converted = sa.from_arrow(lowest, device, as_column=True).cast("float64")
    assert converted.to_pylist() == [-(2.0**255)]


def test_values_in_null_rows_are_not_cast(device):
    values = pa.array([Decimal("1.5"), Decimal("2.00")], pa.decimal128(9, 2))
    masked = pa.Array.from_buffers(values.type, 2, [pa.py_buffer(b"\2"), values.buffers()[1]])
    assert sa.from_arrow(masked, device, as_column=True).cast("int8").to_pylist() == [None, 2]


def test_decimals_of_an_unsupported_scale_are_refused(host):
    column = column_of([1], pa.decimal128(38, 77), host)
    with pytest.raises(sa.UnsupportedError, match="a scale of -76 to 76"):
        column.cast("float64")


def test_decimals_are_cast_to_numbers_only(host):
    column = column_of([1], pa.decimal128(9, 2), host)
    for wanted in ("string", "decimal128(12, 2)", "bool", "timestamp[s]"):
        with pytest.raises(sa.TypeMismatch, match="can't be cast"):
            column.cast(wanted)
    assert column.cast("decimal128(9, 2)").address == column.address


def test_decimals_are_exported_as_tensors_with_a_dtype(device):
    prices = pa.array([Decimal("1.25"), Decimal("-3.50"), None, Decimal("0.10")], pa.decimal128(9, 2))
    table = sa.from_arrow(pa.table({"price": prices, "n": [1.0, None, 3.0, 4.0]}), device)
    assert table["price"].drop_null().to_numpy(dtype="float64").tolist() == [1.25, -3.5, 0.1]
    assert (
        table["price"].to_numpy(dtype="float32", fill=9).tolist() == np.float32([1.25, -3.5, 9, 0.1]).tolist()
    )
    values, valid = table["price"].to_numpy(dtype="float64", nulls="mask")
    assert (values[valid].tolist(), valid.tolist()) == ([1.25, -3.5, 0.1], [True, True, False, True])
    np.testing.assert_array_equal(
        table.to_numpy(dtype="float64", fill=0), [[1.25, 1.0], [-3.5, 0.0], [0.0, 3.0], [0.1, 4.0]]
    )
    values, valid = table.to_numpy(dtype="float32", nulls="mask")
    assert valid.tolist() == [[True, True], [True, False], [False, True], [True, True]]
    whole = column_of([700, 800], pa.decimal64(12, 2), device)
    assert whole.to_numpy(dtype="int64").tolist() == [7, 8]
    assert sa.table([whole.with_name("x")], device).to_numpy(dtype="uint8").tolist() == [[7], [8]]


def test_errors_name_decimals_that_a_tensor_can_not_hold(host):
    column = column_of([125, None], pa.decimal128(9, 2), host)
    with pytest.raises(BufferError, match="take dtype= for a type of numbers"):
        column.__dlpack__()
    with pytest.raises(BufferError, match="has 1 nulls"):
        column.to_numpy(dtype="float64")
    with pytest.raises(sa.OutOfRange, match="in row 0 has no equal int32"):
        column.to_numpy(dtype="int32", fill=0)
    with pytest.raises(BufferError, match=r"type decimal128\(9, 2\) become double, and a copy was forbidden"):
        column.slice(0, 1).to_numpy(dtype="float64", copy=False)
    table = sa.table({"p": column.slice(0, 1)}, host)
    with pytest.raises(BufferError, match="a copy was forbidden"):
        table.to_numpy(dtype="float64", copy=False)
    with pytest.raises(BufferError, match="take dtype= for a type of numbers"):
        table.to_numpy()


def test_nested_decimals_are_exported_as_tensors(device):
    pairs = pa.array([[Decimal("1.5"), Decimal("2.5")], None], pa.list_(pa.decimal128(9, 1), 2))
    column = sa.from_arrow(pairs, device, as_column=True)
    assert column.to_numpy(dtype="float64", fill=0).tolist() == [[1.5, 2.5], [0, 0]]
    points = pa.array(
        [{"x": Decimal("1.5"), "y": Decimal("2")}], pa.struct([(n, pa.decimal32(5, 1)) for n in "xy"])
    )
    assert sa.from_arrow(points, device, as_column=True).to_numpy(dtype="float32").tolist() == [[1.5, 2.0]]


@pytest.mark.parametrize("make", TYPES)
def test_a_loader_converts_decimals_on_request(host, make):
    values = [Decimal("1.25"), Decimal("-3.50"), None]
    source = pa.table({"price": pa.array(values, make(TYPES[make], 2)), "n": [1.0, 2.0, 3.0]})
    table = sa.from_arrow(source, host)
    how = {"batch_size": 3, "to": "numpy", "dtype": "float32"}
    matrix = next(iter(sa.loader(table, host, matrix=True, **grouped({"nulls": "nan", **how}))))
    np.testing.assert_array_equal(matrix, np.array([[1.25, 1], [-3.5, 2], [np.nan, 3]], np.float32))
    batch = next(iter(sa.loader(table, host, **grouped({"fill": 0, **how}))))
    assert batch["price"].tolist() == [1.25, -3.5, 0]
    assert batch["price"].dtype == np.float32
    named = next(iter(sa.loader(table, host, batch_size=2, to="numpy", dtype={"price": "float64"})))
    assert named["price"].dtype == np.float64
    with pytest.raises(sa.TypeMismatch, match=r"column 'price' .*choose numbers with dtype="):
        next(iter(sa.loader(table, host, batch_size=2, to="numpy")))
