"""Arrow data for tests: an array of every type that pyarrow can make and Saeta carries."""

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
    return result


def decimals() -> list[Any]:
    """decimal32 and decimal64 came with pyarrow 19."""
    small = [pa.decimal32(7, 2), pa.decimal64(16, 2)] if hasattr(pa, "decimal64") else []
    return [*small, pa.decimal128(12, 2), pa.decimal256(50, 2)]


def table(rows: int = ROWS) -> Any:
    return pa.table(arrays(rows))
