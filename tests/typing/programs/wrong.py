"""Wrong uses. A type checker must find each line that ends in `# wrong`, and no other."""

# ruff: noqa: B018
from __future__ import annotations

import io

import saeta as sa

ctx = sa.context("host")
table = sa.table({"a": [1, 2]}, ctx)
column = table["a"]

sa.context("host", limit="1GiB")  # wrong
sa.context(0)  # wrong
ctx.memory.limit = 1.5  # wrong
ctx.allocate("1KiB", kind="managed")  # wrong
ctx.device = "cuda:0"  # wrong
sa.table({"a": [1]}, 3)  # wrong
sa.column([1], ctx, name="a", type="int8", round=True)  # wrong
sa.column([1], name=1)  # wrong
sa.from_bytes([b"ab"], "host")  # wrong
sa.counted_table(column, column)  # wrong
sa.from_arrow(table, copy="never")  # wrong
sa.from_arrow(table).to_pylist(1)  # wrong
sa.from_arrow(column).num_rows  # wrong
sa.from_dlpack(column, schema=table.schema)  # wrong
sa.from_dlpack(column, columns=True).type  # wrong
sa.read_ipc(3)  # wrong
sa.read_ipc("a.arrow", validate="ascii")  # wrong
sa.read_ipc("a.arrow", coulmns="a")  # wrong
sa.write_ipc(table, "a.arrow", compression="gzip")  # wrong
sa.write_ipc(table, "a.arrow", format="feather")  # wrong
table.write_ipc("a.arrow", compression="snappy")  # wrong
table.write_ipc(io.StringIO())  # wrong
table.to_ipc_bytes(format="csv")  # wrong
sa.ipc_writer("a.arrow", format="parquet")  # wrong
sa.loader("a.arrow")  # wrong
sa.loader("a.arrow", batch_size=1, shuffle="all")  # wrong
sa.loader("a.arrow", batch_size=1, to="tensorflow")  # wrong
sa.loader("a.arrow", batch_size=1, tensor_options=sa.TensorOptions(nulls="zero"))  # wrong
sa.loader("a.arrow", batch_size=1, to="table", matrix=True)  # wrong
table.num_rows = 3  # wrong
table.column_name  # wrong
table.groupby  # wrong
sa.read_csv  # wrong
_ = column > 1  # wrong
_ = column + column  # wrong
_ = -column  # wrong
table[1.5]  # wrong
for _ in table.columns.names:  # wrong
    pass
column.to_numpy(nulls="zero")  # wrong
column.cast("int8", truncate=True)  # wrong
table.add_column("b", 0, [1, 2])  # wrong
ctx.memory.add_hook(lambda: 0, name="cache")  # wrong


# One function each: these methods return NoReturn, and checkers ignore code after such a call.
def assign_column() -> None:
    table["b"] = [1, 2]  # wrong


def delete_column() -> None:
    del table["a"]  # wrong


def assign_value() -> None:
    column[0] = 3  # wrong
