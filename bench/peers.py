#!/usr/bin/env python3
"""Measures copies of tables from one GPU to another, and reads of files onto two GPUs at once.

    peers.py [--columns N] [--batches N] [--bytes N] [--rounds N] [--files N] [--folder DIR] [--out FILE.json]
             [--commit TEXT]

Three tables are copied from cuda:0 to cuda:1: one with an allocation for each column of each batch, one of
small columns, and one that was read from a file into one allocation. The limit is torch's copy of one tensor
of the same size into memory that is already allocated. The peer is a loop of torch's copies, one tensor for
each column of each batch. `place` reads files onto both GPUs, and onto one; there the limit is a plain copy
of page-locked memory to both, and to one. In each round all operations run one after the other; both GPUs are
idle before and after each. The program prints the median, the 10th and the 90th percentile over all rounds
but the first. Results are checked before anything is measured. Data is random.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rates import Operation, Rates, add_result_arguments, write_result

import saeta as sa

LINK = "torch: one tensor, into memory that is there"
BOTH, ONE = "place: files onto both GPUs", "place: files onto one GPU"
COPY_BOTH, COPY_ONE = "torch: pinned memory to both GPUs", "torch: pinned memory to one GPU"
SMALL_ROWS = 256


def torch_columns(torch: Any, columns: int, batches: int, rows: int) -> list[list[Any]]:
    """Returns a tensor on cuda:0 for each column of each batch."""
    return [[torch.rand(rows, device="cuda:0") for _ in range(columns)] for _ in range(batches)]


def table_of(batches: list[list[Any]], ctx: sa.Context) -> sa.Table:
    return sa.concat_tables(
        [sa.table({f"c{number}": each for number, each in enumerate(columns)}, ctx) for columns in batches]
    )


def moves(torch: Any, columns: list[list[Any]], name: str, limit: str) -> dict[str, Operation]:
    """Returns copies from cuda:0 to cuda:1 of a table over these tensors, and of the tensors by torch."""
    first, second = sa.context("cuda:0"), sa.context("cuda:1")
    table = table_of(columns, first)
    moved = table.to(second)
    assert np.array_equal(moved["c0"].to_numpy(), torch.cat([batch[0] for batch in columns]).cpu().numpy())
    size = sum(each.nbytes for batch in columns for each in batch)
    return {
        f"saeta: {name}": Operation(lambda: table.to(second), size, limit),
        f"peer: a loop of torch copies, {name}": Operation(
            lambda: [[each.to("cuda:1") for each in batch] for batch in columns], size, limit
        ),
    }


def link(torch: Any, size: int) -> Operation:
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda:0")
    target = torch.empty(size, dtype=torch.uint8, device="cuda:1")
    return Operation(lambda: target.copy_(source), size, LINK)


def between_gpus(torch: Any, options: argparse.Namespace, folder: Path) -> dict[str, Operation]:
    rows = options.bytes // (4 * options.columns * options.batches)
    large = torch_columns(torch, options.columns, options.batches, rows)
    small = torch_columns(torch, options.columns, options.batches, SMALL_ROWS)
    shape = f"{options.columns:,} columns, {options.batches} batches"
    first, second = sa.context("cuda:0"), sa.context("cuda:1")
    path = folder / "whole.arrow"
    table_of(large, first).write_ipc(path, durable=False)
    read = {
        "a read table": sa.read_ipc(path, first),
        "a read table, batches kept": sa.read_ipc(path, first, combine_chunks=False),
    }
    size = options.bytes // (4 * options.columns * options.batches) * 4 * options.columns * options.batches
    small_size = 4 * SMALL_ROWS * options.columns * options.batches
    small_link = f"{LINK}, {small_size:,} bytes"
    made = {LINK: link(torch, size), small_link: link(torch, small_size)}
    made |= moves(torch, large, shape, LINK)
    made |= moves(torch, small, f"{shape} of {SMALL_ROWS} rows", small_link)
    for name, table in read.items():
        made[f"saeta: {name}"] = Operation(lambda table=table: table.to(second), size, LINK)
    return made


def onto_gpus(torch: Any, options: argparse.Namespace, folder: Path) -> dict[str, Operation]:
    first, second = sa.context("cuda:0"), sa.context("cuda:1")
    rows = options.bytes // (8 * 16 * options.files)
    random = np.random.default_rng(5)
    values = {f"c{number}": random.random(rows) for number in range(16)}
    paths = [folder / f"{number}.arrow" for number in range(options.files)]
    for path in paths:
        sa.table(values, "host").write_ipc(path, durable=False)
    size = 8 * 16 * rows * options.files
    for part in sa.place(paths, [first, second]):
        assert np.array_equal(part["c3"].slice(0, rows).to_numpy(), values["c3"])
    half = size // 2
    pinned = [torch.empty(half, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    targets = [torch.empty(half, dtype=torch.uint8, device=f"cuda:{number}") for number in range(2)]
    alone = torch.empty(half, dtype=torch.uint8, device="cuda:0")

    def copy(into: list[Any]) -> None:
        for target, source in zip(into, pinned, strict=True):
            target.copy_(source, non_blocking=True)

    return {
        COPY_BOTH: Operation(lambda: copy(targets), size, COPY_BOTH),
        COPY_ONE: Operation(lambda: copy([targets[0], alone]), size, COPY_ONE),
        BOTH: Operation(lambda: sa.place(paths, [first, second]), size, COPY_BOTH),
        "place by bytes: files onto both GPUs": Operation(
            lambda: sa.place(paths, [first, second], by="bytes"), size, COPY_BOTH
        ),
        ONE: Operation(lambda: sa.place(paths, [first]), size, COPY_ONE),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What tables reach from one GPU to another.")
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--bytes", type=int, default=1 << 32, help="of a table, and of all files")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="for the files; default: a temporary folder")
    parser.add_argument("--rounds", type=int, default=11)
    add_result_arguments(parser)
    return parser.parse_args()


def measure(
    operations: dict[str, Operation], rounds: int, synchronize: Callable[[], Any]
) -> list[dict[str, Any]]:
    rates = Rates(operations).measure(rounds, synchronize)
    lines = rates.show()
    if BOTH in operations:
        print(f"both GPUs against one: {rates.rate(BOTH) / rates.rate(ONE):.2f} times", end="; ")
        print(f"the plain copy {rates.rate(COPY_BOTH) / rates.rate(COPY_ONE):.2f} times")
    return lines


def main() -> int:
    options = parse()
    try:
        torch = importlib.import_module("torch")
    except ImportError as failure:
        raise SystemExit(f"not measured: {failure}") from failure
    if len(sa.contexts()) < 2 or torch.cuda.device_count() < 2:
        raise SystemExit("not measured: needs two GPUs")

    def synchronize() -> None:
        for number in range(2):
            torch.cuda.synchronize(number)

    access = torch.cuda.can_device_access_peer(1, 0)
    print(f"cuda:0 to cuda:1, peer access: {access}, {options.bytes:,} bytes, {options.rounds} rounds")
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    lines = []
    try:
        for part in (between_gpus, onto_gpus):
            operations = part(torch, options, folder)
            lines += measure(operations, options.rounds, synchronize)
            del operations
    finally:
        shutil.rmtree(folder)
    write_result(options.out, "peers", options.commit, peer_access=access, results=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
