"""The files, the device and the array library that all jobs use."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa
from saeta.bench import data, limits, peers
from streams.measure import LINK, Contender

COLUMNS = [f"c{i}" for i in range(16)]
ROW_BYTES = 4 * len(COLUMNS)
LARGE_ROWS = 1 << 16
SMALL_ROWS = 1 << 13
LINK_BYTES = 512 << 20
CODECS = ("lz4", "zstd")
SLOW_PART = 8
"""Slow peers get the first eighth of the rows."""


@dataclass
class Work:
    ctx: sa.Context
    folder: Path
    batches: int
    window: int
    missing: list[str] = field(default_factory=list)
    """Reasons why something is not measured."""

    @property
    def large(self) -> Path:
        return self.folder / "floats-64Ki.arrow"

    @property
    def small(self) -> Path:
        return self.folder / "floats-8Ki.arrow"

    def mixed(self, codec: str | None = None) -> Path:
        return self.folder / f"mixed-{codec or 'plain'}.arrow"

    @property
    def rows(self) -> int:
        return self.batches * LARGE_ROWS

    @property
    def bytes(self) -> int:
        return self.rows * ROW_BYTES

    @property
    def part_batches(self) -> int:
        """Number of batches of the large file that slow peers read."""
        return -(-self.batches // SLOW_PART)

    @property
    def on_host(self) -> bool:
        return self.ctx.device == "host"

    @cached_property
    def device_peers(self) -> list[peers.Peer]:
        """The libraries that copy buffers to the device, as in `saeta bench`."""
        found, missing = peers.find_peers(self.ctx.device)
        for reason in missing:
            self.note(reason)
        return found

    @cached_property
    def torch(self) -> Any:
        return self.library("torch")

    @cached_property
    def arrays(self) -> Any:
        """The array library of the jobs: torch or CuPy on a GPU, NumPy on the host."""
        found = np if self.on_host else self.torch or self.library("cupy")
        if found is None:
            raise SystemExit(f"not measured: a GPU needs torch or CuPy ({'; '.join(self.missing)})")
        if not self.on_host:
            ordinal = int(self.ctx.device.partition(":")[2] or 0)
            found.cuda.set_device(ordinal) if found is self.torch else found.cuda.Device(ordinal).use()
        return found

    def library(self, name: str) -> Any:
        """Imports a library, or notes why it can't be."""
        try:
            return importlib.import_module(name)
        except Exception as failure:  # a broken installation can raise any exception
            self.note(f"{name}: {failure}")
            return None

    def note(self, reason: str) -> None:
        """Prints once why something can't be measured."""
        if reason not in self.missing:
            self.missing.append(reason)

    @property
    def array_name(self) -> str:
        """The name of the array library, as in `saeta.loader(to=...)` and `Column.to_...`."""
        name: str = self.arrays.__name__
        return name

    def put(self, values: np.ndarray[Any, Any]) -> Any:
        """Copies a NumPy array to the device with the array library; on the host returns it unchanged."""
        if self.on_host:
            return values
        if self.array_name == "torch":
            return self.arrays.from_numpy(values).cuda()
        return self.arrays.asarray(values)

    def array(self, column: sa.Column) -> Any:
        """Returns a column as an array of the array library, without a copy."""
        return getattr(column, f"to_{self.array_name}")()

    def synchronize(self) -> None:
        """Waits for all work on the device."""
        self.ctx.synchronize()
        if not self.on_host:
            cuda = self.arrays.cuda
            cuda.synchronize() if self.array_name == "torch" else cuda.Device().synchronize()

    @cached_property
    def link(self) -> Contender:
        """A plain copy from pinned memory to the device; on the host a memcpy by one thread."""
        size = min(LINK_BYTES, self.bytes)
        copies = limits.Link(self.ctx, size, "in")
        return Contender(LINK, copies.time, size, ours=False)

    @cached_property
    def first_column(self) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = peers.read(self.large)["c0"].to_numpy()
        return values

    @cached_property
    def sorted_first_column(self) -> np.ndarray[Any, Any]:
        return np.sort(self.first_column)


def make_files(work: Work) -> None:
    """Writes the files of all groups.

    The last float column is 1 minus the first one, so that a check detects mixed-up rows.
    """
    random = np.random.default_rng(5)
    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    with contextlib.ExitStack() as stack:
        large, small = (
            stack.enter_context(pa.ipc.new_file(path, schema)) for path in (work.large, work.small)
        )
        for _ in range(work.batches):
            values = random.random((len(COLUMNS), LARGE_ROWS), dtype=np.float32)
            values[-1] = 1 - values[0]
            batch = pa.record_batch(list(values), schema=schema)
            large.write_batch(batch)
            for first in range(0, LARGE_ROWS, SMALL_ROWS):
                small.write_batch(batch.slice(first, SMALL_ROWS))
    mixed = data.mixed(work.bytes // 2)
    for codec in (None, *CODECS):
        data.write(work.mixed(codec), mixed, 1 << 18, codec)


def silence_torch() -> None:
    """Hides torch's warning about read-only arrays: they are only read here."""
    warnings.filterwarnings("ignore", message="The given NumPy array is not writ")


def drain(batches: Iterable[Any]) -> None:
    """Iterates over all batches. As in a for loop, a batch is dropped when the next one has arrived."""
    for _ in batches:
        pass


def to_host(values: Any) -> Any:
    """Copies an array of any supported library to NumPy."""
    if hasattr(values, "cpu"):
        return values.cpu().numpy()
    return values.get() if hasattr(values, "get") else np.asarray(values)
