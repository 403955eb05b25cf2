"""The libraries that take a whole table through the Arrow C stream, and JAX, where they are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from saeta._core import Column, Table
from saeta.demo.frameworks import installed

# How each takes a table, and how many rows it has then.
TABLES: dict[str, Callable[[Any, Table], int]] = {
    "pyarrow": lambda pyarrow, table: int(pyarrow.table(table).num_rows),
    "polars": lambda polars, table: int(polars.DataFrame(table).height),
    "pandas": lambda pandas, table: len(pandas.DataFrame.from_arrow(table)),
    "duckdb": lambda duckdb, table: len(duckdb.from_arrow(table).to_arrow_table()),
}


def take_table(table: Table) -> Iterator[tuple[str, int | str]]:
    """Name of a library, and the rows that it got or why it got none."""
    for name, take in TABLES.items():
        library = installed(name)
        if isinstance(library, str):
            yield name, library
        else:
            try:
                yield name, take(library, table)
            except (AttributeError, ImportError) as failure:  # an older release
                yield name, f"this release takes no Arrow stream ({failure})"


def take_column(column: Column) -> tuple[str, int | str]:
    """JAX, and how many values it got: whether it copies them is its own choice."""
    jax = installed("jax")
    if isinstance(jax, str):
        return "jax", jax
    if column.device != "host":
        return "jax", "left alone: it would take most of the memory of the GPU"
    return "jax", int(jax.numpy.from_dlpack(column.chunks[0]).shape[0])
