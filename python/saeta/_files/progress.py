"""Shows the progress of long work: a bar on a terminal, or calls of the caller's own callable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from saeta._optional import load
from saeta._text import did_you_mean
from saeta.errors import InvalidError, MissingDependency

if TYPE_CHECKING:
    from typing import TypeAlias

    from saeta._ipc import Progress

    Hook = Callable[[Progress], object]
    ProgressArgument: TypeAlias = bool | Literal["rich", "tqdm"] | Hook | None
    """Who is told how far the work has come: True for a bar, a callable that takes a `Progress`."""

BARS = ("rich", "tqdm")


def hook(progress: ProgressArgument, description: str) -> AbstractContextManager[Hook | None]:
    """Returns a context whose value is what to call after each batch.

    This is None, the caller's callable, or for True and the name of a library a bar on standard error.
    """
    if progress is None or progress is False:
        return nullcontext(None)
    if progress is True or isinstance(progress, str):
        name = _installed() if progress is True else _known(progress)
        return {"rich": _rich, "tqdm": _tqdm}[name](description)
    return nullcontext(progress)


class Counted:
    """Counts tables as they are read, and tells a hook how far the read has come.

    Args:
        total_batches, total_rows: -1 if they are not known.
    """

    def __init__(self, hook: Hook, total_batches: int = -1, total_rows: int = -1) -> None:
        self._hook = hook
        self._total, self._total_rows = total_batches, total_rows
        self._batches = self._rows = self._bytes = 0
        self._lock = Lock()  # several threads may take batches

    def add(self, taken: Any) -> None:
        """Counts a table, or a batch of pyarrow."""
        self.count(taken.num_rows, taken.nbytes)

    def count(self, rows: int, nbytes: int) -> None:
        """Counts a batch."""
        from saeta._ipc import Progress

        with self._lock:
            self._batches += 1
            self._rows += rows
            self._bytes += nbytes
            so_far = Progress(self._batches, self._total, self._rows, self._bytes, self._total_rows)
            self._hook(so_far)


def batches_of(rows: int, batch_size: int) -> int:
    """Returns the number of batches that rows are cut into; -1 rows are not known."""
    return -1 if rows < 0 else -(-rows // batch_size)


def _known(name: str) -> str:
    if name not in BARS:
        raise InvalidError(
            f"progress={name!r}: expected True, 'rich', 'tqdm', a callable or None{did_you_mean(name, BARS)}"
        )
    return name


def _installed() -> str:
    """Returns the first library of those that draw bars that is installed."""
    for name in BARS:
        with suppress(MissingDependency):
            load(name, "a progress bar")
            return name
    raise MissingDependency("a progress bar needs rich or tqdm (pip install rich)")


@contextmanager
def _rich(description: str) -> Iterator[Hook]:
    console = load("rich.console", "a progress bar")
    bars: Any = load("rich.progress", "a progress bar")
    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[rows]:,} rows"),
        bars.DownloadColumn(binary_units=True),
        bars.TransferSpeedColumn(),
        console=console.Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(description, total=None, rows=0)

        def show(so_far: Progress) -> None:
            bar.update(task, completed=so_far.bytes, total=_total_bytes(so_far), rows=so_far.rows)

        yield show


@contextmanager
def _tqdm(description: str) -> Iterator[Hook]:
    tqdm: Any = load("tqdm.auto", "a progress bar").tqdm  # in a notebook it draws a widget
    with tqdm(desc=description, unit="B", unit_scale=True, unit_divisor=1024, leave=False) as bar:

        def show(so_far: Progress) -> None:
            bar.total = _total_bytes(so_far)
            bar.set_postfix_str(f"{so_far.rows:,} rows", refresh=False)
            bar.update(so_far.bytes - bar.n)

        yield show


def _total_bytes(so_far: Progress) -> int | None:
    """Estimates the bytes of everything from the share of the rows that are done, or of the batches."""
    if so_far.total_rows > 0 and so_far.rows > 0:
        return so_far.bytes * so_far.total_rows // so_far.rows
    if so_far.total_batches > 0 and so_far.batches > 0:
        return so_far.bytes * so_far.total_batches // so_far.batches
    return None
