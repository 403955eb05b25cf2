#!/usr/bin/env python3
"""Writes docs/exchange.md by trying every exchange: which of Saeta's columns each framework can import, and
which of its arrays Saeta can import.

    exchange_table.py [--gpu] [--check]

By default the tables of the host are written. --gpu writes those of a GPU instead; it needs one, and torch,
CuPy, Numba, JAX or cuDF. --check compares instead of writing; exit code 1 if they differ.
tests/interop/test_peers.py checks the tables of the host.

An import is a view if the imported buffers have the addresses of the source. For Arrow frameworks without an
interface for addresses, both objects are exported at the same time and the exports are compared.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa

PAGE = Path(__file__).resolve().parent.parent / "docs" / "exchange.md"
ROWS = 100
NOTHING = "none"


def sources(nulls: bool) -> dict[str, pa.Array]:
    """Returns an array of each kind of type. pyarrow builds them from Python values, because it then aligns
    memory to 64 bytes, which JAX requires for a view.
    """
    kept = [not (nulls and row % 7 == 3) for row in range(ROWS)]

    def array(value: Callable[[int], Any], type: pa.DataType) -> pa.Array:  # noqa: A002
        return pa.array([value(row) if kept[row] else None for row in range(ROWS)], type)

    texts = array(lambda row: f"text {row % 9}", pa.string())
    return {
        "int64": array(lambda row: row, pa.int64()),
        "float64": array(lambda row: row / 4, pa.float64()),
        "bool": array(lambda row: row % 2 == 0, pa.bool_()),
        "timestamp[us]": array(lambda row: row, pa.timestamp("us")),
        "decimal128(12, 2)": array(lambda row: row, pa.decimal128(12, 2)),
        "string": texts,
        "dictionary of strings": texts.dictionary_encode(),
        "list of int64": array(lambda row: [row, row], pa.list_(pa.int64())),
        "struct of int64": array(lambda row: {"x": row}, pa.struct({"x": pa.int64()})),
    }


def framework(module: str) -> Any:
    return importlib.import_module(module)


# Addresses of buffers, to tell views from copies.


def arrow_addresses(shown: Any) -> set[int]:
    """Returns the addresses of an Arrow object's buffers without validity; of a dictionary's indices."""
    if not isinstance(shown, pa.Array | pa.ChunkedArray):
        shown = pa.chunked_array(shown)
    array = shown if isinstance(shown, pa.Array) else shown.chunk(0)
    if pa.types.is_dictionary(array.type):
        array = array.indices
    return {buffer.address for buffer in array.buffers()[1:] if buffer is not None}


def pandas_addresses(series: Any) -> set[int]:
    if hasattr(series.array, "_pa_array"):
        return arrow_addresses(series.array._pa_array)
    return {np.asarray(series.cat.codes if hasattr(series, "cat") else series.to_numpy()).ctypes.data}


def our_addresses(column: sa.Column) -> set[int]:
    tensor = column.type.dtype is not None
    return {column.address} if tensor or column.device != "host" else arrow_addresses(column.to_arrow())


def shared(one: set[int], other: set[int]) -> str:
    return "view" if one & other else "copy"


# The frameworks, and how to exchange objects with them.


def numpy_array(array: pa.Array) -> Any:
    if array.null_count:
        raise NotImplementedError("NumPy has no nulls")
    made = array.to_numpy(zero_copy_only=False)
    if made.dtype == object:
        raise NotImplementedError("an array of Python objects")
    return made


def pandas_series(array: pa.Array) -> Any:
    made = array.to_pandas()
    if made.dtype == object:
        raise NotImplementedError("a series of Python objects")
    return made


def column_of(frame: Any, ctx: sa.Context) -> sa.Column:
    column: sa.Column = sa.from_arrow(frame, ctx)["x"]
    return column


def counted_by_duckdb(column: sa.Column) -> int:
    rows = sa.table({"x": column})
    with framework("duckdb").connect() as connection:
        found: int = connection.sql("select count(x) from rows").fetchall()[0][0]
    del rows
    return found


def duckdb_relation(array: pa.Array) -> Any:
    return framework("duckdb").from_arrow(pa.table({"x": array}))


@dataclass(frozen=True)
class Peer:
    """A framework. If it can't tell addresses (`addresses` is None), a successful import counts as "read"."""

    name: str
    module: str
    take: Callable[[sa.Column], Any]
    """Imports one of Saeta's columns into the framework."""
    make: Callable[[pa.Array], Any]
    """Makes an object of the framework without Saeta. Raises an error if the framework has no such object."""
    addresses: Callable[[Any], set[int]] | None
    give: Callable[[Any, sa.Context], sa.Column]
    """Imports an object of the framework as a column of Saeta."""


def host_peers() -> list[Peer]:
    def whole(shown: Any, ctx: sa.Context) -> sa.Column:
        column: sa.Column = sa.from_arrow(shown, ctx, as_column=True)
        return column

    return [
        Peer(
            "NumPy",
            "numpy",
            lambda column: column.to_numpy(),
            numpy_array,
            lambda array: {array.ctypes.data},
            lambda array, ctx: sa.column(array, ctx, name="x", type=None),
        ),
        Peer(
            "pyarrow",
            "pyarrow",
            lambda column: column.to_arrow(),
            lambda array: array,
            arrow_addresses,
            whole,
        ),
        Peer(
            "nanoarrow",
            "nanoarrow",
            lambda column: framework("nanoarrow").c_array(column),
            lambda array: framework("nanoarrow").c_array(array),
            lambda array: arrow_addresses(pa.array(array)),
            whole,
        ),
        Peer(
            "polars",
            "polars",
            lambda column: column.to_polars(),
            lambda array: framework("polars").Series(array),
            arrow_addresses,
            whole,
        ),
        Peer(
            "pandas",
            "pandas",
            lambda column: column.to_pandas(),
            pandas_series,
            pandas_addresses,
            lambda series, ctx: column_of(series.to_frame("x"), ctx),
        ),
        Peer("DuckDB", "duckdb", counted_by_duckdb, duckdb_relation, None, column_of),
        Peer(
            "JAX",
            "jax",
            lambda column: column.to_jax(),
            lambda array: framework("jax.numpy").asarray(numpy_array(array)),
            lambda array: {array.unsafe_buffer_pointer()},
            sa.from_dlpack,
        ),
    ]


def gpu_peers() -> list[Peer]:
    def pointer(array: Any) -> set[int]:
        return {array.__cuda_array_interface__["data"][0]}

    return [
        Peer(
            "torch",
            "torch",
            lambda column: column.to_torch(),
            lambda array: framework("torch").as_tensor(numpy_array(array), device="cuda"),
            lambda tensor: {tensor.data_ptr()},
            sa.from_dlpack,
        ),
        Peer(
            "CuPy",
            "cupy",
            lambda column: column.to_cupy(),
            lambda array: framework("cupy").asarray(numpy_array(array)),
            pointer,
            sa.from_dlpack,
        ),
        Peer(
            "Numba",
            "numba",
            lambda column: framework("numba.cuda").as_cuda_array(column),
            lambda array: framework("numba.cuda").to_device(numpy_array(array)),
            pointer,
            sa.from_cuda_array,
        ),
        Peer(
            "JAX",
            "jax",
            lambda column: column.to_jax(),
            lambda array: framework("jax").device_put(
                numpy_array(array), framework("jax").devices("cuda")[0]
            ),
            lambda array: {array.unsafe_buffer_pointer()},
            sa.from_dlpack,
        ),
        Peer(
            "cuDF",
            "pylibcudf",
            lambda column: framework("pylibcudf").Column.from_arrow(column),
            lambda array: framework("pylibcudf").Column.from_arrow(array),
            lambda column: {column.data().ptr},
            lambda column, ctx: sa.from_arrow(column, ctx, as_column=True),
        ),
    ]


# The outcome of each exchange.


def outcome(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except NotImplementedError:
        return NOTHING
    except Exception as failure:
        return f"`{type(failure).__name__}`"


def handed_over(peer: Peer, array: pa.Array, ctx: sa.Context) -> str:
    column: sa.Column = sa.from_arrow(array, ctx, as_column=True)
    taken = peer.take(column)
    if peer.addresses is None:
        return "read"
    return shared(peer.addresses(taken), arrow_addresses(array) if ctx.device == "host" else {column.address})


def taken_in(peer: Peer, array: pa.Array, ctx: sa.Context) -> str:
    try:
        given = peer.make(array)
    except Exception as failure:
        raise NotImplementedError(f"{peer.name} has no such object") from failure
    column = peer.give(given, ctx)
    return "copy" if peer.addresses is None else shared(our_addresses(column), peer.addresses(given))


def table(peers: list[Peer], ctx: sa.Context, tried: Callable[[Peer, pa.Array, sa.Context], str]) -> str:
    lines = [
        "| type | nulls | " + " | ".join(peer.name for peer in peers) + " |",
        "|---|---|" + "---|" * len(peers),
    ]
    for nulls in (False, True):
        for name, array in sources(nulls).items():
            cells = [outcome(partial(tried, peer, array, ctx)) for peer in peers]
            lines.append(f"| {name} | {'some' if nulls else 'none'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def installed(peers: list[Peer]) -> list[Peer]:
    return [peer for peer in peers if importlib.util.find_spec(peer.module) is not None]


def found(gpu: bool) -> dict[str, str]:
    """Returns the Markdown tables by their names on the page."""
    peers = installed(gpu_peers() if gpu else host_peers())
    ctx = sa.context("cuda:0" if gpu else "host")
    out, back = table(peers, ctx, handed_over), table(peers, ctx, taken_in)
    if not gpu:
        return {"host-out": out, "host-in": back}
    return {
        "gpu-out": f"## A GPU: columns for frameworks\n\n{out}",
        "gpu-in": f"## A GPU: objects of frameworks as columns\n\n{back}",
    }


def with_tables(page: str, tables: dict[str, str]) -> str:
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if pattern.search(page) is None:
            raise SystemExit(f"{PAGE} has no place '{begin.strip()}'")
        before, after = pattern.split(page)
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the tables of docs/exchange.md.")
    parser.add_argument("--gpu", action="store_true", help="the tables about a GPU")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # otherwise JAX converts all values to 32 bits
    os.environ.setdefault("JAX_PLATFORMS", "cuda" if options.gpu else "cpu")
    page = PAGE.read_text(encoding="utf-8")
    fresh = with_tables(page, found(options.gpu))
    if options.check:
        return 0 if fresh == page else 1
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
