"""Reads Arrow IPC files on the workers of a cluster, a run of batches in each task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from dask.delayed import delayed

from saeta import ipc
from saeta._core import Table, _parse_bytes
from saeta._files.data_sets import IPC_ENDINGS, Listed, list_sources
from saeta._files.sources import URL
from saeta.dask._contexts import worker_context
from saeta.errors import InvalidError, TypeMismatch

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

    from saeta._files.sources import Sources


@overload
def read_ipc(
    source: Sources,
    client: Client,
    *,
    columns: str | Iterable[str] | None = None,
    partition_bytes: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    rechunk: bool | None = None,
    filesystem: Any = None,
) -> list[Future]: ...


@overload
def read_ipc(
    source: Sources,
    client: None = None,
    *,
    columns: str | Iterable[str] | None = None,
    partition_bytes: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    rechunk: bool | None = None,
    filesystem: Any = None,
) -> list[Delayed]: ...


def read_ipc(
    source: Sources,
    client: Client | None = None,
    *,
    columns: str | Iterable[str] | None = None,
    partition_bytes: int | str = "128MiB",
    device: str | None = None,
    schema: Any = None,
    copy: bool | None = None,
    validate: bool | Literal["utf8"] = True,
    rechunk: bool | None = None,
    filesystem: Any = None,
) -> list[Future] | list[Delayed]:
    """Makes tasks that read Arrow IPC files, each a run of consecutive batches as one Table.

    The files are opened here for their metadata only. Their bodies are read by the workers, so every worker
    must find the files under the same names.

    Args:
        source: a path, a glob, a folder, a URL, or a list of them, as for `saeta.read_ipc`.
        client: of the cluster. The tasks begin at once and the result is a list of its futures. None: the
            result is a list of `dask.delayed` objects.
        partition_bytes: how many bytes of batches a task reads at most, as they are in the files: bytes or
            "128MiB". A batch is never divided. A stream is read as a whole.
        device: as for `worker_context`, which is the context of the tables.
        columns, schema, copy, validate, rechunk, filesystem: as for `saeta.read_ipc`. All files must have
            the schema of the first.

    Raises:
        What `saeta.read_ipc` raises for files that can't be opened. TypeMismatch: a source that is not a path
        or a URL, because another process could not open it.

    Example:
        >>> import os, tempfile
        >>> import saeta as sa
        >>> import saeta.dask
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> table = sa.table({"n": [1, 2, 3, 4]}, "host")
        >>> _ = sa.concat_tables([table[:2], table[2:]]).write_ipc(path)
        >>> [part.compute()["n"].to_pylist() for part in saeta.dask.read_ipc(path, partition_bytes=1)]
        [[1, 2], [3, 4]]
    """
    most = _parse_bytes(partition_bytes) if isinstance(partition_bytes, str) else partition_bytes
    if most < 1:
        raise InvalidError(f"partition_bytes is {most}, expected at least 1")
    names = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    files = [_absolute(each) for each in list_sources(source, filesystem, IPC_ENDINGS)]
    options = {"columns": names, "copy": copy, "validate": validate, "rechunk": rechunk}
    runs = list(_runs(_batches(files, names, schema), most)) or [[_Batch(files[0], None, 0)]]
    parts = [_part(run, device, options) for run in runs]
    # A part that is read again may find another file under its name: not a pure function.
    if client is not None:
        futures: list[Future] = client.map(_read, parts, key="read_ipc", pure=False)
        return futures
    read = delayed(_read, name="read_ipc", pure=False)
    return [read(part) for part in parts]


class _Batch(NamedTuple):
    """A batch of a file."""

    file: Listed
    number: int | None  # in the file; None: all of a file whose batches are not known before they are read
    nbytes: int


class _Part(NamedTuple):
    """What one task reads."""

    sources: list[Any]
    filesystem: Any
    batches: tuple[int, int] | None  # [first, last) through all sources; None: all
    device: str | None
    options: dict[str, Any]  # of saeta.read_ipc


def _read(part: _Part) -> Table:
    where = worker_context(part.device)
    return ipc.read_ipc(part.sources, where, batches=part.batches, filesystem=part.filesystem, **part.options)


def _absolute(file: Listed) -> Listed:
    if not isinstance(file.source, str | os.PathLike):
        raise TypeMismatch(
            f"source is of type {type(file.source).__name__}, expected a path or a URL that the workers can "
            "open"
        )
    path = os.fspath(file.source)
    if file.filesystem is None and not URL.match(path):
        path = str(Path(path).absolute())
    return Listed(path, file.filesystem)


def _batches(files: Sequence[Listed], columns: list[str] | None, schema: Any) -> Iterator[_Batch]:
    """Describes the batches of all files without reading them."""
    meant = schema
    for file in files:
        with ipc.open_listed([file], columns, None, None, True, None, meant) as reader:
            meant = reader.schema if meant is None else meant
            if not reader.planned:
                yield _Batch(file, None, 0)
            else:
                for number, nbytes in enumerate(reader.batch_bytes):
                    yield _Batch(file, number, nbytes)


def _runs(batches: Iterable[_Batch], most: int) -> Iterator[list[_Batch]]:
    """Cuts batches into runs of at most so many bytes, or of one batch."""
    run: list[_Batch] = []
    size = 0
    for batch in batches:
        if run and (size + batch.nbytes > most or not _may_share_a_task(run[-1], batch)):
            yield run
            run, size = [], 0
        run.append(batch)
        size += batch.nbytes
    if run:
        yield run


def _may_share_a_task(one: _Batch, other: _Batch) -> bool:
    known = one.number is not None and other.number is not None
    return known and one.file.filesystem is other.file.filesystem


def _part(run: list[_Batch], device: str | None, options: dict[str, Any]) -> _Part:
    files = [file for file, _ in groupby(run, key=lambda batch: batch.file)]
    first = run[0].number
    batches = None if first is None else (first, first + len(run))
    return _Part([each.source for each in files], files[0].filesystem, batches, device, options)
