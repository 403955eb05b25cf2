"""The program that keeps sent tables of a process that has ended, until they are opened (`handover.py`).

It imports only the standard library, so that it starts within milliseconds and needs little memory. It
inherits the listening socket of the process and the files with the tables.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

_REQUEST_TIMEOUT = 1.0  # seconds; a request follows its connection at once


def main() -> None:
    told = json.load(sys.stdin)
    listener = socket.socket(fileno=told["listener"])
    answers = {bytes.fromhex(entry[kind]): entry for entry in told["kept"] for kind in ("take", "open")}
    deadline = time.monotonic() + told["seconds"]
    parent = _watch(told["parent"])
    waited_for: list[Any] = [listener] if parent is None else [listener, parent]
    while any(entry["count"] > 0 for entry in told["kept"]):
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            return
        ready, _, _ = select.select(waited_for, [], [], seconds)
        if parent in ready:
            return
        if ready:
            with suppress(OSError):  # the peer is gone
                _serve(listener, answers, bytes.fromhex(told["refusal"]))


def _watch(process: int | None) -> int | None:
    """Returns a descriptor that becomes readable when the process ends. None without a process."""
    return None if process is None else os.pidfd_open(process)


def _serve(listener: socket.socket, answers: dict[bytes, dict[str, Any]], refusal: bytes) -> None:
    """Answers one request. A request to take a table lowers the count of its tokens."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_REQUEST_TIMEOUT)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.geteuid():
            return
        request = connection.recv(4096)
        entry = answers.get(request)
        if entry is None:
            connection.send(refusal)
            return
        if request == bytes.fromhex(entry["take"]):
            entry["count"] -= 1
        socket.send_fds(connection, [bytes.fromhex(entry["reply"])], [entry["file"]])


if __name__ == "__main__":
    main()
