#!/usr/bin/env python3
"""Times transfers of Saeta's and pyarrow's tables between two workers of a local Dask cluster.

    bench/dask_transfers.py [--mib 16 64 256] [--repeats 9] [--columns 8] [--kinds KIND...]
                            [--gpus 2] [--protocol tcp|ucx] [--rmm-pool 16GiB] [--out FILE.json]
                            [--commit TEXT]

One worker has a table, and the other adds up its values. The client measures the time from the request to the
result, and subtracts the time of the same request on the worker that has the table. It also reports the CPU
time of both workers, which is more reliable on a busy machine. In each repetition all kinds run one after the
other:

saeta             a table of several allocations, which `saeta.dask` gathers before sending
saeta, packed     a table in one allocation, as a read from a file produces it
pyarrow           a pyarrow table, which distributed sends as an IPC stream
pyarrow, pickled  a pyarrow table inside an object, pickled with out-of-band buffers
array             a NumPy array without conversion: the cost of distributed and its sockets alone
nothing           a number

"alone" is the time to serialise and deserialise in one process, without sockets.

With --gpus the workers come from dask-cuda, each with its own GPU, or both on the same GPU if the machine has
one. Then `array` is a CuPy array, `arrays` is a CuPy array for each column, sent by the serialisation family
`cuda`, and pyarrow's tables are downloaded, sent and uploaded. "link" is a plain copy of the same number of
bytes between the two GPUs (or within the one) into memory that is already allocated. --rmm-pool is the size
of the RMM pool that UCXX receives into, as dask-cuda recommends.

With DASK_DISTRIBUTED__COMM__SHARD=1GiB Dask does not split messages of more than 64 MiB.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask
import distributed
import numpy as np
import pyarrow as pa
from distributed.protocol import deserialize, serialize
from rates import add_result_arguments, copy_between_gpus, write_result

import saeta as sa
import saeta.dask

HOST_KINDS = ("saeta", "saeta, packed", "pyarrow", "pyarrow, pickled", "array", "nothing")
GPU_KINDS = ("saeta", "saeta, packed", "pyarrow", "arrays", "array", "nothing")
SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "120s",
}


class Holder:
    """A user-defined object that holds a table; distributed pickles it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table


def values_of(columns: int, nbytes: int) -> dict[str, Any]:
    rows = nbytes // columns // 8
    return {f"c{number}": np.arange(rows) + number for number in range(columns)}


def make(kind: str, columns: int, nbytes: int) -> Any:
    if kind == "nothing":
        return 0
    if kind == "array":
        return np.arange(nbytes // 8)
    values = values_of(columns, nbytes)
    if kind.startswith("saeta"):
        return packed_if(kind, sa.table(values, "host"))
    return pa.table(values) if kind == "pyarrow" else Holder(pa.table(values))


def make_on_gpu(kind: str, columns: int, nbytes: int) -> Any:
    import cupy

    if kind == "nothing":
        return 0
    if kind == "array":
        return cupy.arange(nbytes // 8)
    arrays = [cupy.arange(nbytes // columns // 8) + number for number in range(columns)]
    if kind == "arrays":
        return arrays
    ctx = saeta.dask.worker_context()
    table = sa.table({f"c{i}": sa.from_dlpack(each, ctx, copy=True) for i, each in enumerate(arrays)}, ctx)
    ctx.synchronize()
    del arrays
    cupy.get_default_memory_pool().free_all_blocks()
    return DownloadedTable(table) if kind == "pyarrow" else packed_if(kind, table)


def packed_if(kind: str, table: sa.Table) -> sa.Table:
    return sa.unpack(*table.pack()) if "packed" in kind else table


class DownloadedTable:
    """A table on a GPU that is downloaded and sent as a pyarrow table."""

    def __init__(self, table: sa.Table) -> None:
        self.table = table

    def __reduce__(self) -> tuple[Any, ...]:
        return uploaded, (self.table.to_arrow(),)


def uploaded(table: pa.Table) -> DownloadedTable:
    return DownloadedTable(sa.from_arrow(table, saeta.dask.worker_context()))


def add_up(given: Any) -> int:
    if isinstance(given, int):
        return given
    if isinstance(given, Holder | DownloadedTable):
        return add_up(given.table)
    if isinstance(given, list):
        return sum(add_up(each) for each in given)
    if isinstance(given, pa.Table):
        return sum(int(each.chunk(0).to_numpy().sum()) for each in given.columns)
    if isinstance(given, sa.Table):
        return sum(add_up(array_of(each)) for each in given.columns)
    return int(given.sum())


def array_of(column: sa.Column) -> Any:
    if column.device == "host":
        return np.from_dlpack(column)
    import cupy

    return cupy.from_dlpack(column)


def processor_seconds(client: distributed.Client) -> float:
    return sum(client.run(time.process_time).values())


def seconds_of(client: distributed.Client, worker: str, table: Any) -> tuple[float, float, int]:
    """Returns the elapsed seconds, the CPU seconds of both workers, and the result."""
    worked = processor_seconds(client)
    start = time.perf_counter()
    found = client.submit(add_up, table, workers=[worker], allow_other_workers=False, pure=False).result()
    passed = time.perf_counter() - start
    return passed, processor_seconds(client) - worked, found


def measure(client: distributed.Client, mib: int, options: argparse.Namespace) -> dict[str, Any]:
    one, other = sorted(client.run(os.getpid))
    known, maker = (GPU_KINDS, make_on_gpu) if options.gpus else (HOST_KINDS, make)
    kinds = [kind for kind in known if options.kinds is None or kind in options.kinds]
    passed: dict[str, list[float]] = {kind: [] for kind in kinds}
    worked: dict[str, list[float]] = {kind: [] for kind in kinds}
    results: dict[str, set[int]] = {kind: set() for kind in kinds}
    for turn in range(options.repeats + 1):
        for kind in kinds:
            table = client.submit(maker, kind, options.columns, mib << 20, workers=[one], pure=False)
            distributed.wait(table)
            first = seconds_of(client, other, table)
            again = seconds_of(client, other, table)
            results[kind].add(first[2])
            del table
            if turn > 0:
                passed[kind].append(first[0] - again[0])
                worked[kind].append(first[1] - again[1])
    sums = [results[kind] for kind in kinds if kind not in ("array", "nothing")]
    assert not sums or len(set.union(*sums)) == 1
    return {
        "mebibytes": mib,
        "milliseconds": {kind: in_ms(times) for kind, times in passed.items()},
        "of the processors": {kind: in_ms(times) for kind, times in worked.items()},
    }


def round_trip(given: Any) -> None:
    """Serialises and deserialises as distributed does: by the family "dask" if possible, else by "pickle"."""
    header, frames = serialize(given, on_error="raise")
    deserialize(header, [memoryview(each) for each in frames])


def seconds_alone(run: Callable[[], object], repeats: int) -> list[float]:
    """Times repeated calls in this process. The first one is a warm-up and not counted."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[1:]


def in_ms(times: list[float]) -> dict[str, float]:
    """Returns the median and the 10th and 90th percentile in milliseconds."""
    tenths = statistics.quantiles(times, n=10)
    found = {"median": statistics.median(times), "p10": tenths[0], "p90": tenths[-1]}
    return {name: round(each * 1e3, 3) for name, each in found.items()}


@contextmanager
def workers(options: argparse.Namespace) -> Iterator[distributed.Client]:
    """Starts a local cluster of two workers, and yields a client that is connected to it."""
    made: dict[str, Any] = {"n_workers": 2, "protocol": options.protocol, "dashboard_address": "127.0.0.1:0"}
    if options.gpus == 2:
        import dask_cuda

        cluster = dask_cuda.LocalCUDACluster(
            CUDA_VISIBLE_DEVICES=[0, 1], rmm_pool_size=options.rmm_pool, **made
        )
    else:
        cluster = distributed.LocalCluster(threads_per_worker=1, memory_limit="8GiB", **made)
    with cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        yield client


def show(found: dict[str, Any]) -> None:
    link = found["link"]["median"] if "link" in found else None
    print(f"\n{found['mebibytes']} MiB" + (f"; link: {link} ms" if link else ""))
    print(f"{'kind':20}{'ms':>10}{'p10':>10}{'p90':>10}{'processors, ms':>16}{'GB/s':>8}{'of the link':>13}")
    for kind, each in found["milliseconds"].items():
        line = f"{kind:20}{each['median']:10.2f}{each['p10']:10.2f}{each['p90']:10.2f}"
        line += f"{found['of the processors'][kind]['median']:16.2f}"
        if kind != "nothing":
            line += f"{found['mebibytes'] * 1.048576 / each['median']:8.2f}"
            line += f"{link / each['median']:13.0%}" if link else ""
        print(line)
    if "alone" in found:
        print("alone:", json.dumps({kind: each["median"] for kind, each in found["alone"].items()}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="times transfers between workers of Dask")
    parser.add_argument("--mib", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", choices=sorted({*HOST_KINDS, *GPU_KINDS}), help="default: all")
    parser.add_argument("--gpus", type=int, default=0, choices=[0, 1, 2], help="default: none, on the host")
    parser.add_argument("--protocol", default="tcp", choices=["tcp", "ucx"])
    parser.add_argument("--rmm-pool", metavar="BYTES", help="of each worker, as dask-cuda takes it")
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    with dask.config.set(SETTINGS), workers(options) as client:
        results = [measure(client, mib, options) for mib in options.mib]
    for found in results:
        nbytes = found["mebibytes"] << 20
        if options.gpus:
            found["link"] = in_ms(seconds_alone(copy_between_gpus(nbytes), options.repeats))
        else:
            found["alone"] = {}
            for kind in found["milliseconds"]:
                run = partial(round_trip, make(kind, options.columns, nbytes))
                found["alone"][kind] = in_ms(seconds_alone(run, options.repeats))
        show(found)
    write_result(
        options.out,
        "dask_transfers",
        options.commit,
        gpus=options.gpus,
        protocol=options.protocol,
        rmm_pool=options.rmm_pool,
        columns=options.columns,
        versions={name: importlib.metadata.version(name) for name in ("distributed", "pyarrow", "numpy")},
        results=results,
    )


if __name__ == "__main__":
    main()
