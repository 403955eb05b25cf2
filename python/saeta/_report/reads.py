"""Profiles a read: where its time goes, beside what the machine gives."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path
from threading import Barrier, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from saeta import _core
from saeta._convert.numbers import require_count
from saeta._core import Context, Table
from saeta._files import data_sets, read_clock
from saeta._files.filesystems import URL, file_error, place_of
from saeta._files.parquet import read_parquet
from saeta._files.sources import is_live, name_of
from saeta._loader.data import is_parquet
from saeta._optional import load
from saeta._report.read_report import ReadReport
from saeta.errors import BudgetExceeded, InvalidError, OutOfMemory
from saeta.exchange import ContextLike, context_of
from saeta.ipc import read_ipc

if TYPE_CHECKING:
    from saeta._files.data_sets import Listed
    from saeta._files.sources import Sources

COPY_BYTES = 256 << 20  # of a plain copy
FILE_BYTES = 1 << 30  # that are read for the rate of a file alone
PIECE = 4 << 20
SAMPLES = 64  # pages that are looked for in the page cache

_one_at_a_time = Lock()  # the clock is one for the process


def profile_read(
    source: Sources,
    ctx: ContextLike = None,
    *,
    columns: str | Iterable[str] | None = None,
    rounds: int = 3,
    cold: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ReadReport:
    """Reads a source several times, and tells where the time goes and what bounds it.

    The parts of the read are timed in all threads, and the limits of the machine are measured in the same
    run: the bytes of the file alone, read by as many threads, and plain copies over the link. A table is
    released before the next read. Other reads of the process at that time are counted as well.

    Args:
        source: Arrow IPC or Parquet: a path, a glob, a folder, a URL, or a list of these, as for
            `saeta.read_ipc` and `saeta.read_parquet`. It is read more than once, so pipes are refused.
        ctx: a Context or the name of its device. None: the best device. On the host the values are copied
            into memory of the context, because a view reads nothing.
        columns: only these; one name or several.
        rounds: timed reads, after one that is not. The report is that of the read with the median time.
        cold: True takes files of this machine out of the page cache before each read, so that the disk is
            measured. Not every file system does that: `ReadReport.cached` tells.
        filesystem, storage_options: as for `saeta.read_ipc`.

    Returns:
        A ReadReport. `print(report)` shows all of it.

    Raises:
        InvalidError: the source can be read only once, or has files of both formats.
        The errors of `read_ipc` and `read_parquet`.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> _ = sa.table({"fare": [12.5, 8.0] * 50_000}, "host").write_ipc(path)
        >>> report = sa.profile_read(path, "host")
        >>> report.rows, sorted(report.limits)
        (100000, ['copy', 'file'])
        >>> round(sum(report.shares.values()), 6)
        1.0
    """
    rounds = require_count("rounds", rounds, "reads")
    where = context_of(ctx)
    given: Any = data_sets.elements(source) if data_sets.is_list(source) else source
    names: Any = columns if columns is None or isinstance(columns, str) else list(columns)
    place = filesystem if storage_options is None else place_of(filesystem, storage_options)
    files = _files_of(given, place)
    parquet = _one_format(given, files)
    words = {"columns": names, "filesystem": filesystem, "storage_options": storage_options}

    def read() -> Table:
        if parquet:
            return read_parquet(given, where, **words)
        return read_ipc(given, where, copy=True, **words)

    paths = [Path(file.source) for file in files] if all(map(_is_local, files)) else []
    with _one_at_a_time, closing(_FileReader(paths, _core._read_threads(where))) as alone:
        read()  # makes the ring and starts threads
        where.synchronize()  # its last copies would delay those of the first timed read
        done = []
        rates = []
        for _ in range(rounds):  # side by side, so that other load of the machine slows both down
            if cold:
                _evict(paths)
            rates.append(alone.rate())
            if cold:
                _evict(paths)
            done.append(_timed(read, where, _cached(paths)))
        taken = _median(done, key=lambda each: each.seconds)
        limits = _limits(where, _median(rates), taken.nbytes)
    file_bytes: int | None = taken.file_bytes
    if parquet:  # which other libraries read
        file_bytes = _parquet_bytes(paths, names) if paths else None
    return _report(_shown(given), where, "parquet" if parquet else "ipc", taken, file_bytes, limits)


class _Read(NamedTuple):
    seconds: float
    threads: dict[str, float]  # seconds of the threads that read, by part
    outside: dict[str, float]  # seconds of waits for other libraries
    rows: int
    nbytes: int
    file_bytes: int
    moved: int  # over the link
    cached: float | None


def _timed(read: Any, where: Context, cached: float | None) -> _Read:
    moved = _uploaded(where)
    read_clock.running = clock = read_clock.Clock()
    _core._start_read_clock(_core._read_threads(where))
    start = time.perf_counter()
    try:
        table = read()
        with clock.timed("kernels"):
            where.synchronize()
        seconds = time.perf_counter() - start
    finally:
        read_clock.running = None
        parts = _core._stop_read_clock()
    threads = {part: spent for part, (spent, _) in parts.items()}
    size = table.num_rows, table.nbytes
    return _Read(seconds, threads, clock.seconds, *size, parts["file"][1], _uploaded(where) - moved, cached)


def _uploaded(where: Context) -> int:
    bytes_: int = where.counters()["host_to_device"]["bytes"]
    return bytes_


def _report(
    source: str, where: Context, form: str, of: _Read, file_bytes: int | None, limits: dict[str, float]
) -> ReadReport:
    threads = _core._read_threads(where)
    spent = {part: seconds / threads for part, seconds in of.threads.items() if part != "task"}
    for part, seconds in of.outside.items():
        spent[part] += seconds
    alone = dict(spent)
    for part, nbytes in (("file", file_bytes), ("link", of.moved)):
        if part in limits and nbytes is not None:
            alone[part] = max(alone[part], nbytes / limits[part] / 1e9)
    known = sum(spent.values())
    if known > of.seconds:  # what waits for another library goes on beside the copies
        spent = {part: seconds * of.seconds / known for part, seconds in spent.items()}
    parts = {**spent, "other": max(0.0, of.seconds - known)}
    return ReadReport(
        source=source,
        device=where.device,
        format=form,
        rows=of.rows,
        nbytes=of.nbytes,
        file_bytes=file_bytes,
        link_bytes=of.moved,
        cached=of.cached,
        threads=threads,
        seconds=of.seconds,
        parts=parts,
        limits=limits,
        alone=alone,
    )


def _files_of(source: Any, place: Any) -> list[Listed]:
    files = data_sets.list_sources(source, place, data_sets.IPC_ENDINGS + data_sets.PARQUET_ENDINGS)
    for file in files:
        path = isinstance(file.source, str | os.PathLike)
        if (path and file.filesystem is None and is_live(file.source)) or not (
            path or isinstance(file.source, bytes | bytearray | memoryview)
        ):
            raise InvalidError(
                f"'{name_of(file.source)}' may be read only once, and a profile reads several times: save it "
                "to a file"
            )
    return files


def _one_format(source: Any, files: Sequence[Listed]) -> bool:
    """Returns whether all files are Parquet."""
    kinds = {isinstance(file.source, str | os.PathLike) and is_parquet(_text(file)) for file in files}
    if len(kinds) > 1:
        raise InvalidError(f"'{_shown(source)}' has both Arrow IPC and Parquet files: profile one of them")
    return kinds.pop()


def _text(file: Listed) -> Listed:
    return file._replace(source=os.fsdecode(file.source))


def _shown(source: Any) -> str:
    if isinstance(source, list):
        return f"{_shown(source[0])} and {len(source) - 1} more" if len(source) > 1 else _shown(source[0])
    return name_of(source)


def _is_local(file: Listed) -> bool:
    return (
        file.filesystem is None
        and isinstance(file.source, str | os.PathLike)
        and not URL.match(os.fsdecode(file.source))
    )


def _median(of: list[Any], key: Any = None) -> Any:
    return sorted(of, key=key)[len(of) // 2]


def _limits(where: Context, file: float, nbytes: int) -> dict[str, float]:
    limits = {} if file == 0 else {"file": file}
    size = min(nbytes, COPY_BYTES)
    part, kind = ("copy", "memcpy") if where.device == "host" else ("link", "host_to_device")
    with suppress(BudgetExceeded, OutOfMemory):  # a report without it
        if size:
            copies = _core._PlainCopies(where, size, kind)
            limits[part] = size / _median([copies.time() for _ in range(3)]) / 1e9
    return limits


class _FileReader:
    """Reads the bytes of files by so many threads, for the rate of the files alone.

    Threads and their memory live as long as the reader: on files of some hundred MB, making them would take
    longer than to read.
    """

    def __init__(self, paths: Sequence[Path], threads: int) -> None:
        from concurrent.futures import ThreadPoolExecutor  # not for every program that imports saeta

        pieces = list(_pieces(paths))
        self._parts = [pieces[number::threads] for number in range(threads)]
        self._total = sum(size for _, _, size in pieces)
        self._memory = [memoryview(bytearray(b"\1") * PIECE) for _ in range(threads if pieces else 0)]
        self._pool = ThreadPoolExecutor(threads)
        met = Barrier(threads)  # so that every thread has started
        list(self._pool.map(lambda _: met.wait(), range(threads)))

    def close(self) -> None:
        self._pool.shutdown()

    def rate(self) -> float:
        """Returns the GB/s of one read of everything, 0 if there are no bytes."""
        if not self._total:
            return 0.0
        start = time.perf_counter()
        list(self._pool.map(_fetch, self._parts, self._memory))
        return self._total / (time.perf_counter() - start) / 1e9


def _fetch(pieces: Sequence[tuple[Path, int, int]], memory: memoryview) -> None:
    for path, group in groupby(pieces, key=lambda piece: piece[0]):
        with path.open("rb", buffering=0) as file:
            for _, at, size in group:
                os.preadv(file.fileno(), [memory[:size]], at)


def _pieces(paths: Sequence[Path]) -> Iterator[tuple[Path, int, int]]:
    left = FILE_BYTES
    for path in paths:
        size = min(path.stat().st_size, left)
        left -= size
        for at in range(0, size, PIECE):
            yield path, at, min(PIECE, size - at)


def _cached(paths: Sequence[Path]) -> float | None:
    """Returns the share of some pages of files that are in the page cache."""
    sizes = [path.stat().st_size for path in paths]
    total = sum(sizes)
    if not total or not hasattr(os, "RWF_NOWAIT"):
        return None
    places = [total * number // SAMPLES for number in range(SAMPLES)]
    found = 0
    begin = 0
    byte = bytearray(1)
    for path, size in zip(paths, sizes, strict=True):
        with path.open("rb", buffering=0) as file:
            for place in places:
                if begin <= place < begin + size:
                    try:
                        found += os.preadv(file.fileno(), [byte], place - begin, os.RWF_NOWAIT)
                    except BlockingIOError:
                        continue
                    except OSError:  # a file system that can't tell
                        return None
        begin += size
    return found / len(places)


def _evict(paths: Sequence[Path]) -> None:
    """Takes files out of the page cache, as far as the system does that."""
    for path in paths:
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())  # pages that are not written yet would stay
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as failure:
            raise file_error(f"can't read '{path}': {failure}", failure) from failure


def _parquet_bytes(paths: Sequence[Path], columns: str | list[str] | None) -> int:
    """Returns the bytes of the column chunks of Parquet files that a read of some columns needs."""
    names = {columns} if isinstance(columns, str) else None if columns is None else set(columns)
    total = 0
    for path in paths:
        metadata = load("pyarrow.parquet", "reading Parquet").read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunks = (group.column(place) for place in range(group.num_columns))
            total += sum(
                chunk.total_compressed_size
                for chunk in chunks
                if names is None or chunk.path_in_schema.partition(".")[0] in names
            )
    return total
