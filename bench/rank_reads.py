#!/usr/bin/env python3
"""Counts the bytes that all ranks of a loader read together, relative to the file.

    rank_reads.py [--mib N] [--ranks 1,8,...] [--rows N] [--batch N] [--window TEXT] [--folder F]
                  [--out FILE.json] [--commit TEXT]

The files have 8 columns of float64, or 4 of them and 2 of strings, in batches of `--rows` rows, plain or
compressed with LZ4, and as Parquet with row groups of as many. Bytes are those of the system calls that read
(`rchar` of /proc/self/io). Views of files are off: reading them is not a system call. The program prints one
line for each file and way of shuffling, and the share of one rank of the time of all.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rates import add_result_arguments, write_result

import saeta as sa
from saeta._loader import loader as module

KINDS = ("fixed", "strings")
FORMATS = ("plain", "lz4", "parquet")


def columns(kind: str, rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    count = 8 if kind == "fixed" else 4
    found = {f"x{number}": random.integers(0, 1 << 20, rows) / 2.0 for number in range(count)}
    if kind == "strings":
        for name in ("s", "t"):
            found[name] = pa.array([f"{value:x}" * 2 for value in random.integers(0, 1 << 40, rows)])
    return pa.table(found)


def write(kind: str, form: str, path: Path, mib: int, rows: int) -> Path:
    part = columns(kind, rows, 1)
    batches = max(1, (mib << 20) // part.nbytes)
    if form == "parquet":
        with pq.ParquetWriter(path, part.schema) as writer:
            for _ in range(batches):
                writer.write_table(part, row_group_size=rows)
        return path
    options = pa.ipc.IpcWriteOptions(compression=None if form == "plain" else form)
    with pa.ipc.new_file(path, part.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_table(part)
    return path


def read_bytes() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("rchar:")).split()[1])


def epoch(path: Path, ranks: int, options: dict[str, Any]) -> tuple[int, float]:
    """Reads an epoch by each rank in turn. Returns bytes and seconds of all."""
    read, took = 0, 0.0
    for rank in range(ranks):
        with sa.loader(path, "host", rank=rank, world_size=ranks, to="table", **options) as batches:
            before, start = read_bytes(), time.perf_counter()
            for _ in batches:
                pass
            took += time.perf_counter() - start
            read += read_bytes() - before
    return read, took


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--mib", type=int, default=512)
    arguments.add_argument(
        "--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8]
    )
    arguments.add_argument("--rows", type=int, default=1 << 14, help="of a batch of the file")
    arguments.add_argument("--batch", type=int, default=1024, help="rows of a batch of the loader")
    arguments.add_argument("--window", default="64MiB")
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    module.VIEWED_BYTES = 1 << 60
    results = []
    with tempfile.TemporaryDirectory(prefix="saeta-ranks-", dir=given.folder) as folder:
        for kind in KINDS:
            for form in FORMATS:
                path = write(kind, form, Path(folder) / f"{kind}.{form}", given.mib, given.rows)
                size = path.stat().st_size
                for shuffle in ("rows", "batches", False):
                    options = {"batch_size": given.batch, "shuffle": shuffle, "window": given.window}
                    line: dict[str, Any] = {
                        "columns": kind,
                        "format": form,
                        "shuffle": shuffle,
                        "bytes": size,
                    }
                    for ranks in given.ranks:
                        read, took = epoch(path, ranks, options)
                        line[f"read_{ranks}"], line[f"seconds_{ranks}"] = read / size, took
                    results.append(line)
                    shown = "  ".join(
                        f"{ranks} ranks {line[f'read_{ranks}']:6.2f} times, {line[f'seconds_{ranks}']:6.2f} s"
                        for ranks in given.ranks
                    )
                    print(f"{kind:8}{form:8}{shuffle!s:8}{size >> 20:6} MiB  {shown}", flush=True)
                path.unlink()
    write_result(given.out, "rank_reads", given.commit, results=results)


if __name__ == "__main__":
    main()
