"""A program that uses Saeta without other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, assert_type

import saeta as sa
from saeta.testing import assert_no_copies, assert_no_host_sync, assert_no_leaks, assert_peak_at_most

ctx = sa.context("host", budget="1GiB")
assert_type(ctx, sa.Context)
assert_type(ctx.memory.limit, int | None)
ctx.memory.limit = "2GiB"
device = sa.devices()[0]
assert_type(device.free_bytes, int | None)
assert_type(ctx.close(), dict[str, int])
assert_type(sa.info(), dict[str, Any])
assert_type(sa.__version__, str)

# Types and schemas.
number = sa.field("a", "int64", nullable=False, metadata={"unit": "m"})
assert_type(number, sa.Field)
assert_type(number.type, sa.DataType)
assert_type(number.metadata["unit"], bytes)
described = sa.schema([number, ("b", "string")])
assert_type(described, sa.Schema)
assert_type([each.name for each in described], list[str])
assert_type(sa.DataType("symbol"), sa.DataType)
assert_type(sa.SymbolTable.default().intern("Lyon"), int)

# Columns and tables.
fare = sa.column([12.5, None], ctx, name="fare", type="float64", truncate=True)
assert_type(fare, sa.Column)
assert_type(fare[1:], sa.Column)
assert_type(fare.to_pylist(), list[Any])
assert_type(fare.to("host"), sa.Column)
assert_type(fare.to(device), sa.Column)
assert_type(fare.cast("float32", round=True), sa.Column)
table = sa.table({"fare": fare, "city": ["Lyon", None]}, ctx, schema=None)
assert_type(table, sa.Table)
assert_type(table["fare"], sa.Column)
assert_type(table[0], sa.Column)
assert_type(table[:1], sa.Table)
assert_type(table[["fare"]], sa.Table)
assert_type(table.num_rows, int)
assert_type(table.schema.names, list[str])
assert_type(table.to_pydict(), dict[str, list[Any]])
assert_type(table.append_column("doubled", fare), sa.Table)
assert_type(table.filter(fare.is_valid()), sa.Table)
assert_type(table.batches, list[sa.Table])
assert_type(sa.concat_tables([table, table]), sa.Table)
assert_type(sa.from_bytes([b"ab"], "host", schema={"n": "uint8"}), sa.Table)
counted = sa.counted_table(table, sa.column([1], ctx, name="n", type="uint32"), num_rows=1)
assert_type(counted.to_table(), sa.Table)

# Exchange.
assert_type(sa.from_arrow(table), sa.Table)
assert_type(sa.from_arrow(counted, "host"), sa.Table)
assert_type(sa.from_arrow(fare, ctx, copy=True), sa.Column)
assert_type(sa.from_arrow(table, as_column=True), sa.Column)
assert_type(sa.from_arrow(described), sa.Schema)
assert_type(sa.from_arrow(number), sa.Field)
assert_type(sa.from_dlpack(fare), sa.Column)
assert_type(sa.from_dlpack(fare, columns=True, schema=described, reinterpret=True), sa.Table)
assert_type(fare.__dlpack_device__(), tuple[int, int])
with sa.use(None, reads=fare, writes=[ctx.allocate(16)]) as token:
    assert_type(token, sa.UseToken)
    assert_type(token.pointer(fare), int)


def either(columns: bool) -> sa.Column | sa.Table:
    return sa.from_dlpack(fare, columns=columns)


def anything(source: object) -> sa.Table:
    taken = sa.from_arrow(source)
    assert isinstance(taken, sa.Table)
    return taken


# Files.
path: str | os.PathLike[str] = Path("trips.arrow")
assert_type(sa.read_ipc(path, ctx, columns=["fare"], batches=[1, 0], validate="utf8"), sa.Table)
assert_type(sa.read_ipc([path, "more.arrow"], progress=lambda done: print(done.rows)), sa.Table)
assert_type(sa.read_parquet("trips.parquet", columns="fare", filters=[("fare", ">", 1)]), sa.Table)
assert_type(sa.write_ipc(table, path, compression="zstd", format="stream", progress=True), int)
assert_type(table.write_ipc(path, compression="lz4"), int)
assert_type(table.to_ipc_bytes(format="stream"), bytes)
with sa.ipc_writer(path, described, compression="lz4", pending="64MiB") as writer:
    assert_type(writer, sa.IpcWriter)
    writer.write(table)
with sa.scan_ipc(path, ctx, batch_size=1024) as scan:
    assert_type(scan, sa.Scan)
    assert_type(next(scan), sa.Table)
    assert_type([batch.num_rows for batch in scan], list[int])
assert_type(sa.from_arrow(scan), sa.Table)
assert_type(sa.scan_parquet("trips.parquet", in_flight=1), sa.Scan)


async def rows_of(scanned: sa.Scan) -> int:
    return sum([batch.num_rows async for batch in scanned])


def packed(codec: Literal["lz4", "zstd"] | None) -> bytes:
    return table.to_ipc_bytes(compression=codec)


# Training.
with sa.loader("data", ctx, batch_size=32, shuffle="rows", to="table") as tables:
    assert_type(tables, sa.Loader[sa.Table])
    for rows in tables:
        assert_type(rows, sa.Table)
changed = sa.loader("data", ctx, batch_size=32, transform=lambda rows: rows[::2], to="table")
assert_type(changed, sa.Loader[sa.Table])
with sa.loader(
    "data", batch_size=32, tensor_options=sa.TensorOptions(nulls={"fare": "mask"}, lists="padded", codes=True)
) as batches:
    assert_type(next(iter(batches)), dict[str, Any])
assert_type(batches.state_dict(), dict[str, Any])
assert_type(len(batches), int)


def epochs(loader: sa.Loader) -> Iterator[int]:
    yield loader.epoch


# Memory.
memory = ctx.memory
assert_type(memory.statistics()["peak"], int | None)
assert_type(memory.by_tag(), dict[str, int])
with memory.child("query", "1MiB") as query, memory.window() as window:
    assert_type(query, sa.Context)
    assert_type(query.allocate("1KiB", tag="scratch", kind="pinned"), sa.Buffer)
    assert_type(window.peak, int)
with memory.add_hook(lambda needed: needed, name="cache") as hook:
    assert_type(hook.name, str)
with memory.record() as recording:
    memory.timeline("memory.html", recording, phases=[("begin", 0)])
with ctx.forbid_downloads(), ctx.capturing():
    pass
with assert_no_copies(ctx), assert_no_host_sync(ctx), assert_no_leaks(ctx), assert_peak_at_most(ctx, "1MiB"):
    pass
try:
    ctx.allocate("1TiB")
except sa.BudgetExceeded as refusal:
    assert_type(refusal.requested, int)
    assert_type(refusal.owners, dict[str, int])
except (sa.OutOfMemory, sa.Error) as failure:
    assert_type(str(failure), str)
