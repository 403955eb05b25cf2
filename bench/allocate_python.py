#!/usr/bin/env python3
"""Times a pair of allocate and free from Python under a hard budget: Saeta beside torch, CuPy and RMM.

    allocate_python.py [--threads 1,4,16] [--rounds N] [--batches N] [--out FILE.json] [--commit TEXT]

The counterpart of bench/allocate.cpp, with the same format of results. The patterns are the same except
`crossed`, for which the peers have no common interface. Each thread has its own stream. All threads share
the GIL, so a switch of threads within a sample shows in the upper quantiles. Peers that are not installed
are listed and left out. Without a GPU the host context is compared with NumPy and pyarrow, which have no
budget.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import platform
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rates import add_result_arguments, write_result

import saeta as sa

BUDGET = 2 << 30
PAIRS_IN_BATCH = 64
Take = Callable[[int], Any]
Give = Callable[[Any], None]


@dataclass(frozen=True)
class Pattern:
    """A sequence of requests.

    Attributes:
        mixed: random sizes from 256 bytes to 512 KiB; otherwise every request has 64 KiB.
        held: the number of blocks that a thread keeps; each request replaces one of them.
    """

    name: str
    mixed: bool
    held: int = 0

    def sizes(self, thread: int) -> list[int]:
        if not self.mixed:
            return [64 << 10] * 1024
        numbers = random.Random(thread + 1)
        return [(256 << numbers.randrange(12)) + numbers.randrange(256) for _ in range(1024)]


PATTERNS = (Pattern("same", mixed=False), Pattern("mixed", mixed=True), Pattern("held", mixed=True, held=64))


@dataclass(frozen=True)
class Peer:
    """An allocator to be measured.

    `on_thread` is called on the thread that will allocate, with its stream (0 on the host). It returns an
    allocate function and a free function, or None if dropping the object frees the memory.
    """

    name: str
    on_thread: Callable[[int], tuple[Take, Give | None]]


@dataclass
class Peers:
    found: list[Peer] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def add(self, module: str, make: Callable[[Any], list[Peer]]) -> None:
        """Adds the peers of a package, or notes that it can't be imported."""
        try:
            package = importlib.import_module(module)
        except ImportError as failure:
            self.missing.append(f"{module}: {failure}")
            return
        self.found += make(package)
        self.versions[module] = str(package.__version__)


@dataclass(frozen=True)
class ForeignStream:
    """A stream that Saeta does not own, by the protocol `__cuda_stream__`."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


def saeta_peers(ctx: sa.Context) -> list[Peer]:
    """Saeta on the thread's stream, and on the context's own stream.

    Saeta does not own the thread's stream, so each free records an event on it.
    """
    peers = [Peer("saeta", lambda stream: (lambda nbytes: ctx.allocate(nbytes, stream=stream or None), None))]
    if ctx.device != "host":
        peers.append(Peer("saeta, own stream", lambda _: (ctx.allocate, None)))
    return peers


def torch_peers(torch: Any) -> list[Peer]:
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(BUDGET / whole, 0)
    memory = torch.cuda.memory

    def raw(stream: int) -> tuple[Take, Give | None]:
        return (
            lambda nbytes: memory.caching_allocator_alloc(nbytes, 0, stream)
        ), memory.caching_allocator_delete

    def tensors(stream: int) -> tuple[Take, Give | None]:
        torch.cuda.set_stream(torch.cuda.ExternalStream(stream))
        return (lambda nbytes: torch.empty(nbytes, dtype=torch.uint8, device="cuda:0")), None

    return [Peer("torch allocator", raw), Peer("torch.empty", tensors)]


def cupy_peers(cupy: Any) -> list[Peer]:
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=BUDGET)

    alive = []  # CuPy holds the current stream by a weak reference

    def on_thread(stream: int) -> tuple[Take, Give | None]:
        cupy.cuda.Device(0).use()
        own = cupy.cuda.ExternalStream(stream)
        own.use()
        alive.append(own)
        return pool.malloc, None

    return [Peer("cupy pool", on_thread)]


def rmm_peers(rmm: Any) -> list[Peer]:
    pool = rmm.mr.PoolMemoryResource(
        rmm.mr.CudaMemoryResource(), initial_pool_size=BUDGET, maximum_pool_size=BUDGET
    )
    limited = rmm.mr.LimitingResourceAdaptor(pool, allocation_limit=BUDGET)
    streams = importlib.import_module("rmm.pylibrmm.stream")

    def over(resource: Any) -> Callable[[int], tuple[Take, Give | None]]:
        def on_thread(stream: int) -> tuple[Take, Give | None]:
            own = streams.Stream(ForeignStream(stream))
            return (lambda nbytes: rmm.DeviceBuffer(size=nbytes, stream=own, mr=resource)), None

        return on_thread

    return [Peer("rmm pool", over(pool)), Peer("rmm pool, limited", over(limited))]


def numpy_peers(numpy: Any) -> list[Peer]:
    return [Peer("numpy.empty", lambda _: ((lambda nbytes: numpy.empty(nbytes, numpy.uint8)), None))]


def pyarrow_peers(pyarrow: Any) -> list[Peer]:
    return [Peer("pyarrow buffer", lambda _: (pyarrow.allocate_buffer, None))]


def find_peers(ctx: sa.Context) -> Peers:
    peers = Peers(saeta_peers(ctx), {"saeta": sa.__version__, "python": platform.python_version()})
    if ctx.device == "host":
        peers.add("numpy", numpy_peers)
        peers.add("pyarrow", pyarrow_peers)
    else:
        peers.add("torch", torch_peers)
        peers.add("cupy", cupy_peers)
        peers.add("rmm", rmm_peers)
    return peers


def make_streams(ctx: sa.Context, count: int) -> tuple[list[int], list[Any]]:
    """Returns the handles of a non-blocking stream for each thread, and the objects that own the streams."""
    if ctx.device == "host":
        return [0] * count, []
    try:
        cupy = importlib.import_module("cupy")
        made = [cupy.cuda.Stream(non_blocking=True) for _ in range(count)]
        return [stream.ptr for stream in made], made
    except ImportError:
        torch = importlib.import_module("torch")
        made = [torch.cuda.Stream(0) for _ in range(count)]
        return [stream.cuda_stream for stream in made], made


def run(peer: Peer, pattern: Pattern, batches: int, thread: int, stream: int) -> list[float]:
    """Returns nanoseconds per pair: one mean for each batch. The first quarter of the batches is warm-up."""
    take, give = peer.on_thread(stream)
    sizes = pattern.sizes(thread)
    kept = [take(sizes[i]) for i in range(pattern.held)]
    samples = []
    warm = batches // 4
    for batch in range(batches + warm):
        at = batch * PAIRS_IN_BATCH % len(sizes)
        slots = [i * 7 % pattern.held for i in range(PAIRS_IN_BATCH)] if kept else None
        start = time.perf_counter_ns()
        for i, nbytes in enumerate(sizes[at : at + PAIRS_IN_BATCH]):
            made = take(nbytes)
            if slots is not None:
                made, kept[slots[i]] = kept[slots[i]], made
            if give is not None:
                give(made)
            made = None
        took = time.perf_counter_ns() - start
        if batch >= warm:
            samples.append(took / PAIRS_IN_BATCH)
    if give is not None:
        for each in kept:
            give(each)
    return samples


def measure(peer: Peer, pattern: Pattern, batches: int, streams: Sequence[int]) -> list[float]:
    """Runs a thread for each stream at the same time, and returns the samples of all of them."""
    together = threading.Barrier(len(streams))
    samples: list[list[float]] = [[] for _ in streams]
    failures: list[Exception] = []

    def work(thread: int) -> None:
        together.wait()
        try:
            samples[thread] = run(peer, pattern, batches, thread, streams[thread])
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(streams))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failures:
        raise failures[0]
    return [sample for of_thread in samples for sample in of_thread]


def measure_all(peers: Peers, options: argparse.Namespace, streams: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the entries of the result file. In each round the peers run one after the other."""
    lines = []
    for pattern in PATTERNS:
        for threads in options.threads:
            samples: dict[str, list[float]] = {peer.name: [] for peer in peers.found}
            for _ in range(options.rounds):
                for peer in peers.found:
                    samples[peer.name] += measure(peer, pattern, options.batches, streams[:threads])
            for name, times in samples.items():
                hundredths = statistics.quantiles(times, n=100, method="inclusive")
                lines.append(
                    {
                        "pattern": pattern.name,
                        "threads": threads,
                        "peer": f"{name} (Python)",
                        "batches": len(times),
                        **{f"p{percent}_ns": hundredths[percent - 1] for percent in (10, 50, 90, 99)},
                    }
                )
    return lines


def list_devices() -> list[dict[str, Any]]:
    """Describes the devices with the same JSON members as the C++ programs."""
    return [
        {
            "id": each["name"],
            "name": each["model"],
            **{name: each[name] for name in ("architecture", "driver", "total_bytes", "multiprocessors")},
        }
        for each in sa.info()["devices"]
    ]


def numbers(text: str) -> list[int]:
    values = [int(each) for each in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected numbers above 0")
    return values


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Allocate and free from Python: Saeta beside others.")
    parser.add_argument("--threads", type=numbers, default=[1, 4, 16], metavar="1,4,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=50, help="of 64 pairs, by thread and round")
    add_result_arguments(parser)
    return parser.parse_args()


def main() -> int:
    options = parse()
    ctx = sa.context(budget=BUDGET)
    peers = find_peers(ctx)
    streams, owners = make_streams(ctx, max(options.threads))
    print(f"allocate_python on {ctx.device}, p50 over batches of {PAIRS_IN_BATCH} pairs")
    for each in peers.missing:
        print(f"not measured: {each}")
    gc.disable()  # a collection would be charged to whichever peer runs at that moment
    lines = measure_all(peers, options, streams)
    gc.enable()
    ctx.synchronize()
    del owners
    print(f"{'pattern':10}{'threads':<9}{'peer':28}{'p50 ns':>12}{'p99 ns':>12}")
    for line in lines:
        times = f"{line['p50_ns']:12.1f}{line['p99_ns']:12.1f}"
        print(f"{line['pattern']:10}{line['threads']:<9}{line['peer']:28}{times}")
    write_result(
        options.out,
        "allocate_python",
        options.commit,
        versions=peers.versions,
        devices=list_devices(),
        device=ctx.device,
        budget_bytes=BUDGET,
        rounds=options.rounds,
        pairs_in_batch=PAIRS_IN_BATCH,
        results=lines,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
