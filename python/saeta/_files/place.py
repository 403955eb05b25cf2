"""Reads a data set onto several devices at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from saeta._core import Context, Table, _united_schema
from saeta._devices import contexts as all_contexts
from saeta._files import data_sets, sources
from saeta._files.filesystems import place_of
from saeta._files.readers import ReadArguments, open_reader
from saeta._files.threads import Worker
from saeta.errors import InvalidError, UnsupportedError
from saeta.exchange import ContextLike, context_of

if TYPE_CHECKING:
    from saeta._files.sources import Sources
    from saeta._ipc import Reader


def place(
    source: Sources,
    contexts: Iterable[ContextLike] | None = None,
    *,
    by: Literal["files", "bytes"] = "files",
    columns: str | Iterable[str] | None = None,
    schema: Any = None,
    index: bool = False,
    validate: bool | Literal["utf8"] = True,
    combine_chunks: bool | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Table]:
    """Reads Arrow IPC files onto several devices at once: a table for each context.

    Each context has a thread of its own that reads, and its own staging ring, budget and streams. Each row is
    read once.

    Args:
        source: what `saeta.read_ipc` takes: a list of files, a glob, a folder, or one source.
        contexts: a Context or the name of a device, for each table. None: `saeta.contexts()`.
        by: "files" gives file number i to context number i modulo their number. "bytes" cuts the batches of
            all files into runs of nearly equal bytes, one after the other; that also divides a single file.
        columns, schema, index, validate, combine_chunks, filesystem, storage_options: as for
            `saeta.read_ipc`.

    Returns:
        A list of Tables, one for each context. A context for which there is nothing gets a table without
        rows.

    Raises:
        What `saeta.read_ipc` raises, for the first read that fails. The other reads end within 50 ms, and
        nothing of them stays allocated. UnsupportedError: `by="bytes"` for streams, whose batches are not
        known before they are read.

    Example:
        >>> import saeta as sa, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for name, values in (("a", [1, 2]), ("b", [3]), ("c", [4])):
        ...     _ = sa.table({"n": values}, "host").write_ipc(f"{folder}/{name}.arrow")
        >>> [part["n"].to_pylist() for part in sa.place(folder, ["host", "host"])]
        [[1, 2, 4], [3]]
        >>> [part["n"].to_pylist() for part in sa.place(folder, ["host", "host"], by="bytes")]
        [[1, 2], [3, 4]]
    """
    homes = all_contexts() if contexts is None else [context_of(each) for each in contexts]
    if not homes:
        raise InvalidError("contexts is empty: name at least one context")
    if by not in ("files", "bytes"):
        raise InvalidError(f"by={by!r}: expected 'files' or 'bytes'")
    chosen = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    files = data_sets.list_sources(source, place_of(filesystem, storage_options), data_sets.IPC_ENDINGS)
    options = ReadArguments(
        chosen, schema=schema, index=index, validate=validate, combine_chunks=combine_chunks
    )
    readers: list[Reader] = []
    try:
        if by == "files":
            parts = [files[number :: len(homes)] for number in range(min(len(files), len(homes)))]
            readers += [open_reader(part, options) for part in parts]
            names = [sources.name_of(part[0].source) for part in parts]
            together = _united_schema([each.schema for each in readers], names)
            for number, part in enumerate(parts):
                if readers[number].schema != together:
                    readers[number].close()
                    readers[number] = open_reader(part, replace(options, schema=together))
        else:
            with open_reader(files, options) as whole:
                runs = _runs_of_equal_bytes(whole, len(homes))
                together = whole.schema
            readers += [open_reader(files, replace(options, batches=run, schema=together)) for run in runs]
        made = _read_at_once(readers, homes)
        return made + [made[0].slice(0, 0).to(each) for each in homes[len(made) :]]
    finally:
        for each in readers:
            each.close()


def _runs_of_equal_bytes(whole: Reader, parts: int) -> list[tuple[int, int]]:
    """Cuts the batches into a run [first, last) for each part: that of a batch has its middle byte."""
    if not whole.planned:
        raise UnsupportedError(
            "by='bytes' needs to know the batches before they are read, and a source is a stream or has an "
            "old version of the format: use by='files'"
        )
    sizes = whole.batch_bytes
    total = max(sum(sizes), 1)
    ends = [0] * parts
    before = 0
    for number, size in enumerate(sizes):
        ends[min((2 * before + size) * parts // (2 * total), parts - 1)] = number + 1
        before += size
    runs = []
    first = 0
    for end in ends:
        last = max(first, end)
        runs.append((first, last))
        first = last
    return runs


def _read_at_once(readers: Sequence[Reader], homes: Sequence[Context]) -> list[Table]:
    """Reads everything, one thread for each reader. The first failure ends the other reads."""
    made: list[Table | None] = [None] * len(readers)
    failures: list[BaseException] = []

    def read(number: int) -> None:
        try:
            made[number] = readers[number].read_all(homes[number])
        except BaseException as failure:
            failures.append(failure)
            end_all()

    def end_all() -> None:
        for each in readers:
            each.close()

    threads = [Worker(partial(read, number), f"saeta-place-{number}") for number in range(len(readers))]
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.wait()
    except BaseException:  # Ctrl-C during the wait, or the system has no more threads
        end_all()
        for each in threads:
            each.wait()
        made.clear()
        raise
    if failures:
        made.clear()  # the traceback of the failure keeps this list alive
        raise failures[0]
    return [each for each in made if each is not None]
