"""Reads Parquet files on the workers of a cluster. Each task reads consecutive row groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from dask.delayed import delayed
from distributed import Client

from saeta._convert.numbers import require_bytes
from saeta._core import Table
from saeta._files import parquet_set
from saeta._files.batch_runs import in_runs
from saeta._files.filesystems import place_of
from saeta._files.parquet import naming_failures
from saeta._files.parquet_tasks import Part, groups_of, part_of
from saeta._parquet.engine import Engine, require_engine
from saeta.dask._contexts import worker_context
from saeta.dask._reader import require_client

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Future

    from saeta._files.parquet import Sources


@overload
def read_parquet(
    source: Sources,
    client: Client,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    index: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
) -> list[Future]: ...


@overload
def read_parquet(
    source: Sources,
    client: None = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    index: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
) -> list[Delayed]: ...


def read_parquet(
    source: Sources,
    client: Client | None = None,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    index: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
) -> list[Future] | list[Delayed]:
    """Makes tasks that read Parquet files, each a run of consecutive row groups as one Table.

    The files are opened here for their metadata only. Row groups that the filter excludes get no task. The
    workers read the files, so every worker must find them under the same names.

    Args:
        source, columns, filters, schema, index, filesystem, storage_options, partitioning: as for
            `saeta.read_parquet`.
        client: a client of the cluster. The tasks start at once and the result is a list of futures. None:
            the result is a list of `dask.delayed` objects.
        blocksize: the maximum size of a task's row groups before compression: bytes or "128MiB". A row
            group is never divided.
        device: as for `worker_context`, which is the context of the tables.
        engine: as for `saeta.read_parquet`. Each worker decides by its own context and packages.

    Raises:
        What `saeta.read_parquet` raises for schemas and files that can't be opened. TypeMismatch: a `client`
        of another type. What decoding raises, when a task runs.

    Example:
        >>> import os, tempfile
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> import saeta.dask
        >>> path = os.path.join(tempfile.mkdtemp(), "a.parquet")
        >>> pq.write_table(pa.table({"n": [1, 2, 3, 4]}), path, row_group_size=2)
        >>> parts = saeta.dask.read_parquet(path, blocksize=1, device="host")
        >>> [part.compute()["n"].to_pylist() for part in parts]
        [[1, 2], [3, 4]]
    """
    require_client(client)
    require_engine(engine)
    most = require_bytes("blocksize", blocksize)
    with naming_failures(source, "saeta.dask.read_parquet"):
        data_set = parquet_set.find(
            source,
            place_of(filesystem, storage_options),
            partitioning=partitioning,
            columns=columns,
            schema=schema,
            index=index,
        )
        runs = list(in_runs(groups_of(data_set, filters), most)) or [[]]  # one without rows has the schema
        tasks = [_Task(part_of(data_set, run, filters, engine), device) for run in runs]
    # Not pure, because the file may have changed when a task runs again.
    if client is not None:
        futures: list[Future] = client.map(_read, tasks, key="read_parquet", pure=False)
        return futures
    read = delayed(_read, name="read_parquet", pure=False)
    return [read(task) for task in tasks]


class _Task(NamedTuple):
    """What one task reads, and into which device."""

    part: Part
    device: str | None


def _read(task: _Task) -> Table:
    return task.part.read(worker_context(task.device), "saeta.dask.read_parquet")
