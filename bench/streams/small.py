"""The group of small and of wide files, which shows the fixed cost of a read and of a column."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa
from saeta.bench import data, peers
from streams.measure import Contender, Seconds
from streams.work import COLUMNS, Work


def small(work: Work) -> list[Contender]:
    """Reads small and wide files one after the other, and waits for the device once at the end."""
    random = np.random.default_rng(6)
    tiny = {name: random.random(92) for name in ("a", "b")}
    medium = {name: random.random(3545, dtype=np.float32) for name in COLUMNS}
    made: list[Contender] = []
    for label, table, repeat, bar in (
        ("2 KiB", pa.table(tiny), 200, 60e-6),
        ("224 KiB", pa.table(medium), 100, 100e-6),
        (f"{data.WIDE_COLUMNS:,} columns", data.wide(), 1, 3e-3),
    ):
        path = data.write(work.folder / f"small-{repeat}.arrow", table, table.num_rows)
        made += _reads(work, label, path, repeat, bar)
    return made


def _reads(work: Work, label: str, path: Path, repeat: int, bar: float) -> Iterator[Contender]:
    expected = peers.read(path)

    def read() -> sa.Table:
        return sa.read_ipc(path, work.ctx, copy=True)

    def read_and_wait() -> sa.Table:
        made = read()
        work.ctx.synchronize()
        return made

    def load(peer: peers.Peer) -> None:
        peer.load(peers.read(path))

    def contender(name: str, run: Any, **options: Any) -> Contender:
        return Contender(name, run, expected.nbytes, expected.num_rows, repeat=repeat, **options)

    yield contender(
        f"read_ipc, {label}",
        read,
        check=lambda: bool(read().to_arrow().equals(expected)),
        bars=() if work.on_host else (Seconds(bar),),
    )
    yield contender(f"read_ipc, {label}, each waited for", read_and_wait)
    for peer in work.device_peers:
        yield contender(f"peer: pyarrow + {peer.name}, {label}", partial(load, peer), ours=False)
