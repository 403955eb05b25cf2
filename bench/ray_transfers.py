#!/usr/bin/env python3
"""Measures transfers of tables between Ray actors on this machine.

    ray_transfers.py [--device cuda:0] [--to cuda:1] [--mib N] [--columns N] [--batches N] [--rounds N]
                     [--transport-only] [--out FILE.json] [--commit TEXT]

The first actor returns a table; the second one receives it and, on the host, adds up at most 8 columns.
"passed on": the second actor returns the received table to a third one. "kept": the first actor returns the
same shared table, or the same reference to the object store, each time. `--to` is the device of all actors
but the first. From one GPU to another, "link" is a plain copy of the same number of bytes.

Saeta's tables use the transport of `saeta.ray` or Ray's object store; pyarrow's use the object store, and on
a GPU they are downloaded before and uploaded afterwards. On the host a NumPy array with the same values,
which needs no conversion, shows the cost of the object store alone, and "nothing" the cost of the calls
alone. In each round all operations run one after the other. The program prints the median, the 10th and the
90th percentile over all rounds but the first, and the rate relative to that of pyarrow's table. The sums are
checked.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # no telemetry

import ray
from rates import Operation, Rates, add_result_arguments, copy_between_gpus, write_result

import saeta as sa
import saeta.ray

saeta.ray.register_transport()
PEER = "pyarrow, object store"
SUMMED = 8
REST = 0.3  # seconds before each operation, in which earlier memory is freed


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
        """Makes a table in one allocation, as a read from a file does. Returns its bytes."""
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
        """Returns a table that stays in shared memory because the actor keeps a token for it."""
        if self.kept is None:
            self.kept = sa.open_shared(sa.unpack(*self.table.pack()).share())
            self.token = self.kept.share()
        return self.kept

    def refer(self) -> list[Any]:
        """Returns a reference to the pyarrow table, which is put into the object store only once."""
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
        """Receives a table. Returns the sum of some columns on the host, or None on a GPU."""
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


def check(actor: Any, take: Callable[[], Any], expected: int | None) -> None:
    """Passes the result of `take` to an actor, and checks the sum that the actor returns."""
    total = ray.get(actor.total.remote(take()))
    assert total == expected, (total, expected)


def operations(options: argparse.Namespace, devices: list[str]) -> dict[str, Operation]:
    """Returns the operations to measure. `devices` has one device for each of the three actors."""
    maker, second, third = (
        ray.remote(num_cpus=0, enable_tensor_transport=True)(Actor).remote(device) for device in devices
    )
    rows = (options.mib << 20) // options.columns // 8
    nbytes = ray.get(maker.make.remote(rows, options.columns, options.batches))
    sums = (rows * i + rows * (rows - 1) // 2 for i in range(min(options.columns, SUMMED)))
    expected = sum(sums) if devices[2] == "host" else None

    def trip(take: Callable[[], Any], kind: str = "", total: int | None = expected) -> Operation:
        return Operation(lambda: check(third, take, total), nbytes, f"{kind}{PEER}")

    passed, kept = "passed on: ", "kept: "
    chosen = {
        "saeta, transport": trip(maker.share.remote),
        "saeta, object store": trip(maker.store.remote),
        PEER: trip(maker.store_arrow.remote),
        f"{passed}saeta, transport": trip(lambda: second.pass_on.remote(maker.share.remote()), passed),
        f"{passed}saeta, object store": trip(
            lambda: second.pass_on_store.remote(maker.store.remote()), passed
        ),
        f"{passed}{PEER}": trip(lambda: second.pass_on_store.remote(maker.store_arrow.remote()), passed),
        f"{kept}saeta, transport": trip(maker.share_kept.remote, kept),
        f"{kept}{PEER}": trip(lambda: ray.get(maker.refer.remote())[0], kept),
        "nothing": trip(maker.nothing.remote, total=None),
    }
    if set(devices) == {"host"}:
        chosen["an array, object store"] = trip(maker.store_array.remote)
    if options.transport_only:
        chosen = {name: operation for name, operation in chosen.items() if "object store" not in name}
    if {devices[0], devices[2]} == {"cuda:0", "cuda:1"}:
        chosen["link"] = Operation(copy_between_gpus(nbytes), nbytes, PEER)
    return chosen


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What tables reach from one actor of Ray to another.")
    parser.add_argument("--device", default="host")
    parser.add_argument("--to", metavar="DEVICE", help="default: the same")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--transport-only", action="store_true", help="nothing through the object store")
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    to = options.to or options.device
    os.environ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] = "1"  # each actor sees all GPUs
    store = 80 if options.transport_only else max(8 * options.mib, 80)
    ray.init(include_dashboard=False, object_store_memory=store << 20, log_to_driver=False)
    rates = Rates(operations(options, [options.device, to, to]))
    rates.measure(options.rounds, synchronize=lambda: None, rest=REST)
    print(
        f"{options.mib} MiB in {options.columns} columns and {options.batches} batches from "
        f"{options.device} to {to}, {options.rounds} rounds"
    )
    lines = rates.show()
    write_result(
        options.out,
        "ray_transfers",
        options.commit,
        machine={"cores": os.cpu_count(), "system": platform.platform()},
        mebibytes=options.mib,
        columns=options.columns,
        batches=options.batches,
        versions={name: importlib.metadata.version(name) for name in ("ray", "pyarrow", "numpy")},
        results=[{"from": options.device, "to": to, **line} for line in lines],
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
