"""Reads Arrow IPC files on the workers of a cluster. Each task reads consecutive batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from dask.delayed import delayed
from distributed import Client

from saeta import ipc
from saeta._convert.numbers import require_bytes
from saeta._core import Table
from saeta._files.batch_runs import FileBatch, Run, describe_files, in_runs, list_files, run_of
from saeta._files.filesystems import place_of
from saeta.dask._contexts import worker_context
from saeta.errors import TypeMismatch

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Future

    from saeta._files.sources import Sources


@overload
def read_ipc(
    source: Sources,
    client: Client,
    *,
    columns: str | Iterable[str] | None = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    combine_chunks: bool | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Future]: ...


@overload
def read_ipc(
    source: Sources,
    client: None = None,
    *,
    columns: str | Iterable[str] | None = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    combine_chunks: bool | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Delayed]: ...


def read_ipc(
    source: Sources,
    client: Client | None = None,
    *,
    columns: str | Iterable[str] | None = None,
    blocksize: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    combine_chunks: bool | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Future] | list[Delayed]:
    """Makes tasks that read Arrow IPC files, each a run of consecutive batches as one Table.

    The files are opened here for their metadata only. Their bodies are read by the workers, so every worker
    must find the files under the same names.

    Args:
        source: a path, a glob, a folder, a URL, or a list of them, as for `saeta.read_ipc`.
        client: a client of the cluster. The tasks start at once and the result is a list of futures. None:
            the result is a list of `dask.delayed` objects.
        blocksize: the maximum size of a task's batches in the files: bytes or "128MiB". A batch is
            never divided. A stream is read as a whole.
        device: as for `worker_context`, which is the context of the tables.
        columns, schema, copy, validate, combine_chunks, filesystem, storage_options: as for `saeta.read_ipc`.

    Raises:
        What `saeta.read_ipc` raises for files that can't be opened. TypeMismatch: a source that is not a path
        or a URL, because another process could not open it; a `client` of another type.

    Example:
        >>> import os, tempfile
        >>> import saeta as sa
        >>> import saeta.dask
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> table = sa.table({"n": [1, 2, 3, 4]}, "host")
        >>> _ = sa.concat_tables([table[:2], table[2:]]).write_ipc(path)
        >>> [part.compute()["n"].to_pylist() for part in saeta.dask.read_ipc(path, blocksize=1)]
        [[1, 2], [3, 4]]
    """
    require_client(client)
    most = require_bytes("blocksize", blocksize)
    names = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    files = list_files(source, place_of(filesystem, storage_options))
    options = {"columns": names, "copy": copy, "validate": validate, "combine_chunks": combine_chunks}
    described = describe_files(files, names, schema)
    runs = list(in_runs(described.batches, most, FileBatch.may_precede)) or [
        [FileBatch(files[0], None, None, 0, False)]
    ]
    parts = [_Part(run_of(run, described.schema), device, options) for run in runs]
    # Not pure: Dask must not reuse the result of an earlier call, because the file may have changed since.
    if client is not None:
        futures: list[Future] = client.map(_read, parts, key="read_ipc", pure=False)
        return futures
    read = delayed(_read, name="read_ipc", pure=False)
    return [read(part) for part in parts]


def require_client(client: Any) -> None:
    if client is not None and not isinstance(client, Client):
        raise TypeMismatch(
            f"client is of type {type(client).__name__}, expected distributed.Client: the device is the "
            "argument `device`"
        )


class _Part(NamedTuple):
    """The batches that one task reads."""

    run: Run
    device: str | None
    options: dict[str, Any]  # of saeta.read_ipc


def _read(part: _Part) -> Table:
    where = worker_context(part.device)
    run = part.run
    given = {"batches": run.batches, "schema": run.schema, "filesystem": run.filesystem}
    return ipc.read_ipc(run.sources, where, **given, **part.options)
