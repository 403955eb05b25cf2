"""sa.from_bytes: tables from raw little-endian bytes."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import DEVICES, contexts_of

FIXED = {
    "int8": pa.array([-1, 2], pa.int8()),
    "uint16": pa.array([1, 65535], pa.uint16()),
    "float16": pa.array(np.array([0.5, -2], np.float16)),
    "float64": pa.array([0.1, -0.0], pa.float64()),
    "decimal128(12, 2)": pa.array([1, 2], pa.decimal128(12, 2)),
    "timestamp[us, tz=UTC]": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "date32": pa.array([1, 2], pa.date32()),
    "time64[ns]": pa.array([1, 2], pa.time64("ns")),
    "duration[s]": pa.array([1, 2], pa.duration("s")),
    "month_day_nano_interval": pa.array([(1, 2, 3), (4, 5, 6)], pa.month_day_nano_interval()),
    "fixed_size_binary[3]": pa.array([b"abc", b"def"], pa.binary(3)),
}


def test_bytes_of_every_fixed_width_type_become_columns(anywhere):
    schema = sa.schema([(name, name) for name in FIXED])
    table = sa.from_bytes([each.buffers()[1] for each in FIXED.values()], anywhere, schema=schema)
    assert table.schema == schema
    for name, source in FIXED.items():
        assert table[name].to_arrow().combine_chunks().equals(source)


def test_a_table_is_uploaded_in_one_transfer(anywhere):
    anywhere.reset_counters()
    table = sa.from_bytes([bytes(800)] * 3, anywhere, schema={"a": "int64", "b": "float64", "c": "uint64"})
    assert (
        anywhere.counters()["host_to_host" if anywhere.device == "host" else "host_to_device"]["transfers"]
        == 1
    )
    assert table.shape == (100, 3)


def test_any_contiguous_buffer_is_accepted(host):
    numbers = np.arange(4, dtype="<u4")
    with mmap.mmap(-1, 16) as mapped:
        mapped[:16] = numbers.tobytes()
        given = [
            numbers,
            numbers.tobytes(),
            bytearray(numbers.tobytes()),
            memoryview(numbers),
            mapped,
            pa.py_buffer(numbers),
        ]
        table = sa.from_bytes(given, host, schema=[(f"c{i}", "uint32") for i in range(len(given))])
    numbers[:] = 9
    assert all(column.to_pylist() == [0, 1, 2, 3] for column in table.columns)


def test_schemas_of_other_libraries_are_accepted(host):
    schema = pa.schema([pa.field("a", pa.int16(), nullable=False, metadata={"k": "v"})], metadata={"t": "w"})
    table = sa.from_bytes([b"\1\0\2\0"], host, schema=schema)
    assert pa.schema(table.schema).equals(schema, check_metadata=True)
    assert table["a"].to_pylist() == [1, 2]


def test_bools_are_bytes(host):
    table = sa.from_bytes([b"\1\0\1"], host, schema={"a": "bool8"})
    assert table["a"].to_pylist() == [True, False, True]
    with pytest.raises(sa.UnsupportedError, match=r"column 'a': raw values of type bool .* bool8"):
        sa.from_bytes([b"\1"], host, schema={"a": "bool"})


def test_a_table_without_columns_has_no_rows(host):
    assert sa.from_bytes([], host, schema={}).shape == (0, 0)
    assert sa.from_bytes([b""], host, schema={"a": "int64"}).shape == (0, 1)


@pytest.mark.parametrize(
    ("columns", "schema", "error", "said"),
    [
        ([b"123"], {"a": "int16"}, sa.InvalidError, "column 'a': 3 bytes .* multiple of 2"),
        (
            [b"1234", b"1234"],
            {"a": "int16", "b": "int32"},
            sa.InvalidError,
            "column 'b' has 1 rows, expected 2 as column 'a'",
        ),
        (
            [b"1234"],
            {"a": "int16", "b": "int32"},
            sa.InvalidError,
            "got 1 columns of bytes, the schema has 2 fields",
        ),
        ([b""], {"a": "string"}, sa.UnsupportedError, "column 'a': raw values of type string"),
        ([7], {"a": "int16"}, sa.TypeMismatch, "column 'a': int does not offer its memory"),
        (
            [np.arange(8)[::2]],
            {"a": "int64"},
            sa.TypeMismatch,
            "column 'a': ndarray does not offer its memory as contiguous",
        ),
        ([np.ones((2, 2), order="F")], {"a": "float64"}, sa.TypeMismatch, "contiguous"),
        ([b"1", 7], {"a": "int8"}, sa.TypeMismatch, "column 1: int"),
        (b"1234", {"a": "int16"}, sa.TypeMismatch, "columns are of type bytes"),
        ({"a": b"12"}, {"a": "int16"}, sa.TypeMismatch, "columns are of type dict"),
    ],
)
def test_errors_name_the_mismatched_column(host, columns, schema, error, said):
    with pytest.raises(error, match=said):
        sa.from_bytes(columns, host, schema=schema)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [3, 3_000_000])
def test_the_caller_may_change_the_bytes_after_the_call(device, rows):
    """The upload has read the bytes when the call returns, whatever their size: the caller may overwrite
    them."""
    for ctx in contexts_of(device):
        given = [np.arange(rows), bytearray(np.arange(rows).astype("<i4").tobytes())]
        table = sa.from_bytes(given, ctx, schema={"a": "int64", "b": "int32"})
        given[0][:] = -1
        given[1][:] = b"\xff" * len(given[1])
        given[1].clear()  # raises BufferError if anything still exports the bytearray
        for name in "ab":
            assert np.array_equal(table[name].to_numpy(), np.arange(rows))
        del table


def test_a_refused_table_leaks_nothing(host):
    small = host.memory.child("small", 1000)
    with pytest.raises(sa.BudgetExceeded):
        sa.from_bytes([bytes(8000)], small, schema={"a": "int64"})
    assert small.memory.statistics()["current"] == 0
    small.close()
