"""Leases of memory that other processes share. A connection to its process holds each of them.

A lease ends with its connection, so it ends with this process, whatever happens to that. When it ends in the
usual way, the connection says so and is kept: for the exporter, a new one is more work than a request.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from saeta._share import wire

_MOST_IDLE = 8

# Connections without a lease, with the broker that they lead to, the latest last. No lock guards the list,
# because a lease may end inside any line of a thread; each use of it is one operation of a list.
_idle: list[tuple[bytes, socket.socket]] = []


class Lease:
    """Tells the exporter when it is dropped that its memory is not used any more."""

    def __init__(self, broker: bytes, connection: socket.socket) -> None:
        self._broker = broker
        self._connection = connection

    def ended(self) -> bool:
        """Returns whether the exporter has ended: what is open stays, and nobody else can open it."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def __del__(self) -> None:
        if not hasattr(self, "_connection"):  # an interrupt came before it
            return
        try:
            self._connection.send(wire.END_OF_LEASE)
        except OSError:  # the exporter has ended, this is a child of fork, or all descriptors are closed
            with suppress(OSError):
                self._connection.close()
            return
        _idle.append((self._broker, self._connection))
        if len(_idle) > _MOST_IDLE:
            with suppress(IndexError):  # others have taken them meanwhile
                _idle.pop(0)[1].close()


def ask(broker: bytes, kind: int, token: bytes) -> tuple[Lease, bytes, list[int]]:
    """Asks an exporter for shared memory.

    Returns the lease, the reply and its descriptors, which the caller closes. OSError if the exporter
    refuses.
    """
    while (idle := _take_idle(broker)) is not None:
        with suppress(wire.GoneError):  # the exporter may have ended: a new connection tells
            return _ask(broker, idle, kind, token)
    return _ask(broker, wire.connect(broker), kind, token)


def _take_idle(broker: bytes) -> socket.socket | None:
    for each in reversed(_idle.copy()):
        if each[0] == broker:
            with suppress(ValueError):  # another thread has taken it
                _idle.remove(each)
                return each[1]
    return None


def _ask(broker: bytes, connection: socket.socket, kind: int, token: bytes) -> tuple[Lease, bytes, list[int]]:
    try:
        reply, descriptors = wire.ask(connection, kind, token)
    except BaseException:
        connection.close()
        raise
    return Lease(broker, connection), reply, descriptors


os.register_at_fork(after_in_child=_idle.clear)  # a child closes the connections of its parent
