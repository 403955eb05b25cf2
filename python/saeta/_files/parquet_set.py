"""Finds Parquet files as one data set of pyarrow: what folders name, and the schema of all rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from saeta._convert.pandas_index import without_index
from saeta._core import Schema, _united_schema, _unknown_column
from saeta._files import data_sets
from saeta._files.filesystems import filesystem_of, is_local, is_url
from saeta._files.parquet_ranges import ColumnsAhead, StoreFiles, column_ranges, store_file
from saeta._optional import load
from saeta.errors import ColumnNameError, TypeMismatch

if TYPE_CHECKING:
    from saeta._files.stores.ranges import RangeFile

HIVE = "hive"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


class ParquetSet(NamedTuple):
    """Files whose rows have one schema."""

    dataset: Any  # of pyarrow, with all columns
    fragments: list[Any]  # one for each file, in their order
    columns: list[str] | None  # that are read; None: all
    schema: Any  # of pyarrow, of these
    files: list[RangeFile | None]  # those in stores, one for each fragment

    def fetch(
        self, columns: Sequence[str] | None, groups: Iterable[tuple[int, Iterable[int]]]
    ) -> ColumnsAhead:
        """Begins to read columns of row groups that are scanned in this order, as far as they are in stores.

        Args:
            groups: numbers of fragments, each with numbers of row groups.
        """
        return ColumnsAhead(
            (file, ranges)
            for number, numbers in groups
            if (file := self.files[number]) is not None
            for ranges in column_ranges(self.fragments[number].metadata, numbers, columns)
        )

    def fetch_all(self, expression: Any = None) -> ColumnsAhead:
        """Begins to read the columns of all row groups that may have rows for which an expression holds."""
        columns = self.columns
        if columns is not None and expression is not None:  # which does not tell its columns otherwise
            text = str(expression)
            columns = [*columns, *(name for name in self.dataset.schema.names if name in text)]
        return self.fetch(columns, self._groups_with(expression))

    def _groups_with(self, expression: Any) -> Iterator[tuple[int, list[int]]]:
        for number, fragment in enumerate(self.fragments):
            if self.files[number] is not None:
                chosen = fragment if expression is None else fragment.subset(expression, self.dataset.schema)
                yield number, [group.id for group in chosen.row_groups]


class _Place(NamedTuple):
    """Where a file is."""

    filesystem: Any  # of pyarrow or fsspec, or StoreFiles; None: this machine
    path: str
    root: str | None  # the folder below which folders are partitions; None: all folders of the path are
    alone: bool  # whether it is the only source, and no folder


def find(
    source: Any,
    filesystem: Any,
    *,
    partitioning: Any,
    columns: str | Iterable[str] | None,
    schema: Any,
    index: bool,
    endings: Sequence[str] = data_sets.PARQUET_ENDINGS,
) -> ParquetSet:
    """Opens a data set, with the arguments of `read_parquet`. Reads the metadata of all files.

    Raises:
        TypeMismatch: the rows of two files have no common schema, or do not fit `schema`.
    """
    files = _opened(list(_places(source, filesystem, endings)))
    fragments: list[Any] = []
    partitions: dict[str, Any] = {}  # the fields that folders name
    if isinstance(partitioning, str) and partitioning == HIVE:
        partitioning = None if files[0].alone else _hive(files, schema)
    for (place, root), group in groupby(files, key=lambda each: (each.filesystem, each.root)):
        found, fields = _fragments([each.path for each in group], place, root, partitioning)
        fragments += found
        partitions = {**{field.name: field for field in fields}, **partitions}
    return _described(fragments, partitions, columns, schema, index)


def _opened(places: Sequence[_Place]) -> list[_Place]:
    """Opens the files in stores, all files of a store at once."""
    stores: list[tuple[Any, StoreFiles]] = []
    opened: list[_Place] = []
    for place in places:
        if place.filesystem is not None and not is_local(place.filesystem):
            store = next((files for system, files in stores if system == place.filesystem), None)
            if store is None:
                store = StoreFiles(place.filesystem)
                stores.append((place.filesystem, store))
            place = place._replace(filesystem=store)
        opened.append(place)
    for _, store in stores:
        store.open_all([place.path for place in opened if place.filesystem is store])
    return opened


def file_format() -> Any:
    dataset = load("pyarrow.dataset", "reading Parquet")
    return dataset.ParquetFileFormat(arrow_extensions_enabled=True)  # as `read_table` has them


def _places(source: Any, filesystem: Any, endings: Sequence[str], *, alone: bool = True) -> Iterator[_Place]:
    if data_sets.is_list(source):
        for each in data_sets.elements(source):
            yield from _places(each, filesystem, endings, alone=False)
        return
    found = data_sets.list_sources(source, filesystem, endings)
    for listed in found:
        if not isinstance(listed.source, str | os.PathLike):
            raise TypeMismatch(
                f"source is of type {type(listed.source).__name__}, expected a path or URLs of files"
            )
        place, path = listed.filesystem, os.fsdecode(listed.source)
        if is_url(path, place):
            place, path = filesystem_of(path, place)
        is_file = len(found) == 1 and listed.source == source
        root = None if is_file else _root(source, place, path, filesystem)
        yield _Place(place, path, root, alone and is_file)


def _root(source: Any, filesystem: Any, first: str, given: Any) -> str:
    """Returns the folder that a source names, or that its pattern begins in."""
    path = os.fsdecode(source)
    if filesystem is not None and is_url(path, given):
        bare = path.partition("?")[0]
        path = filesystem_of(bare[: bare.find("*")].rpartition("/")[0] if "*" in bare else path, given)[1]
    inside = path.rstrip("/") + "/"
    if first.startswith(inside):
        return path
    special = re.search(r"[*?\[]", path)
    return path[: special.start()].rpartition("/")[0] if special else path


def _fragments(paths: list[str], place: Any, root: str | None, partitioning: Any) -> tuple[list[Any], Any]:
    """Returns the files, and the fields that their folders name."""
    pyarrow = load("pyarrow", "reading Parquet")
    dataset = load("pyarrow.dataset", "reading Parquet")
    known = pyarrow.schema([]) if partitioning is None else getattr(partitioning, "schema", None)
    found = dataset.dataset(
        paths,
        schema=known,  # otherwise the first file is read, which is read again here
        format=file_format(),
        filesystem=place.as_pyarrow() if isinstance(place, StoreFiles) else place,
        partitioning=partitioning,
        partition_base_dir=root,
    )
    return list(found.get_fragments()), [] if partitioning is None else found.partitioning.schema


def _hive(files: Sequence[_Place], meant: Any) -> Any:
    """Returns the partitioning by folders named key=value, None if there are none.

    A column has the type that `meant` or the first file has for it. Otherwise it is int32 if each value is a
    number of that type, as pyarrow infers it, else string.
    """
    values: dict[str, set[str]] = {}
    for each in files:
        below = each.path[len(each.root) :] if each.root and each.path.startswith(each.root) else each.path
        for folder in below.split("/")[:-1]:
            key, equals, value = folder.partition("=")
            if equals:
                values.setdefault(unquote(key), set()).add(unquote(value))
    if not values:
        return None
    pyarrow = load("pyarrow", "reading Parquet")
    [first], _ = _fragments([files[0].path], files[0].filesystem, None, None)
    own = first.physical_schema
    known = {field.name: field.type for field in (*own, *_as_pyarrow(meant, own))}
    types = {name: known.get(name) or _type_of(found) for name, found in values.items()}
    return load("pyarrow.dataset", "reading Parquet").partitioning(pyarrow.schema(types), flavor=HIVE)


def _type_of(values: set[str]) -> Any:
    pyarrow = load("pyarrow", "reading Parquet")
    written = [value for value in values if value != NULL_PARTITION]
    try:
        pyarrow.array(written, pyarrow.string()).cast(pyarrow.int32())
    except pyarrow.ArrowInvalid:
        written = []
    return pyarrow.int32() if written else pyarrow.string()


def _as_pyarrow(schema: Any, otherwise: Any) -> Any:
    if schema is None:
        return otherwise
    return load("pyarrow", "reading Parquet").schema(schema if isinstance(schema, Schema) else Schema(schema))


def _described(
    fragments: list[Any],
    partitions: dict[str, Any],
    columns: str | Iterable[str] | None,
    schema: Any,
    index: bool,
) -> ParquetSet:
    """Finds the schema of all rows. Only columns that are read are compared."""
    pyarrow = load("pyarrow", "reading Parquet")
    first = fragments[0].physical_schema
    meant = _as_pyarrow(schema, first)
    known = [*meant.names, *(name for name in partitions if name not in meant.names)]
    chosen = _names(columns, known)
    wanted = () if schema is None else meant.names

    def read(own: Any) -> Any:
        """Returns the fields of a file that are read."""
        names = chosen
        if names is None and not index:
            names = without_index(own.names, own.metadata, wanted)
        if names is None:
            return pyarrow.schema([field for field in own if field.name not in partitions])
        return pyarrow.schema(
            [own.field(name) for name in names if name not in partitions and own.names.count(name) == 1]
        )

    expected = None if schema is None else read(meant)
    together = _together([(each.path, read(each.physical_schema)) for each in fragments], expected)
    index_columns = {*meant.names} - {*together.names, *partitions}
    if chosen is None and index_columns:
        chosen = [name for name in known if name not in index_columns]
    changed = {field.name: field for field in together if field not in meant}
    whole = [partitions.get(field.name) or changed.get(field.name, field) for field in meant]
    whole += [field for name, field in partitions.items() if name not in meant.names]
    shown = together = pyarrow.schema(whole, meant.metadata)
    if chosen is not None:
        shown = pyarrow.schema([shown.field(name) for name in chosen], shown.metadata)
    return of_fragments(fragments, together, chosen, shown)


def of_fragments(fragments: list[Any], whole: Any, columns: list[str] | None, schema: Any) -> ParquetSet:
    """Returns files whose schemas are known: `whole` of all columns, and `schema` of those that are read."""
    dataset = load("pyarrow.dataset", "reading Parquet").FileSystemDataset(fragments, whole, file_format())
    return ParquetSet(dataset, fragments, columns, schema, list(map(store_file, fragments)))


def _together(files: Sequence[tuple[str, Any]], meant: Any) -> Any:
    """Returns the schema of the rows of all files, from pyarrow's schemas and the names of the files."""
    expected = files[0][1] if meant is None else meant
    others = [each for each in files if not each[1].equals(expected)]
    if not others:
        return expected
    if meant is None:
        others.insert(0, files[0])
    names = [name for name, _ in others]
    found = _united_schema(
        [Schema(own) for _, own in others], names, None if meant is None else Schema(meant)
    )
    return load("pyarrow", "reading Parquet").schema(found)


def _names(columns: str | Iterable[str] | None, known: Sequence[str]) -> list[str] | None:
    if columns is None:
        return None
    chosen = [columns] if isinstance(columns, str) else list(columns)
    for name in chosen:
        if name not in known:
            raise ColumnNameError(_unknown_column(name, known))
        if known.count(name) > 1:
            raise ColumnNameError(f"more than one column is named {name!r}")
    return chosen
