"""Gives pyarrow the ranges of Parquet files in stores, read ahead by many requests at once.

pyarrow asks a file of Python for one range at a time. So what it will ask for is fetched beforehand: the ends
of files when they are opened, and the columns of row groups in the order in which they are scanned.
"""

from __future__ import annotations

import io
from _thread import allocate_lock
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from saeta._files.filesystems import file_system
from saeta._files.sources import RemotePlace, open_remote
from saeta._files.stores.ranges import Ahead, RangeFile
from saeta._optional import load

MOST_AHEAD = 512 << 20  # bytes of columns that are fetched and not decoded yet


class StoreFiles:
    """The files of one file system, as a file system of pyarrow has them."""

    def __init__(self, system: Any) -> None:
        self._system = system
        self._opened: dict[str, RangeFile] = {}
        self._as_pyarrow: Any = None

    def open_all(self, paths: Sequence[str]) -> None:
        """Opens files at once and begins to read their ends, where their metadata are."""
        fresh = [path for path in dict.fromkeys(paths) if path not in self._opened]
        opened = open_remote([RemotePlace(self._system, path) for path in fresh])
        self._opened.update(zip(fresh, opened, strict=True))

    def open(self, path: str) -> RangeFile:
        """Returns an open file. It is opened if need be."""
        if path not in self._opened:
            self.open_all([path])
        return self._opened[path]

    def as_pyarrow(self) -> Any:
        """Returns a `pyarrow.fs.FileSystem` that reads these files."""
        if self._as_pyarrow is None:
            self._as_pyarrow = self._make_file_system()
        return self._as_pyarrow

    def _make_file_system(self) -> Any:
        fs = load("pyarrow.fs", "reading Parquet")
        python_file = load("pyarrow", "reading Parquet").PythonFile
        files = self

        handler: Any = fs.FileSystemHandler

        class Handler(handler):  # type: ignore[misc] # pyarrow has no types
            """What a scan of known files needs."""

            def __init__(self) -> None:
                self.files = files

            def __reduce__(self) -> Any:
                return _handler_of, (files._system,)

            def get_type_name(self) -> str:
                return "saeta"

            def normalize_path(self, path: str) -> str:
                return path

            def get_file_info(self, paths: Sequence[str]) -> list[Any]:
                kinds = {"file": fs.FileType.File, "directory": fs.FileType.Directory}
                system = file_system(files._system)
                return [
                    fs.FileInfo(path, kinds.get(system.kind(path), fs.FileType.NotFound)) for path in paths
                ]

            def open_input_file(self, path: str) -> Any:
                return python_file(_Reader(files.open(path)), "r")

            open_input_stream = open_input_file

            def get_file_info_selector(self, selector: Any) -> Any:
                raise _unused(selector)

            def create_dir(self, path: str, recursive: bool) -> None:
                raise _unused(path)

            def delete_dir(self, path: str) -> None:
                raise _unused(path)

            def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
                raise _unused(path)

            def delete_root_dir_contents(self) -> None:
                raise _unused("")

            def delete_file(self, path: str) -> None:
                raise _unused(path)

            def move(self, src: str, dest: str) -> None:
                raise _unused(src)

            def copy_file(self, src: str, dest: str) -> None:
                raise _unused(src)

            def open_output_stream(self, path: str, metadata: Any) -> Any:
                raise _unused(path)

            def open_append_stream(self, path: str, metadata: Any) -> Any:
                raise _unused(path)

        return fs.PyFileSystem(Handler())


def store_file(fragment: Any) -> RangeFile | None:
    """Returns the file of a fragment of pyarrow, None if it is not in a store."""
    files = getattr(getattr(fragment.filesystem, "handler", None), "files", None)
    return files.open(fragment.path) if isinstance(files, StoreFiles) else None


def _handler_of(system: Any) -> Any:
    """Returns the handler of an unpickled file system, whose files are opened again."""
    return StoreFiles(system).as_pyarrow().handler


def _unused(what: object) -> NotImplementedError:
    return NotImplementedError(f"only known files are read: {what}")


class _Reader(io.RawIOBase):
    """A position in a file, for `pyarrow.PythonFile`, which holds a lock while it seeks and reads."""

    def __init__(self, file: RangeFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._file.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}
        self._at = base[whence] + offset
        return self._at

    def read(self, size: int | None = -1, /) -> Any:
        left = max(self._file.size - self._at, 0)
        content = self._file.view(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(content)
        return content


class ColumnsAhead:
    """Fetches columns of row groups in the order of their use. What was decoded makes room for what follows.

    Args:
        ranges: files, each with ranges (offset, bytes) that are read once.
    """

    def __init__(self, ranges: Iterable[tuple[RangeFile, list[tuple[int, int]]]]) -> None:
        self._left = iter(ranges)
        self._state = allocate_lock()
        self._held: dict[int, tuple[Ahead, int]] = {}  # by number, each with the bytes that were not read
        self._bytes = 0
        self._next = 0
        self._closed = False
        self._go_on()

    def close(self) -> None:
        """Drops what was fetched. Nothing more is fetched."""
        with self._state:
            self._closed = True
            held, self._held = self._held, {}
        for ahead, _ in held.values():
            ahead.close()

    def _go_on(self) -> None:
        while True:
            with self._state:
                if self._closed or self._bytes >= MOST_AHEAD:
                    return
                following = next(self._left, None)
                if following is None:
                    return
                file, ranges = following
                number, size = self._next, sum(count for _, count in ranges)
                self._next += 1
                self._bytes += size
            ahead = file.ahead(ranges, partial(self._note_read, number))
            with self._state:
                if not self._closed:
                    self._held[number] = (ahead, size)

    def _note_read(self, number: int, count: int) -> None:
        done = None
        with self._state:
            if number in self._held:
                ahead, left = self._held[number]
                self._bytes -= count
                self._held[number] = (ahead, left - count)
                if left <= count:
                    done = self._held.pop(number)[0]
        if done is not None:
            done.close()
            self._go_on()


def column_ranges(
    metadata: Any, groups: Iterable[int], columns: Sequence[str] | None
) -> Iterator[list[tuple[int, int]]]:
    """Yields for each row group the ranges (offset, bytes) of columns, from the metadata of a file."""
    wanted = None if columns is None else set(columns)
    for number in groups:
        group = metadata.row_group(number)
        found = []
        for index in range(group.num_columns):
            column = group.column(index)
            if wanted is not None and column.path_in_schema.partition(".")[0] not in wanted:
                continue
            begin = column.data_page_offset
            if column.dictionary_page_offset is not None and 0 < column.dictionary_page_offset < begin:
                begin = column.dictionary_page_offset
            found.append((begin, column.total_compressed_size))
        yield found
