"""Parquet files as a data source of Ray Data."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
from ray.data import Datasource
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask

from saeta._files import parquet_set
from saeta._files.batch_runs import in_runs
from saeta._files.parquet import naming_failures
from saeta._files.parquet_tasks import Group, Part, groups_of, part_of
from saeta._parquet.engine import Engine
from saeta.ray._files import Blocks, even_parts

BLOCK_BYTES = 128 << 20  # of the values that are read at once; Ray makes blocks of this size
PURPOSE = "saeta.ray.read_parquet"


class _Read:
    """Reads parts one after the other. It is pickled into a task."""

    def __init__(self, parts: list[Part], blocks: Blocks) -> None:
        self._parts = parts
        self._blocks = blocks

    def __call__(self) -> Iterator[Any]:
        for part in self._parts:
            yield self._blocks.block(part.read(self._blocks.context, PURPOSE))


class ParquetDatasource(Datasource):  # type: ignore[misc] # Ray has no types that mypy may use
    """Implements `saeta.ray.read_parquet`."""

    def __init__(
        self,
        source: Any,
        *,
        columns: str | Iterable[str] | None,
        filters: Any,
        schema: Any,
        index: bool,
        filesystem: Any,
        partitioning: Any,
        engine: Engine | None,
        blocks: Blocks,
    ) -> None:
        super().__init__()
        with naming_failures(source, PURPOSE):
            self._set = parquet_set.find(
                source,
                filesystem,
                partitioning=partitioning,
                columns=columns,
                schema=schema,
                index=index,
            )
            self._groups = list(groups_of(self._set, filters))
        self._filters = filters
        self._engine = engine
        self._blocks = blocks

    def estimate_inmemory_data_size(self) -> int | None:
        return self._part(self._groups).columns_bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        numbers = even_parts([group.nbytes for group in self._groups], parallelism)
        numbered = groupby(zip(numbers, self._groups, strict=True), key=lambda pair: pair[0])
        runs = [[group for _, group in run] for _, run in numbered] or [[]]  # one without rows has the schema
        return [self._task(run, per_task_row_limit) for run in runs]

    def supports_projection_pushdown(self) -> bool:
        return self._blocks.transform is None

    def get_projection_map(self) -> dict[str, str] | None:
        return None if self._set.columns is None else {name: name for name in self._set.columns}

    def apply_projection(self, projection_map: dict[str, str] | None) -> ParquetDatasource:
        """Returns a source that reads these columns only."""
        source = copy.copy(self)
        if projection_map is not None:
            names = [name for name in projection_map if name in self._set.schema.names]
            fields = [self._set.schema.field(name) for name in names]
            source._set = self._set._replace(
                columns=names, schema=pa.schema(fields, self._set.schema.metadata)
            )
        return source

    def _part(self, groups: list[Group]) -> Part:
        return part_of(self._set, groups, self._filters, self._engine)

    def _task(self, groups: list[Group], row_limit: int | None) -> ReadTask:
        parts = [self._part(run) for run in in_runs(groups, BLOCK_BYTES)] or [self._part([])]
        is_known = self._filters is None and self._blocks.transform is None
        metadata = BlockMetadata(
            num_rows=sum(group.rows for group in groups) if is_known else None,
            size_bytes=sum(part.columns_bytes for part in parts) if is_known else None,
            input_files=tuple(dict.fromkeys(each.path for part in parts for each in part.fragments)),
            exec_stats=None,
        )
        return ReadTask(_Read(parts, self._blocks), metadata, per_task_row_limit=row_limit)
