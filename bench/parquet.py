#!/usr/bin/env python3
"""Reads Parquet to a GPU by both engines, by pylibcudf alone and by pyarrow, and prints GB/s of values.

    bench/parquet.py [--rows 16000000] [--rounds 5] [--codecs none,snappy,zstd] [--folder /dev/shm]
                     [--in-flight 2,4] [--out FILE]

The table has columns of int64, float64, int32, date and two of text. Each figure is the median of the rounds;
the ways take turns. `peak` is what the ledger counted in one more run, beside the size of a window.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import saeta as sa

MIB = 1 << 20
NUMBERS = ["id", "fare", "riders"]  # columns of the loader


def table_of(rows: int) -> pa.Table:
    generator = np.random.default_rng(45)
    words = pa.array([f"city {number}" for number in range(1000)])
    keys = pa.array([f"{number:012x}" for number in generator.integers(0, 1 << 47, 100_000)])
    return pa.table(
        {
            "id": np.arange(rows),
            "fare": generator.random(rows),
            "riders": generator.integers(0, 1 << 30, rows, dtype=np.int32),
            "day": pa.array(generator.integers(18_000, 20_000, rows, dtype=np.int32)).cast(pa.date32()),
            "city": words.take(pa.array(generator.integers(0, len(words), rows))),
            "key": keys.take(pa.array(generator.integers(0, len(keys), rows))),
        }
    )


def pylibcudf_alone(path: Path, ctx: sa.Context, columns: list[str] | None = None) -> None:
    import pylibcudf as plc

    options = plc.io.parquet.ParquetReaderOptions.builder(plc.io.SourceInfo([str(path)])).build()
    if columns is not None:
        options.set_column_names(columns)
    plc.io.parquet.read_parquet(options)
    ctx.synchronize()


def one_chunked_reader(path: Path, ctx: sa.Context, window: int) -> None:
    import pylibcudf as plc

    options = plc.io.parquet.ParquetReaderOptions.builder(plc.io.SourceInfo([str(path)])).build()
    reader = plc.io.parquet.ChunkedParquetReader(options, chunk_read_limit=window, pass_read_limit=window)
    while reader.has_next():
        reader.read_chunk()
    ctx.synchronize()


def scan(path: Path, ctx: sa.Context, window: int, in_flight: int, engine: Any) -> None:
    with sa.scan_parquet(path, ctx, window=window, in_flight=in_flight, engine=engine) as batches:
        for _ in batches:
            pass
    ctx.synchronize()


def load(path: Path, ctx: sa.Context, engine: Any, window: str, prefetch: int) -> None:
    options: dict[str, Any] = {"matrix": True, "dtype": "float32", "shuffle": "rows", "columns": NUMBERS}
    options |= {"window": window, "read_options": sa.ReadOptions(engine=engine, prefetch=prefetch)}
    with sa.loader(path, ctx, batch_size=1 << 16, to="cupy", **options) as batches:
        for _ in batches:
            pass
    ctx.synchronize()


def seconds(work: Callable[[], None]) -> float:
    gc.collect()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ways_of(path: Path, ctx: sa.Context, in_flight: list[int]) -> dict[str, Callable[[], None]]:
    ways: dict[str, Callable[[], None]] = {
        "pylibcudf alone": lambda: pylibcudf_alone(path, ctx),
        "pyarrow to host memory": lambda: pq.read_table(path) and None,
        "read, device": lambda: sa.read_parquet(path, ctx, engine="device") and ctx.synchronize(),
        "read, host": lambda: sa.read_parquet(path, ctx, engine="host") and ctx.synchronize(),
    }
    for mib in (512, 128):
        ways[f"one chunked reader, {mib} MiB"] = lambda mib=mib: one_chunked_reader(path, ctx, mib * MIB)
        for count in in_flight:
            ways[f"scan {mib} MiB, {count} ahead, device"] = lambda mib=mib, count=count: scan(
                path, ctx, mib * MIB, count, "device"
            )
    ways["scan, host"] = lambda: scan(path, ctx, 128 * MIB, 2, "host")
    ways["loader: pylibcudf alone"] = lambda: pylibcudf_alone(path, ctx, NUMBERS)
    for window, prefetch in (("64MiB", 2), ("256MiB", 2), ("256MiB", 4)):
        ways[f"loader {window}, {prefetch} ahead, device"] = lambda window=window, prefetch=prefetch: load(
            path, ctx, "device", window, prefetch
        )
    ways["loader 256MiB, 2 ahead, host"] = lambda: load(path, ctx, "host", "256MiB", 2)
    return ways


def peak_of(path: Path, ctx: sa.Context, window: int, in_flight: int) -> int:
    with ctx.memory.child("peak") as child:
        scan(path, child, window, in_flight, "device")
        return int(child.memory.statistics()["peak"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codecs", default="none,snappy,zstd")
    parser.add_argument("--in-flight", default="2,4")
    parser.add_argument("--folder")
    parser.add_argument("--out")
    given = parser.parse_args()
    ctx = sa.context("cuda:0")
    table = table_of(given.rows)
    values = table.nbytes
    numbers = table.select(NUMBERS).nbytes
    in_flight = list(map(int, given.in_flight.split(",")))
    print(f"{given.rows} rows, {values / 1e6:.0f} MB of values, {numbers / 1e6:.0f} MB for the loader")
    results: dict[str, Any] = {"rows": given.rows, "bytes": values}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for codec in given.codecs.split(","):
            path = Path(folder) / f"{codec}.parquet"
            pq.write_table(table, path, compression=codec, row_group_size=1 << 20)
            ways = ways_of(path, ctx, in_flight)
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for way in ways.values():
                way()
            for _ in range(given.rounds):
                for name, way in ways.items():
                    taken[name].append(seconds(way))
            print(f"\n{codec}: {path.stat().st_size / 1e6:.0f} MB")
            results[codec] = {}
            for name, times in taken.items():
                rate = (numbers if name.startswith("loader") else values) / statistics.median(times) / 1e9
                results[codec][name] = round(rate, 2)
                print(f"  {name:34} {rate:7.2f} GB/s   ({min(times):.3f} to {max(times):.3f} s)", flush=True)
            for mib in (512, 128):
                for count in in_flight:
                    peak = peak_of(path, ctx, mib * MIB, count)
                    results[codec][f"peak, {mib} MiB, {count} ahead"] = peak
                    print(f"  peak of {mib} MiB, {count} ahead: {peak / MIB:.0f} MiB", flush=True)
    if given.out:
        Path(given.out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
