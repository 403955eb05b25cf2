"""Divides Parquet files into parts, row groups that are decoded together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from saeta._parquet.filters import Clauses, Known

# Bytes of a value after decoding. Those of text come beside its offset.
VALUE_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
OFFSET_BYTES = 4
DECIMAL_BYTES = 16
MOST_ROWS = (1 << 31) - 1  # that cuDF numbers


class File(NamedTuple):
    """What is read of a file, and what is known of its rows."""

    path: str
    names: list[str]  # columns that are decoded, those of the filter included
    known: dict[str, Known]  # columns of folders, and of nulls where the file has no such column
    clauses: Clauses  # that its rows are compared with
    parquet_schema: Any

    def goes_with(self, other: File) -> bool:
        """Whether one call can decode both files."""
        return (
            self.names == other.names
            and self.clauses == other.clauses
            and self.known == other.known
            and (self.parquet_schema is other.parquet_schema or self.parquet_schema == other.parquet_schema)
        )


class Group(NamedTuple):
    """A row group."""

    file: int
    number: int
    rows: int
    nbytes: int  # of its decoded values, as the metadata tell


class Part(NamedTuple):
    """Row groups that are decoded by one call."""

    groups: list[Group]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def nbytes(self) -> int:
        return sum(group.nbytes for group in self.groups)

    @property
    def by_file(self) -> dict[int, list[int]]:
        """The numbers of the row groups of each file, in their order."""
        numbers: dict[int, list[int]] = {}
        for group in self.groups:
            numbers.setdefault(group.file, []).append(group.number)
        return numbers

    def halves(self) -> list[Part]:
        middle = len(self.groups) // 2
        return [Part(self.groups[:middle]), Part(self.groups[middle:])]


def parts_of(groups: Iterable[Group], files: Sequence[File], most: int) -> Iterator[Part]:
    """Yields parts of at most `most` decoded bytes, or of one row group, in the order of the rows."""
    together: list[Group] = []
    nbytes = rows = 0
    for group in groups:
        fits = nbytes + group.nbytes <= most and rows + group.rows <= MOST_ROWS
        if together and not (fits and files[together[-1].file].goes_with(files[group.file])):
            yield Part(together)
            together, nbytes, rows = [], 0, 0
        together.append(group)
        nbytes += group.nbytes
        rows += group.rows
    if together:
        yield Part(together)


def decoded_bytes(metadata: Any, number: int, leaves: Sequence[int]) -> int:
    """Returns how many bytes the values of a row group have, without their validity.

    Text that the file keeps once for many rows is counted by the lengths of its least and greatest value.
    """
    group = metadata.row_group(number)
    return sum(_chunk_bytes(group.column(leaf)) for leaf in leaves)


def _chunk_bytes(chunk: Any) -> int:
    width = VALUE_BYTES.get(chunk.physical_type)
    count: int = chunk.num_values
    if width is not None:
        return count * width
    if chunk.physical_type != "BYTE_ARRAY":
        return count * DECIMAL_BYTES
    nbytes: int = chunk.total_uncompressed_size
    if chunk.has_dictionary_page:
        statistics = chunk.statistics
        if statistics is not None and statistics.has_min_max:
            nbytes = max(nbytes, count * (len(statistics.min_raw) + len(statistics.max_raw)) // 2)
    return nbytes + count * OFFSET_BYTES


def leaves_of(parquet_schema: Any, names: Iterable[str]) -> list[int]:
    """Returns the numbers of the leaf columns inside of columns."""
    wanted = set(names)
    return [
        number
        for number in range(len(parquet_schema))
        if parquet_schema.column(number).path.partition(".")[0] in wanted
    ]
