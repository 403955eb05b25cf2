"""Other loaders of mini-batches: pyarrow, torch's DataLoader, and further libraries if they are installed."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streams.measure import Contender
from streams.work import COLUMNS, LARGE_ROWS, ROW_BYTES, SMALL_ROWS, Work, drain

WORKERS = 8


def pyarrow_loaders(work: Work, *, matrix: bool = False) -> tuple[Contender, Contender]:
    """Returns loaders that copy pyarrow's batches column by column: in order, and with shuffled rows."""
    suffix = "" if work.on_host else ", a copy a column"

    def run(batches: Callable[[Work], Iterator[pa.RecordBatch]]) -> Any:
        return drain(_formed(_arrays(work, batches(work)), matrix=matrix))

    return (
        _contender(work, _named(f"pyarrow{suffix}", matrix), lambda: run(_slices)),
        _contender(work, _named(f"pyarrow, rows shuffled{suffix}", matrix), lambda: run(_shuffled)),
    )


def data_loaders(work: Work) -> list[Contender]:
    """Returns torch's DataLoader and torchdata's resumable one, both in order."""
    torch = work.torch
    if torch is None:
        return []
    # Each tensor that a worker process sends to its parent needs a file descriptor.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found = [_data_loader(work, torch, "torch DataLoader", torch.utils.data.DataLoader)]
    if (torchdata := work.library("torchdata.stateful_dataloader")) is not None:
        found.append(_data_loader(work, torch, "torchdata StatefulDataLoader", torchdata.StatefulDataLoader))
    return found


def other_loaders(work: Work, *, matrix: bool = False) -> tuple[list[Contender], list[Contender]]:
    """Returns the loaders of further libraries: in order, and with shuffled rows."""

    def run(batches: Iterator[dict[str, Any]]) -> Any:
        return drain(_formed(batches, matrix=matrix))

    ordered, shuffled = [], []
    if (polars := work.library("polars")) is not None:

        def frame() -> Any:
            return polars.read_ipc(work.large, n_rows=_rows(work))

        def mixed_frame() -> Any:
            return frame().sample(fraction=1, shuffle=True, seed=1)

        ordered.append(_contender(work, _named("polars", matrix), lambda: run(_of_frame(work, frame()))))
        shuffled.append(
            _contender(
                work, _named("polars, rows shuffled", matrix), lambda: run(_of_frame(work, mixed_frame()))
            )
        )
    if (datasets := work.library("datasets")) is not None:

        def dataset() -> Any:
            table = pa.ipc.open_file(pa.memory_map(str(work.large))).read_all().slice(0, _rows(work))
            return datasets.Dataset(datasets.table.InMemoryTable(table)).with_format("arrow")

        # Not shuffled: it then reads row by row, which took seconds for 65,536 rows of 16 columns.
        ordered.append(_contender(work, _named("datasets", matrix), lambda: run(_of_tables(work, dataset()))))
    return ordered, shuffled


def _named(name: str, matrix: bool) -> str:
    return f"{name}, matrix" if matrix else name


def _formed(batches: Iterator[dict[str, Any]], *, matrix: bool) -> Iterator[Any]:
    """Yields the batches unchanged, or each as a row-major matrix in host memory."""
    for batch in batches:
        yield np.stack(list(batch.values()), axis=1) if matrix else batch


def _contender(work: Work, name: str, run: Callable[[], Any]) -> Contender:
    rows = _rows(work)
    return Contender(f"peer: {name}", run, rows * ROW_BYTES, rows, ours=False)


def _rows(work: Work) -> int:
    return work.part_batches * LARGE_ROWS


def _slices(work: Work, first: int = 0, step: int = 1) -> Iterator[pa.RecordBatch]:
    """Yields mini-batches of every `step`-th batch of the file, as views of the memory-mapped file."""
    reader = pa.ipc.open_file(pa.memory_map(str(work.large)))
    for number in range(first, work.part_batches, step):
        batch = reader.get_batch(number)
        for row in range(0, batch.num_rows, SMALL_ROWS):
            yield batch.slice(row, SMALL_ROWS)


def _shuffled(work: Work) -> Iterator[pa.RecordBatch]:
    """Yields mini-batches whose rows are shuffled within windows."""
    reader = pa.ipc.open_file(pa.memory_map(str(work.large)))
    random = np.random.default_rng(1)
    step = max(1, work.window // (LARGE_ROWS * ROW_BYTES))
    for first in range(0, work.part_batches, step):
        numbers = range(first, min(first + step, work.part_batches))
        table = pa.Table.from_batches([reader.get_batch(number) for number in numbers]).combine_chunks()
        yield from table.take(pa.array(random.permutation(table.num_rows))).to_batches(SMALL_ROWS)


def _arrays(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield {name: work.put(batch[name].to_numpy()) for name in COLUMNS}


def _of_frame(work: Work, frame: Any) -> Iterator[dict[str, Any]]:
    for part in frame.iter_slices(SMALL_ROWS):
        yield {name: work.put(part[name].to_numpy()) for name in COLUMNS}


def _of_tables(work: Work, dataset: Any) -> Iterator[dict[str, Any]]:
    for table in dataset.iter(SMALL_ROWS):
        yield {name: work.put(table[name].to_numpy()) for name in COLUMNS}


def _data_loader(work: Work, torch: Any, name: str, make: Callable[..., Any]) -> Contender:
    """A DataLoader whose workers read different batches; the parent copies page-locked tensors to the device.

    The workers live as long as the loader, so the first round, which is not measured, starts them.
    """

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[dict[str, Any]]:
            worker = torch.utils.data.get_worker_info()
            for batch in _slices(work, worker.id, worker.num_workers):
                yield {name: torch.from_numpy(batch[name].to_numpy()) for name in COLUMNS}

    workers = WORKERS if not work.on_host else min(WORKERS, os.cpu_count() or 1)
    loader = make(
        Batches(),
        batch_size=None,
        num_workers=workers,
        pin_memory=not work.on_host,
        persistent_workers=True,
        multiprocessing_context="fork",
    )

    def batches() -> Iterator[dict[str, Any]]:
        for batch in loader:
            if work.on_host:
                yield batch
            else:
                yield {name: values.cuda(non_blocking=True) for name, values in batch.items()}

    return _contender(work, f"{name}, {workers} workers", lambda: drain(batches()))
