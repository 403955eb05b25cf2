"""take, filter, cast, fill_null, drop_null and moves between devices, compared with pyarrow and Python."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import arrow_data
import saeta as sa
from property_settings import examples
from random_arrays import can_show, in_pieces, random_column
from sim_devices import DEVICES, contexts_of

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies
settings = hypothesis.settings(**examples(300))


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def shown(values):
    """Returns the values as text, so that NaNs in the same row are equal."""
    return repr(values)


def require_rows(made, source, rows):
    """Requires that the column has these rows of the source. None is a null row."""
    array = pa.chunked_array(made)
    array.validate(full=True)
    assert len(made) == len(rows)
    if can_show(source.type):
        values = source.to_pylist()
        assert shown(array.to_pylist()) == shown([None if row is None else values[row] for row in rows])


def check_taken(random, ctx):
    source, column = random_column(random, ctx)
    choices = list(range(len(source))) + [None] * random.randint(0, 2)
    rows = random.choices(choices, k=random.randint(0, 12)) if choices else []
    taken = column.take(pa.array(rows, random.choice([pa.int32(), pa.int64(), pa.uint32()])))
    assert taken.type == column.type
    require_rows(taken, source, rows)


def check_filtered(random, ctx):
    source, column = random_column(random, ctx)
    mask = random.choices([True, False, None], k=len(source))
    filtered = column.filter(in_pieces(random, pa.array(mask, pa.bool_()), ctx))
    require_rows(filtered, source, [row for row, kept in enumerate(mask) if kept])


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_rows_of_any_type_are_taken(random):
    check_taken(random, sa.context("host"))


@settings
@hypothesis.given(st.integers(0, 2**40).map(Random))
def test_rows_of_any_type_are_filtered(random):
    check_filtered(random, sa.context("host"))


@pytest.mark.parametrize("seed", range(0, 120, 20))
def test_rows_of_any_type_are_taken_and_filtered_on_every_device(device, seed):
    for number in range(seed, seed + 20):
        check_taken(Random(number), device)
        check_filtered(Random(number), device)


@pytest.mark.parametrize("name", sorted(arrow_data.arrays() | arrow_data.nested_twice()))
def test_every_type_is_taken_as_pyarrow_takes_it(device, name):
    source = (arrow_data.arrays() | arrow_data.nested_twice())[name]
    column = sa.from_arrow(source, device, as_column=True)
    rows = [5, 0, None, 66, 66, 1, 2, 3, 5]
    taken = column.take(rows)
    require_rows(taken, source, rows)
    try:
        expected = source.take(pa.array(rows))
    except pa.ArrowNotImplementedError:
        return
    if not name.startswith("dictionary") and "union" not in name:
        assert pa.chunked_array(taken).combine_chunks().equals(expected)
    keep = [row % 3 == 0 for row in range(len(source))]
    require_rows(column.filter(keep), source, [row for row, kept in enumerate(keep) if kept])


def test_a_table_is_taken_and_filtered(device):
    source = pa.table({"a": [1, None, 3, 4], "b": ["x", "", None, "yy"], "c": [[1], [], None, [2, 3]]})
    table = sa.table(pa.concat_tables([source, source.slice(1, 2)]), device)
    taken = table.take([5, 0, 3])
    assert taken.to_pydict() == {"a": [3, 1, 4], "b": [None, "x", "yy"], "c": [None, [1], [2, 3]]}
    assert len(taken.batches) == 1
    assert taken.schema == table.schema
    kept = table.filter(np.array([1, 0, 0, 1, 0, 0], bool))
    assert kept.to_pydict() == {"a": [1, 4], "b": ["x", "yy"], "c": [[1], [2, 3]]}
    assert table.filter([False] * 6).num_rows == 0
    assert table.take([]).to_pydict() == {"a": [], "b": [], "c": []}


@pytest.mark.parametrize("nested", [False, True])
def test_a_first_batch_without_rows_has_a_dictionary_of_its_own(device, nested):
    words = pa.dictionary(pa.int32(), pa.string())
    chunks = [pa.array(each, words) for each in ([], ["c", "b", "c"], [])]
    chunks[0] = pa.array(["q"], words).slice(1)
    if nested:
        chunks = [pa.StructArray.from_arrays([chunk, chunk], ["a", "b"]) for chunk in chunks]
    source = pa.table({"x": pa.chunked_array(chunks)})
    table = sa.from_arrow(source, device)
    values = source["x"].to_pylist()
    assert table.take([2, 1])["x"].to_pylist() == [values[2], values[1]]
    assert table["x"].take([2, None]).to_pylist() == [values[2], None]
    assert table.filter(np.array([True, True, False]))["x"].to_pylist() == values[:2]
    assert table[::-1]["x"].to_pylist() == values[::-1]


def test_batches_whose_dictionaries_do_not_fit_together_are_filtered(device):
    """256 values are too many for an index of 8 bits. They stay in their batches, as in pyarrow."""
    small = pa.dictionary(pa.int8(), pa.int64())
    chunks = [pa.array(range(first, first + 100)).dictionary_encode().cast(small) for first in (0, 100, 200)]
    source = pa.table({"x": pa.chunked_array(chunks), "y": pa.array([None, 1, 2] * 100)})
    table = sa.from_arrow(source, device)
    mask = [row % 7 == 0 for row in range(300)]
    assert table.filter(in_pieces(Random(3), pa.array(mask), device)).to_arrow().equals(source.filter(mask))
    kept = table["x"].filter(np.array(mask))
    assert kept.type == table["x"].type
    assert kept.to_pylist() == [row for row in range(300) if row % 7 == 0]
    assert table.drop_null("y").to_arrow().equals(source.filter(pc.is_valid(source["y"])))
    assert table.filter(np.array(mask) & (np.arange(300) < 100)).num_rows == 15
    with pytest.raises(sa.SizeOverflow, match="its indices can't count the values of all dictionaries"):
        table.take([0, 150])


def test_many_rows_of_every_width_are_taken(device):
    """Threads of the host share a column."""
    count = 150_001
    numbers = np.arange(count)
    source = pa.table(
        {
            "one": pa.array(numbers % 100, pa.int8()),
            "two": pa.array([None if row % 5 == 0 else row % 1000 for row in range(count)], pa.int16()),
            "four": pa.array(numbers, pa.float32()),
            "eight": numbers,
            "sixteen": pa.array(numbers, pa.int64()).cast(pa.decimal128(20, 0)),
            "pair": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * count)), 2),
            "bits": pa.array(numbers % 3 == 0),
            "text": [None if row % 7 == 0 else f"row {row}" for row in range(count)],
        }
    )
    rows = np.random.default_rng(5).integers(0, count, 200_003)
    indices = pa.array(rows, pa.int64(), mask=rows % 11 == 0)
    pieces = pa.concat_tables([source.slice(0, 70_000), source.slice(70_000)])
    taken = sa.table(pieces, device).take(indices).to_arrow().combine_chunks()
    assert taken.equals(source.take(indices).combine_chunks())


def test_indices_and_masks_can_be_columns_tensors_arrays_or_sequences(device):
    table = sa.table({"x": np.arange(10, dtype=np.float32)}, device)
    for indices in (
        [3, 1],
        np.array([3, 1], np.int32),
        np.array([3, 1], np.uint32),
        np.array([9, 3, 9, 1], np.int64)[1::2],
        pa.array([3, 1], pa.int64()),
        pa.chunked_array([[3], [], [1]]),
        sa.column([3, 1], device, name="i"),
    ):
        assert table.take(indices)["x"].to_pylist() == [3.0, 1.0]
    truth = [row in (1, 3) for row in range(10)]
    for mask in (
        truth,
        np.array(truth),
        pa.array(truth),
        sa.column(truth, device, name="m"),
        sa.column(truth, device, name="m").as_bool8(extension=False),
    ):
        assert table.filter(mask)["x"].to_pylist() == [1.0, 3.0]
    assert table["x"].take([None, 2]).to_pylist() == [None, 2.0]
    assert table["x"].take([None]).to_pylist() == [None]
    assert table["x"].filter([None] * 10).to_pylist() == []


class Producer:
    """A foreign tensor that implements only DLPack."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **keywords):
        return self._values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


def test_take_refuses_a_mask(device):
    table = sa.table({"x": [10, 20, 30]}, device)
    truth = [True, False, True]
    bits = sa.column(truth, device, name="m")
    masks = [
        truth,
        (True, False, None),
        np.array(truth),
        np.array([[True, False]] * 3)[:, 0],
        pa.array(truth),
        pa.chunked_array([truth]),
        Producer(np.array(truth)),
        bits,
        bits.slice(0, 0),
        bits.as_bool8(),
        bits.as_bool8(extension=False),
    ]
    for mask in masks:
        for source in (table, table["x"]):
            with pytest.raises(sa.TypeMismatch, match=r"indices are of type .*bool.*filter takes a mask"):
                source.take(mask)
    assert table.filter(np.array(truth))["x"].to_pylist() == [10, 30]


@pytest.mark.parametrize(
    ("library", "make"), [("jax.numpy", "array"), ("pandas", "Series"), ("polars", "Series")]
)
def test_take_refuses_a_mask_of_another_library(host, library, make):
    mask = getattr(pytest.importorskip(library), make)([True, False, True])
    column = sa.column([10, 20, 30], host, name="x")
    with pytest.raises(sa.TypeMismatch, match="filter takes a mask"):
        column.take(mask)
    assert column.filter(mask).to_pylist() == [10, 30]


def test_a_boolean_is_not_a_row_index(host):
    column = sa.column([10, 20, 30], host, name="x")
    for number in (True, np.True_):
        with pytest.raises(sa.TypeMismatch, match="selected by the number of its row"):
            column[number]


def test_slices_with_a_step_are_copies_of_their_rows(device):
    source = pa.table(
        {"x": [1, None, 3, 4, 5], "s": ["a", "bb", None, "", "e"], "l": [[1], [], None, [2], [3]]}
    )
    table = sa.table(pa.concat_tables([source, source.slice(5), source.slice(1, 3)]), device)
    rows = list(range(8))
    for start, stop in ((None, None), (1, 7), (6, 1), (-3, None), (50, -50), (2, 2)):
        for step in (2, 3, 100, -1, -2, -100, 1):
            part = slice(start, stop, step)
            assert table[part].to_pylist() == [table.to_pylist()[row] for row in rows[part]]
            assert table["s"][part].to_pylist() == table["s"].to_pylist()[part]
            assert table[part].schema == table.schema
            assert table["x"][part].field == table["x"].field
    assert table[::-1]["l"].num_chunks == 1
    assert table[::1]["x"].chunks[0].address == table["x"].chunks[0].address
    assert table["x"][np.int64(6) : None : np.int8(-3)].to_pylist() == [3, 4, 1]
    assert sa.table({}, device)[::-1].num_rows == 0
    assert table["x"][:0][::-1].to_pylist() == []


def test_a_slice_of_a_counted_table_has_its_counted_rows(device):
    capacity = sa.table({"x": [1, 2, 3, 4]}, device)
    counted = sa.counted_table(capacity, sa.column([3], device, name="n", type="int32"))
    assert counted.to_table()[::-1]["x"].to_pylist() == [3, 2, 1]


def test_a_step_of_zero_is_a_value_error(host):
    table = sa.table({"x": [1, 2]}, host)
    for source in (table, table["x"]):
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            source[::0]
        with pytest.raises(sa.TypeMismatch, match="bounds of a slice must be numbers"):
            source[::"2"]


def test_null_rows_make_fields_nullable(host):
    table = sa.table({"x": [1, 2]}, host, schema=sa.schema([sa.field("x", "int64", nullable=False)]))
    assert not table.take([0]).schema["x"].nullable
    taken = table.take([0, None])
    assert taken.schema["x"].nullable
    assert taken["x"].null_count == 1


def test_errors_name_the_index_and_the_lengths(device):
    table = sa.table({"x": [1, 2, 3], "s": ["a", "b", "c"]}, device)
    with pytest.raises(sa.OutOfRange, match="index 3 in row 2 of the indices: expected 0 to 2, for 3 rows"):
        table.take([0, 1, 3, -1])
    with pytest.raises(sa.OutOfRange, match="index -1 in row 0 of the indices"):
        table.take(np.array([-1], np.int32))
    with pytest.raises(sa.TypeMismatch, match="indices are of type double, expected integers"):
        table.take([0.5])
    with pytest.raises(sa.TypeMismatch, match="the mask is of type int64, expected booleans"):
        table.filter([1, 0, 1])
    with pytest.raises(sa.InvalidError, match="a mask of 2 rows for 3 rows"):
        table.filter([True, False])
    with pytest.raises(sa.TypeMismatch, match="column 'indices': int has neither"):
        table.take(1)


def test_an_operation_beyond_the_budget_leaks_nothing(host):
    table = sa.table({"x": np.arange(100_000), "s": ["text"] * 100_000}, host)
    rows = np.zeros(100_000, np.int64)
    host.synchronize()
    used = host.memory.statistics()["current"]
    for room in (100_000, 900_000, 1_700_000):
        host.memory.limit = used + room
        with pytest.raises(sa.BudgetExceeded):
            table.take(rows)
        host.synchronize()
        assert host.memory.statistics()["current"] == used


def test_numbers_are_cast_exactly_or_rounded(device):
    table = sa.table({"i": [1, None, 300], "f": [0.5, 1.5, -2.5]}, device)
    assert table["i"].cast("int16").to_pylist() == [1, None, 300]
    assert table["i"].cast("float32").type == "float"
    with pytest.raises(sa.OutOfRange, match="the int64 in row 2 has no equal uint8"):
        table["i"].cast("uint8")
    with pytest.raises(sa.OutOfRange, match="the double in row 0 has no equal int32"):
        table["f"].cast("int32")
    assert table["f"].cast("int32", round=True).to_pylist() == [0, 2, -2]
    converted = table.cast({"f": "float16", "i": "float64"})
    assert converted.to_pydict() == {"i": [1.0, None, 300.0], "f": [0.5, 1.5, -2.5]}
    with pytest.raises(sa.TypeMismatch, match="can't be cast to int32"):
        sa.column(["a"], device, name="s").cast("int32")
    with pytest.raises(sa.ColumnNameError, match="no column 'z': the columns are"):
        table.cast({"z": "int32"})
    with pytest.raises(sa.TypeMismatch, match="expected a mapping"):
        table.cast("int32")


@pytest.mark.parametrize("narrow", ["float32", "float16"])
def test_floats_are_cast_to_the_nearest_narrower_float(device, narrow):
    values = [0.1, None, 1 / 3, 65520.0, 1e300, -1e300, 1e-46, -0.0, math.nan, math.inf]
    wide = sa.column(values, device, name="f", type="float64")
    arrow = pa.array(values, "float64")
    expected = arrow.cast(pa.type_for_alias(narrow))  # its safe cast
    assert str(wide.cast(narrow).to_pylist()) == str(expected.to_pylist())  # a NaN is not equal to itself
    assert wide.cast(narrow).null_count == 1
    with pytest.raises(sa.OutOfRange, match="the double in row 0 has no equal int64"):
        wide.cast("int64")


def test_a_cast_converts_only_the_valid_rows_of_a_slice(device):
    values = np.array([7, 300, -5, 1 << 40, 12, 99], np.int64)
    valid = np.array([True, False, True, False, True, True])
    source = pa.array(values, mask=~valid)
    under = pa.Array.from_buffers(source.type, 6, [source.buffers()[0], pa.py_buffer(values)])
    column = sa.from_arrow(under, device, as_column=True)
    for first in range(6):
        for last in range(first, 7):
            part = column[first:last]
            assert part.cast("int8").to_pylist() == under[first:last].to_pylist()
            assert part.cast("float32", round=True).to_pylist() == under[first:last].to_pylist()
    with pytest.raises(sa.OutOfRange, match="in row 1 "):
        column[2:].fill_null(1000).cast("int8")


def test_a_cast_to_a_type_with_the_same_bytes_is_a_view(host):
    stamps = sa.column([dt.datetime(2020, 1, 1)], host, name="t", type="timestamp[us]")
    assert stamps.cast("int64").address == stamps.address


def test_cast_errors_name_the_row_in_the_whole_column(host):
    column = sa.from_arrow(pa.chunked_array([[1, 2], [3, 400]]), host)
    with pytest.raises(sa.OutOfRange, match="in row 3 "):
        column.cast("int8")


VALUES = {
    "int32": 7,
    "float64": 0.25,
    "bool": True,
    "string": "filled",
    "large_string": "",
    "fixed_size_binary": b"xyz",
    "dictionary": "another word",
    "list": [1, None],
    "struct": {"n": 1, "t": None},
    "string_view": "a text of more than twelve bytes",
    "decimal128(12, 2)": Decimal("1.25"),
    "fixed_size_list": [0.5, None],
    "map": [("k", 1)],
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_nulls_are_filled(device, name):
    source = arrow_data.arrays()[name]
    column = sa.from_arrow(pa.chunked_array([source, source.slice(3, 9)]), device, as_column=True)
    filled = column.fill_null(VALUES[name])
    assert filled.null_count == 0
    expected = [VALUES[name] if value is None else value for value in column.to_pylist()]
    assert filled.to_pylist() == expected
    assert filled.type == column.type


def test_fills_are_checked(host):
    column = sa.column([1, None], host, name="x", type="int8")
    with pytest.raises(sa.InvalidError, match="300"):
        column.fill_null(300)
    with pytest.raises(sa.InvalidError, match="can't be filled with None"):
        column.fill_null(None)
    with pytest.raises(sa.InvalidError, match="the fill has 2 rows, expected 1"):
        column.fill_null(sa.column([1, 2], host, name="y", type="int8"))
    with pytest.raises(sa.TypeMismatch, match="the fill is of type int64"):
        column.fill_null(sa.column([1], host, name="y", type="int64"))
    assert column.fill_null(sa.column([5], host, name="y", type="int8")).to_pylist() == [1, 5]
    table = sa.table({"x": column, "y": ["a", None]}, host)
    assert table.fill_null({"y": "b"}).to_pydict() == {"x": [1, None], "y": ["a", "b"]}
    without = sa.column([1, 2], host, name="x", type="int8")
    assert without.fill_null(3).address == without.address


def test_nulls_are_found_and_dropped(device):
    source = pa.table({"x": [1, None, 3, None], "y": ["a", "b", None, None], "z": [1, 2, 3, 4]})
    table = sa.table(pa.concat_tables([source, source.slice(2)]), device)
    assert table["x"].is_null().to_pylist() == [*pc.is_null(source["x"]).to_pylist(), False, True]
    assert table["x"].drop_null().to_pylist() == [1, 3, 3]
    assert table.drop_null().to_pydict() == {"x": [1], "y": ["a"], "z": [1]}
    assert table.drop_null("x")["z"].to_pylist() == [1, 3, 3]
    assert table.drop_null(["y", -1])["z"].to_pylist() == [1, 2]
    assert table.drop_null("z")["z"].chunks[0].address == table["z"].chunks[0].address
    assert sa.column([None, None], device, name="n").is_null().to_pylist() == [True, True]


def test_tables_move_to_another_device_and_back(device, host):
    source = pa.table(arrow_data.arrays())
    table = sa.table(source, device)
    there = table.to(host)
    assert there.context == host
    assert there.to_arrow().equals(source)
    back = there.to(device)
    assert back.device == table.device
    assert back.equals(table) or table["dense_union"] is not None
    assert back.to_arrow().equals(source)
    column = table["string"].to(host)
    assert (column.name, column.device) == ("string", "host")
    assert column.to_pylist() == source["string"].to_pylist()


def test_moving_a_table_to_its_own_context_returns_it(host):
    table = sa.table({"x": [1, 2]}, host)
    assert table.to("host")["x"].address == table["x"].address


def test_symbols_stay_symbols(device, host):
    column = sa.column(["a", "b", None], device, name="s", type="symbol")
    assert column.take([2, 0]).type == column.type
    moved = column.to(host)
    assert moved.type == column.type
    assert moved.to_pylist() == ["a", "b", None]


def test_rows_are_taken_on_the_device_without_a_download(device):
    table = sa.table({"x": np.arange(10), "s": [str(row) for row in range(10)]}, device)
    indices = sa.column([3, 1], device, name="i")
    with device.forbid_downloads():
        filtered = table.take(indices).filter(sa.column([True, False], device, name="m"))
    assert filtered.to_pydict() == {"x": [3], "s": ["3"]}


@pytest.mark.parametrize("rows", [1, 7, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_masks_of_bytes_keep_the_rows_that_are_set(device, rows, share):
    """NumPy's masks, of any truth value other than 0, whole and sliced."""
    mask = np.random.default_rng(rows).random(rows) < share
    table = sa.table({"x": np.arange(rows)}, device)
    assert table.filter(mask)["x"].to_pylist() == np.flatnonzero(mask).tolist()
    assert table[:-1].filter(mask[1:])["x"].to_pylist() == np.flatnonzero(mask[1:]).tolist()
    odd = sa.from_dlpack(np.where(mask, 0xF0, 0).astype(np.uint8).view(bool), device)
    assert table.filter(odd)["x"].to_pylist() == np.flatnonzero(mask).tolist()
    last = np.arange(rows) == rows - 1
    assert table.filter(last)["x"].to_pylist() == [rows - 1]
    parts = sa.concat_tables([table[: rows // 2], table[rows // 2 :]])
    assert parts.filter(mask)["x"].to_pylist() == np.flatnonzero(mask).tolist()
