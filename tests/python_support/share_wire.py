"""The messages about shared memory (saeta/share/wire.hpp), over plain sockets: whatever a peer may send."""

from __future__ import annotations

import fcntl
import os
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from saeta import _core

POOL, OPEN, TAKE, END, POST = 1, 2, 3, 4, 5  # requests
DONE, GONE, FORBIDDEN, FAILED = range(4)  # replies
LARGEST = 65536  # bytes of a reply
NAME = re.compile(rb"saeta-[0-9]{1,10}-[0-9a-f]{32}")  # of the socket of a process
SIZES = struct.Struct("<QQ")  # bytes of a body and of its metadata


def request(kind: int, token: bytes) -> bytes:
    return struct.pack("<8sHB16s", b"SAETAIPC", 1, kind, token)


END_OF_LEASE = request(END, bytes(16))


def connect(broker: bytes) -> socket.socket:
    """Connects to the socket of a process. ConnectionRefusedError if it has ended."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        made.connect(b"\0" + broker)
    except OSError:
        made.close()
        raise
    return made


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receives a reply and its descriptors."""
    data, descriptors, _, _ = socket.recv_fds(connection, LARGEST, 4)
    return data, descriptors


@contextmanager
def limits(**given: float | str) -> Iterator[None]:
    """Sets limits of sharing in this process for a block."""
    _core._share_limits(**given)  # type: ignore[arg-type]
    try:
        yield
    finally:
        _core._share_limits()


class FalseBroker:
    """A process's socket that replies to each request by calling `answer`."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self.name = f"saeta-{os.getpid()}-{random.randbytes(16).hex()}".encode()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(b"\0" + self.name)
        self.listener.listen(8)
        self.answer = answer
        self.said = b""  # the request that is answered now
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                connection, _ = self.listener.accept()
                with connection, suppress(OSError):
                    self.said = connection.recv(4096)
                    self.answer(connection)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


@contextmanager
def sealed_file(content: bytes, sealed: bool = True) -> Iterator[int]:
    """A file in memory, of which nobody can change anything if it is sealed."""
    number = os.memfd_create("mutated", os.MFD_ALLOW_SEALING)
    try:
        os.write(number, content)
        if sealed:
            fcntl.fcntl(number, 1033, 15)  # F_ADD_SEALS
        yield number
    finally:
        os.close(number)
