"""Passes tables between the workers of a host by shared memory instead of a socket.

A worker answers a request for data with a token in place of the bytes if the worker that asks has the same
address. It keeps the shared memory until that worker has read the answer, which it acknowledges, or has lost
the connection. So nothing is kept for a worker that is killed, and a token is never stored.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import WorkerPlugin
from distributed.comm import get_address_host

from saeta._core import Context, Table, _parse_bytes
from saeta._share.tables import SharedTable, share, take_over
from saeta.errors import BudgetExceeded

if TYPE_CHECKING:
    from distributed import Client

_NAME = "saeta-shared-memory"


class _Answer(NamedTuple):
    """The answer to a worker on this host."""

    smallest: int
    lent: list[SharedTable]


# Set while such an answer is written, also in the thread that serialises it.
_answer: ContextVar[_Answer | None] = ContextVar("saeta.dask.answer", default=None)


def share_memory(client: Client, *, smallest: int | str = "1MiB") -> None:
    """Lets the workers of each host pass tables to each other by shared memory.

    A table is then copied once, into memory that the other worker maps, and not through a socket. The memory
    is charged to the process of the sender (`saeta.context("host")`) until the other worker has it; if it
    does not fit, the table is sent as before. The workers of a host must belong to one user. Other hosts, the
    scheduler and clients get bytes, as without it.

    It holds for all workers of the cluster, also those that come later.

    Args:
        client: of the cluster.
        smallest: tables with fewer bytes are sent as before: bytes or "1MiB".

    Example:
        >>> import distributed
        >>> import saeta.dask
        >>> with distributed.Client(n_workers=1, processes=False, dashboard_address=":0") as client:
        ...     saeta.dask.share_memory(client)
    """
    least = _parse_bytes(smallest) if isinstance(smallest, str) else smallest
    client.register_plugin(SharedMemory(least))


class SharedMemory(WorkerPlugin):  # type: ignore[misc] # distributed has no types that mypy may use
    """Implements `share_memory` on a worker."""

    name = _NAME

    def __init__(self, smallest: int) -> None:
        self._smallest = smallest

    def setup(self, worker: Any) -> None:
        send = worker.handlers["get_data"]
        own_host = get_address_host(worker.address)

        async def get_data(
            comm: Any,
            keys: Collection[Any],
            who: str | None = None,
            serializers: list[str] | None = None,
        ) -> Any:
            lent: list[SharedTable] = []
            on_this_host = who is not None and get_address_host(who) == own_host
            before = _answer.set(_Answer(self._smallest, lent) if on_this_host else None)
            try:
                return await send(comm, keys, who=who, serializers=serializers)
            finally:
                _answer.reset(before)
                lent.clear()

        worker.handlers["get_data"] = get_data
        self._send = send

    def teardown(self, worker: Any) -> None:
        worker.handlers["get_data"] = self._send


def lend(table: Table) -> bytes | None:
    """Returns a token for a table that is about to be sent, or None if its bytes have to be sent."""
    answer = _answer.get()
    if answer is None or table.nbytes < answer.smallest:
        return None
    try:
        token = share(table)
    except BudgetExceeded:
        return None
    answer.lent.append(token)
    return pickle.dumps(token)


def take(lent: bytes, ctx: Context) -> Table:
    """Opens a table that another worker lends.

    If that worker has been killed, it is an OSError, and distributed asks for the data again.
    """
    return take_over(pickle.loads(lent), ctx)
