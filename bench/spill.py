#!/usr/bin/env python3
"""Times spilling a table from a device to each tier and reading it back, compared with plain copies.

    bench/spill.py [--device cuda:0] [--mib 1024] [--folder /tmp] [--out FILE.json] [--commit TEXT]

The plain copies are torch's copies between the device and page-locked or pageable memory, and `os.pwrite` to
a file of the same folder, which alternates with the spills to a file. "oversubscribed" is a program whose
tables need three times its budget and are all used in each sweep. The first sweeps page-lock memory and are
listed separately. Later sweeps are compared with the time that plain copies need for the moved bytes, one
direction after the other. The results are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

REPEATS = 5
PARTS, TIMES, WARMING, SWEEPS = 24, 3, 6, 4
PIECE = 16 << 20


def best_rate(work: Callable[[], object], size: int, synchronize: Callable[[], object]) -> float:
    """Returns GB/s of the fastest of several runs. The first one is also a warm-up."""
    times = []
    for _ in range(REPEATS + 1):
        synchronize()
        start = time.perf_counter()
        work()
        synchronize()
        times.append(time.perf_counter() - start)
    return round(size / min(times[1:]) / 1e9, 2)


def spilled(ctx: Any, handle: Any, tier: str, peer: Callable[[], object] | None = None) -> dict[str, float]:
    """Returns GB/s of the fastest of several spills and reads, which alternate with runs of the peer."""

    def back() -> None:
        with handle.use():
            pass

    handle.spill(tier)
    back()
    if tier == "pinned":
        ctx.synchronize()  # so that the pool gets its blocks back before the next run
    runs: dict[str, Callable[[], object]] = {"there": partial(handle.spill, tier), "back": back}
    if peer is not None:
        runs["pwrite"] = peer
    times = [{name: seconds(run, ctx) for name, run in runs.items()} for _ in range(REPEATS)]
    return {name: round(handle.nbytes / min(each[name] for each in times) / 1e9, 2) for name in runs}


def seconds(work: Callable[[], object], ctx: Any) -> float:
    ctx.synchronize()
    start = time.perf_counter()
    work()
    ctx.synchronize()
    return time.perf_counter() - start


def oversubscribed(ctx: Any, mib: int, rates: dict[str, float]) -> dict[str, Any]:
    """Uses tables that need `TIMES` the budget, forwards and backwards, without other work in between."""
    import saeta as sa

    rows = TIMES * (mib << 20) // PARTS // 8
    ctx.memory.limit = mib << 20
    values = np.arange(rows)
    parts = [ctx.spillable(sa.table({"a": values + number}, ctx)) for number in range(PARTS)]

    def sweep(turn: int) -> None:
        for number in range(PARTS) if turn % 2 == 0 else reversed(range(PARTS)):
            with parts[number].use() as table:
                assert table["a"][-1:].to_pylist() == [rows - 1 + number]

    times = [seconds(partial(sweep, turn), ctx) for turn in range(WARMING)]
    before = moved_bytes(sa.spill_statistics(ctx))
    taken = sum(seconds(partial(sweep, turn), ctx) for turn in range(SWEEPS))
    left, came = (now - then for now, then in zip(moved_bytes(sa.spill_statistics(ctx)), before, strict=True))
    assert ctx.memory.statistics()["refused"] == 0
    parts.clear()
    ctx.memory.limit = None
    made = {
        "milliseconds": {f"sweep {turn + 1}": round(took * 1e3, 1) for turn, took in enumerate(times)},
        "bytes that left": left,
        "bytes that came back": came,
        "seconds": round(taken, 4),
    }
    if rates:
        plain = left / rates["pinned there"] / 1e9 + came / rates["pinned back"] / 1e9
        made |= {"seconds of plain copies": round(plain, 4), "ratio": round(taken / plain, 2)}
    return made


def moved_bytes(seen: dict[str, Any]) -> tuple[int, int]:
    """Returns the bytes spilled from the device and read back, summed over all tiers."""
    tiers = [tier for name, tier in seen["tiers"].items() if name != "device"]
    return sum(each["spilled_bytes"] for each in tiers), sum(each["returned_bytes"] for each in tiers)


def plain_copies(size: int, device: str) -> dict[str, float]:
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    there = torch.empty(size, dtype=torch.uint8, device=device)
    rates = {}
    for name, here in (
        ("pinned", torch.empty(size, dtype=torch.uint8, pin_memory=True)),
        ("pageable", torch.zeros(size, dtype=torch.uint8)),
    ):
        rates[f"{name} there"] = best_rate(lambda h=here: h.copy_(there), size, torch.cuda.synchronize)
        rates[f"{name} back"] = best_rate(lambda h=here: there.copy_(h), size, torch.cuda.synchronize)
    return rates


def write_plain(source: memoryview, folder: str) -> None:
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    for at in range(0, len(source), PIECE):
        os.pwrite(file, source[at : at + PIECE], at)
    os.close(file)


def measure(device: str, mib: int, folder: str) -> dict[str, Any]:
    os.environ["SAETA_SPILL_DIR"] = folder
    import saeta as sa

    ctx = sa.context(device)
    values = np.random.default_rng(1).integers(0, 1 << 60, (2, (mib << 20) // 16))
    handle = ctx.spillable(sa.table({"a": values[0], "b": values[1]}, ctx))
    tiers = [] if device == "host" else ["pinned", "pageable"]
    moved = {tier: spilled(ctx, handle, tier) for tier in tiers}
    plain_write = partial(write_plain, memoryview(values).cast("B"), folder)
    moved["file"] = spilled(ctx, handle, "file", plain_write)
    with handle.use() as table:
        assert (table["a"].to_numpy() == values[0]).all()
        assert (table["b"].to_numpy() == values[1]).all()
    size = handle.nbytes
    del table
    handle.close()
    plain = plain_copies(size, device)
    return {
        "device": device,
        "bytes": size,
        "GB/s": {"spilled": moved, "plain copies": plain},
        "oversubscribed": oversubscribed(ctx, mib, plain),
    }


def main() -> None:
    from rates import add_result_arguments, write_result

    import saeta as sa

    parser = argparse.ArgumentParser(description="times spilling")
    parser.add_argument("--device", default=sa.devices()[0].name)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    add_result_arguments(parser)
    given = parser.parse_args()
    measured = measure(given.device, given.mib, given.folder)
    print(json.dumps(measured, indent=2))
    write_result(given.out, "spill", given.commit, **measured)


if __name__ == "__main__":
    main()
