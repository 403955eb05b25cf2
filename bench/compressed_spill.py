#!/usr/bin/env python3
"""Times tables that leave a device compressed, and come back, compared with plain copies of the same bytes.

    bench/compressed_spill.py [--device cuda:0] [--rows 6000000] [--folder /tmp] [--out FILE.json]
                              [--commit TEXT]

Three tables: `lineitem` with the distributions of TPC-H (decimals, dates, keys and short texts), `trips` as
taxis record them (skewed amounts of cents, times, zones), and `noise`, of which nothing can be saved. "plain"
is torch's copy to page-locked memory and back; the others are the table of `Context.spillable`, as it is and
compressed. Rates are bytes of values by the seconds of the way there or back, in GB/s; "both" is all bytes by
both ways, and "times plain" compares that with torch. "columns" are the columns alone. "three times its
budget" is a program that uses tables of three times its budget in turns. The results are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa

ROUNDS = 5
PARTS, WARMING, SWEEPS = 24, 6, 4
WORDS = [
    "furiously",
    "quickly",
    "carefully",
    "slyly",
    "blithely",
    "express",
    "regular",
    "final",
    "special",
    "ironic",
    "pending",
    "bold",
    "even",
    "silent",
    "deposits",
    "requests",
    "packages",
    "accounts",
    "foxes",
    "ideas",
    "theodolites",
    "pinto",
    "beans",
    "instructions",
    "dependencies",
    "above",
    "across",
    "against",
    "along",
    "among",
    "around",
    "sleep",
    "wake",
    "haggle",
    "nag",
    "use",
    "boost",
    "affix",
    "detect",
    "integrate",
    "cajole",
    "the",
]


def texts(random: Any, values: list[str], count: int) -> Any:
    return pa.DictionaryArray.from_arrays(random.integers(0, len(values), count), values).cast(pa.string())


def decimals(cents: Any) -> Any:
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    buffers = [None, pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), buffers)


def lineitem(count: int) -> Any:
    """The columns of TPC-H's largest table, with its ranges."""
    random = np.random.default_rng(1)
    lines = random.integers(1, 8, count // 4 + 1)
    orders = np.repeat(np.arange(len(lines)), lines)[:count]
    count = len(orders)
    first = np.r_[True, orders[1:] != orders[:-1]]
    number = np.arange(count) - np.maximum.accumulate(np.where(first, np.arange(count), 0)) + 1
    quantity = random.integers(1, 51, count)
    part = random.integers(1, 200_001, count)
    retail = 90_000 + part // 10 % 20_001 + 100 * (part % 1000)
    ordered = random.integers(8035, 10_441, len(lines))[orders]
    shipped = ordered + random.integers(1, 122, count)
    comments = [" ".join(random.choice(WORDS, random.integers(2, 7)))[:43] for _ in range(50_000)]
    return pa.table(
        {
            "l_orderkey": (orders // 8 * 32 + orders % 8 + 1).astype(np.int64),
            "l_partkey": part,
            "l_suppkey": random.integers(1, 10_001, count),
            "l_linenumber": number.astype(np.int32),
            "l_quantity": decimals(quantity * 100),
            "l_extendedprice": decimals(quantity * retail),
            "l_discount": decimals(random.integers(0, 11, count)),
            "l_tax": decimals(random.integers(0, 9, count)),
            "l_returnflag": texts(random, ["R", "A", "N"], count),
            "l_linestatus": texts(random, ["O", "F"], count),
            "l_shipdate": pa.array(shipped.astype(np.int32)).cast(pa.date32()),
            "l_commitdate": pa.array((ordered + random.integers(30, 91, count)).astype(np.int32)).cast(
                pa.date32()
            ),
            "l_receiptdate": pa.array((shipped + random.integers(1, 31, count)).astype(np.int32)).cast(
                pa.date32()
            ),
            "l_shipinstruct": texts(
                random, ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"], count
            ),
            "l_shipmode": texts(random, ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"], count),
            "l_comment": texts(random, comments, count),
        }
    )


def trips(count: int) -> Any:
    """Trips of taxis: times in order, skewed distances and amounts."""
    random = np.random.default_rng(2)
    start = 1_700_000_000_000_000 + np.cumsum(random.exponential(2.0, count)).astype(np.int64) * 1_000_000
    seconds = random.lognormal(6.5, 0.6, count).astype(np.int64)
    distance = np.round(random.lognormal(0.6, 0.8, count), 2)
    fare = np.round(3 + 2.5 * distance + seconds / 150, 1)
    tip = np.where(
        random.random(count) < 0.3, 0.0, np.round(fare * random.choice([0.15, 0.2, 0.25], count), 2)
    )
    tolls = np.where(random.random(count) < 0.93, 0.0, 6.94)
    extra = random.choice([0.0, 0.5, 1.0, 2.5], count)
    return pa.table(
        {
            "vendor": random.choice(np.array([1, 2], np.int32), count, p=[0.3, 0.7]),
            "pickup": pa.array(start).cast(pa.timestamp("us")),
            "dropoff": pa.array(start + seconds * 1_000_000).cast(pa.timestamp("us")),
            "passengers": pa.array(
                random.choice([1, 1, 1, 2, 3, 5], count).astype(np.int64), mask=random.random(count) < 0.03
            ),
            "distance": distance,
            "rate": pa.array(
                random.choice([1.0, 1.0, 1.0, 1.0, 2.0, 5.0], count), mask=random.random(count) < 0.03
            ),
            "stored": texts(random, ["N", "N", "N", "Y"], count),
            "from_zone": (random.zipf(1.3, count) % 265 + 1).astype(np.int32),
            "to_zone": (random.zipf(1.2, count) % 265 + 1).astype(np.int32),
            "payment": random.choice(np.array([1, 1, 1, 2, 3, 4], np.int64), count),
            "fare": fare,
            "extra": extra,
            "tax": np.where(random.random(count) < 0.99, 0.5, -0.5),
            "tip": tip,
            "tolls": tolls,
            "surcharge": np.where(random.random(count) < 0.99, 1.0, 0.3),
            "total": np.round(fare + extra + 0.5 + tip + tolls + 1.0, 2),
        }
    )


def noise(count: int) -> Any:
    random = np.random.default_rng(3)
    return pa.table({f"n{number}": random.integers(0, 1 << 63, count) for number in range(16)})


def fastest(work: Callable[[], object], ctx: Any) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        ctx.synchronize()
        begun = time.perf_counter()
        work()
        ctx.synchronize()
        best = min(best, time.perf_counter() - begun)
    return best


def there_and_back(handle: Any, ctx: Any, tier: str) -> tuple[float, float]:
    """Returns the seconds of the fastest way there and of the fastest way back."""
    there, back = float("inf"), float("inf")
    for _ in range(ROUNDS + 2):  # the first ones page-lock memory
        with handle.use():
            ctx.synchronize()
        begun = time.perf_counter()
        handle.spill(tier)
        ctx.synchronize()
        there = min(there, time.perf_counter() - begun)
        begun = time.perf_counter()
        with handle.use():
            ctx.synchronize()
            back = min(back, time.perf_counter() - begun)
    return there, back


def plain_copies(nbytes: int, ctx: Any) -> tuple[float, float]:
    import torch

    on_device = torch.empty(nbytes, dtype=torch.uint8, device=ctx.device)
    pinned = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def seconds(work: Callable[[], object]) -> float:
        def whole() -> None:
            work()
            torch.cuda.synchronize()

        return fastest(whole, ctx)

    return (
        seconds(lambda: pinned.copy_(on_device, non_blocking=True)),
        seconds(lambda: on_device.copy_(pinned, non_blocking=True)),
    )


def smaller(handle: Any) -> float:
    return round(handle.nbytes / handle.stored_nbytes, 2)


def rates(nbytes: int, ways: tuple[float, float]) -> dict[str, float]:
    there, back = ways
    return {
        "there": round(nbytes / there / 1e9, 2),
        "back": round(nbytes / back / 1e9, 2),
        "both": round(2 * nbytes / (there + back) / 1e9, 2),
    }


def measure(name: str, source: Any, ctx: Any, gpu: bool) -> dict[str, Any]:
    tiers = ["pinned", "pageable", "file"] if gpu else ["file"]
    result: dict[str, Any] = {}
    for compress in (False, True):
        handle = ctx.spillable(sa.from_arrow(source, ctx), compress=compress)
        result["bytes"] = handle.nbytes
        for tier in tiers:
            shown = rates(handle.nbytes, there_and_back(handle, ctx, tier))
            handle.spill(tier)
            shown["smaller"] = smaller(handle)
            result[f"{tier}, compressed" if compress else tier] = shown
        with handle.use() as table:
            assert table.to_arrow().equals(source.combine_chunks()) or table.to_arrow().equals(source), name
        handle.close()
    if gpu:
        result["plain"] = rates(result["bytes"], plain_copies(result["bytes"], ctx))
        for shown in ("pinned", "pinned, compressed"):
            result[shown]["times plain"] = round(result[shown]["both"] / result["plain"]["both"], 2)
    return result


def by_column(source: Any, ctx: Any) -> dict[str, Any]:
    """The rates of each column alone, in page-locked memory, repeated so that it has 256 MiB."""
    result = {}
    for name in source.column_names:
        column = source.select([name])
        times = max(1, (256 << 20) // column.nbytes)
        handle = ctx.spillable(sa.from_arrow(pa.concat_tables([column] * times), ctx), compress=True)
        shown = rates(handle.nbytes, there_and_back(handle, ctx, "pinned"))
        handle.spill("pinned")
        result[name] = {"type": str(column.schema.field(0).type), "smaller": smaller(handle), **shown}
        handle.close()
    return result


def returned_bytes(ctx: Any) -> int:
    return sum(tier["returned_bytes"] for tier in sa.spill_statistics(ctx)["tiers"].values())


def oversubscribed(source: Any, ctx: Any, plain: tuple[float, float]) -> dict[str, Any]:
    """A program whose tables need three times its budget, all of which it uses in each sweep."""
    result = {}
    for compress in (False, True):
        with ctx.memory.child("program", source.nbytes // 3) as child:
            seconds, moved = sweeps(source, child, compress)
        result["compressed" if compress else "as it is"] = {
            "seconds": round(seconds, 4),
            "moved": moved,
            "of the plain copies": round(seconds / (moved * sum(plain) / source.nbytes), 2),
        }
    return result


def sweeps(source: Any, ctx: Any, compress: bool) -> tuple[float, int]:
    """Returns the seconds of some sweeps and the bytes that came back meanwhile."""
    rows = source.num_rows // PARTS
    parts = [source.slice(part * rows, rows).combine_chunks() for part in range(PARTS)]
    handles = [ctx.spillable(sa.from_arrow(part, ctx), compress=compress) for part in parts]

    def sweep(turn: int) -> None:
        for handle in handles if turn % 2 == 0 else reversed(handles):
            with handle.use():
                ctx.synchronize()

    for turn in range(WARMING):
        sweep(turn)
    returned, begun = returned_bytes(ctx), time.perf_counter()
    for turn in range(SWEEPS):
        sweep(turn)
    seconds, moved = time.perf_counter() - begun, returned_bytes(ctx) - returned
    for handle in handles:
        handle.close()
    return seconds, moved


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--folder", default="/tmp")
    parser.add_argument("--out")
    parser.add_argument("--commit", default="")
    chosen = parser.parse_args()
    os.environ.setdefault("SAETA_SPILL_PINNED", "16GiB")
    ctx = sa.context(chosen.device, spill_dir=chosen.folder)
    results = {"commit": chosen.commit, "device": ctx.device, "tables": {}}
    gpu = ctx.device != "host"
    for make in (lineitem, trips, noise):
        source = make(chosen.rows)
        result = measure(make.__name__, source, ctx, gpu)
        if gpu and make is not noise:
            result["columns"] = by_column(source, ctx)
            result["three times its budget"] = oversubscribed(source, ctx, plain_copies(source.nbytes, ctx))
        results["tables"][make.__name__] = result
        print(make.__name__, json.dumps(result))
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
