#!/usr/bin/env python3
"""Times hand-overs from Python: imports and exports of Saeta's columns and tables, and of other arrays.

    handover_python.py [--rounds N] [--batches N] [--out FILE.json] [--commit TEXT]

A sample is the mean over a batch of calls, including the destruction of their results. The program prints the
median and the 90th percentile over all batches, in nanoseconds per call. In each round all operations run one
after the other. Libraries that are not installed are listed and left out. On a GPU torch, CuPy and JAX are
measured, on the host NumPy and pyarrow.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from rates import add_result_arguments, write_result

import saeta as sa

CALLS_IN_BATCH = 256
ROWS = 1024
COLUMNS = 10_000

Operation = Callable[[], Any]


def find(names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Returns the modules that can be imported, and for each of the others the reason why not."""
    found, missing = {}, []
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except ImportError as failure:
            missing.append(f"{name}: {failure}")
    return found, missing


def of_saeta(ctx: sa.Context, column: sa.Column) -> dict[str, Operation]:
    table = sa.table({f"c{i}": column for i in range(COLUMNS)}, ctx)
    middle = f"c{COLUMNS // 2}"
    return {
        "column.__dlpack__()": lambda: column.__dlpack__(),
        "column.__dlpack__(max_version=(1, 3))": lambda: column.__dlpack__(max_version=(1, 3)),
        "saeta.from_dlpack(column)": lambda: sa.from_dlpack(column),
        f"table[name] of {COLUMNS:,}": lambda: table[middle],
    }


def on_host(ctx: sa.Context, modules: dict[str, Any]) -> dict[str, Operation]:
    numpy = modules["numpy"]
    array = numpy.random.default_rng(1).random(ROWS)
    column = sa.from_dlpack(array, ctx)
    operations = of_saeta(ctx, column) | {
        "saeta.from_dlpack(numpy)": lambda: sa.from_dlpack(array),
        "column.to_numpy()": lambda: column.to_numpy(),
        "numpy.from_dlpack(column)": lambda: numpy.from_dlpack(column),
        "peer: numpy.from_dlpack(numpy)": lambda: numpy.from_dlpack(array),
    }
    if "pyarrow" in modules:
        pyarrow = modules["pyarrow"]
        arrow = pyarrow.array(array)
        columns = pyarrow.table({f"c{i}": arrow for i in range(COLUMNS)})
        operations |= {
            "peer: numpy.from_dlpack(pyarrow)": lambda: numpy.from_dlpack(arrow),
            f"peer: pyarrow table[name] of {COLUMNS:,}": lambda: columns["c5000"],
        }
    return operations


def on_gpu(ctx: sa.Context, modules: dict[str, Any]) -> dict[str, Operation]:
    torch = modules["torch"]
    tensor = torch.rand(ROWS, device="cuda:0")
    column = sa.from_dlpack(tensor, ctx)
    operations = of_saeta(ctx, column) | {
        "saeta.from_dlpack(torch)": lambda: sa.from_dlpack(tensor),
        "column.to_torch()": lambda: column.to_torch(),
        "torch.from_dlpack(column)": lambda: torch.from_dlpack(column),
        "peer: torch.from_dlpack(torch)": lambda: torch.from_dlpack(tensor),
    }
    if "cupy" in modules:
        cupy = modules["cupy"]
        array = cupy.random.rand(ROWS)
        operations |= {
            "saeta.from_dlpack(cupy)": lambda: sa.from_dlpack(array),
            "cupy.from_dlpack(column)": lambda: cupy.from_dlpack(column),
            "peer: torch.from_dlpack(cupy)": lambda: torch.from_dlpack(array),
            "peer: cupy.from_dlpack(torch)": lambda: cupy.from_dlpack(tensor),
        }
    return operations


def measure(operation: Operation, batches: int) -> list[float]:
    """Returns nanoseconds per call: one mean for each batch. The first quarter of the batches is warm-up."""
    samples = []
    for batch in range(batches + batches // 4):
        start = time.perf_counter_ns()
        for _ in range(CALLS_IN_BATCH):
            operation()
        took = time.perf_counter_ns() - start
        if batch >= batches // 4:
            samples.append(took / CALLS_IN_BATCH)
    return samples


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a hand-over costs from Python.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=40, help=f"of {CALLS_IN_BATCH} calls, a round")
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> int:
    options = parse()
    ctx = sa.context()
    host = ctx.device == "host"
    modules, missing = find(["numpy", "pyarrow"] if host else ["numpy", "torch", "cupy"])
    operations = on_host(ctx, modules) if host else on_gpu(ctx, modules)
    print(f"handover_python on {ctx.device}, over batches of {CALLS_IN_BATCH} calls")
    for each in missing:
        print(f"not measured: {each}")
    samples: dict[str, list[float]] = {name: [] for name in operations}
    gc.disable()  # a collection is not a part of the hand-over
    for _ in range(options.rounds):
        for name, operation in operations.items():
            samples[name] += measure(operation, options.batches)
    gc.enable()
    lines = []
    print(f"{'operation':44}{'p50 ns':>10}{'p90 ns':>10}")
    for name, times in samples.items():
        middle, high = statistics.median(times), statistics.quantiles(times, n=10)[-1]
        lines.append({"operation": name, "batches": len(times), "p50_ns": middle, "p90_ns": high})
        print(f"{name:44}{middle:10.1f}{high:10.1f}")
    write_result(
        options.out,
        "handover_python",
        options.commit,
        versions={name: str(module.__version__) for name, module in modules.items()},
        device=ctx.device,
        rounds=options.rounds,
        calls_in_batch=CALLS_IN_BATCH,
        results=lines,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
