"""The libraries that take a whole table through the Arrow C stream, and JAX, if they are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from saeta._core import Column, Table
from saeta.demo.frameworks import installed

# For each library a function that takes a table and returns the number of its rows.
TABLES: dict[str, Callable[[Any, Table], int]] = {
    "pyarrow": lambda pyarrow, table: int(pyarrow.table(table).num_rows),
    "polars": lambda polars, table: int(polars.DataFrame(table).height),
    "pandas": lambda pandas, table: len(pandas.DataFrame.from_arrow(table)),
    "duckdb": lambda duckdb, table: len(duckdb.from_arrow(table).to_arrow_table()),
}


def take_table(table: Table) -> Iterator[tuple[str, int | str]]:
    """Yields the name of each library, with the number of rows that it got or the reason why it got none."""
    for name, take in TABLES.items():
        library = installed(name)
        if isinstance(library, str):
            yield name, library
        else:
            try:
                yield name, take(library, table)
            except (AttributeError, ImportError) as failure:  # an older release of the library
                yield name, f"this release takes no Arrow stream ({failure})"


def take_column(column: Column) -> tuple[str, int | str]:
    """Passes a column to JAX. Returns its name and the number of values, or the reason why it got none.

    JAX decides itself whether it copies the values.
    """
    jax = installed("jax")
    if isinstance(jax, str):
        return "jax", jax
    if column.device != "host":
        return "jax", "left alone: it would take most of the memory of the GPU"
    return "jax", int(jax.numpy.from_dlpack(column.chunks[0]).shape[0])
