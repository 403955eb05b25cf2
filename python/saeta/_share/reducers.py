"""Lets `multiprocessing` and joblib share tables instead of copying them."""

from __future__ import annotations

import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

from saeta import _core
from saeta._core import Column, Table
from saeta._share import handover
from saeta._share.tables import SharedTable, open_shared, posted


def install_reducers() -> None:
    """Makes `multiprocessing` share tables and columns with other processes instead of copying their rows.

    Afterwards queues, pipes, pools and arguments of processes carry tokens (`Table.share`), with the start
    methods "spawn" and "forkserver" as well as "fork", and so do those of `torch.multiprocessing`. joblib's
    processes do too if joblib was imported before. Only the process that sends needs to call it. The memory
    of a sent table is kept until a process has opened it and every process that opened it has dropped it.

    When a process ends normally, a small program keeps the tables that it sent and that nobody has opened. It
    keeps them until they are opened, until the parent of the process ends, or for 10 minutes; for a process
    that `multiprocessing` did not start, for 30 seconds. A table of a GPU is copied to the host for that.

    Other pickles carry the rows.

    Example:
        >>> import saeta as sa
        >>> sa.install_reducers()
    """
    handover.prepare()
    kinds: list[tuple[Any, Any]] = [(Table, _reduce_table), (Column, _reduce_column)]
    joblib_reduction: Any = sys.modules.get("joblib.externals.loky.backend.reduction")
    for kind, reduce in kinds:
        ForkingPickler.register(kind, reduce)
        if joblib_reduction is not None:
            joblib_reduction.register(kind, reduce)


def _reduce_table(table: Table) -> tuple[Any, ...]:
    return _opened_table, (posted(table),)


def _opened_table(token: SharedTable) -> Table:
    return open_shared(token)


def _reduce_column(column: Column) -> tuple[Any, ...]:
    return _opened_column, (_core._from_columns(column.context, [column]),)


def _opened_column(table: Table) -> Column:
    return table.column(0)
