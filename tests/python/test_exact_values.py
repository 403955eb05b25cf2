"""Conversion of values to another type: all stay equal, or the error names the first value that would not."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import saeta as sa

ODD = pd.Timestamp(1_234_567_890_123_456_789)
NOON = dt.datetime(2031, 5, 1, 12, 30, 1, 5)
DAY, MIDNIGHT = dt.date(2031, 5, 1), dt.datetime(2031, 5, 1)
AWARE = dt.datetime(2031, 5, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("given", "type_", "values"),
    [
        ([7.0, None], "int64", [7, None]),
        (
            [0.5, float("inf"), 2, Decimal("0.25"), Fraction(1, 8)],
            "float32",
            [0.5, float("inf"), 2, 0.25, 0.125],
        ),
        ([2**60, 3], "float64", [2.0**60, 3]),
        ([Decimal(12), 7.0], "int32", [12, 7]),
        ([1.5, 2, Decimal("0.25")], "decimal128(5, 2)", [Decimal("1.50"), Decimal(2), Decimal("0.25")]),
        ([np.float32(0.1)], "float64", [0.10000000149011612]),
        ([np.int64(5), pa.scalar(7), pd.NA], "int8", [5, 7, None]),
        ([MIDNIGHT, pd.NaT], "date32", [DAY, None]),
        ([DAY], "timestamp[us]", [MIDNIGHT]),
        ([dt.timedelta(seconds=5)], "duration[s]", [dt.timedelta(seconds=5)]),
        ([ODD], "timestamp[ns]", [ODD]),
        ([AWARE], "timestamp[us, tz=UTC]", [AWARE]),
        ([bytearray(b"x"), memoryview(b"y")], "binary", [b"x", b"y"]),
        ([uuid.UUID(int=5)], pa.uuid(), [uuid.UUID(int=5)]),
        ([{"a": 1.0}, {}, None], "struct<a: int8>", [{"a": 1}, {"a": None}, None]),
        ([(2, 1.0), None], "struct<a: int8, b: int8>", [{"a": 2, "b": 1}, None]),
        ([[("a", 2.0)]], "struct<a: int8>", [{"a": 2}]),
        ([{"k": 1.0}, [("l", 2)]], "map<string, int8>", [[("k", 1)], [("l", 2)]]),
        ([[1.0, None], np.array([2])], "list<item: int8>", [[1, None], [2]]),
        ([1.0, 1, None], "dictionary<values=int16, indices=int8>", [1, 1, None]),
        (range(3), "uint8", [0, 1, 2]),
        (np.array([7.0, -0.0]), "int8", [7, 0]),
        (np.array([2**25]), "float32", [2.0**25]),
        (np.array([0.5, np.inf]), "float16", [0.5, float("inf")]),
        (np.array([1.5], np.longdouble), "float64", [1.5]),
        (np.array([2**63], np.uint64), "float32", [2.0**63]),
        (np.array([-(2**63)]), "float32", [-(2.0**63)]),
        (np.array([3], ">i4"), "int16", [3]),
        (np.array([1, 2]), "decimal128(5, 2)", [Decimal(1), Decimal(2)]),
        (np.array([5, "NaT"], "M8[h]"), "timestamp[s]", [dt.datetime(1970, 1, 1, 5), None]),
        (np.array([2], "M8[10s]"), "timestamp[us]", [dt.datetime(1970, 1, 1, 0, 0, 20)]),
        (np.array([4], "M8[M]"), "date32", [dt.date(1970, 5, 1)]),
        (np.array([86400], "M8[s]"), "date64", [dt.date(1970, 1, 2)]),
        (np.array([2, "NaT"], "m8[D]"), "duration[us]", [dt.timedelta(days=2), None]),
        (np.array(["a"]), "large_string", ["a"]),
        (np.array([b"ab"]), "fixed_size_binary[2]", [b"ab"]),
        (np.array([b"ab"], "V2"), "fixed_size_binary[2]", [b"ab"]),
        (np.array([1, None, 2.0], object), "int8", [1, None, 2]),
        (np.array([True]), "bool", [True]),
        (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "struct<a: int8, b: int8>", [{"a": 1, "b": 2}]),
        (pd.array([7, None], "Int64"), "int8", [7, None]),
    ],
)
def test_values_that_stay_equal_are_converted(host, given, type_, values):
    column = sa.column(given, host, name="x", type=type_)
    assert column.to_pylist() == values
    assert column.type == sa.DataType(type_)
    schema = sa.schema([("x", sa.DataType(type_))])
    assert sa.table({"x": given}, host, schema=schema)["x"].to_pylist() == values


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_fractions_become_the_nearest_float(host, name):
    numbers = [0.1, -2.5, 1 / 3, 65504.0, 1e-9]
    nearest = np.array(numbers, name).tolist()
    assert pa.array(numbers).cast({"float16": "halffloat"}.get(name, name)).to_pylist() == nearest
    wanted = f"list<item: {name}>"
    for given in (
        numbers,
        np.array(numbers),
        [np.float64(each) for each in numbers],
        [Fraction(each) for each in numbers],
        [Decimal(each) for each in numbers],
        pd.array(numbers, "Float64"),
    ):
        assert sa.column(given, host, name="x", type=name).to_pylist() == nearest
        assert sa.table({"x": given}, host, schema={"x": name})["x"].to_pylist() == nearest
    assert sa.column(numbers, host, name="x").cast(name).to_pylist() == nearest
    assert sa.column([numbers], host, name="x", type=wanted).to_pylist() == [nearest]
    assert sa.column([0.1, None], host, name="x", type=name).fill_null(0.1).to_pylist() == [nearest[0]] * 2


TEXTS = np.dtypes.StringDType


@pytest.mark.parametrize(
    ("given", "type_", "values"),
    [
        (np.array(["a", "bé", ""], TEXTS()), "string", ["a", "bé", ""]),
        (np.array(["a", None, "c"], TEXTS(na_object=None))[::-1], "string", ["c", None, "a"]),
        (np.array(["a", np.nan], TEXTS(na_object=np.nan)), "string", ["a", None]),
        (np.array(["a", pd.NA], TEXTS(na_object=pd.NA)), "string", ["a", None]),
        (np.ma.array(np.array(["a", "b"], TEXTS()), mask=[True, False]), "string", [None, "b"]),
        (np.array([], TEXTS()), "string", []),
        (np.array(["2020", "NaT"], "M8[Y]"), "date32[day]", [dt.date(2020, 1, 1), None]),
        (np.array(["2020-03"], "M8[M]"), "date32[day]", [dt.date(2020, 3, 1)]),
        (np.array(["2020-01-02"], "M8[W]"), "date32[day]", [dt.date(2020, 1, 2)]),
        (np.array([5, "NaT"], "M8[h]"), "timestamp[s]", [dt.datetime(1970, 1, 1, 5), None]),
        (np.array([5], ">M8[m]"), "timestamp[s]", [dt.datetime(1970, 1, 1, 0, 5)]),
        (np.array([5, "NaT"], "m8[D]"), "duration[s]", [dt.timedelta(days=5), None]),
        (np.array([5], "m8[m]"), "duration[s]", [dt.timedelta(minutes=5)]),
    ],
)
def test_arrays_of_text_and_of_coarse_times_have_a_type(host, given, type_, values):
    column = sa.column(given, host, name="x")
    assert column.to_pylist() == sa.table({"x": given}, host)["x"].to_pylist() == values
    assert str(column.type) == type_
    if type_ == "string":
        assert sa.column(given, host, type="large_string").to_pylist() == values


@pytest.mark.parametrize("cast", [None, "truncate"])
@pytest.mark.parametrize(
    ("given", "type_"),
    [
        (np.array([1, 2**31], "M8[D]"), "date32"),
        (np.array([1, -(2**31) - 1], "M8[D]"), "date32"),
        (np.array([1, 2**33], "M8[Y]"), "date32"),
        (np.array([0, 2**62], "M8[s]"), "date32"),
        (np.array([1, 2**50], "M8[D]"), "date64"),
        (np.array([1, -(2**62)], "M8[D]"), "timestamp[s]"),
        (np.array([1, 2**62], "m8[h]"), "duration[ns]"),
    ],
)
def test_a_time_that_the_type_can_not_represent_is_refused(host, given, type_, cast):
    options = {} if cast is None else {cast: True}
    with pytest.raises(sa.InvalidError, match=r"'x': row 1 .*can't represent$"):
        sa.column(given, host, name="x", type=type_, **options)
    if type_ == "date32" and cast is None and given.dtype != "M8[s]":
        with pytest.raises(sa.InvalidError, match=r"'x': row 1 .*can't represent$"):
            sa.table({"x": given}, host)


def test_the_first_and_the_last_day_are_dates(host):
    days = np.array([-(2**31), 2**31 - 1, "NaT"], "M8[D]")
    column = sa.column(days, host)
    assert str(column.type) == "date32[day]"
    assert column.to_arrow().cast("int32").to_pylist() == [-(2**31), 2**31 - 1, None]
    most = (2**63 - 1) // 86_400_000
    wide = sa.column(np.array([-most, most], "M8[D]"), host, type="date64")
    assert wide.to_arrow().cast("int64").to_pylist() == [-most * 86_400_000, most * 86_400_000]


def test_a_nan_stays_a_nan(host):
    for given in ([float("nan"), 1.0], np.array([np.nan, 1.0])):
        column = sa.column(given, host, name="x", type="float32")
        assert str(column.to_pylist()) == "[nan, 1.0]"
        assert column.null_count == 0


@pytest.mark.parametrize(
    ("given", "type_", "said"),
    [
        ([1, 7.9], "int64", "row 1 is 7.9, which int64 can't represent: truncate=True makes it 7"),
        ([1e300], "float32", "row 0 is 1e.300, which float can't represent$"),
        ([2**53 + 1], "float64", "row 0 is 9007199254740993"),
        ([10**400], "float64", "row 0 is 1000"),
        ([None, 300], "int8", "row 1 is 300"),
        ([-1], "uint8", "row 0 is -1"),
        ([10**30], "int64", "row 0 is 1000"),
        ([float("nan")], "int64", "row 0 is nan"),
        (
            [Decimal("12.75")],
            "int32",
            "row 0 is Decimal.'12.75'., which int32 can't represent: truncate=True makes it 12",
        ),
        ([Decimal("1e400")], "float64", "row 0 is Decimal"),
        ([0.5, 70000.0], "float16", "row 1 is 70000.0, which halffloat can't represent$"),
        ([0.1], "decimal128(5, 2)", "row 0 is 0.1"),
        ([NOON], "date32", "row 0 is 2031-05-01 12:30:01.000005, .* makes it 2031-05-01"),
        ([NOON], "timestamp[s]", "row 0 is 2031-05-01 12:30:01.000005, .* makes it 2031-05-01 12:30:01"),
        ([ODD], "timestamp[us]", "row 0 is 2009-02-13 23:31:30.123456789"),
        ([ODD], None, "row 0 is 2009-02-13 23:31:30.123456789, which timestamp.us. can't represent"),
        (
            [AWARE],
            "timestamp[us]",
            r"row 0 is 2031-05-01 12:00:00\+00:00, which timestamp.us. can't represent$",
        ),
        ([MIDNIGHT], "timestamp[us, tz=UTC]", "row 0 is 2031-05-01 00:00:00"),
        ([MIDNIGHT, AWARE], None, "row 1 is 2031-05-01 12:00:00"),
        ([dt.time(1, 2, 3, 4)], "time32[s]", "row 0 is 01:02:03.000004"),
        ([dt.timedelta(microseconds=5)], "duration[ms]", "row 0 is 0:00:00.000005"),
        ([{"a": 1, "lost": 2}], "struct<a: int8>", "row 0 is .*'lost'"),
        ([{"k": 1.5}], "map<string, int8>", "row 0 is .*1.5"),
        ([[1], [1.5]], "list<item: int8>", "row 1 is .1.5."),
        ([0.5], "dictionary<values=int64, indices=int8>", "row 0 is 0.5"),
        ([b"abc"], "fixed_size_binary[2]", "row 0 is b'abc'"),
        (
            np.array([1, 7.9]),
            "int64",
            "row 1 is 7.9, which int64 can't represent: truncate=True makes it 7",
        ),
        (np.array([1e300]), "float32", r"row 0 is 1e\+300, which float can't represent$"),
        (np.array([16777217]), "float32", "row 0 is 16777217"),
        (np.array([2**63 - 1]), "float64", "row 0 is 9223372036854775807"),
        (np.array([2**64 - 1], np.uint64), "float64", "row 0 is 18446744073709551615"),
        (np.array([2.0**63]), "int64", "row 0 is 9.22"),
        (np.array([-1]), "uint64", "row 0 is -1, which uint64 can't represent$"),
        (np.array([2**63], np.uint64), "int64", "row 0 is 9223372036854775808"),
        (np.array([70000]), "float16", "row 0 is 70000"),
        (np.array([np.nan]), "int8", "row 0 is nan"),
        (np.array([3661], "M8[us]"), "timestamp[s]", "row 0 is 1970-01-01T00:00:00.003661, .* makes it 1970"),
        (np.array([86401], "M8[s]"), "date32", "row 0 is 1970-01-02T00:00:01"),
        (
            np.array([10**17], "M8[s]"),
            "timestamp[ns]",
            "row 0 is 31688.*, which timestamp.ns. can't represent$",
        ),
        (np.array([5], "m8[ns]"), "duration[us]", "row 0 is 5 nanoseconds"),
        (np.array([1, None, 2.5], object), "int8", "row 2 is 2.5"),
        (pd.array([7, 300], "Int64"), "int8", "row 1 is 300"),
    ],
)
def test_the_error_names_an_unrepresentable_value_and_its_row(host, given, type_, said):
    with pytest.raises(sa.InvalidError, match=f"column 'x': {said}"):
        sa.column(given, host, name="x", type=type_)
    if type_ is not None:
        with pytest.raises(sa.InvalidError, match=f"column 'x': {said}"):
            sa.table({"x": given}, host, schema=sa.schema([("x", sa.DataType(type_))]))


@pytest.mark.parametrize(
    ("given", "type_", "said"),
    [
        ([0.5, 1.0], "bool", "row 0 is 0.5, of type float, and bool is a type of booleans"),
        ([True], "int8", "row 0 is True, of type bool, and int8 is a type of numbers"),
        ([None, "7"], "int8", "row 1 is '7', of type str"),
        ([7], "string", "row 0 is 7, of type int, and string is a type of text"),
        ([b"x"], "string", "row 0 is b'x', of type bytes"),
        (["x"], "binary", "row 0 is 'x', of type str, and binary is a type of bytes"),
        (
            [1],
            "timestamp[us]",
            "row 0 is 1, of type int, .* reinterpret=True reads integers as ticks",
        ),
        ([MIDNIGHT], "time64[us]", "row 0 is 2031-05-01 00:00:00, of type datetime"),
        ([MIDNIGHT], "int64", "row 0 is 2031-05-01 00:00:00, of type datetime"),
        ([dt.timedelta(1)], "time64[us]", "row 0 is 1 day, 0:00:00, of type timedelta"),
        ([1j], "float64", "row 0 is 1j, of type complex"),
        (["x"], "dictionary<values=int64, indices=int8>", "row 0 is 'x', of type str"),
        (np.array([0.5, 2.0]), "bool", "row 0 is 0.5, of type float"),
        (np.array([0, 1]), "bool8", "row 0 is 0, of type int"),
        (np.array([True]), "int8", "row 0 is True, of type bool"),
        (np.array([2.5, -1.0]), "binary", "row 0 is 2.5, of type float, and binary is a type of bytes"),
        (np.array([3661], "M8[s]"), "time64[us]", "row 0 is .*1970-01-01T01:01:01.*, of type datetime64"),
        (np.array([5]), "duration[s]", "row 0 is 5, of type int"),
        (np.array([5], "m8[M]"), "duration[s]", "timedelta64.M. has no fixed length"),
        (np.array([5], "M8[s]"), "timestamp[s, tz=UTC]", "datetime64.s. has no time zone"),
        (np.array([1j]), "float64", "row 0 is 1j, of type complex"),
        (np.array([b"a"]), "string", "row 0 is b'a', of type bytes"),
        (np.array(["1"]), "int64", "row 0 is '1', of type str"),
        (pa.array([1]), "int8", "is of type int64, not int8"),
        (pd.Series([1]), "int8", "is of type int64, not int8"),
    ],
)
def test_values_of_another_kind_are_a_type_mismatch(host, given, type_, said):
    for truncate in (False, True):
        if not truncate or (not hasattr(given, "__arrow_c_stream__") and not isinstance(given, pa.Array)):
            with pytest.raises(sa.TypeMismatch, match=f"column 'x'.*{said}"):
                sa.column(given, host, name="x", type=type_, truncate=truncate)


def test_fields_of_an_array_need_a_struct(host):
    with pytest.raises(
        sa.TypeMismatch, match="column 'x': its values have the fields a, b: name a struct type"
    ):
        sa.column(np.array([(1, 2)], [("a", "i4"), ("b", "i4")]), host, name="x")


@pytest.mark.parametrize(
    ("given", "type_", "values"),
    [
        ([7.9, -0.5, None], "int64", [7, 0, None]),
        ([Decimal("12.75")], "int32", [12]),
        ([0.1, float("inf")], "float32", [float(np.float32(0.1)), float("inf")]),
        ([2**53 + 1], "float64", [2.0**53]),
        ([Decimal("12.755"), 0.126], "decimal128(5, 2)", [Decimal("12.75"), Decimal("0.12")]),
        ([NOON], "date32", [DAY]),
        ([NOON], "timestamp[s]", [NOON.replace(microsecond=0)]),
        ([ODD], "timestamp[us]", [ODD.to_pydatetime(warn=False)]),
        ([dt.time(1, 2, 3, 4)], "time32[s]", [dt.time(1, 2, 3)]),
        ([[1.5]], "list<item: int8>", [[1]]),
        (np.array([7.9, -128.9, 127.9]), "int8", [7, -128, 127]),
        (np.array([0.1, np.inf]), "float32", [float(np.float32(0.1)), float("inf")]),
        (np.array([16777217]), "float32", [2.0**24]),
        (np.array([3661999], "M8[us]"), "timestamp[s]", [dt.datetime(1970, 1, 1, 0, 0, 3)]),
        (np.array([-1], "M8[s]"), "date32", [dt.date(1969, 12, 31)]),
        (np.array([5999], "m8[ns]"), "duration[us]", [dt.timedelta(microseconds=5)]),
    ],
)
def test_truncate_drops_fractions_and_precision(host, given, type_, values):
    assert sa.column(given, host, name="x", type=type_, truncate=True).to_pylist() == values
    schema = sa.schema([("x", type_)])
    assert sa.table({"x": given}, host, schema=schema, truncate=True)["x"].to_pylist() == values


@pytest.mark.parametrize(
    ("given", "type_"),
    [
        ([1e30], "int64"),
        ([300.5], "int8"),
        ([1e300], "float32"),
        ([Decimal(1275)], "int8"),
        ([12345.0], "decimal128(5, 2)"),
        ([AWARE], "date32"),
        ([AWARE], "timestamp[us]"),
        ([{"a": 1, "lost": 2}], "struct<a: int8>"),
        (np.array([128.0]), "int8"),
        (np.array([np.nan]), "int8"),
        (np.array([1e300]), "float32"),
        (np.array([70000]), "float16"),
        (np.array([300]), "int8"),
        (np.array([10**17], "M8[s]"), "timestamp[ns]"),
    ],
)
def test_truncate_refuses_values_outside_the_range(host, given, type_):
    with pytest.raises(sa.InvalidError, match=r"column 'x': row 0 is .*, which .* can't represent"):
        sa.column(given, host, name="x", type=type_, truncate=True)


@pytest.mark.parametrize(
    ("given", "type_", "values"),
    [
        ([1, None], "timestamp[us]", [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None]),
        ([1], "date32", [dt.date(1970, 1, 2)]),
        ([1000], "time32[ms]", [dt.time(0, 0, 1)]),
        ([200], "int8", [-56]),
        (np.array([-1]), "uint64", [2**64 - 1]),
        (np.array([5]), "duration[s]", [dt.timedelta(seconds=5)]),
        (np.ma.array([5, 6], mask=[0, 1]), "duration[s]", [dt.timedelta(seconds=5), None]),
        (np.array([5], "M8[s]"), "timestamp[s, tz=UTC]", [dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)]),
        (pa.array([5, None]), "timestamp[s]", [dt.datetime(1970, 1, 1, 0, 0, 5), None]),
    ],
)
def test_reinterpret_reads_the_bits_as_another_type(host, given, type_, values):
    column = sa.column(given, host, name="x", type=type_, reinterpret=True)
    assert column.to_pylist() == values
    assert column.type == sa.DataType(type_)


def test_reinterpreted_numbers_are_shared(host):
    ticks = np.array([1, 2])
    table = sa.table({"t": ticks}, host, schema=sa.schema([("t", "timestamp[s]")]), reinterpret=True)
    ticks[0] = 60
    assert table["t"][0] == dt.datetime(1970, 1, 1, 0, 1)


@pytest.mark.parametrize(
    ("given", "type_"),
    [
        (np.array([1], np.int32), "timestamp[us]"),
        (np.array([1.5]), "int64"),
        (np.array([1]), "float64"),
        (np.array([1]), "int32"),
        (np.array([5], "M8[s]"), "timestamp[us, tz=UTC]"),
        (["x"], "string"),
        ([1], "month_interval"),
    ],
)
def test_reinterpret_accepts_only_integers_of_the_same_width(host, given, type_):
    with pytest.raises(sa.TypeMismatch, match="column 'x'"):
        sa.column(given, host, name="x", type=type_, reinterpret=True)


def test_useless_casts_are_refused(host):
    with pytest.raises(sa.InvalidError, match="no type is given"):
        sa.column([1], host, name="x", truncate=True)
    with pytest.raises(sa.InvalidError, match="no type is given"):
        sa.table({"x": [1]}, host, truncate=True)
    schema = sa.schema([("x", "int8")])
    with pytest.raises(sa.InvalidError, match="Int64Array has a type of its own: convert it there"):
        sa.column(pa.array([1]), host, name="x", type="int8", truncate=True)
    with pytest.raises(sa.InvalidError, match="Table is a table: convert it there"):
        sa.table(pa.table({"x": [1]}), host, schema=schema, truncate=True)
    with pytest.raises(sa.InvalidError, match="truncate=True is for columns"):
        sa.table(np.ones((2, 1)), host, schema=schema, truncate=True)


def test_the_first_wrong_row_of_many_is_found(host):
    with pytest.raises(sa.InvalidError, match="row 1234 is 300"):
        sa.column([1] * 1234 + [300, 400], host, name="x", type="int8")
