#!/usr/bin/env python3
"""What tables reach from one actor of Ray to another, on this machine.

    ray_rates.py [--device cuda:0] [--to cuda:1] [--mib N] [--columns N] [--batches N] [--rounds N]
                 [--transport-only] [--out FILE.json] [--commit TEXT]

An actor has a table and returns it; another one takes it and, on the host, adds up columns, 8 at most.
"passed on": the second actor returns the table that it has received to a third one. "kept": the first actor
keeps what it has shared, or its reference in the store, and returns that each time. `--to` is the device of
all actors but the first. From one GPU to another, "link" is a plain copy of as many bytes.

Tables go by the transport of `saeta.ray`, or through Ray's object store, as those of pyarrow do; on a GPU
pyarrow's are downloaded before and uploaded afterwards. On the host an array of NumPy with the same values
shows what the object store takes by itself, because nobody converts it, and "nothing" what the calls take.
Operations take turns, round by round. The program prints the median, the 10th and the 90th percentile over
all rounds but the first. The sums are compared with those of the data.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reports to its makers otherwise

import ray
from rates import copy_between_gpus, write_result

import saeta as sa
import saeta.ray

saeta.ray.register_transport()
PEER = "pyarrow, object store"
SUMMED = 8
SETTLE = 0.3  # seconds


def context_of(device: str) -> sa.Context:
    return sa.context(device) if device == "host" else sa.context(device, exportable_pool=True)


class Actor:
    def __init__(self, device: str) -> None:
        self.ctx = context_of(device)
        if device != "host":
            saeta.ray.receive_into(self.ctx)
        self.table: Any = None
        self.kept: Any = None
        self.reference: Any = None
        self.array: Any = None

    def make(self, rows: int, columns: int, batches: int) -> int:
        """Makes a table as a read makes it, in one allocation. Returns its bytes."""
        parts = np.array_split(np.arange(rows), batches)
        self.arrow = pa.concat_tables(
            [pa.table({f"c{i}": part + i for i in range(columns)}) for part in parts]
        )
        self.table = sa.unpack(*sa.from_arrow(self.arrow, self.ctx).pack())
        return int(self.arrow.nbytes)

    @ray.method(tensor_transport="SAETA")
    def share(self) -> sa.Table:
        return self.table

    @ray.method(tensor_transport="SAETA")
    def share_kept(self) -> sa.Table:
        """Returns a table that stays in shared memory, because there is a token for it."""
        if self.kept is None:
            self.kept = sa.open_shared(sa.unpack(*self.table.pack()).share())
            self.token = self.kept.share()
        return self.kept

    def refer(self) -> list[Any]:
        """Returns a reference to the table of pyarrow in the object store, which is put there once."""
        if self.reference is None:
            self.reference = ray.put(self.store_arrow())
        return [self.reference]

    def store(self) -> sa.Table:
        return self.table

    def store_arrow(self) -> pa.Table:
        return self.arrow if self.ctx.device == "host" else self.table.to_arrow()

    def store_array(self) -> Any:
        if self.array is None:
            self.array = np.stack([self.arrow[name].to_numpy() for name in self.arrow.schema.names])
        return self.array

    def nothing(self) -> None:
        pass

    @ray.method(tensor_transport="SAETA")
    def pass_on(self, table: sa.Table) -> sa.Table:
        return table

    def pass_on_store(self, table: Any) -> Any:
        return table

    def total(self, table: Any) -> int | None:
        """Adds up columns of a table of the host. On a GPU: has it there."""
        if table is None:
            return None
        if isinstance(table, np.ndarray):
            return int(table[:SUMMED].sum())
        if self.ctx.device == "host":
            return sum(
                int(part.sum()) for name in table.schema.names[:SUMMED] for part in parts_of(table, name)
            )
        sa.from_arrow(table, self.ctx)
        self.ctx.synchronize()
        return None


def parts_of(table: Any, name: str) -> list[Any]:
    """Returns the values of a column, batch by batch, without a copy."""
    if isinstance(table, sa.Table):
        return [np.from_dlpack(batch[name]) for batch in table.batches]
    return [chunk.to_numpy() for chunk in table[name].chunks]


def operations(
    devices: list[str], rows: int, columns: int, batches: int
) -> tuple[dict[str, Callable[[], Any]], int]:
    """Takes the device of each of the three actors."""
    maker, second, third = (
        ray.remote(num_cpus=0, enable_tensor_transport=True)(Actor).remote(device) for device in devices
    )
    nbytes = ray.get(maker.make.remote(rows, columns, batches))

    def moved(give: Any, pass_on: Any = None) -> Callable[[], Any]:
        def run() -> Any:
            given = give.remote()
            taken = given if pass_on is None else pass_on.remote(given)
            return ray.get(third.total.remote(taken))

        return run

    floor = {"an array, object store": moved(maker.store_array), "nothing": moved(maker.nothing)}
    return {
        "saeta, transport": moved(maker.share),
        "saeta, object store": moved(maker.store),
        PEER: moved(maker.store_arrow),
        "passed on: saeta, transport": moved(maker.share, second.pass_on),
        "passed on: saeta, object store": moved(maker.store, second.pass_on_store),
        f"passed on: {PEER}": moved(maker.store_arrow, second.pass_on_store),
        "kept: saeta, transport": moved(maker.share_kept),
        f"kept: {PEER}": lambda: ray.get(third.total.remote(*ray.get(maker.refer.remote()))),
        **(floor if set(devices) == {"host"} else {"nothing": floor["nothing"]}),
    }, nbytes


def measure(found: dict[str, Callable[[], Any]], rounds: int, expected: int | None) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(rounds + 1):
        for name, run in found.items():
            time.sleep(SETTLE)  # what the last operation used is freed in the background
            start = time.perf_counter()
            total = run()
            took = time.perf_counter() - start
            assert total == (None if name in ("nothing", "link") else expected), (name, total, expected)
            if turn > 0:
                seconds[name].append(took)
    return seconds


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What tables reach from one actor of Ray to another.")
    parser.add_argument("--device", default="host")
    parser.add_argument("--to", metavar="DEVICE", help="default: the same")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--transport-only", action="store_true", help="nothing through the object store")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args()


def main() -> None:
    options = parse()
    rows = (options.mib << 20) // options.columns // 8
    to = options.to or options.device
    os.environ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] = "1"  # each actor sees all GPUs
    store = 80 if options.transport_only else max(8 * options.mib, 80)
    ray.init(include_dashboard=False, object_store_memory=store << 20, log_to_driver=False)
    found, nbytes = operations([options.device, to, to], rows, options.columns, options.batches)
    if options.transport_only:
        found = {name: run for name, run in found.items() if "object store" not in name}
    if {options.device, to} == {"cuda:0", "cuda:1"}:
        found["link"] = copy_between_gpus(nbytes)
    host = options.device == "host"
    summed = range(min(options.columns, SUMMED))
    expected = sum(rows * i + rows * (rows - 1) // 2 for i in summed) if host else None
    seconds = measure(found, options.rounds, expected)
    print(
        f"{nbytes / 2**20:.0f} MiB in {options.columns} columns and {options.batches} batches from "
        f"{options.device} to {to}, {options.rounds} rounds"
    )
    print(f"{'operation':42}{'ms':>9}{'p10':>9}{'p90':>9}{'GB/s':>8}{'pyarrow / this':>16}")
    for name, each in seconds.items():
        median, tenths = statistics.median(each), statistics.quantiles(each, n=10)
        kind, _, _ = name.rpartition(": ")
        peer = f"{kind}: {PEER}" if kind else PEER
        times = f"{statistics.median(seconds[peer]) / median:16.2f}" if peer in seconds else ""
        print(
            f"{name:42}{median * 1e3:9.1f}{tenths[0] * 1e3:9.1f}{tenths[-1] * 1e3:9.1f}"
            f"{nbytes / median / 1e9:8.2f}{times}"
        )
    write_result(
        options.out,
        "ray_rates",
        options.commit,
        machine={"cores": os.cpu_count(), "system": platform.platform()},
        device=options.device,
        to=to,
        bytes=nbytes,
        columns=options.columns,
        batches=options.batches,
        versions={name: importlib.metadata.version(name) for name in ("ray", "pyarrow", "numpy")},
        seconds=seconds,
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
