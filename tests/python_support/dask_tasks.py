"""Tasks for the workers of a Dask cluster, and entry points for a source tree that is not installed.

No task that moves tables imports `saeta.dask`: a worker must find it through the entry points.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

import arrow_data
import saeta as sa

PROJECT = Path(__file__).resolve().parents[2]
TABLES = 200


def pretend_to_be_installed(folder: Path) -> None:
    """Writes the entry points of pyproject.toml as package metadata. `folder` must be in sys.path."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = folder / "saeta-0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: saeta\nVersion: 0\n", encoding="utf-8")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (found / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@functools.cache
def every_type(rows: int, nulls: str) -> Any:
    return sa.from_arrow(arrow_data.pa.table(arrow_data.arrays(rows, nulls)), "host")


def make(number: int) -> sa.Table:
    """Makes a table. Those of 12 consecutive numbers cover all types, slices, several batches, nulls and no
    rows."""
    whole = every_type((67, 1, 0, 500)[number % 4], ("some", "none", "all")[number % 3])
    names = whole.column_names
    width = 1 + number % 7
    chosen = [names[(number * 3 + each) % len(names)] for each in range(width)]
    table = whole.select(list(dict.fromkeys(chosen)))
    table = table.append_column("number", np.full(table.num_rows, number))
    if number % 5 == 1:
        table = table.slice(table.num_rows // 3, table.num_rows // 2)
    if number % 5 == 2:
        table = sa.concat_tables([table, table.slice(0, table.num_rows // 2)])
    return table.replace_schema_metadata({"number": str(number)})


def same(number: int, table: sa.Table) -> str:
    """Compares a table with `make(number)`. Returns the first difference, or an empty text."""
    expected = make(number)
    if not table.equals(expected, check_metadata=True):
        return f"table {number} differs: {table}"
    if [each.num_rows for each in table.batches] != [each.num_rows for each in expected.batches]:
        return f"the batches of table {number} differ"
    return "" if table.context.device == "host" else f"table {number} is on {table.context}"


def column_of(number: int) -> sa.Column:
    return make(number)["number"]


def numbers(rows: int) -> sa.Table:
    return sa.table({"n": np.arange(rows), "x": np.arange(rows) * 0.5}, "host")


def statistics() -> dict[str, int | None]:
    """Returns the host memory statistics of this process, without the tables that this module caches."""
    every_type.cache_clear()
    gc.collect()
    return sa.context("host").memory.statistics()


def slice_in_a_full_context(rows: int) -> sa.Table:
    """Returns a slice in a context whose budget has no room for the copy that sending a slice needs."""
    full = sa.context("host").memory.child("full", limit=17 * rows)
    return sa.unpack(*numbers(rows).to(full).pack(), full)[1:]


def arrived(table: sa.Table) -> dict[str, Any]:
    import saeta.dask

    where = saeta.dask.worker_context("host")
    return {
        "own": table.context == where,
        "budget": where.memory.limit,
        "rows": table.num_rows,
        "nbytes": table.nbytes,
        "charged": where.memory.statistics()["current"],
        "external": where.memory.statistics()["external"],
    }


def send_frames(sound: bool) -> None:
    """Makes this process send valid frames, or frames with truncated metadata."""
    from saeta._share.packed import Packed, pack
    from saeta.dask import _families

    def cut(table: sa.Table) -> Packed:
        metadata, body = pack(table)
        return Packed(metadata[:-9], body)

    _families.pack = pack if sound else cut


def nbytes(table: sa.Table) -> int:
    return table.nbytes


def spilled_bytes(dask_worker: Any) -> int:
    return int(dask_worker.data.spilled_total.memory)


def keys_in_memory_and_spilled(dask_worker: Any) -> tuple[list[str], list[str]]:
    data = dask_worker.data
    return [str(key) for key in data.fast], [str(key) for key in data.slow]


def make_on_device(number: int) -> sa.Table:
    import saeta.dask

    return make(number).to(saeta.dask.worker_context())


def same_on_device(number: int, table: sa.Table) -> str:
    import saeta.dask

    if table.context != saeta.dask.worker_context():
        return f"table {number} is on {table.context}"
    return same(number, table.to("host"))


def late_on_device(number: int, rows: int) -> sa.Table:
    """Makes a table whose rows are still being written on the device when it is returned."""
    import saeta.dask

    values = np.arange(rows) + number
    table = sa.table({"n": values, "x": values * 0.5}, saeta.dask.worker_context())
    backwards = sa.column(np.arange(rows)[::-1].copy(), table.context, name="at")
    for _ in range(9):  # an odd number: the rows end up in the opposite order
        table = table.take(backwards)
    return table


def late_without_ipc_handles(number: int, rows: int) -> sa.Table:
    """Makes a packed table like `late_on_device`, in memory of a CUDA pool, which has no IPC handle."""
    import cupy

    metadata, body = late_on_device(number, rows).pack()
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        return sa.unpack(metadata, cupy.from_dlpack(body).copy())


def sent_memory(table: sa.Table) -> tuple[str, bool, str]:
    """Returns a description of the memory that the transport sends for a table, and this worker's resource
    stack."""
    from distributed.protocol import serialize

    from saeta.dask import _families, worker_context

    _, (body,) = serialize(table, serializers=("cuda",), on_error="raise")
    address = body.__cuda_array_interface__["data"][0]
    return type(body).__name__, _families._has_ipc_handle(address), worker_context().options["stack"]


def wrong_rows(number: int, table: sa.Table) -> int:
    moved = table.to("host")
    expected = (np.arange(table.num_rows) + number)[::-1]
    wrong = np.from_dlpack(moved["n"]) != expected
    return int((wrong | (np.from_dlpack(moved["x"]) != expected * 0.5)).sum())


def reset_counters() -> None:
    import saeta.dask

    saeta.dask.worker_context().reset_counters()


def uploaded_bytes(table: sa.Table) -> int:
    """Returns the bytes copied from the host to the device of a table since the counters were reset."""
    return int(table.context.counters()["host_to_device"]["bytes"])


def downloaded_bytes() -> int:
    import saeta.dask

    return int(saeta.dask.worker_context().counters()["device_to_host"]["bytes"])


class Fuse:
    """Kills the process that pickles it (`at` is "sending") or unpickles it ("receiving"), but only once.

    The file at `path` records that this has happened.
    """

    def __init__(self, path: str, at: str) -> None:
        self.path = path
        self.at = at

    def __reduce__(self) -> tuple[Any, ...]:
        if self.at == "sending":
            _burn(self.path)
        return _received, (self.path, self.at)


def _received(path: str, at: str) -> Fuse:
    if at == "receiving":
        _burn(path)
    return Fuse(path, at)


def _burn(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def make_with_fuse(number: int, path: str, at: str) -> list[Any]:
    return [make(number), Fuse(path, at)]


def same_with_fuse(number: int, pair: list[Any]) -> str:
    return same(number, pair[0])
