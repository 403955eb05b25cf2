"""Arrow IPC files as a data source and a data sink of Ray Data."""

from __future__ import annotations

import copy
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from ray.data import Datasink, Datasource
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import ReadTask

from saeta._core import Context, Schema, Table
from saeta._files.batch_runs import Described, FileBatch, Run, describe_files, list_files, run_of
from saeta._files.filesystems import URL
from saeta._files.ipc_writer import ipc_writer
from saeta._files.scan import scan_ipc
from saeta.errors import UnsupportedError
from saeta.exchange import context_of, from_arrow

if TYPE_CHECKING:
    from saeta._files.sinks import Compression
    from saeta._files.sources import Sources


def split(batches: list[FileBatch], parts: int) -> Iterator[list[FileBatch]]:
    """Splits batches into at most `parts` runs of about equal bytes, in order.

    A file whose batches are not known is a run of its own. All files of a run are on one file system.
    """
    numbers = even_parts([batch.nbytes for batch in batches], parts)
    keyed = [
        (number, id(batch.file.filesystem), _alone(batch))
        for batch, number in zip(batches, numbers, strict=True)
    ]
    for _, run in groupby(zip(keyed, batches, strict=True), key=lambda pair: pair[0]):
        yield [batch for _, batch in run]


def even_parts(sizes: list[int], parts: int) -> list[int]:
    """Returns the number of the part of each size, of at most `parts` with about the same sum, in order."""
    total = sum(sizes) or 1
    return [
        (end - size // 2) * parts // (total + 1) for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]


def _alone(batch: FileBatch) -> int | None:
    return id(batch.file) if batch.number is None else None


class Blocks(NamedTuple):
    """Makes blocks of the tables that a task reads. It is pickled into the task.

    Attributes:
        device: where the tables are read.
        transform: a function that gets them there; None: they are blocks as they are.
    """

    device: str
    transform: Callable[[Table], Any] | None

    @property
    def context(self) -> Context:
        return context_of(self.device)

    def block(self, table: Table) -> Any:
        """Returns a block of the host. Ray reads the number of rows also from one without columns."""
        if self.transform is not None:
            made = self.transform(table)
            table = made if isinstance(made, Table) else from_arrow(made, self.context)
        if table.num_columns:
            return table.to_arrow()
        return BlockAccessor.for_block(pa.table({"rows": pa.nulls(table.num_rows)})).select([])


HOST = Blocks("host", None)


class _Read:
    """Reads a run of batches block by block. It is pickled into a task."""

    def __init__(self, run: Run, columns: list[str] | None, blocks: Blocks) -> None:
        self._run = run
        self._columns = columns
        self._blocks = blocks

    def __call__(self) -> Iterator[pa.Table]:
        with scan_ipc(
            self._run.sources,
            self._blocks.context,
            columns=self._columns,
            batches=self._run.batches,
            schema=self._run.schema,
            filesystem=self._run.filesystem,
        ) as scan:
            for batch in scan:
                yield self._blocks.block(batch)


class IpcDatasource(Datasource):  # type: ignore[misc] # Ray has no types that mypy may use
    """Implements `saeta.ray.read_ipc`."""

    def __init__(
        self, source: Sources, columns: str | Iterable[str] | None, filesystem: Any, blocks: Blocks = HOST
    ) -> None:
        super().__init__()
        self._blocks = blocks
        self._files = list_files(source, filesystem)
        self._columns = [columns] if isinstance(columns, str) else None if columns is None else list(columns)

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(batch.nbytes for batch in self._found().batches)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        batches = self._found()
        runs = split(batches.batches, parallelism)
        return [self._task(run, batches.schema, per_task_row_limit) for run in runs]

    def supports_projection_pushdown(self) -> bool:
        return self._blocks.transform is None

    def get_projection_map(self) -> dict[str, str] | None:
        return None if self._columns is None else {name: name for name in self._columns}

    def apply_projection(self, projection_map: dict[str, str] | None) -> IpcDatasource:
        """Returns a source that reads these columns only."""
        source = copy.copy(self)
        if projection_map is not None:
            source._columns = [
                name for name in projection_map if self._columns is None or name in self._columns
            ]
        return source

    def _found(self) -> Described:
        return describe_files(self._files, self._columns)

    def _task(self, run: list[FileBatch], schema: Schema, row_limit: int | None) -> ReadTask:
        read: Callable[[], Iterator[pa.Table]] = _Read(run_of(run, schema), self._columns, self._blocks)
        is_known = self._blocks.transform is None
        metadata = BlockMetadata(
            num_rows=_sum(batch.rows for batch in run) if is_known else None,
            size_bytes=_sum(_bytes_in_memory(batch) for batch in run) if is_known else None,
            input_files=tuple(dict.fromkeys(batch.file.source for batch in run)),
            exec_stats=None,
        )
        return ReadTask(read, metadata, per_task_row_limit=row_limit)


def _bytes_in_memory(batch: FileBatch) -> int | None:
    """Returns the bytes without dictionaries, or None if they are known only after decoding."""
    return None if batch.compressed or batch.number is None else batch.nbytes


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


class IpcDatasink(Datasink[Any]):  # type: ignore[misc]
    """Implements `saeta.ray.write_ipc`.

    Tasks write files whose names begin with ".", which readers of the folder skip. When all tasks are done,
    the caller of `write_ipc` renames them.

    Attributes:
        written: the paths of the files, when all are written.
    """

    def __init__(
        self, folder: str | os.PathLike[str], compression: Compression | None, durable: bool
    ) -> None:
        if URL.match(os.fspath(folder)):
            raise UnsupportedError(
                f"folder is '{os.fspath(folder)}', expected a path: files of a store can't be given their "
                "names together"
            )
        self._folder = Path(folder).absolute()
        self._prefix = f"saeta-{uuid.uuid4().hex[:16]}"
        self._compression = compression
        self._durable = durable
        self.written: list[str] = []

    def on_write_start(self, schema: Any = None) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, blocks: Iterable[Any], ctx: Any) -> list[str]:
        """Writes the blocks of a task. Returns the name of the file, or nothing if there were no rows."""
        tables = (BlockAccessor.for_block(block).to_arrow() for block in blocks)
        with_rows = (table for table in tables if table.num_rows)
        first = next(with_rows, None)
        if first is None:
            return []
        name = f"{self._prefix}-{ctx.task_idx:06}.arrow"
        with ipc_writer(self._hidden(name), compression=self._compression, durable=self._durable) as writer:
            writer.write(first)
            for table in with_rows:
                writer.write(table)
        return [name]

    def on_write_complete(self, write_result: Any) -> None:
        for name in sorted(chain.from_iterable(write_result.write_returns)):
            self._hidden(name).rename(self._folder / name)
            self.written.append(str(self._folder / name))
        if self._durable and self.written:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def on_write_failed(self, error: Exception) -> None:
        for file in [*self._folder.glob(f"{self._prefix}-*"), *self._folder.glob(f".{self._prefix}-*")]:
            file.unlink(missing_ok=True)

    def _hidden(self, name: str) -> Path:
        return self._folder / f".{name}"
