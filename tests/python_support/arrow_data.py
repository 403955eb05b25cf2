"""Arrow data for tests: an array of every type that pyarrow can make."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 67


def arrays(rows: int = ROWS) -> dict[str, Any]:
    """By the name of the type. Every seventh value is null, but for the null type."""
    valid = [row % 7 != 3 for row in range(rows)]

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
    return result | nested(rows)


def nested(rows: int = ROWS) -> dict[str, Any]:
    """Every nested layout and the views, by the name of the type, and some three deep."""
    numbers = range(rows)
    valid = [row % 7 != 3 for row in numbers]
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


def decimals() -> list[Any]:
    """decimal32 and decimal64 came with pyarrow 19."""
    small = [pa.decimal32(7, 2), pa.decimal64(16, 2)] if hasattr(pa, "decimal64") else []
    return [*small, pa.decimal128(12, 2), pa.decimal256(50, 2)]


def table(rows: int = ROWS) -> Any:
    return pa.table(arrays(rows))
