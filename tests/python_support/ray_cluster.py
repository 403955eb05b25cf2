"""A local Ray cluster, and the actors and tasks of the tests, which its processes import from this module."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # sends no usage statistics

import ray

import arrow_data
import saeta as sa
import saeta.ray

saeta.ray.register_transport()


@contextmanager
def cluster(cpus: int = 2) -> Iterator[None]:
    """Runs a local cluster whose processes have the sys.path of this process."""
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    _start(cpus)
    try:
        yield
    finally:
        ray.shutdown()


def _start(cpus: int) -> None:
    """Starts Ray, repeatedly if needed: its own timeout of 30 s is too short for a busy machine."""
    for last in (False, False, True):
        try:
            ray.init(
                "local",  # a new cluster even if one is running
                num_cpus=cpus,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=128 << 20,
                log_to_driver=False,
            )
            return
        except Exception as failure:
            if last or "timed out during startup" not in str(failure):
                raise
            ray.shutdown()


def charged() -> int:
    """Returns the bytes that the host context of this process has allocated."""
    found = sa.context("host").memory.statistics()
    return int(found["current"] or 0) + int(found["reserved"] or 0)


def mapping_of(column: Any) -> str:
    """Returns the line of /proc/self/maps whose mapping holds the values of a numeric column."""
    address = np.from_dlpack(column).__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= address < last:
            return line
    raise AssertionError(f"address {address:#x} is not mapped")


class Actor:
    """Makes, keeps and uses tables. Tables returned through the transport stay in the actor's memory."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.values = np.arange(1000)

    def pid(self) -> int:
        return os.getpid()

    def charged(self) -> int:
        gc.collect()
        return charged()

    def every_type(self) -> sa.Table:
        return sa.from_arrow(arrow_data.table(), "host")

    def several(self) -> dict[str, Any]:
        tables = [sa.table({"a": [1, 2]}, "host"), sa.table({"b": ["x"]}, "host")]
        return {"tables": tables, "column": sa.column([1.5, None], "host", name="c"), "number": 7}

    def numbers(self, rows: int = 1000) -> sa.Table:
        return sa.table({"a": np.arange(rows)}, "host")

    def over_my_values(self) -> sa.Table:
        self.kept = sa.table({"a": self.values}, "host")
        return self.kept

    def overwrite(self) -> list[int]:
        """Overwrites the values of the table that it has returned. Returns the new values."""
        self.values[:] = -1
        return self.kept["a"].to_pylist()[:3]

    def pass_on(self, table: sa.Table) -> sa.Table:
        return table

    def keep(self, table: Any) -> None:
        self.kept = table

    def drop(self) -> None:
        self.kept = None
        gc.collect()

    def total(self, table: sa.Table) -> int:
        return int(np.from_dlpack(table["a"]).sum())

    def total_of(self, references: list[Any]) -> int:
        return sum(self.total(ray.get(each)) for each in references)

    def mapping(self, table: sa.Table) -> str:
        return mapping_of(table["a"])

    def limit(self, budget: str) -> None:
        sa.context("host").memory.limit = budget

    def receive_into(self, name: str) -> None:
        saeta.ray.receive_into(sa.context("host").memory.child(name))

    def context(self, table: sa.Table) -> str:
        return repr(table.context)

    def equals(self, table: sa.Table) -> bool:
        return bool(table.to_arrow().equals(arrow_data.table()))


def actor(**options: Any) -> Any:
    """Starts an actor whose table-returning methods use the transport."""
    made = ray.remote(num_cpus=0, enable_tensor_transport=True, **options)(Actor)
    return made.remote()


def by_transport(method: Any) -> Any:
    """Returns the actor's method with its result sent through the transport."""
    return method.options(tensor_transport="SAETA")


@ray.remote(num_cpus=0)
def make(rows: int) -> sa.Table:
    return sa.table({"a": np.arange(rows)}, "host")


@ray.remote(num_cpus=0)
def add_up(table: sa.Table) -> int:
    return int(np.from_dlpack(table["a"]).sum())


def double(batch: pa.Table) -> pa.Table:
    return batch.set_column(0, "a", pa.array(batch["a"].to_numpy() * 2))
