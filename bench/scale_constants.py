"""Rates of the links of a cluster of GPU servers, for bench/scale_model.py, each with its source.

Measured ones are read from the files of bench/results, or stand in the page that is named. A rate that nobody
here has measured says whose document gives it, or that it is assumed.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scale_model import GB, Link

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True)
class Source:
    """A link, and where its numbers come from."""

    link: Link
    kind: Literal["measured", "documented", "assumed"]
    source: str


def result(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


MOVEMENT = result("movement-h100.json")
LIMITS = {name: rate * GB for name, rate in MOVEMENT["limits"]["16"].items()}
KERNELS = {each["operation"]: each for each in result("kernels-python-h100.json")["results"]}

# Two H200, docs/decisions/peer-copies.md: large copies, and pieces, each with a call of the driver.
PEER = 395 * GB
PIECE, PIECES = 256 << 10, 36 * GB
PIECE_SECONDS = PIECE / PIECES - PIECE / PEER

STREAMS = {each["job"]: each for each in result("streams-reads-h100.json")["results"]}
WIDE = {each["job"]: each for each in result("streams-small-h100.json")["results"]}
SMALL_PIECE = 8192 * 4
"""Bytes of a float32 column in a batch of 8Ki rows."""


def small_piece() -> float:
    """Seconds that a small piece of a read takes longer than its bytes."""
    small, plain = STREAMS["read_ipc, batches of 8Ki"], STREAMS["P: plain copy"]
    bytes_alone = small["bytes"] / plain["bytes"] * statistics.median(plain["seconds"])
    return float(statistics.median(small["seconds"]) - bytes_alone) / (small["bytes"] / SMALL_PIECE)


def planned_column() -> float:
    """Seconds that a thread of the host takes for a column of a read."""
    return float(statistics.median(WIDE["read_ipc, 10,000 columns"]["seconds"])) / 10_000


def plain_copy() -> float:
    """Bytes a second that a kernel passes over, reading and writing each."""
    copy = KERNELS["copy of bytes"]
    return float(copy["bytes"]) / statistics.median(copy["seconds"]) / 2


LINKS: dict[str, Source] = {
    "storage": Source(
        Link("host", 40 * GB),
        "documented",
        "NVIDIA DGX SuperPOD with DGX H100, RA-11333-001: over 40 GB/s for a server",
    ),
    "storage write": Source(
        Link("host", LIMITS["write"]),
        "measured",
        "`movement-h100.json`: `pwrite` of 16 threads to tmpfs of a virtual machine",
    ),
    "host memory": Source(
        Link("host", 2 * 8 * 8 * 4.8e9),
        "documented",
        "Intel Xeon Platinum 8480C, two of a DGX H100: 8 channels of DDR5-4800 each",
    ),
    "planning": Source(
        Link("worker", float("inf"), planned_column()),
        "measured",
        "`streams-small-h100.json`: a read of 10,000 columns of 4 KiB, one H100; a message is a column",
    ),
    "pcie in": Source(
        Link("gpu", LIMITS["in"], small_piece()),
        "measured",
        "`movement-h100.json`: page-locked copies; `streams-reads-h100.json`: a read in pieces of 32 KiB, "
        "one H100",
    ),
    "pcie out": Source(
        Link("gpu", LIMITS["out"]), "measured", "`movement-h100.json`: page-locked copies, one H100"
    ),
    "device memory": Source(
        Link("gpu", plain_copy()),
        "measured",
        "`kernels-python-h100.json`: each byte read and written, one H100",
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
