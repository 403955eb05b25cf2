"""Leases of memory that other processes share. A connection to its process holds each of them.

A lease ends with its connection, so it ends with this process, whatever happens to that. When it ends in the
usual way, the connection says so and is kept: for the exporter, a new one is more work than a request.
"""

from __future__ import annotations

import os
from contextlib import suppress

from saeta._core import _Connection, _Descriptor, _Lease
from saeta._share import wire

# Connections without a lease, with the broker that they lead to, the latest last. No lock guards the list,
# because a lease may end inside any line of a thread; each use of it is one operation of a list.
_idle: list[tuple[bytes, _Connection]] = []


def ask(broker: bytes, kind: int, token: bytes) -> tuple[_Lease, bytes, list[_Descriptor]]:
    """Asks an exporter for shared memory.

    Returns the lease, the reply and its descriptors. OSError if the exporter refuses.
    """
    while (idle := _take_idle(broker)) is not None:
        with suppress(wire.GoneError):  # the exporter may have ended: a new connection tells
            return _ask(broker, idle, kind, token)
    try:
        return _ask(broker, wire.connect(broker), kind, token)
    except wire.EndedError:  # it may have handed its socket over meanwhile
        return _ask(broker, wire.connect(broker), kind, token)


def _take_idle(broker: bytes) -> _Connection | None:
    for each in reversed(_idle.copy()):
        if each[0] == broker:
            with suppress(ValueError):  # another thread has taken it
                _idle.remove(each)
                return each[1]
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
