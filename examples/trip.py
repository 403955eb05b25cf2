"""A full round trip: reads an Arrow file onto the device under a budget, computes a new column with a
framework without copies, writes the table with that column, reads it again and checks it.

trip.py [INPUT.arrow OUTPUT.arrow A B]    by default, with a small generated file
"""

import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import saeta as sa


def framework():
    """Returns a device and a module with `from_dlpack` that computes there: torch or CuPy on a GPU, else
    NumPy on the host."""
    device = sa.devices()[0].name
    for name in ("torch", "cupy") if device != "host" else ():
        try:
            return device, importlib.import_module(name)
        except ImportError:
            continue
    return "host", np


def make_file(folder: Path) -> Path:
    path = folder / "trips.arrow"
    fare = np.random.default_rng(1).random(100_000)
    table = pa.table({"fare": fare, "tip": fare / 10, "note": ["cash", None] * 50_000})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=25_000)
    return path


def trip(source: Path, target: Path, a: str, b: str) -> None:
    device, xp = framework()
    ctx = sa.context(device, budget="1GiB")  # larger requests raise BudgetExceeded
    table = sa.read_ipc(source, ctx, copy=True)  # one transfer per batch
    print(table)

    ctx.reset_counters()
    sums = []
    for left, right in zip(table[a].chunks, table[b].chunks, strict=True):
        # The framework gets views of the columns, and Saeta a view of the sum: nothing is copied.
        sums.append(sa.from_dlpack(xp.from_dlpack(left) + xp.from_dlpack(right), ctx))
    counted = ctx.counters()
    moved = sum(
        counted[way]["transfers"]
        for way in ("host_to_device", "device_to_host", "device_to_device", "host_to_host")
    )
    print(f"{counted['exports']} views out, {counted['imports']} views in, {moved} copies")

    result = table.append_column("total", sa.Column.from_chunks(sums))
    size = result.write_ipc(target, compression="zstd")  # the file appears only once it is complete
    print(ctx.memory.report())

    written = pa.ipc.open_file(target).read_all()
    expected = written[a].to_numpy() + written[b].to_numpy()
    if moved or not np.array_equal(written["total"].to_numpy(), expected):
        sys.exit(f"{target}: 'total' is not {a} + {b}, or something was copied on the way")
    print(f"{target}: {size:,} bytes, {written.num_rows:,} rows, 'total' is {a} + {b} in every row")


def main() -> None:
    if len(sys.argv) == 5:
        trip(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
        return
    with tempfile.TemporaryDirectory() as folder:
        trip(make_file(Path(folder)), Path(folder) / "with-total.arrow", "fare", "tip")


if __name__ == "__main__":
    main()
