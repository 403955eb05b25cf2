"""Rates of the links in a cluster of GPU servers, for bench/scale_model.py, each with its source.

Measured rates come from a table of bench/results or from the named page. Rates that were not measured name
the document that states them, or say that they are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scale_model import GB, Link
from summary import TABLES, numbers, read

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Source:
    """A link and the origin of its numbers."""

    link: Link
    kind: Literal["measured", "documented", "assumed"]
    source: str


H100 = read(TABLES / "h100.csv")
LIMITS = {case.removeprefix("16; "): rate * GB for case, rate in numbers(H100, "movement", "limit").items()}

# From docs/decisions/peer-copies.md, two H200: the rates of large copies, and of one driver call per piece.
PEER = 395 * GB
PIECE, PIECES = 256 << 10, 36 * GB
PIECE_SECONDS = PIECE / PIECES - PIECE / PEER

SMALL_PIECE = 8192 * 4
"""Bytes of a float32 column in a batch of 8Ki rows."""


def small_piece() -> float:
    """Returns the seconds that a read needs for each small piece in addition to the time of its bytes."""
    rates = numbers(H100, "streams", "rate")
    small, plain = rates["reads; read_ipc, batches of 8Ki"], rates["reads; P: plain copy"]
    return SMALL_PIECE / (small * GB) - SMALL_PIECE / (plain * GB)


def planned_column() -> float:
    """Returns the seconds of CPU time that a read needs for each column."""
    return numbers(H100, "streams", "time")["small; read_ipc, 10,000 columns"] / 10_000


def plain_copy() -> float:
    """Returns the bytes per second that a kernel copies; it reads and writes each byte."""
    return numbers(H100, "kernels_python", "rate")["copy of bytes"] * GB / 2


LINKS: dict[str, Source] = {
    "storage": Source(
        Link("host", 40 * GB),
        "documented",
        "NVIDIA DGX SuperPOD with DGX H100, RA-11333-001: over 40 GB/s for a server",
    ),
    "storage write": Source(
        Link("host", LIMITS["write"]),
        "measured",
        "`h100.csv`, movement: `pwrite` of 16 threads to tmpfs of a virtual machine",
    ),
    "host memory": Source(
        Link("host", 2 * 8 * 8 * 4.8e9),
        "documented",
        "Intel Xeon Platinum 8480C, two of a DGX H100: 8 channels of DDR5-4800 each",
    ),
    "planning": Source(
        Link("worker", float("inf"), planned_column()),
        "measured",
        "`h100.csv`, streams: a read of 10,000 columns of 4 KiB, one H100; a message is a column",
    ),
    "pcie in": Source(
        Link("gpu", LIMITS["in"], small_piece()),
        "measured",
        "`h100.csv`, movement: page-locked copies, and streams: a read in pieces of 32 KiB, one H100",
    ),
    "pcie out": Source(
        Link("gpu", LIMITS["out"]), "measured", "`h100.csv`, movement: page-locked copies, one H100"
    ),
    "device memory": Source(
        Link("gpu", plain_copy()),
        "measured",
        "`h100.csv`, kernels_python: each byte read and written, one H100",
    ),
    "peer": Source(
        Link("gpu", PEER, PIECE_SECONDS),
        "measured",
        "[peer copies](decisions/peer-copies.md): two H200, large copies and pieces of 256 KiB",
    ),
    "network": Source(
        Link("gpu", 400 * GB / 8, PIECE_SECONDS),
        "documented",
        "NVIDIA DGX BasePOD: a ConnectX-7 of 400 Gb/s for each GPU; a message is assumed to cost what a "
        "piece of a peer copy does",
    ),
    "scheduler": Source(
        Link("cluster", float("inf"), 1e-3), "documented", "distributed.dask.org: about 1 ms a task"
    ),
}
