"""The messages between processes about shared memory: handles, requests and replies.

They are little-endian and have fixed sizes.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

WAIT = 30.0  # seconds to wait for the other side, which may work with the GIL held
POOL, OPEN = 1, 2  # requests
DONE, GONE, FORBIDDEN, FAILED = range(4)  # replies

# Connections that this process started. A child of fork closes them, because the other side takes the end of
# a connection as the sign that it is not needed any more.
_connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()

_MAGIC = b"SAETAIPC"
_VERSION = 1
_HANDLE = struct.Struct("<8sH16s16s16sQB")
_REQUEST = struct.Struct("<8sHB16s")
_NAME = re.compile(rb"saeta-[0-9]{1,10}-[0-9a-f]{32}")
_LARGEST = 4096


class Handle(NamedTuple):
    """Where a buffer can be requested, and what is expected there."""

    boot: bytes  # id of the machine since its last start
    device: bytes
    token: bytes  # a secret: every process that has it may open the buffer
    size: int
    broker: bytes  # name of the exporter's socket

    def pack(self) -> bytes:
        fixed = _HANDLE.pack(
            _MAGIC, _VERSION, self.boot, self.device, self.token, self.size, len(self.broker)
        )
        return fixed + self.broker

    @staticmethod
    def unpack(data: bytes) -> Handle:
        """Reads a handle. ArrowInvalid for bytes that `pack` did not make."""
        if len(data) < _HANDLE.size:
            raise pa.ArrowInvalid(
                f"not a handle of device memory: {len(data)} bytes, at least {_HANDLE.size} expected"
            )
        magic, version, boot, device, token, size, length = _HANDLE.unpack_from(data)
        if magic != _MAGIC:
            raise pa.ArrowInvalid(
                "not a handle of device memory: the first 8 bytes are not those of saeta.cuda"
            )
        if version != _VERSION:
            raise pa.ArrowInvalid(
                f"a handle of device memory of version {version}: this process knows version {_VERSION}"
            )
        broker = data[_HANDLE.size :]
        if len(broker) != length or not _NAME.fullmatch(broker):
            raise pa.ArrowInvalid(
                "not a handle of device memory: it does not end with the name of its process"
            )
        return Handle(boot, device, token, size, broker)


def boot_id() -> bytes:
    """Returns 16 bytes that are unique to this machine and change with its next start."""
    return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))


def request(kind: int, token: bytes) -> bytes:
    return _REQUEST.pack(_MAGIC, _VERSION, kind, token)


def read_request(data: bytes) -> tuple[int, bytes] | None:
    """Returns the kind and the token of a request. None for other bytes."""
    if len(data) != _REQUEST.size:
        return None
    magic, version, kind, token = _REQUEST.unpack(data)
    return (kind, token) if (magic, version) == (_MAGIC, _VERSION) and kind in (POOL, OPEN) else None


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
                raise OSError(
                    "the process that exported the buffer has ended, or it is in another container"
                ) from None
        user = peer_user(connection)
        if user != os.geteuid():
            raise PermissionError(
                f"the buffer was exported by user {user}, this process is of user {os.geteuid()}"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def ask(connection: socket.socket, kind: int, token: bytes) -> tuple[bytes, list[int]]:
    """Sends a request and returns the reply with its descriptors, which the caller closes.

    OSError if the exporter refuses.
    """
    try:
        with suppress(ConnectionError):  # the connection was refused already: the reply says why
            connection.send(request(kind, token))
        data, descriptors = _receive(connection)
    except TimeoutError:
        raise OSError(f"the process that exported the buffer has not replied for {WAIT:g} seconds") from None
    if data and data[0] == DONE:
        return data[1:], descriptors
    for each in descriptors:
        os.close(each)
    if not data:
        raise OSError("the process that exported the buffer ended before it replied")
    text = data[1:].decode("utf-8", "replace")
    raise (PermissionError if data[0] == FORBIDDEN else OSError)(text)


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receives one message, empty at the end.

    When the other side has closed with unread data, the system first reports that and then returns what was
    sent before.
    """
    for _attempt in range(2):
        with suppress(ConnectionError):
            data, descriptors, _flags, _sender = socket.recv_fds(
                connection, _LARGEST, 1, socket.MSG_CMSG_CLOEXEC
            )
            return data, descriptors
    return b"", []


def _reset_in_child() -> None:
    for each in list(_connections):
        each.close()
    _connections.clear()


os.register_at_fork(after_in_child=_reset_in_child)
