"""Arrow data for tests: an array of every type that pyarrow can make."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 67


def valid_rows(rows: int, nulls: str) -> list[bool]:
    """Returns the validity of each row. `nulls` is "some" (every seventh row is null), "none" or "all"."""
    return [{"some": row % 7 != 3, "none": True, "all": False}[nulls] for row in range(rows)]


def arrays(rows: int = ROWS, nulls: str = "some") -> dict[str, Any]:
    """Returns an array of each type, by the type's name. The nulls are those of `valid_rows`, except in type
    null."""
    valid = valid_rows(rows, nulls)

    def made(values: Any, type: Any) -> Any:  # noqa: A002
        return pa.array([value if keep else None for value, keep in zip(values, valid, strict=True)], type)

    numbers = range(rows)
    day = dt.date(2020, 2, 28)
    moment = dt.datetime(2021, 3, 4, 5, 6, 7)
    texts = [f"value {row} é" * (row % 3) for row in numbers]
    result: dict[str, Any] = {
        "null": pa.nulls(rows),
        "bool": made([row % 3 == 0 for row in numbers], pa.bool_()),
    }
    for name in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
    ):
        result[name] = made([row % 100 for row in numbers], getattr(pa, name)())
    result["float16"] = made([np.float16(row) for row in numbers], pa.float16())
    for type in decimals():  # noqa: A001
        result[str(type)] = made([Decimal(row - 30).scaleb(-2) for row in numbers], type)
    for type in (pa.date32(), pa.date64()):  # noqa: A001
        result[str(type)] = made([day + dt.timedelta(days=row) for row in numbers], type)
    for unit in ("s", "ms", "us", "ns"):
        times = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        result[str(times)] = made([dt.time(1, row % 60, 3) for row in numbers], times)
        for zone in (None, "UTC", "Europe/Madrid"):
            stamps = pa.timestamp(unit, zone)
            result[str(stamps)] = made([moment + dt.timedelta(hours=row) for row in numbers], stamps)
        result[f"duration[{unit}]"] = made(
            [dt.timedelta(seconds=row - 9) for row in numbers], pa.duration(unit)
        )
    result["interval"] = made([(row, -row, row * 10**6) for row in numbers], pa.month_day_nano_interval())
    for type in (pa.string(), pa.large_string()):  # noqa: A001
        result[str(type)] = made(texts, type)
    for type in (pa.binary(), pa.large_binary()):  # noqa: A001
        result[str(type)] = made([text.encode() for text in texts], type)
    result["fixed_size_binary"] = made([bytes([row % 256, 0, 255]) for row in numbers], pa.binary(3))
    words = made([f"word {row % 5}" for row in numbers], pa.string())
    result["dictionary"] = words.dictionary_encode()
    result["dictionary uint8"] = words.dictionary_encode().cast(pa.dictionary(pa.uint8(), pa.string()))
    return result | nested(rows, nulls)


def nested(rows: int = ROWS, nulls: str = "some") -> dict[str, Any]:
    """Returns an array of each nested and each view type, by the type's name. Some are three levels deep."""
    numbers = range(rows)
    valid = valid_rows(rows, nulls)
    few = [[row, None, -row][: row % 4] if keep else None for row, keep in zip(numbers, valid, strict=True)]
    pairs = [[row, row + 1] if keep else None for row, keep in zip(numbers, valid, strict=True)]
    texts = [f"view {row} " * (row % 4) if keep else None for row, keep in zip(numbers, valid, strict=True)]
    words = pa.array([f"word {row % 5}" for row in numbers])
    rows_of_two = pa.array(
        [{"n": row, "t": text} if text else None for row, text in zip(numbers, texts, strict=True)],
        pa.struct([("n", pa.int16()), pa.field("t", pa.string())]),
    )
    codes = pa.array([row % 2 for row in numbers], pa.int8())
    places = pa.array([row // 2 for row in numbers], pa.int32())
    ends = [*range(3, rows, 3), rows] if rows else []
    maps = [
        [(f"key {i}", i) for i in range(row % 3)] if keep else None
        for row, keep in zip(numbers, valid, strict=True)
    ]
    deep = [[{"m": each, "l": [row] * (row % 3)}] if each else None for row, each in enumerate(maps)]
    return {
        "list": pa.array(few, pa.list_(pa.int32())),
        "large_list": pa.array(few, pa.large_list(pa.int64())),
        "list_view": pa.array(few, pa.list_view(pa.int32())),
        "large_list_view": pa.array(few, pa.large_list_view(pa.int16())),
        "fixed_size_list": pa.array(pairs, pa.list_(pa.float32(), 2)),
        "struct": rows_of_two,
        "map": pa.array(maps, pa.map_(pa.string(), pa.int32())),
        "dense_union": pa.UnionArray.from_dense(codes, places, [pa.array(numbers, pa.int64()), words]),
        "sparse_union": pa.UnionArray.from_sparse(codes, [pa.array(numbers, pa.int64()), words]),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, pa.int32()),
            pa.array([f"run {end}" if end % 2 else None for end in ends], pa.string()),
        ),
        "string_view": pa.array(texts, pa.string_view()),
        "binary_view": pa.array([text and text.encode() for text in texts], pa.binary_view()),
        "list of dictionary": pa.ListArray.from_arrays(
            pa.array(range(rows + 1), pa.int32()), words.dictionary_encode()
        ),
        "dictionary of struct": pa.DictionaryArray.from_arrays(
            pa.array(
                [row % 3 if keep else None for row, keep in zip(numbers, valid, strict=True)], pa.int8()
            ),
            pa.array([{"a": 1}, {"a": None}, {"a": 3}]),
        ),
        "deep": pa.array(
            deep,
            pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("l", pa.large_list(pa.int64()))])),
        ),
    }


def nested_twice(rows: int = ROWS, nulls: str = "some") -> dict[str, Any]:
    """Returns arrays of each nested layout over structs, unions, bools or nulls. All have an offset."""
    numbers = range(rows)
    valid = valid_rows(rows, nulls)
    inner = rows + 9  # the list arrays have children with an offset
    number = pa.array([None if row % 5 == 2 else row for row in range(inner)], pa.int32())
    truth = pa.array([None if row % 6 == 1 else row % 2 == 0 for row in range(inner)], pa.bool_())
    text = pa.array([f"text {row} {'é' * (row % 20)}" for row in range(inner)])
    null = pa.array([row % 4 == 1 for row in range(inner)])
    pair = pa.StructArray.from_arrays([number, text], ["n", "t"], mask=null)
    flags = pa.StructArray.from_arrays([truth, truth], ["a", "b"], mask=null)
    codes = pa.array([row % 2 for row in range(inner)], pa.int8())
    places = pa.array([row // 2 for row in range(inner)], pa.int32())
    sparse = pa.UnionArray.from_sparse(codes, [number, text])
    dense = pa.UnionArray.from_dense(codes, places, [number, text])
    runs = pa.RunEndEncodedArray.from_arrays(
        pa.array([*range(2, inner, 2), inner], pa.int16()), pa.array([*range(2, inner, 2), inner], pa.int64())
    )
    mask = pa.array([not keep for keep in valid], pa.bool_())
    offsets = pa.array([max(row - row % 2, 0) for row in range(rows + 1)], pa.int32())
    sizes = pa.array([row % 3 for row in numbers], pa.int32())
    starts = pa.array([max(rows - row - 3, 0) for row in numbers], pa.int32())
    maps = pa.array(
        [
            [(key, {"n": row, "l": [row % 2 == 0] * (row % 4)}) for key in range(row % 3)] if keep else None
            for row, keep in zip(numbers, valid, strict=True)
        ],
        pa.map_(pa.int64(), pa.struct([("n", pa.int16()), ("l", pa.list_(pa.bool_()))])),
    )

    def listed(child: Any) -> Any:
        return pa.ListArray.from_arrays(offsets, child.slice(5), mask=mask)

    def rows_of(*children: Any) -> Any:
        names = [f"c{i}" for i in range(len(children))]
        return pa.StructArray.from_arrays([child.slice(3, rows) for child in children], names, mask=mask)

    return {
        "list of struct": listed(pair),
        "list of flags": listed(flags),
        "list of bool": listed(truth),
        "list of sparse union": listed(sparse),
        "list of dense union": listed(dense),
        "list of runs": listed(runs),
        "list of null": listed(pa.nulls(inner)),
        "list of views": listed(text.cast(pa.string_view())),
        "large_list of struct": pa.LargeListArray.from_arrays(
            offsets.cast(pa.int64()), flags.slice(5), mask=mask
        ),
        "list_view of struct": pa.ListViewArray.from_arrays(starts, sizes, pair.slice(5), mask=mask),
        "fixed_size_list of struct": pa.FixedSizeListArray.from_arrays(pair.slice(3, rows), 1, mask=mask),
        "fixed_size_list of bool": pa.FixedSizeListArray.from_arrays(
            pa.array([row % 3 == 1 for row in range(3 * rows)], pa.bool_()), 3, mask=mask
        ),
        "struct of struct": rows_of(pair, flags, truth),
        "struct of unions": rows_of(sparse, dense),
        "struct of runs and null": rows_of(runs, pa.nulls(inner)),
        "map of struct": maps,
        "struct of map": pa.StructArray.from_arrays([maps, maps], ["a", "b"], mask=mask),
        "dictionary of flags": pa.DictionaryArray.from_arrays(
            pa.array(
                [row % 5 if keep else None for row, keep in zip(numbers, valid, strict=True)], pa.uint16()
            ),
            flags.slice(3, 5),
        ),
    }


def decimals() -> list[Any]:
    """Returns the decimal types of the installed pyarrow; decimal32 and decimal64 came with pyarrow 19."""
    small = [pa.decimal32(7, 2), pa.decimal64(16, 2)] if hasattr(pa, "decimal64") else []
    return [*small, pa.decimal128(12, 2), pa.decimal256(50, 2)]


def table(rows: int = ROWS) -> Any:
    return pa.table(arrays(rows))
