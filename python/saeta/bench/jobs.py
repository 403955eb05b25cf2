"""The jobs of the benchmark: the timed operation, its peers, and the machine's limit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

import saeta as sa
from saeta.bench import data, peers

Run = Callable[[], Any]
Codec: TypeAlias = Literal["lz4", "zstd"]

# Rows per batch, by the label of the job.
BATCHES = {"6M": 6_000_000, "1Mi": 1 << 20, "64Ki": 1 << 16, "8Ki": 1 << 13}


@dataclass
class Job:
    """One row of the results. `runs` has the timed functions by name; the first is Saeta's."""

    name: str
    bytes: int
    limit: str  # "in", "out", "lz4", "zstd", "write" or "cached write"
    runs: dict[str, Run]
    check: Callable[[Any], bool]  # checks the result of Saeta's run
    bar: float | None = None  # share of the limit to reach
    seconds_bar: float | None = None
    threaded_peers: bool = False  # whether the time of peers depends on the number of threads
    before: dict[str, Run] = field(default_factory=dict)  # runs untimed before each round


@dataclass(frozen=True)
class Work:
    """The inputs of all jobs."""

    ctx: sa.Context
    folder: Path
    size: int
    peers: list[peers.Peer]


def make_files(folder: Path, size: int) -> None:
    """Writes every file that the jobs read, once for all numbers of threads."""
    table = data.numeric(size)
    for name, rows in BATCHES.items():
        data.write(folder / f"numeric-{name}.arrow", table, rows)
    del table
    table = data.mixed(size)
    for compression in (None, "lz4", "zstd"):
        data.write(folder / f"mixed-{compression or 'plain'}.arrow", table, 1 << 18, compression)


def all_jobs(work: Work) -> Iterator[Job]:
    yield from _reads(work)
    yield from _scans(work)
    yield from _loaders(work)
    yield from _imports(work)
    yield from _exports(work)


def _reads(work: Work) -> Iterator[Job]:
    bars = {"6M": 0.95, "1Mi": 0.93, "64Ki": 0.90, "8Ki": 0.85}
    for name in BATCHES:
        path = work.folder / f"numeric-{name}.arrow"
        yield _read(work, f"read_ipc, numeric, batches of {name}", path, "in", bars[name])
    plain = work.folder / "mixed-plain.arrow"
    yield _read(work, "read_ipc, strings, dictionary, nulls, bools, dates, checked", plain, "in", 0.90)
    yield _read(work, "the same, unchecked", plain, "in", None, validate=False)
    for codec in ("lz4", "zstd"):
        path = work.folder / f"mixed-{codec}.arrow"
        yield _read(work, f"the same, {codec.upper()}", path, codec, 0.80)


def _read(work: Work, name: str, path: Path, limit: str, bar: float | None, *, validate: bool = True) -> Job:
    expected = peers.read(path)
    compressed = limit != "in"

    def through(peer: peers.Peer) -> Run:
        return lambda: peer.load(peers.read(path))

    runs: dict[str, Run] = {"saeta": lambda: sa.read_ipc(path, work.ctx, copy=True, validate=validate)}
    if compressed:
        runs["pyarrow, to host memory"] = lambda: peers.read(path)
    runs |= {f"pyarrow + {peer.name}": through(peer) for peer in work.peers}
    return Job(name, expected.nbytes, limit, runs, _equal_to(expected), bar, threaded_peers=compressed)


def _scans(work: Work) -> Iterator[Job]:
    for name, bar in (("64Ki", 0.92), ("8Ki", 0.85)):
        path = work.folder / f"numeric-{name}.arrow"
        yield _scan(work, f"scan_ipc, numeric, batches of {name}", path, "in", bar)
    for codec in ("lz4", "zstd"):
        path = work.folder / f"mixed-{codec}.arrow"
        yield _scan(work, f"scan_ipc, strings, nulls and others, {codec.upper()}", path, codec, None)


def _scan(work: Work, name: str, path: Path, limit: str, bar: float | None) -> Job:
    """Yields a job that takes every batch and keeps none."""
    expected = peers.read(path)

    def rows() -> int:
        with sa.scan_ipc(path, work.ctx, copy=True) as scan:
            count = sum(batch.num_rows for batch in scan)
        work.ctx.synchronize()
        return count

    runs: dict[str, Run] = {"saeta": rows}
    runs |= {f"pyarrow + {peer.name}, batch by batch": _batch_by_batch(peer, path) for peer in work.peers}
    return Job(name, expected.nbytes, limit, runs, lambda count: bool(count == expected.num_rows), bar)


def _batch_by_batch(peer: peers.Peer, path: Path) -> Run:
    return lambda: [peer.load(pa.Table.from_batches([batch])) for batch in peers.batches(path)]


def _loaders(work: Work) -> Iterator[Job]:
    """Yields jobs that take an epoch of mini-batches.

    Peers copy the batches of the file, which have as many rows.
    """
    path = work.folder / "numeric-8Ki.arrow"
    expected = peers.read(path)
    library: Any = work.peers[0].name.lower() if work.peers else "table"

    def epoch(loader: sa.Loader[Any]) -> int:
        count = sum(len(batch["f0"]) for batch in loader)
        work.ctx.synchronize()
        return count

    def check(count: int) -> bool:
        return bool(count == expected.num_rows)

    orders: dict[str, Literal["rows", False]] = {"in order": False, "rows shuffled in windows": "rows"}
    for order, shuffle in orders.items():
        loader = sa.loader(path, work.ctx, batch_size=BATCHES["8Ki"], shuffle=shuffle, to=library)
        runs: dict[str, Run] = {"saeta": partial(epoch, loader)}
        runs |= {f"pyarrow + {peer.name}": _batch_by_batch(peer, path) for peer in work.peers}
        yield Job(f"loader, batches of 8,192 rows, {order}", expected.nbytes, "in", runs, check, 0.85)


def _imports(work: Work) -> Iterator[Job]:
    # A table in ordinary memory, not in a mapped file.
    table = data.numeric(work.size)
    runs: dict[str, Run] = {"saeta": lambda: sa.from_arrow(table, work.ctx, copy=True)}
    runs |= {peer.name: _loading(peer, table) for peer in work.peers}
    yield Job("from_arrow, pageable table", table.nbytes, "in", runs, _equal_to(table), 0.93)
    wide = data.wide()
    runs = {"saeta": lambda: sa.from_arrow(wide, work.ctx, copy=True)}
    runs |= {f"{peer.name}, a loop": _loading(peer, wide) for peer in work.peers}
    yield Job(
        f"from_arrow, {wide.num_columns:,} columns of 4 KiB",
        wide.nbytes,
        "in",
        runs,
        _equal_to(wide),
        seconds_bar=0.003,
    )


def _loading(peer: peers.Peer, table: Any) -> Run:
    return lambda: peer.load(table)


def _exports(work: Work) -> Iterator[Job]:
    source = data.numeric(work.size)
    table: sa.Table = sa.from_arrow(source, work.ctx, copy=True)
    runs: dict[str, Run] = {"saeta": table.to_arrow}
    held = {peer.name: peer.load(source) for peer in work.peers}
    for peer in work.peers:
        runs[peer.name] = _unloading(peer, held[peer.name])
    fresh = {"saeta": work.ctx.memory.trim}
    for name, bar, before in (("fresh", 0.50, fresh), ("warm", 0.90, {})):
        yield Job(
            f"to_arrow, {name} memory",
            source.nbytes,
            "out",
            runs,
            lambda export: bool(export.equals(source)),
            bar,
            before=before,
        )
    yield from _written(work, "write_ipc, durable", table, held, None)
    yield from _written(work, "write_ipc, not durable", table, held, None, durable=False)
    small = pa.Table.from_batches(source.to_batches(BATCHES["64Ki"]))
    pieces = sa.from_arrow(small, work.ctx, copy=True)
    yield from _written(work, "write_ipc, durable, batches of 64Ki", pieces, held, None)
    codecs: tuple[Codec, ...] = ("lz4", "zstd")
    for codec in codecs:
        yield from _written(work, f"write_ipc, durable, {codec.upper()}", table, held, codec)


def _written(
    work: Work,
    name: str,
    table: sa.Table,
    held: dict[str, list[Any]],
    compression: Codec | None,
    *,
    durable: bool = True,
) -> Iterator[Job]:
    """Yields a job that writes a new file, and waits for the disk if it is durable. Peers do the same.

    For compressed files the share has no meaning, because the plain write of the limit does not compress.
    """
    target = work.folder / "written.arrow"
    expected = table.to_arrow()
    runs: dict[str, Run] = {
        "saeta": lambda: sa.write_ipc(table, target, compression=compression, durable=durable)
    }
    for peer in work.peers:
        runs[f"{peer.name} + pyarrow"] = _writing(
            peer, held[peer.name], expected.schema, target, compression, durable
        )

    def check(_: Any) -> bool:
        return bool(peers.read(target).equals(expected))

    yield Job(
        name,
        expected.nbytes,
        "write" if durable else "cached write",
        runs,
        check,
        0.90 if durable and not compression else None,
        before=dict.fromkeys(runs, lambda: target.unlink(missing_ok=True)),
    )
    target.unlink(missing_ok=True)


def _unloading(peer: peers.Peer, there: list[Any]) -> Run:
    return lambda: peer.unload(there)


def _writing(
    peer: peers.Peer, there: list[Any], schema: Any, target: Path, compression: str | None, durable: bool
) -> Run:
    def run() -> None:
        here = peer.unload(there)
        columns = [
            pa.Array.from_buffers(
                field.type, memoryview(each).nbytes // 8, [None, pa.py_buffer(memoryview(each))]
            )
            for field, each in zip(schema, (_as_numpy(each) for each in here), strict=True)
        ]
        data.write(target, pa.table(columns, schema=schema), 1 << 20, compression)
        if durable:
            with target.open("rb") as file:
                os.fsync(file)

    return run


def _as_numpy(values: Any) -> Any:
    return values.numpy() if hasattr(values, "numpy") else values


def _equal_to(expected: Any) -> Callable[[Any], bool]:
    return lambda table: bool(table.to_arrow().equals(expected))
