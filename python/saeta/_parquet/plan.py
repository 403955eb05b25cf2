"""Decides from schemas and metadata whether a device decodes Parquet files, and what of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from saeta._files.parquet_set import ParquetSet
from saeta._optional import load
from saeta._parquet.filters import (
    EVERY_ROW,
    Clauses,
    Known,
    clauses_of,
    expression_of,
    unfit_condition,
    without_known,
)
from saeta._parquet.parts import File, Group, Part, decoded_bytes, leaves_of, parts_of
from saeta._parquet.types import reason_for_host, same_values
from saeta.errors import UnsupportedError

CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")


class Plan(NamedTuple):
    """What a device decodes."""

    schema: Any  # of pyarrow, of the rows
    whole: Any  # with the columns that are not read
    files: list[File]
    groups: list[Group]

    def parts(self, most: int) -> list[Part]:
        """Returns parts of at most `most` decoded bytes, or of one row group."""
        return list(parts_of(self.groups, self.files, most))

    def narrowed(self, names: Sequence[str]) -> Plan:
        """Returns the plan for some of the columns. The sizes of the row groups stay those of all."""
        schema = load("pyarrow", "reading Parquet").schema(
            map(self.schema.field, names), self.schema.metadata
        )
        compared = {test.column for file in self.files for clause in file.clauses for test in clause}
        wanted = {*names, *compared}
        files = [file._replace(names=[name for name in file.names if name in wanted]) for file in self.files]
        return self._replace(schema=schema, files=files)


def plan_of(data_set: ParquetSet, filters: Any) -> Plan:
    """Plans the decoding of files on a device.

    Raises:
        UnsupportedError: something has to be decoded on the host. The message names it.
    """
    if not data_set.schema.names:
        raise UnsupportedError("no column is read")
    whole = data_set.dataset.schema
    expression = None if filters is None else expression_of(filters)
    clauses = _clauses(filters, whole)
    compared = {test.column for clause in clauses for test in clause}
    shown = data_set.schema.names
    names = [*shown, *(name for name in whole.names if name in compared and name not in shown)]
    local = load("pyarrow.fs", "reading Parquet").LocalFileSystem
    files: list[File] = []
    groups: list[Group] = []
    for number, fragment in enumerate(data_set.fragments):
        if not isinstance(fragment.filesystem, local):
            raise UnsupportedError(f"'{fragment.path}' is not on a file system of this machine")
        file = _file(fragment, whole, names, shown, clauses)
        files.append(file)
        if not file.clauses:
            continue
        kept = fragment if expression is None else fragment.subset(filter=expression, schema=whole)
        groups += _groups(kept, number, file)
    return Plan(data_set.schema, whole, files, groups)


def _clauses(filters: Any, schema: Any) -> Clauses:
    if filters is None:
        return []
    clauses = clauses_of(filters)
    if clauses is None:
        raise UnsupportedError(
            "filters is an expression, and a device applies tuples (column, operator, value)"
        )
    unknown = [test.column for test in chain.from_iterable(clauses) if schema.names.count(test.column) != 1]
    if unknown:
        raise UnsupportedError(f"filters names {unknown[0]!r}, which is not the name of one column")
    return clauses


def _file(fragment: Any, whole: Any, names: Sequence[str], shown: Sequence[str], clauses: Clauses) -> File:
    own = fragment.physical_schema
    known = _known(fragment, own, whole, names)
    left = without_known(clauses, known) if clauses else EVERY_ROW
    compared = {test.column for test in chain.from_iterable(left)}
    read = [name for name in names if name not in known and (name in shown or name in compared)]
    for name in read:
        _require_decodable(fragment, own, name, whole.field(name).type)
    types = {name: own.field(name).type for name in read}
    unfit = unfit_condition(left, types)
    if unfit is not None:
        raise UnsupportedError(
            f"filters: {unfit.column!r} of type {types.get(unfit.column)} {unfit.operator} {unfit.value!r} "
            "is compared by pyarrow only"
        )
    return File(fragment.path, read, known, left, fragment.metadata.schema)


def _known(fragment: Any, own: Any, whole: Any, names: Sequence[str]) -> dict[str, Known]:
    """Returns the columns that are the same in all rows: those of folders, and those of nothing but nulls."""
    pyarrow = load("pyarrow", "reading Parquet")
    keys: Mapping[str, Any] = load("pyarrow.dataset", "reading Parquet").get_partition_keys(
        fragment.partition_expression
    )
    known = {}
    for name in names:
        wanted = whole.field(name).type
        if name in keys:
            known[name] = Known(keys[name], wanted)
        elif name not in own.names or pyarrow.types.is_null(own.field(name).type):
            known[name] = Known(None, wanted)
    return known


def _require_decodable(fragment: Any, own: Any, name: str, wanted: Any) -> None:
    """Raises UnsupportedError if a column of a file can't be decoded with its type on a device."""
    of = f"column '{name}' of type {wanted}"
    if "." in name:
        raise UnsupportedError(f"{of}: cuDF takes the dot in its name for a path")
    if own.names.count(name) > 1:
        raise UnsupportedError(f"{of}: '{fragment.path}' has more than one of that name")
    type = own.field(name).type  # noqa: A001 - lexicon's word
    if not same_values(type, wanted):
        raise UnsupportedError(f"{of}: it is {type} in '{fragment.path}'")
    reason = reason_for_host(wanted)
    if reason is not None:
        raise UnsupportedError(f"{of}: cuDF can't give back {reason}")


def _groups(fragment: Any, number: int, file: File) -> Iterator[Group]:
    metadata = fragment.metadata
    leaves = leaves_of(metadata.schema, file.names)
    for group in fragment.row_groups:
        if group.num_rows:
            _require_codecs(metadata.row_group(group.id), leaves, file.path)
            yield Group(number, group.id, group.num_rows, decoded_bytes(metadata, group.id, leaves))


def _require_codecs(group: Any, leaves: Sequence[int], path: str) -> None:
    for leaf in leaves:
        chunk = group.column(leaf)
        if chunk.compression not in CODECS:
            raise UnsupportedError(
                f"column '{chunk.path_in_schema}' of '{path}' has the codec {chunk.compression}, which cuDF "
                "can't read"
            )
