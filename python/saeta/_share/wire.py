"""The messages between processes about shared memory: requests and replies.

They are little-endian and have fixed sizes.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path

from saeta import _core
from saeta._core import _Connection, _Descriptor
from saeta.errors import FileError

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
MAGIC = b"SAETAIPC"
VERSION = 1
NAME = re.compile(rb"saeta-[0-9]{1,10}-[0-9a-f]{32}")
WAIT = 30.0  # seconds to wait for the other process, which may be busy with the GIL held
# Requests. POOL asks for the memory pool of an export. OPEN begins a lease of an export. POST keeps an export
# until TAKE opens it, for a token that is sent on to a third process. END ends the lease of the connection
# and has no reply.
POOL, OPEN, TAKE, END, POST = 1, 2, 3, 4, 5
DONE, GONE, FORBIDDEN, FAILED = range(4)  # replies
_REQUEST = struct.Struct("<8sHB16s")
LARGEST = 65536  # bytes of a reply; a socket's buffer holds messages of up to three times that size


class GoneError(OSError):
    """The memory is not shared any more, or the process that shared it has ended."""


class EndedError(GoneError):
    """The process that shared the memory ended before it replied."""


@functools.cache
def boot_id() -> bytes:
    """Returns 16 bytes that are unique to this machine and change with its next start."""
    try:
        return bytes.fromhex(Path(_BOOT_ID).read_text().strip().replace("-", ""))
    except OSError as failed:
        raise FileError(
            f"{_BOOT_ID}, by which processes of one machine know each other, can't be read: "
            f"{failed.strerror} (errno {failed.errno})",
            errno=failed.errno,
        ) from failed


def request(kind: int, token: bytes) -> bytes:
    return _REQUEST.pack(MAGIC, VERSION, kind, token)


END_OF_LEASE = request(END, bytes(16))


def read_request(data: bytes) -> tuple[int, bytes] | None:
    """Returns the kind and the token of a request. None if the bytes are not a request."""
    if len(data) != _REQUEST.size:
        return None
    magic, version, kind, token = _REQUEST.unpack(data)
    known = (magic, version) == (MAGIC, VERSION) and kind in (POOL, OPEN, TAKE, POST)
    return (kind, token) if known else None


def peer_user(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return int(user)


def connect(broker: bytes) -> _Connection:
    """Connects to the exporter's socket, which must belong to the same user.

    The user is checked because any user can take the name of the socket after the exporter has ended.
    """
    try:
        connection = _Connection(broker, WAIT)
    except BlockingIOError:  # the queue of the socket is full
        raise _silence() from None
    except ConnectionRefusedError:
        raise GoneError(
            "the process that exported the buffer has ended, or it is in another container"
        ) from None
    user = connection.peer_user()
    if user != os.geteuid():
        connection.close()
        raise PermissionError(
            f"the buffer was exported by user {user}, this process is of user {os.geteuid()}"
        )
    return connection


def ask(connection: _Connection, kind: int, token: bytes) -> tuple[bytes, list[_Descriptor]]:
    """Sends a request and returns the reply with its descriptors.

    Raises OSError if the exporter refuses, or if this process has no free descriptor to receive one.
    """
    try:
        with suppress(ConnectionError):  # the exporter has already refused; its reply can still be read
            connection.send(request(kind, token))
        data, descriptors = _receive(connection)
    except BlockingIOError:
        raise _silence() from None
    if not data:
        raise EndedError("the process that exported the buffer ended before it replied")
    if data[0] == DONE:
        return data[1:], descriptors
    text = data[1:].decode("utf-8", "replace")
    raise {FORBIDDEN: PermissionError, GONE: GoneError}.get(data[0], OSError)(text)


def _silence() -> OSError:
    return OSError(f"the process that exported the buffer has not replied for {WAIT:g} seconds")


def _receive(connection: _Connection) -> tuple[bytes, list[_Descriptor]]:
    """Receives one message, empty at the end of the connection.

    If the other process has closed the connection without reading everything, the system reports an error
    first. The next call returns the message that was sent before.
    """
    for _attempt in range(2):
        with suppress(ConnectionError):
            return connection.receive(LARGEST)
    return b"", []


# A child of fork closes the connections of its parent. As long as one copy is open, the other process does
# not see that the parent has closed it. It also closes the parent's files in memory, which would otherwise
# stay allocated.
os.register_at_fork(after_in_child=_core._close_descriptors)
