#!/usr/bin/env python3
"""Times packing a table of many columns, compared with writing the same table as pyarrow's IPC stream.

    bench/pack.py [--device cuda:0] [--columns 1000] [--mib 256] [--out FILE.json] [--commit TEXT]

"packed already" is a table in one allocation, which needs no copy and no kernel. "gathered" is a table of
several allocations, which one kernel copies; it is compared with a plain copy of the same bytes on the
device. The results are checked.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from rates import add_result_arguments, write_result

import saeta as sa

REPEATS = 9


def best_seconds(work: Callable[[], object], ctx: sa.Context) -> float:
    """Returns the shortest time of several runs, including the work that each has queued on the device."""
    times = []
    for _ in range(REPEATS):
        ctx.synchronize()
        start = time.perf_counter()
        kept = work()
        ctx.synchronize()
        times.append(time.perf_counter() - start)
        del kept
    return min(times)


def write_stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def measure(device: str, columns: int, mib: int) -> dict[str, Any]:
    rows = (mib << 20) // columns // 8
    random = np.random.default_rng(1)
    values = {f"c{i}": random.integers(0, 1 << 60, rows) for i in range(columns)}
    ctx = sa.context(device)
    scattered = sa.table({name: sa.column(each, ctx, name=name) for name, each in values.items()}, ctx)
    together = sa.unpack(*scattered.pack())
    assert together.equals(scattered)
    body = together.pack().body
    packed = together.pack()
    on_host = pa.table(values)
    seconds = {
        "packed already": best_seconds(together.pack, ctx),
        "gathered": best_seconds(scattered.pack, ctx),
        "plain copy": best_seconds(lambda: sa.from_dlpack(body, ctx, copy=True), ctx),
        "unpack, trusted": best_seconds(lambda: sa.unpack(*packed, validate=False), ctx),
        "unpack, checked": best_seconds(lambda: sa.unpack(*packed), ctx),
        "pyarrow stream on the host": best_seconds(lambda: write_stream(on_host), ctx),
    }
    return {
        "device": device,
        "columns": columns,
        "bytes": len(body),
        "microseconds": {name: round(each * 1e6, 1) for name, each in seconds.items()},
        "gather / copy": round(seconds["plain copy"] / seconds["gathered"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="times the packed form")
    parser.add_argument("--device", default=sa.devices()[0].name)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=256)
    add_result_arguments(parser)
    given = parser.parse_args()
    measured = measure(given.device, given.columns, given.mib)
    print(json.dumps(measured, indent=2))
    write_result(given.out, "pack", given.commit, **measured)


if __name__ == "__main__":
    main()
