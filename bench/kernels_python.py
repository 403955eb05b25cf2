#!/usr/bin/env python3
"""Measures the rates of column kernels from Python, compared with a plain copy and with array libraries.

    kernels_python.py [--rows N] [--rounds N] [--out FILE.json] [--commit TEXT]

In each round all operations run one after the other; the device is idle before and after each. The program
prints the median, the 10th and the 90th percentile over all rounds but the first, in GB/s of the bytes that
an operation must read and write, and as a share of the copy's rate. Results are checked before anything is
measured. Data is random. Libraries that are not installed are listed and left out.
"""

from __future__ import annotations

import argparse
import importlib
import sys

import numpy as np
import pyarrow as pa
from rates import COPY, Operation, Rates, add_result_arguments, write_result

import saeta as sa

PIECES = 64
SHIFT = 5  # first row of slices, so that their bits do not begin at a byte


def many(rows: int) -> int:
    """Returns a number of rows for types of a few bits, large enough that the kernel dominates the call."""
    return 4 * rows


def bitmap(rows: int) -> int:
    return rows // 8


def pieces_of(values: pa.Array, ctx: sa.Context) -> sa.Column:
    step = len(values) // PIECES
    chunks = [values.slice(i * step, step) for i in range(PIECES)]
    return sa.from_arrow(pa.chunked_array(chunks), ctx, copy=True)


def of_saeta(rows: int, ctx: sa.Context) -> dict[str, Operation]:
    random = np.random.default_rng(7)
    bools = indices = many(rows)
    truth = random.integers(0, 2, bools, dtype=np.uint8).astype(bool)
    bits = sa.from_arrow(pa.array(truth), ctx, copy=True)
    odd = bits[SHIFT:]
    whole = bits.as_bool8()
    assert np.array_equal(whole.to_numpy(), truth)
    assert np.array_equal(odd.as_bool8().to_numpy(), truth[SHIFT:])
    numbers = pieces_of(pa.array(random.random(rows), mask=random.random(rows) < 0.1), ctx)
    texts = pieces_of(pa.array(random.integers(10**8, 10**9, rows // 8).astype(str), pa.string()), ctx)
    words = pa.array(np.arange(1000).astype(str))
    codes = sa.from_arrow(
        pa.DictionaryArray.from_arrays(random.integers(0, 1000, indices, dtype=np.int32), words),
        ctx,
        copy=True,
    )
    for joined in (numbers, texts):
        assert joined.combine_chunks().to_arrow().equals(joined.to_arrow())
    return {
        "bits to bools": Operation(lambda: bits.as_bool8(), bools + bitmap(bools)),
        "bits to bools, shifted": Operation(lambda: odd.as_bool8(), bools + bitmap(bools)),
        "bools to bits": Operation(lambda: whole.as_bool(), bools + bitmap(bools)),
        f"join {PIECES} chunks of float64 with nulls": Operation(
            lambda: numbers.combine_chunks(), 2 * (8 * rows + bitmap(rows))
        ),
        f"join {PIECES} chunks of strings": Operation(
            lambda: texts.combine_chunks(), 2 * (4 + 9) * (rows // 8)
        ),
        "import and check of dictionary indices": Operation(
            lambda: sa.from_arrow(codes.__arrow_c_device_array__(), ctx), 4 * indices
        ),
    }


def on_gpu(rows: int) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    cupy = importlib.import_module("cupy")
    source, target = (cupy.random.randint(0, 255, 8 * rows, dtype=cupy.uint8) for _ in range(2))
    found[COPY] = Operation(lambda: cupy.copyto(target, source), 16 * rows)
    bools = many(rows)
    truth = cupy.random.randint(0, 2, bools, dtype=cupy.uint8).astype(bool)
    packed = cupy.packbits(truth, bitorder="little")
    found["peer: cupy.packbits"] = Operation(
        lambda: cupy.packbits(truth, bitorder="little"), bools + bitmap(bools)
    )
    found["peer: cupy.unpackbits"] = Operation(
        lambda: cupy.unpackbits(packed, bitorder="little"), bools + bitmap(bools)
    )
    chunks = cupy.array_split(cupy.random.random(rows), PIECES)
    found[f"peer: cupy.concatenate of {PIECES}"] = Operation(lambda: cupy.concatenate(chunks), 16 * rows)
    torch = importlib.import_module("torch")
    tensors = torch.rand(rows, dtype=torch.float64, device="cuda").chunk(PIECES)
    found[f"peer: torch.cat of {PIECES}"] = Operation(lambda: torch.cat(tensors), 16 * rows)
    codes = cupy.random.randint(0, 1000, bools, dtype=cupy.int32)
    found["peer: cupy, all indices in range"] = Operation(
        lambda: bool(((codes >= 0) & (codes < 1000)).all()), 4 * (bools)
    )
    return found


def on_host(rows: int) -> dict[str, Operation]:
    random = np.random.default_rng(9)
    source, target = (random.integers(0, 255, 8 * rows, dtype=np.uint8) for _ in range(2))
    bools = many(rows)
    truth = random.integers(0, 2, bools, dtype=np.uint8).astype(bool)
    packed = np.packbits(truth, bitorder="little")
    values = pa.array(random.random(rows), mask=random.random(rows) < 0.1)
    step = rows // PIECES
    chunks = pa.chunked_array([values.slice(i * step, step) for i in range(PIECES)])
    return {
        COPY: Operation(lambda: np.copyto(target, source), 16 * rows),
        "peer: numpy.packbits": Operation(
            lambda: np.packbits(truth, bitorder="little"), bools + bitmap(bools)
        ),
        "peer: numpy.unpackbits": Operation(
            lambda: np.unpackbits(packed, bitorder="little"), bools + bitmap(bools)
        ),
        f"peer: pyarrow combine_chunks of {PIECES} with nulls": Operation(
            lambda: chunks.combine_chunks(), 2 * (8 * rows + bitmap(rows))
        ),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the kernels on columns reach from Python.")
    parser.add_argument(
        "--rows", type=int, help="a multiple of 4096; default 2**26 on a GPU, 2**20 on the host"
    )
    parser.add_argument("--rounds", type=int, default=11)
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> int:
    options = parse()
    ctx = sa.context()
    host = ctx.device == "host"
    rows = options.rows or (1 << (20 if host else 26))
    if rows % 4096 != 0:
        raise SystemExit(f"--rows {rows} is no multiple of 4096")
    try:
        operations = (on_host(rows) if host else on_gpu(rows)) | of_saeta(rows, ctx)
    except ImportError as failure:
        raise SystemExit(f"not measured: {failure}") from failure
    synchronize = (lambda: None) if host else importlib.import_module("cupy").cuda.Device().synchronize
    print(f"kernels_python on {ctx.device}, {rows:,} rows, {options.rounds} rounds")
    results = Rates(operations).measure(options.rounds, synchronize).show()
    write_result(options.out, "kernels_python", options.commit, device=ctx.device, rows=rows, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
