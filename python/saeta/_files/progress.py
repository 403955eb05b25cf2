"""Shows the progress of long work: a bar on a terminal, or calls of the caller's own callable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any

from saeta._optional import load

if TYPE_CHECKING:
    from saeta._ipc import Progress

    Hook = Callable[[Progress], object]


def hook(progress: bool | Hook | None, description: str) -> AbstractContextManager[Hook | None]:
    """Returns a context whose value is what to call after each batch.

    This is None, the caller's callable, or for True a bar on standard error.
    """
    if progress is True:
        return _bar(description)
    return nullcontext(None if progress is False else progress)


class Counted:
    """Counts tables as they are read, and tells a hook how far the read has come.

    Args:
        total_batches: None or -1 if it is not known.
    """

    def __init__(self, hook: Hook, total_batches: int | None = None) -> None:
        self._hook = hook
        self._total = -1 if total_batches is None else total_batches
        self._batches = self._rows = self._bytes = 0
        self._lock = Lock()  # several threads may take batches

    def add(self, taken: Any) -> None:
        """Counts a table, or a batch of pyarrow."""
        from saeta._ipc import Progress

        with self._lock:
            self._batches += 1
            self._rows += taken.num_rows
            self._bytes += taken.nbytes
            self._hook(Progress(self._batches, self._total, self._rows, self._bytes))


@contextmanager
def _bar(description: str) -> Iterator[Hook]:
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
            # The total is estimated from the share of batches that are done.
            known = so_far.total_batches > 0 and so_far.batches > 0
            total = so_far.bytes * so_far.total_batches // so_far.batches if known else None
            bar.update(task, completed=so_far.bytes, total=total, rows=so_far.rows)

        yield show
