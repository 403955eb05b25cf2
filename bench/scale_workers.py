"""Worker processes on this machine for `bench/scale_check.py local`: their runs, measured and predicted.

A worker reads with one thread. All files are in a folder in memory, so that no disk is involved. The parent
measures the times: from the message to the workers to the last answer.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scale_model import Cluster, Job, Link, estimate, spilled

import saeta as sa

MOST_WORKERS = 4
FILES = 12
COLUMNS = 8
COPIES = 4


class Worker:
    """The code of a worker process. Each method is a command."""

    def __init__(self) -> None:
        self.ctx = sa.context("host")
        self.tables: list[sa.Table] = []
        self.tokens: list[sa.SharedTable] = []
        self.memory = bytearray()

    def copy(self, path: str, times: int) -> None:
        """Reads a file into new memory with plain system calls, without Saeta."""
        self.memory = self.memory or bytearray(Path(path).stat().st_size)
        source, target = os.open(path, os.O_RDONLY), os.memfd_create("copy")
        for _ in range(times):
            os.preadv(source, [self.memory], 0)
            os.pwrite(target, self.memory, 0)
            os.ftruncate(target, 0)
        os.close(source)
        os.close(target)

    def read(self, paths: list[str]) -> None:
        """Reads files one after the other and keeps the tables."""
        self.tables = [sa.read_ipc(path, self.ctx, copy=True) for path in paths]

    def write(self, paths: list[str]) -> None:
        """Writes the most recently read table to each path."""
        for path in paths:
            self.tables[-1].write_ipc(path, durable=False)

    def share(self, parts: int, own: int) -> list[list[sa.SharedTable]]:
        """Slices each table into parts and shares all but part `own`. Returns the tokens of each part."""
        self.tokens = []
        made: list[list[sa.SharedTable]] = [[] for _ in range(parts)]
        for table in self.tables:
            rows = table.num_rows // parts
            for part in range(parts):
                if part != own:
                    made[part].append(table[part * rows : (part + 1) * rows].share())
        self.tokens = [token for part in made for token in part]
        return made

    def open(self, tokens: list[sa.SharedTable]) -> None:
        """Opens shared tables and copies them into private memory."""
        opened = [sa.from_arrow(sa.open_shared(token), self.ctx, copy=True) for token in tokens]
        del opened

    def reset(self) -> None:
        """Frees the tables of the last run. The memory stays in the context's cache."""
        self.tables, self.tokens = [], []

    def hold(self, paths: list[str], budget: int, passes: int) -> tuple[int, int]:
        """Reads files into spillable tables under a budget and uses all of them in order, `passes` times.

        Returns the bytes that were spilled and that were read back.
        """
        before = self.moved()
        with self.ctx.memory.child("scale", budget) as child:
            handles = [child.spillable(sa.read_ipc(path, child, copy=True)) for path in paths]
            for _ in range(passes):
                for handle in handles:
                    with handle.use():
                        pass
            for handle in handles:
                handle.close()
        after = self.moved()
        return after[0] - before[0], after[1] - before[1]

    def spill(self, paths: list[str]) -> tuple[float, float]:
        """Spills and reads back tables twice. Returns the seconds of both directions in the second run."""
        handles = [self.ctx.spillable(sa.read_ipc(path, self.ctx, copy=True)) for path in paths]
        for _ in range(2):
            start = time.perf_counter()
            for handle in handles:
                handle.spill("file")
            left = time.perf_counter()
            for handle in handles:
                with handle.use():
                    pass
            end = time.perf_counter()
        for handle in handles:
            handle.close()
        return left - start, end - left

    def moved(self) -> tuple[int, int]:
        tier = sa.spill_statistics(self.ctx)["tiers"]["file"]
        return tier["spilled_bytes"], tier["returned_bytes"]


def serve(connection: Connection) -> None:
    """Runs commands and answers them until the parent closes the connection."""
    worker = Worker()
    connection.send(None)
    while True:
        try:
            command, arguments = connection.recv()
        except EOFError:
            return
        connection.send(getattr(worker, command)(*arguments))


class Workers:
    """A context manager of worker processes, which end when its block ends."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connections: list[Connection] = []
        self.processes = []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self.connections.append(here)
            self.processes.append(process)
        for connection in self.connections:
            connection.recv()

    def run(self, command: str, arguments: list[tuple[Any, ...]]) -> tuple[float, list[Any]]:
        """Runs a command on one worker for each entry of `arguments`. Returns the seconds and the answers."""
        chosen = self.connections[: len(arguments)]
        start = time.perf_counter()
        for connection, given in zip(chosen, arguments, strict=True):
            connection.send((command, given))
        answers = [connection.recv() for connection in chosen]
        return time.perf_counter() - start, answers

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.join(timeout=60)


@dataclass(frozen=True)
class Measured:
    """The results of all runs."""

    rows: list[tuple[str, float, float]]
    """Name of the run, predicted seconds, measured seconds."""
    moved: list[tuple[str, float, float]]
    """Name of the case, predicted bytes, counted bytes."""
    context: dict[str, Any]


class Files(NamedTuple):
    """Arrow files of the same size."""

    paths: list[str]
    size: int
    """Bytes of each file."""


@dataclass(frozen=True)
class Rates:
    """The calibration: links of the model, and how many workers can run at full speed at the same time."""

    links: dict[str, Link]
    parallel: float

    @staticmethod
    def median(of: list[Rates]) -> Rates:
        links = {
            name: Link(
                "worker",
                statistics.median(each.links[name].rate for each in of),
                statistics.median(each.links[name].message for each in of),
            )
            for name in of[0].links
        }
        return Rates(links, statistics.median(each.parallel for each in of))

    def seconds(self, job: Job, workers: int, budget: float = math.inf) -> float:
        cluster = Cluster(
            workers, self.links, per_host=workers, parallel=self.parallel, budget=budget, host_memory=0.0
        )
        return estimate(cluster, job).seconds


@dataclass(frozen=True)
class Case:
    """A run that the model predicts and that is measured."""

    what: str
    predict: Callable[[Rates], float]
    measure: Callable[[], float]


class Runs:
    """Small runs that calibrate the model, and the runs that it predicts."""

    def __init__(self, workers: Workers, folder: Path, size: int) -> None:
        self.workers, self.folder = workers, folder
        self.large, self.small = self.files("large", size), self.files("small", size // 8)

    def files(self, name: str, size: int) -> Files:
        random = np.random.default_rng(len(name))
        rows = size // (8 * COLUMNS)
        table = sa.table({f"c{number}": random.random(rows) for number in range(COLUMNS)}, "host")
        paths = [str(self.folder / f"{name}-{number}.arrow") for number in range(FILES)]
        for path in paths:
            written = table.write_ipc(path, durable=False)
        return Files(paths, written)

    def seconds(self, command: str, *arguments: tuple[Any, ...]) -> float:
        return self.workers.run(command, list(arguments))[0]

    def outputs(self, worker: int, count: int) -> list[str]:
        return [str(self.folder / f"out-{worker}-{number}.arrow") for number in range(count)]

    def warm(self, run: Callable[[], float], times: int = 1) -> float:
        """Returns the median seconds of `times` runs after a warm-up, which allocates the memory."""
        seconds = []
        for _ in range(times + 1):
            self.workers.run("reset", [()] * MOST_WORKERS)
            seconds.append(run())
        return statistics.median(seconds[1:])

    def link(self, run: Callable[[list[str]], float], moved: float = 1.0) -> Link:
        """Fits rate and cost per message of a link to runs over large and over small files on one worker.

        `moved` is the share of each file's bytes that the run moves.
        """
        large = self.warm(lambda: run(self.large.paths[:3]), 3) / 3
        small = self.warm(lambda: run(self.small.paths[:6]), 3) / 6
        per_byte = (large - small) / (self.large.size - self.small.size) / moved
        if per_byte <= 0:  # noise of a busy machine: the cost of messages can't be fitted
            return Link("worker", moved * self.large.size / large)
        return Link("worker", 1 / per_byte, max(0.0, small - per_byte * moved * self.small.size))

    def calibrate(self) -> Rates:
        """Measures the links of one worker, and how many workers the cores run at full speed."""

        def read(paths: list[str]) -> float:
            return self.seconds("read", (paths,))

        def write(paths: list[str]) -> float:
            read(paths[:1])
            return self.seconds("write", (self.outputs(0, len(paths)),))

        def share(paths: list[str]) -> float:
            read(paths)
            return self.seconds("share", (2, 0))

        def reopen(paths: list[str]) -> float:
            read(paths)
            _, (tokens,) = self.workers.run("share", [(2, 0)])
            return self.seconds("open", ([],), (tokens[1],))

        links = {
            "reading": self.link(read),
            "writing": self.link(write),
            "sharing": self.link(share, 0.5),
            "opening": self.link(reopen, 0.5),
        }
        _, ((left, came),) = self.workers.run("spill", [(self.large.paths[:3],)])
        moved = 3 * self.large.size
        links |= {"spilling": Link("worker", moved / left), "returning": Link("worker", moved / came)}
        cores = min(os.cpu_count() or 1, MOST_WORKERS)
        copied = (self.large.paths[0], COPIES)
        alone = self.warm(lambda: self.seconds("copy", copied), 3)
        together = self.warm(lambda: self.seconds("copy", *[copied] * cores), 3)
        return Rates(links, cores * alone / together)

    def job(self, files: int, **named: Any) -> Job:
        return Job(files * self.large.size, part=self.large.size, **{"exchanged": 0.0, **named})

    def read(self, *counts: int) -> float:
        return self.seconds("read", *[(self.large.paths[:count],) for count in counts])

    def read_and_write(self, workers: int, files: int) -> float:
        """Each worker reads files and writes the same number. Returns the seconds."""
        return self.read(*[files] * workers) + self.seconds(
            "write", *[(self.outputs(number, files),) for number in range(workers)]
        )

    def exchange(self, workers: int, files: int) -> float:
        """Each worker reads files, shares a part of each with every other worker, and opens its own parts."""
        seconds = self.read(*[files] * workers)
        shared, answers = self.workers.run("share", [(workers, number) for number in range(workers)])
        given = [[token for tokens in answers for token in tokens[number]] for number in range(workers)]
        seconds += shared + self.seconds("open", *[(tokens,) for tokens in given])
        return seconds

    def hold(self, workers: int, files: int, budget: int, passes: int) -> tuple[float, list[int]]:
        """Runs `hold` on all workers. Returns the seconds, and the total bytes spilled and read back."""
        seconds, moved = self.workers.run("hold", [(self.large.paths[:files], budget, passes)] * workers)
        return seconds, [sum(each) for each in zip(*moved, strict=True)]

    def moved(self) -> list[tuple[str, float, float]]:
        """Returns the predicted and the counted bytes of spilling."""
        rows = []
        for budget, passes in ((6, 1), (6, 2), (8, 1), (13, 2), (15, 1)):
            _, counted = self.hold(1, 12, budget * self.large.size, passes)
            predicted = spilled(12 * self.large.size, budget * self.large.size, passes)
            for way, said, seen in zip(("left", "came back"), predicted, counted, strict=True):
                rows.append(
                    (f"12 files under a budget of {budget}, used {passes} x: {way}", said, float(seen))
                )
        return rows

    def cases(self) -> list[Case]:
        """Returns the runs to predict. Sizes are numbers of files, more than in the calibration."""
        budget = 6 * self.large.size

        def held(workers: int) -> Case:
            job = self.job(12 * workers, passes=1)
            return Case(
                f"{workers} x 12 files held under a budget of 6, used once",
                lambda rates: rates.seconds(job, workers, budget),
                lambda: self.hold(workers, 12, budget, 1)[0],
            )

        return [
            Case("1 worker reads 12 files", lambda r: r.seconds(self.job(12), 1), lambda: self.read(12)),
            Case("2 workers read 6 each", lambda r: r.seconds(self.job(12), 2), lambda: self.read(6, 6)),
            Case("2 workers read 12 each", lambda r: r.seconds(self.job(24), 2), lambda: self.read(12, 12)),
            Case(
                "2 workers read 9 and 3, skew 1.5",
                lambda r: r.seconds(self.job(12, skew=1.5), 2),
                lambda: self.read(9, 3),
            ),
            Case("4 workers read 6 each", lambda r: r.seconds(self.job(24), 4), lambda: self.read(*[6] * 4)),
            Case(
                "2 workers read and write 6 each",
                lambda r: r.seconds(self.job(12, written=1.0), 2),
                lambda: self.read_and_write(2, 6),
            ),
            Case(
                "2 workers exchange 6 each",
                lambda r: r.seconds(self.job(12, exchanged=1.0), 2),
                lambda: self.exchange(2, 6),
            ),
            Case(
                "4 workers exchange 4 each",
                lambda r: r.seconds(self.job(16, exchanged=1.0), 4),
                lambda: self.exchange(4, 4),
            ),
            held(1),
            held(2),
        ]


def measure(rounds: int, size: int, folder: Path) -> Measured:
    """Calibrates and runs all cases in each round. The first round is a warm-up and does not count."""
    place, load = Path(tempfile.mkdtemp(dir=folder)), os.getloadavg()[0]
    os.environ["SAETA_STAGING_THREADS"] = "1"
    os.environ["SAETA_SPILL_DIR"] = str(place)
    try:
        with Workers(MOST_WORKERS) as workers:
            runs = Runs(workers, place, size)
            cases = runs.cases()
            small: list[Rates] = []
            measured: list[list[float]] = [[] for _ in cases]
            for _ in range(rounds + 1):
                small.append(runs.calibrate())
                for case, seconds in zip(cases, measured, strict=True):
                    seconds.append(runs.warm(case.measure))
            moved = runs.moved()
    finally:
        shutil.rmtree(place)
    rates = Rates.median(small[1:])
    rows = [
        (case.what, case.predict(rates), statistics.median(seconds[1:]))
        for case, seconds in zip(cases, measured, strict=True)
    ]
    return Measured(
        rows,
        moved,
        {
            "machine": {"processor": sa.devices()[-1].model, "cores": os.cpu_count()},
            "load": load,
            "file_bytes": runs.large.size,
            "rounds": rounds,
            "parallel": rates.parallel,
            "links": {
                name: {"gb_per_s": link.rate / 1e9, "message_seconds": link.message}
                for name, link in rates.links.items()
            },
            "measured": {case.what: seconds[1:] for case, seconds in zip(cases, measured, strict=True)},
        },
    )
