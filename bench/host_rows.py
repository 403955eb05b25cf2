#!/usr/bin/env python3
"""Measures on the host what a program tries first: a filter, a take, a join of many tables, pickling.

    host_rows.py [--rows N] [--rounds N]

The table has five columns: two of int64, one of float64, one of float32, and strings of about eight letters.
The joined tables are all of its rows in 1,000 parts, or 1,000 parts of 64 rows.
Each operation runs once for each library in each round, one after the other, so that all see the same
machine. The program checks that the results are equal, and prints the median of the rounds in milliseconds
and the median of the ratios to pyarrow.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import saeta as sa

TABLES = 1000


def data(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    words = pa.array([f"{number:08x}" for number in random.integers(0, 1 << 31, 1 << 16)])
    return pa.table(
        {
            "id": np.arange(rows),
            "zone": random.integers(0, 300, rows),
            "fare": random.random(rows),
            "tip": random.random(rows, dtype=np.float32),
            "name": words.take(pa.array(random.integers(0, len(words), rows))),
        }
    )


def joins(source: pa.Table, rows: int) -> dict[str, Callable[[], Any]]:
    """Returns for each library the join of many tables of some rows."""
    parts = [source.slice(number * rows, rows) for number in range(TABLES)]
    tables, frames = [sa.table(part, "host") for part in parts], [pl.DataFrame(part) for part in parts]
    return {
        "saeta": lambda: sa.concat_tables(tables).combine_chunks(),
        "pyarrow": lambda: pa.concat_tables(parts).combine_chunks(),
        "polars": lambda: pl.concat(frames, rechunk=True),
    }


def operations(source: pa.Table) -> dict[str, dict[str, Callable[[], Any]]]:
    """Returns for each operation what each library does."""
    random = np.random.default_rng(9)
    mask = random.random(len(source)) < 0.5
    picked = random.integers(0, len(source), len(source) // 4)
    table, frame, numbers = sa.table(source, "host"), pl.DataFrame(source), source.select(range(4))
    arrow_mask, arrow_picked, polars_mask = pa.array(mask), pa.array(picked), pl.Series(mask)
    ours, polars = table.select(list(range(4))), pl.DataFrame(numbers)
    return {
        f"join {TABLES} tables": joins(source, len(source) // TABLES),
        "join small tables": joins(source, 64),
        "filter": {
            "saeta": lambda: table.filter(mask),
            "pyarrow": lambda: source.filter(arrow_mask),
            "polars": lambda: frame.filter(polars_mask),
        },
        "filter, numbers": {
            "saeta": lambda: ours.filter(mask),
            "pyarrow": lambda: numbers.filter(arrow_mask),
            "polars": lambda: polars.filter(polars_mask),
        },
        "take": {
            "saeta": lambda: table.take(picked),
            "pyarrow": lambda: source.take(arrow_picked),
            "polars": lambda: frame[picked],
        },
        "take, numbers": {
            "saeta": lambda: ours.take(picked),
            "pyarrow": lambda: numbers.take(arrow_picked),
            "polars": lambda: polars[picked],
        },
        "pickle round trip": {
            "saeta": lambda: pickle.loads(pickle.dumps(table, 5)),
            "pyarrow": lambda: pickle.loads(pickle.dumps(source, 5)),
            "polars": lambda: pickle.loads(pickle.dumps(frame, 5)),
        },
    }


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(f"{'':18} {'saeta':>9} {'pyarrow':>9} {'polars':>9}   ratio to pyarrow, to polars")
    for name, ways in operations(data(given.rows)).items():
        sizes = {library: len(way()) for library, way in ways.items()}
        assert len(set(sizes.values())) == 1, sizes
        rounds = [{library: seconds(way) for library, way in ways.items()} for _ in range(given.rounds)]
        medians = [f"{1e3 * statistics.median(one[library] for one in rounds):9.2f}" for library in ways]
        ratios = [
            f"{statistics.median(one['saeta'] / one[other] for one in rounds):.2f}"
            for other in ("pyarrow", "polars")
        ]
        print(f"{name:18} {' '.join(medians)}   {', '.join(ratios)}")


if __name__ == "__main__":
    main()
