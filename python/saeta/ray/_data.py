"""Ray Data: files as data sets, and batches as tables. Calls import Ray Data, which takes a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from saeta._core import Table
from saeta._files.filesystems import place_of
from saeta._parquet.engine import Engine, require_engine
from saeta.exchange import ContextLike

if TYPE_CHECKING:
    import os

    from saeta._files.sinks import Compression
    from saeta._files.sources import Sources


def read_ipc(
    source: Sources,
    *,
    columns: str | Iterable[str] | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    device: str = "host",
    transform: Callable[[Table], Any] | None = None,
    **options: Any,
) -> Any:
    """Makes a `ray.data.Dataset` of Arrow IPC files. Each of its tasks reads some of their batches.

    The files are opened for their metadata only, so the rows and bytes of each task are known before it runs.
    A block has the batches as they are in the file, as views of the mapped file until Ray copies them into
    its object store. If only some columns are used, only these are read.

    Args:
        source: paths, globs, folders or URLs, as for `saeta.read_ipc`, which every node of the cluster can
            open. A stream is read by one task, and its rows and bytes are not known in advance.
        columns: only these, in this order; one name or several.
        filesystem, storage_options: as for `saeta.read_ipc`. The tasks get them pickled.
        device, transform: as for `read_parquet`. The function is called for each batch.
        options: passed to `ray.data.read_datasource`: `concurrency`, `override_num_blocks` and others.

    Raises:
        FileError: a file can't be read (MissingFileError if no file matches).
        FormatError: a file is not an Arrow IPC file.

    Example:
        >>> import saeta.ray
        >>> def total(folder):
        ...     return saeta.ray.read_ipc(folder, columns="fare").sum("fare")
    """
    import ray.data

    from saeta.ray._files import Blocks, IpcDatasource

    place = place_of(filesystem, storage_options)
    return ray.data.read_datasource(
        IpcDatasource(source, columns, place, Blocks(device, transform)), **options
    )


def read_parquet(
    source: Sources,
    *,
    columns: str | Iterable[str] | None = None,
    filters: Any = None,
    schema: Any = None,
    index: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    partitioning: Any = "hive",
    engine: Engine | None = None,
    device: str = "host",
    transform: Callable[[Table], Any] | None = None,
    **options: Any,
) -> Any:
    """Makes a `ray.data.Dataset` of Parquet files. Each of its tasks reads some of their row groups.

    The files are opened for their metadata only. Row groups that the filter excludes get no task. Types,
    engines and errors are those of `saeta.read_parquet`, so null types, dictionaries, time zones and metadata
    come as there. If only some columns are used, only these are read.

    Blocks of Ray Data are in host memory. With `transform`, a function of yours gets the rows on the device
    before they become blocks, so that only its results are downloaded.

    Args:
        source, columns, filters, schema, index, filesystem, storage_options, partitioning, engine: as for
            `saeta.read_parquet`. Every node of the cluster must find the files. The tasks get a file system
            pickled.
        device: where tasks decode. "cuda" needs `ray_remote_args={"num_gpus": 1}` or a part of a GPU.
        transform: a function of a Table on that device to a Table or a table of another library, such as
            `cudf.DataFrame`. It is called for row groups of about 128 MiB at a time.
        options: passed to `ray.data.read_datasource`: `concurrency`, `override_num_blocks` and others.

    Raises:
        What `saeta.read_parquet` raises for schemas and files that can't be opened. What decoding raises,
        when a task runs.

    Example:
        >>> import saeta.ray
        >>> def total(folder):
        ...     return saeta.ray.read_parquet(folder, filters=[("fare", ">", 100)]).sum("fare")
    """
    import ray.data

    from saeta.ray._files import Blocks
    from saeta.ray._parquet import ParquetDatasource

    require_engine(engine)
    found = ParquetDatasource(
        source,
        columns=columns,
        filters=filters,
        schema=schema,
        index=index,
        filesystem=place_of(filesystem, storage_options),
        partitioning=partitioning,
        engine=engine,
        blocks=Blocks(device, transform),
    )
    return ray.data.read_datasource(found, **options)


def write_ipc(
    data: Any,
    folder: str | os.PathLike[str],
    *,
    compression: Compression | None = None,
    durable: bool = True,
    **options: Any,
) -> list[str]:
    """Writes a `ray.data.Dataset` as Arrow IPC files into a folder and returns their paths.

    Each task writes one file, block by block, in bounded memory. The files get their final names when all
    tasks are done, so readers of the folder see none of them before, or after a failure. Existing files in
    the folder are kept.

    Args:
        data: a `ray.data.Dataset`. Its blocks must have the same names and types.
        folder: a folder that every node of the cluster can write to. It is made if it is missing.
        compression, durable: as for `saeta.write_ipc`.
        options: passed to `Dataset.write_datasink`: `concurrency` and `ray_remote_args`.

    Returns:
        The paths in the order of the tasks. Tasks without rows write no file.

    Example:
        >>> import saeta.ray
        >>> def copy_large(source, folder):
        ...     trips = saeta.ray.read_ipc(source).filter(expr="fare > 100")
        ...     return saeta.ray.write_ipc(trips, folder, compression="lz4")
    """
    from saeta.ray._files import IpcDatasink

    sink = IpcDatasink(folder, compression, durable)
    data.write_datasink(sink, **options)
    return sink.written


def collate(ctx: ContextLike = None, *, tensors: bool = False) -> Callable[[Any], Any]:
    """Makes a function that turns a batch of Ray Data into a table, or into tensors, on a device.

    It takes tables of pyarrow and, from `batch_format="cudf"`, frames of cuDF. It is a
    `ray.data.collate_fn.ArrowBatchCollateFn`. Ray calls the `collate_fn` of `iter_torch_batches` on threads
    that prepare batches ahead. `iter_batches` has no such argument: map the function over its batches.

    On the host a table views Ray's shared memory, which nobody can write to. On a GPU it is one transfer per
    batch, under the budget of the context. A frame of cuDF is taken without a copy on its GPU.

    Args:
        ctx: a Context or the name of its device. None: the best device.
        tensors: True makes a dict of torch tensors, one for each column, without a copy on the device. They
            must not be written to. Nulls, and types that torch does not have, are errors, as for
            `Column.to_torch`. Pass the same device to `iter_torch_batches`, because Ray moves tensors of
            another one.

    Example:
        >>> import pyarrow as pa
        >>> import saeta.ray
        >>> to_table = saeta.ray.collate("host")
        >>> for batch in map(to_table, [pa.table({"fare": [12.5, 8.0]})]):  # Dataset.iter_batches(...)
        ...     batch["fare"].to_pylist()
        [12.5, 8.0]
    """
    from saeta.ray._collate import TableCollateFn

    function: Callable[[Any], Any] = TableCollateFn(ctx, tensors)
    return function
