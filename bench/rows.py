#!/usr/bin/env python3
"""Measures take and filter from Python: random rows of 16 columns, a filter by a mask, and strings.

    rows.py [--rows N] [--taken N] [--columns N] [--rounds N] [--out FILE.json] [--commit TEXT]

A random read from GPU memory transfers at least 64 bytes: on an H200, reading both halves of 64 bytes takes
as long as reading one half. So 64 bytes are counted for each random read, and the plain size of everything
else. The limit is the rate of a plain copy. In each round all operations run one after the other; the device
is idle before and after each. The program prints the median, the 10th and the 90th percentile over all rounds
but the first. Results are checked before anything is measured. Data is random.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rates import COPY, Operation, Rates, add_result_arguments, write_result

import saeta as sa

FETCHED = 64  # bytes that a random read transfers
VALUE = 4
INDEX = 8


@dataclass(frozen=True)
class Data:
    columns: list[np.ndarray[Any, Any]]
    indices: np.ndarray[Any, Any]
    mask: np.ndarray[Any, Any]
    texts: pa.Array

    @property
    def taken(self) -> int:
        """Bytes that a take moves: for each row an index, and a random read and a write for each column."""
        return len(self.indices) * (INDEX + len(self.columns) * (FETCHED + VALUE))

    @property
    def filtered(self) -> int:
        """Bytes that a filter moves: the mask, all rows read, and the selected rows written."""
        kept = int(self.mask.sum())
        return len(self.mask) * (1 + len(self.columns) * VALUE) + kept * len(self.columns) * VALUE


def random_data(rows: int, taken: int, columns: int) -> Data:
    random = np.random.default_rng(11)
    lengths = random.integers(0, 24, rows // 4)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = random.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    texts = pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))
    return Data(
        [random.random(rows, dtype=np.float32) for _ in range(columns)],
        random.integers(0, rows, taken, dtype=np.int64),
        random.random(rows) < 0.5,
        texts,
    )


def of_saeta(data: Data, ctx: sa.Context) -> dict[str, Operation]:
    table = sa.table({f"c{i}": each for i, each in enumerate(data.columns)}, ctx)
    indices = sa.column(data.indices, ctx, name="indices")
    mask = sa.column(data.mask, ctx, name="mask")
    texts = sa.table({"text": data.texts}, ctx)
    few = sa.column(data.indices % len(data.texts), ctx, name="indices")
    small = indices[: min(8192, len(indices))]
    made = table.take(indices)
    assert np.array_equal(made["c0"].to_numpy(), data.columns[0][data.indices])
    assert np.array_equal(table.filter(mask)["c0"].to_numpy(), data.columns[0][data.mask])
    taken = texts.take(few)["text"].to_arrow().combine_chunks()
    assert taken.equals(data.texts.take(pa.array(data.indices % len(data.texts))))
    letters = 2 * taken.nbytes + len(data.indices) * (INDEX + FETCHED)
    return {
        f"take {len(data.indices):,} rows": Operation(lambda: table.take(indices), data.taken),
        f"take {len(small):,} rows": Operation(
            lambda: table.take(small), data.taken * len(small) // len(indices)
        ),
        "filter half of the rows": Operation(lambda: table.filter(mask), data.filtered),
        "take strings": Operation(lambda: texts.take(few), letters),
    }


def on_gpu(data: Data) -> dict[str, Operation]:
    torch = importlib.import_module("torch")
    columns = [torch.from_numpy(each).cuda() for each in data.columns]
    matrix = torch.stack(columns, dim=1).contiguous()
    indices = torch.from_numpy(data.indices).cuda()
    small = indices[: min(8192, len(indices))]
    mask = torch.from_numpy(data.mask).cuda()
    size = 4 * data.columns[0].nbytes
    source, target = (torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda") for _ in range(2))
    row = INDEX + 2 * VALUE * len(columns)
    return {
        COPY: Operation(lambda: target.copy_(source), 2 * size),
        f"peer: torch, a column each, {len(indices):,} rows": Operation(
            lambda: [each[indices] for each in columns], data.taken
        ),
        f"peer: torch, a column each, {len(small):,} rows": Operation(
            lambda: [each[small] for each in columns], data.taken * len(small) // len(indices)
        ),
        "peer: torch, one row-major matrix": Operation(lambda: matrix[indices], len(indices) * row),
        "peer: torch, filter a column each": Operation(
            lambda: [each[mask] for each in columns], data.filtered
        ),
    }


def on_host(data: Data) -> dict[str, Operation]:
    table = pa.table({f"c{i}": each for i, each in enumerate(data.columns)})
    indices, mask = pa.array(data.indices), pa.array(data.mask)
    few = pa.array(data.indices % len(data.texts))
    source = np.concatenate(data.columns)
    target = np.empty_like(source)
    return {
        COPY: Operation(lambda: np.copyto(target, source), 2 * source.nbytes),
        "peer: pyarrow take": Operation(lambda: table.take(indices), data.taken),
        "peer: pyarrow filter": Operation(lambda: table.filter(mask), data.filtered),
        "peer: pyarrow take of strings": Operation(lambda: data.texts.take(few), 2 * data.texts.nbytes),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What moving rows reaches from Python.")
    parser.add_argument("--rows", type=int, help="default 2**25 on a GPU, 2**18 on the host")
    parser.add_argument("--taken", type=int, help="random rows; default: a quarter of the rows")
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=11)
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> int:
    options = parse()
    ctx = sa.context()
    host = ctx.device == "host"
    rows = options.rows or 1 << (18 if host else 25)
    data = random_data(rows, options.taken or rows // 4, options.columns)
    try:
        operations = (on_host(data) if host else on_gpu(data)) | of_saeta(data, ctx)
    except ImportError as failure:
        raise SystemExit(f"not measured: {failure}") from failure
    synchronize = (lambda: None) if host else importlib.import_module("torch").cuda.synchronize
    print(f"rows on {ctx.device}, {rows:,} rows, {options.columns} columns, {options.rounds} rounds")
    results = Rates(operations).measure(options.rounds, synchronize).show()
    write_result(
        options.out,
        "rows",
        options.commit,
        device=ctx.device,
        rows=rows,
        columns=options.columns,
        results=results,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
