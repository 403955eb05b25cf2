"""Leases of memory that other processes share. Each lease is an open connection to the exporter.

The exporter takes the end of the connection as the end of the lease, so a lease ends even if this process is
killed. A lease that ends normally sends a message instead. Its connection is kept for the next lease, because
accepting a new one takes the exporter longer than answering a request.
"""

from __future__ import annotations

import os
from contextlib import suppress

from saeta._core import _Connection, _Descriptor, _Lease
from saeta._share import wire

# Connections without a lease, each with the name of its broker, the latest last. No lock guards the list: a
# lease may end in any line of a thread, also in one that has the lock. Each access is one atomic operation.
_idle: list[tuple[bytes, _Connection]] = []


def ask(broker: bytes, kind: int, token: bytes) -> tuple[_Lease, bytes, list[_Descriptor]]:
    """Asks an exporter for shared memory.

    Returns the lease, the reply and its descriptors. Raises OSError if the exporter refuses.
    """
    while (idle := _take_idle(broker)) is not None:
        with suppress(wire.GoneError):  # the exporter may have closed an old connection: try a new one
            return _ask(broker, idle, kind, token)
    try:
        return _ask(broker, wire.connect(broker), kind, token)
    except wire.EndedError:  # the exporter has ended, perhaps after handing its socket over (handover.py)
        return _ask(broker, wire.connect(broker), kind, token)


def _take_idle(broker: bytes) -> _Connection | None:
    for entry in reversed(_idle.copy()):
        if entry[0] == broker:
            with suppress(ValueError):  # another thread has taken it
                _idle.remove(entry)
                return entry[1]
    return None


def _ask(
    broker: bytes, connection: _Connection, kind: int, token: bytes
) -> tuple[_Lease, bytes, list[_Descriptor]]:
    try:
        reply, descriptors = wire.ask(connection, kind, token)
    except BaseException:
        connection.close()
        raise
    return _Lease(_idle, broker, connection, wire.END_OF_LEASE), reply, descriptors


os.register_at_fork(after_in_child=_idle.clear)  # a child closes the connections of its parent
