"""Opens the compiled readers of Arrow IPC sources."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from saeta import _ipc
from saeta._convert.pandas_index import without_index
from saeta._core import Schema
from saeta._files import batch_numbers, read_clock
from saeta._files.sources import Live, RemotePlace, open_remote, remote_place, resolve_source
from saeta._files.stores.ranges import RangeFile
from saeta.errors import TypeMismatch

if TYPE_CHECKING:
    from saeta._files.batch_numbers import BatchNumbers
    from saeta._files.data_sets import Listed
    from saeta._ipc import Reader


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """What is read of files, and how: arguments of `saeta.read_ipc`."""

    columns: Any = None  # a name, or an iterable of names
    batches: BatchNumbers = None
    schema: Any = None
    index: bool = False
    copy: bool | None = None
    validate: bool | str = True
    combine_chunks: bool | None = None


def open_reader(files: Sequence[Listed], options: ReadArguments) -> Reader:
    """Opens one reader of all files, which `data_sets.list_sources` has found."""
    if options.columns is not None:
        options = replace(options, columns=_names(options.columns))
    if options.schema is not None:
        options = replace(options, schema=_schema(options))
    batches = options.batches
    files = opened(files)
    if len(files) == 1 and options.schema is None and (batches is None or _is_range(batches)):
        return _open(files[0], options)
    # `batches` are numbered through all files, so they are chosen later.
    file_options = replace(options, batches=None)
    keep_open = len(files) == 1 or _may_stay_open(len(files))
    return _join([_open(file, file_options, keep_open) for file in files], options)


def _open(file: Listed, options: ReadArguments, keep_open: bool = True) -> Reader:
    """Opens one file. Of batches, only a range can be chosen."""
    source = file.source
    if not file.regular and not isinstance(source, RangeFile):
        source = resolve_source(source, file.filesystem)
    batches = None if options.batches is None else batch_numbers.range_of(options.batches)
    given = (options.columns, batches, options.copy, options.validate, options.combine_chunks)
    if isinstance(source, str | os.PathLike):
        reader = _ipc.open_file(source, *given, keep_open)
    elif isinstance(source, RangeFile):
        fetch = None if source.is_direct else source.ahead
        reader = _ipc.open_ranges(source.fill, source.name, source.size, *given, fetch, source.fetched)
    elif isinstance(source, Live):
        reader = _ipc.open_live(source.fill, source.name, *given)
    else:
        reader = _ipc.open_bytes(source, *given)
    if options.columns is None and not options.index and reader.schema._has_pandas_metadata:
        _leave_out_index(reader, options.schema)
    return reader


def opened(files: Sequence[Listed]) -> Sequence[Listed]:
    """Opens the files of file systems, all at once."""
    places: dict[int, RemotePlace] = {}
    for number, file in enumerate(files):
        place = None if file.regular else remote_place(file.source, file.filesystem)
        if place is not None:
            places[number] = place
    if not places:
        return files
    with read_clock.timed("file"):
        opened = dict(zip(places, open_remote(list(places.values())), strict=True))
    return [file._replace(source=opened.get(number, file.source)) for number, file in enumerate(files)]


def describe_source(source: Any) -> dict[str, Any]:
    """Describes a result of `resolve_source` without loading it."""
    if isinstance(source, str | os.PathLike):
        return _ipc.inspect_file(source)
    if isinstance(source, RangeFile):
        return _ipc.inspect_ranges(source.fill, source.name, source.size)
    if isinstance(source, Live):
        return _ipc.inspect_live(source.fill, source.name)
    return _ipc.inspect_bytes(source)


def _join(readers: list[Reader], options: ReadArguments) -> Reader:
    batches: Any = options.batches
    if isinstance(batches, slice):
        batches = batch_numbers.numbers_of_slice(batches, _count_batches(readers))
    if batch_numbers.is_list(batches):
        return _ipc.join_readers(readers, options.schema, None, batch_numbers.list_of(batches))
    chosen = None if batches is None else batch_numbers.range_of(batches)
    return _ipc.join_readers(readers, options.schema, chosen)


def _is_range(batches: Any) -> bool:
    """Whether batches are a range [first, last) that does not depend on the number of all batches."""
    return not isinstance(batches, slice) and not batch_numbers.is_list(batches)


def _count_batches(readers: list[Reader]) -> int:
    """Returns the number of batches of all sources, -1 if one is a stream."""
    counts = [reader.num_batches for reader in readers]
    return -1 if min(counts) < 0 else sum(counts)


def _may_stay_open(files: int) -> bool:
    """Whether a process can keep so many files open, and have descriptors left for others."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most == resource.RLIM_INFINITY or files <= most // 4


def _names(columns: str | Iterable[str]) -> list[str]:
    if isinstance(columns, str):
        return [columns]
    names = list(columns) if isinstance(columns, Iterable) else [columns]
    for name in names:
        if not isinstance(name, str):
            raise TypeMismatch(
                f"columns: {name!r} is of type {type(name).__name__}, expected the name of a column"
            )
    return names


def _schema(options: ReadArguments) -> Schema:
    """Returns the part of the caller's schema for the columns that are read."""
    schema = options.schema if isinstance(options.schema, Schema) else Schema(options.schema)
    if options.columns is None:
        return schema
    return Schema([schema.field(name) for name in options.columns], schema.metadata)


def _leave_out_index(reader: Reader, schema: Schema | None) -> None:
    """Excludes the columns of an index of pandas from a read, except those that the schema names."""
    own = reader.schema
    columns = without_index(own.names, own.metadata, () if schema is None else schema.names)
    if columns is not None:
        reader.choose(columns)
