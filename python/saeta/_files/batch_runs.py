"""Batches of files for tasks of an engine such as Dask: listed from metadata, read in runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from saeta._core import Schema, _united_schema
from saeta._files.data_sets import IPC_ENDINGS, Listed, list_sources
from saeta._files.filesystems import is_url
from saeta._files.readers import ReadArguments, open_reader, opened
from saeta._files.sources import name_of
from saeta.errors import TypeMismatch


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_Part = TypeVar("_Part", bound=_Sized)


class FileBatch(NamedTuple):
    """A batch of a file, as the file's metadata describe it."""

    file: Listed
    number: int | None  # in the file; None stands for all of a file whose batches are not known
    rows: int | None
    nbytes: int  # in the file, without dictionaries
    compressed: bool

    def may_precede(self, other: FileBatch) -> bool:
        """Whether one read can have this batch and then the other."""
        known = self.number is not None and other.number is not None
        return known and self.file.filesystem is other.file.filesystem


class Run(NamedTuple):
    """Consecutive batches, as `read_ipc` and `scan_ipc` take them. It can be sent to another process."""

    sources: list[str]
    filesystem: Any
    batches: tuple[int, int] | None  # [first, last) through all sources; None: all
    schema: Schema  # of the rows of all files


class Described(NamedTuple):
    """What the metadata of some files describe: their batches and their common schema."""

    batches: list[FileBatch]
    schema: Schema  # of the rows of all files


def list_files(source: Any, filesystem: Any) -> list[Listed]:
    """Finds files, by paths that processes with other working directories can open.

    Raises:
        TypeMismatch: a source that is not a path or a URL.
    """
    return [_anywhere(file) for file in list_sources(source, filesystem, IPC_ENDINGS)]


def describe_files(files: Sequence[Listed], columns: list[str] | None, schema: Any = None) -> Described:
    """Describes the batches of all files, whose rows must have one schema: the one that is given, if any."""
    schemas: list[Schema] = []
    batches: list[FileBatch] = []
    options = ReadArguments(columns, schema=schema)
    for file, source in zip(files, opened(files), strict=True):
        with open_reader([source], options) as reader:
            schemas.append(reader.schema)
            if reader.num_batches < 0 or not reader.planned:
                batches.append(FileBatch(file, None, None, 0, False))
                continue
            sizes = zip(reader.batch_rows, reader.batch_bytes, reader.batch_compressed, strict=True)
            batches += [FileBatch(file, number, *each) for number, each in enumerate(sizes)]
    return Described(batches, _united_schema(schemas, [name_of(file.source) for file in files]))


def run_of(batches: Sequence[FileBatch], schema: Schema) -> Run:
    files = [file for file, _ in groupby(batches, key=lambda each: each.file)]
    first = batches[0].number
    numbers = None if first is None else (first, first + len(batches))
    return Run([each.source for each in files], files[0].filesystem, numbers, schema)


def in_runs(
    parts: Iterable[_Part], most: int, may_precede: Callable[[_Part, _Part], bool] | None = None
) -> Iterator[list[_Part]]:
    """Yields consecutive parts of files together: at most `most` bytes, or one part that is larger.

    Args:
        may_precede: whether one read can have a part and then the next one; None: any.
    """
    run: list[_Part] = []
    size = 0
    for part in parts:
        apart = run and may_precede is not None and not may_precede(run[-1], part)
        if run and (apart or size + part.nbytes > most):
            yield run
            run, size = [], 0
        run.append(part)
        size += part.nbytes
    if run:
        yield run


def _anywhere(file: Listed) -> Listed:
    if not isinstance(file.source, str | os.PathLike):
        raise TypeMismatch(
            f"source is of type {type(file.source).__name__}, expected a path or a URL that other processes "
            "can open"
        )
    path = os.fspath(file.source)
    local = file.filesystem is None and not is_url(path, None)
    return Listed(str(Path(path).absolute()) if local else path, file.filesystem)
