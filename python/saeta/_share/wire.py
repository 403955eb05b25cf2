"""The messages between processes about shared memory: requests and replies.

They are little-endian and have fixed sizes.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import struct
import time
import weakref
from array import array
from contextlib import suppress
from pathlib import Path

MAGIC = b"SAETAIPC"
VERSION = 1
NAME = re.compile(rb"saeta-[0-9]{1,10}-[0-9a-f]{32}")
WAIT = 30.0  # seconds to wait for the other side, which may work with the GIL held
# Requests. POST comes before a token is sent on. TAKE opens by a token that was posted. END ends the lease of
# the connection and has no reply.
POOL, OPEN, TAKE, END, POST = 1, 2, 3, 4, 5
DONE, GONE, FORBIDDEN, FAILED = range(4)  # replies
_REQUEST = struct.Struct("<8sHB16s")
_TIME = struct.Struct("@ll")  # seconds and microseconds
_DESCRIPTOR_ROOM = socket.CMSG_LEN(array("i").itemsize)  # for one
LARGEST = 65536  # bytes of a reply; the system buffers messages of up to three times as many

# Connections that this process started. A child of fork closes them, because the other side takes the end of
# a connection as the sign that it is not needed any more.
_connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class GoneError(OSError):
    """The memory is not shared any more, or its process has ended."""


@functools.cache
def boot_id() -> bytes:
    """Returns 16 bytes that are unique to this machine and change with its next start."""
    return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))


def request(kind: int, token: bytes) -> bytes:
    return _REQUEST.pack(MAGIC, VERSION, kind, token)


END_OF_LEASE = request(END, bytes(16))


def read_request(data: bytes) -> tuple[int, bytes] | None:
    """Returns the kind and the token of a request. None for other bytes."""
    if len(data) != _REQUEST.size:
        return None
    magic, version, kind, token = _REQUEST.unpack(data)
    known = (magic, version) == (MAGIC, VERSION) and kind in (POOL, OPEN, TAKE, POST)
    return (kind, token) if known else None


def peer_user(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return int(user)


def connect(broker: bytes) -> socket.socket:
    """Connects to the exporter's socket, which must belong to the same user.

    After the exporter has ended, any user can take the name of its socket.
    """
    deadline = time.monotonic() + WAIT
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _connections.add(connection)
    try:
        connection.settimeout(WAIT)
        while True:
            try:
                connection.connect(b"\0" + broker)
                break
            except BlockingIOError:  # the queue of the socket is full
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.001)
            except ConnectionRefusedError:
                raise GoneError(
                    "the process that exported the buffer has ended, or it is in another container"
                ) from None
        user = peer_user(connection)
        if user != os.geteuid():
            raise PermissionError(
                f"the buffer was exported by user {user}, this process is of user {os.geteuid()}"
            )
        _let_system_wait(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _let_system_wait(connection: socket.socket) -> None:
    """Leaves the time limit of a connection to the system.

    Python would poll before each call. Its threads would pass the GIL to each other twice as often.
    """
    limit = _TIME.pack(int(WAIT), int(WAIT % 1 * 1e6))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, limit)
    connection.settimeout(None)


def ask(connection: socket.socket, kind: int, token: bytes) -> tuple[bytes, list[int]]:
    """Sends a request and returns the reply with its descriptors, which the caller closes.

    OSError if the exporter refuses.
    """
    try:
        with suppress(ConnectionError):  # the connection was refused already: the reply says why
            connection.send(request(kind, token))
        data, descriptors = _receive(connection)
    except BlockingIOError:
        raise OSError(f"the process that exported the buffer has not replied for {WAIT:g} seconds") from None
    if data and data[0] == DONE:
        return data[1:], descriptors
    for each in descriptors:
        os.close(each)
    if not data:
        raise GoneError("the process that exported the buffer ended before it replied")
    text = data[1:].decode("utf-8", "replace")
    raise {FORBIDDEN: PermissionError, GONE: GoneError}.get(data[0], OSError)(text)


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receives one message, empty at the end.

    When the other side has closed with unread data, the system first reports that and then returns what was
    sent before.
    """
    for _attempt in range(2):
        with suppress(ConnectionError):
            # socket.recv_fds of Python 3.11 drops the flag: programs that are started meanwhile would get the
            # descriptor.
            data, beside, _flags, _sender = connection.recvmsg(
                LARGEST, _DESCRIPTOR_ROOM, socket.MSG_CMSG_CLOEXEC
            )
            found = array("i")
            for level, kind, content in beside:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    found.frombytes(content[: len(content) // found.itemsize * found.itemsize])
            return data, found.tolist()
    return b"", []


def _reset_in_child() -> None:
    for each in list(_connections):
        each.close()
    _connections.clear()


os.register_at_fork(after_in_child=_reset_in_child)
