"""Makes a table like TPC-H's lineitem with a column of every type, from a seeded generator.

The numeric columns that become tensors have no nulls. Flags, dates, texts and decimals have some.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BATCH_ROWS = 1 << 16
NULL_SHARE = 0.05
FIRST_DAY = 8036  # 1992-01-02, in days since 1970
DAYS = 2526
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
FLAGS = ["A", "N", "R"]
INSTRUCTIONS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
WORDS = [
    "carefully",
    "final",
    "deposits",
    "détail",
    "ironic",
    "packages",
    "quickly",
    "bold",
    "requests",
    "sleep",
    "furiously",
    "even",
]

Random = np.random.Generator


def write_lineitem(path: Path, rows: int, seed: int, progress: Callable[[int], object]) -> None:
    """Writes `rows` rows as an Arrow IPC file with `BATCH_ROWS` rows per batch.

    Calls `progress` with the number of rows written so far.
    """
    vocabulary = _vocabulary(np.random.default_rng([seed, 0]))
    modes = pa.array(MODES)
    done = 0
    # The schema comes from an empty batch, so that a file without rows has one too.
    with pa.ipc.new_file(path, lineitem_batch(0, 0, seed, vocabulary, modes).schema) as writer:
        while done < rows:
            length = min(BATCH_ROWS, rows - done)
            writer.write_batch(lineitem_batch(done, length, seed, vocabulary, modes))
            done += length
            progress(done)


def lineitem_batch(start: int, rows: int, seed: int, vocabulary: Any, modes: Any) -> Any:
    """Makes rows [start, start + rows).

    The same seed gives the same rows, whatever the batches before them.
    """
    rng = np.random.default_rng([seed, 1, start])
    columns = {
        **_numbers(rng, start, rows),
        **_decimals(rng, rows),
        **_times(rng, rows),
        **_texts(rng, rows, vocabulary, modes),
    }
    return pa.record_batch(columns)


def _numbers(rng: Random, start: int, rows: int) -> dict[str, Any]:
    place = np.arange(start, start + rows, dtype=np.int64)
    quantity = rng.integers(1, 51, rows).astype(np.float64)
    return {
        "l_orderkey": pa.array(place // 4 + 1),
        "l_partkey": pa.array(rng.integers(1, 200_000, rows, dtype=np.int32)),
        "l_suppkey": pa.array(rng.integers(1, 10_000, rows, dtype=np.uint32)),
        "l_linenumber": pa.array((place % 4 + 1).astype(np.int8)),
        "l_packages": pa.array(rng.integers(1, 255, rows, dtype=np.uint8)),
        "l_warehouse": pa.array(rng.integers(-500, 500, rows, dtype=np.int16)),
        "l_dock": pa.array(rng.integers(0, 65_535, rows, dtype=np.uint16)),
        "l_checksum": pa.array(rng.integers(0, 2**64 - 1, rows, dtype=np.uint64)),
        "l_quantity": pa.array(quantity),
        "l_extendedprice": pa.array(quantity * rng.integers(90_000, 200_000, rows) / 100.0),
        "l_discount": pa.array(rng.integers(0, 11, rows) / 100.0),
        "l_tax": pa.array((rng.integers(0, 9, rows) / 100.0).astype(np.float16)),
        "l_weight": pa.array(rng.random(rows, dtype=np.float32) * np.float32(30)),
        "l_fragile": pa.array(rng.random(rows) < 0.1, mask=_nulls(rng, rows)),
    }


def _decimals(rng: Random, rows: int) -> dict[str, Any]:
    cents = rng.integers(-(10**8), 10**8, rows)
    columns = {
        "l_price": _fixed(pa.decimal128(12, 2), _widened(cents, 2), _nulls(rng, rows)),
        "l_turnover": _fixed(pa.decimal256(40, 4), _widened(cents, 4)),
    }
    if hasattr(pa, "decimal64"):  # pyarrow 19 and newer
        columns["l_fee"] = _fixed(pa.decimal32(9, 2), cents.astype(np.int32))
        columns["l_cost"] = _fixed(pa.decimal64(18, 3), cents, _nulls(rng, rows))
    return columns


def _times(rng: Random, rows: int) -> dict[str, Any]:
    day = rng.integers(FIRST_DAY, FIRST_DAY + DAYS, rows)
    second = rng.integers(0, 86_400, rows)
    moment = day * 86_400 + second
    interval = np.zeros(rows, np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")]))
    interval["months"] = rng.integers(0, 24, rows)
    interval["days"] = rng.integers(0, 30, rows)
    interval["nanoseconds"] = rng.integers(0, 10**12, rows)
    return {
        "l_shipdate": _fixed(pa.date32(), day.astype(np.int32)),
        "l_commitdate": _fixed(pa.date64(), (day + 30) * 86_400_000, _nulls(rng, rows)),
        "l_shiptime": _fixed(pa.time32("s"), second.astype(np.int32)),
        "l_scantime": _fixed(pa.time64("us"), second * 1_000_000 + 7),
        "l_received": _fixed(pa.timestamp("us", "UTC"), moment * 1_000_000, _nulls(rng, rows)),
        "l_logged": _fixed(pa.timestamp("ns"), moment * 1_000_000_000 + 11),
        "l_transit": _fixed(pa.duration("ms"), rng.integers(0, 10**9, rows)),
        "l_warranty": _fixed(pa.month_day_nano_interval(), interval, _nulls(rng, rows)),
    }


def _texts(rng: Random, rows: int, vocabulary: Any, modes: Any) -> dict[str, Any]:
    instructions = pa.array(INSTRUCTIONS, pa.large_string())
    tags = pa.array([word.encode() for word in WORDS], pa.binary())
    flags = pa.array(FLAGS, pa.string())
    return {
        "l_comment": vocabulary.take(_picks(rng, rows, len(vocabulary), nulls=True)),
        "l_shipinstruct": instructions.take(_picks(rng, rows, len(instructions))),
        "l_tag": tags.take(_picks(rng, rows, len(tags), nulls=True)),
        "l_label": tags.cast(pa.large_binary()).take(_picks(rng, rows, len(tags))),
        "l_digest": _fixed(pa.binary(8), rng.integers(0, 2**63 - 1, rows)),
        "l_shipmode": pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, len(MODES), rows, dtype=np.int8), mask=_nulls(rng, rows)), modes
        ),
        "l_returnflag": flags.take(_picks(rng, rows, len(flags))),
        "l_reserved": pa.nulls(rows),
    }


def _vocabulary(rng: Random) -> Any:
    picks = rng.integers(0, len(WORDS), (4096, 4))
    lengths = rng.integers(0, 5, 4096)
    return pa.array(
        [" ".join(WORDS[word] for word in row[:length]) for row, length in zip(picks, lengths, strict=True)]
    )


def _picks(rng: Random, rows: int, count: int, *, nulls: bool = False) -> Any:
    return pa.array(rng.integers(0, count, rows, dtype=np.int32), mask=_nulls(rng, rows) if nulls else None)


def _nulls(rng: Random, rows: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns a mask that is True for null values."""
    return rng.random(rows) < NULL_SHARE


def _fixed(type: Any, values: Any, nulls: Any = None) -> Any:  # noqa: A002 - the word of the lexicon
    """Makes an array of a fixed-width type from the bytes of its values."""
    validity = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(type, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _widened(values: Any, words: int) -> Any:
    """Widens 64-bit integers to integers of `words` x 64 bits. The sign fills the upper words."""
    return np.column_stack([values, *[values >> 63] * (words - 1)])
