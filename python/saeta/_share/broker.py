"""The thread of a process that shares its memory with other processes, and learns when they are gone.

An export (a buffer of saeta.cuda, a shared table) stays in place as long as its handle or token, or another
process holds it. The open connection of another process stands for its hold. Without it the driver's pool
would reuse the memory while the process still sees it, so the buffer is kept until the process ends its
lease, or the connection ends, for whatever reason.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from saeta import _core
from saeta._share import wire

# Commands and seals from <fcntl.h> of Linux, which Python does not name everywhere.
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8
SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE

_log = logging.getLogger("saeta.share")
_REQUEST_TIMEOUT = 10.0  # seconds until a connection without a request is closed
_MOST_SILENT = 64
# Other users can fill the queue, so it has room for more connections than arrive while one is sent away.
_MOST_WAITING = 512
_MOST_AT_ONCE = 256  # connections that are accepted before the existing ones are served


class File:
    """An unnamed file in memory, whose descriptor is closed with the object, and in children of fork."""

    number = -1  # where the system refuses one

    def __init__(self, name: str) -> None:
        self.number = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        _files.add(self)

    def write(self, *contents: Any) -> None:
        """Writes all bytes of objects with the buffer protocol, one object behind the other."""
        left = [memoryview(each).cast("B") for each in contents]
        while left := [each for each in left if each]:
            written = os.writev(self.number, left)
            for i, each in enumerate(left):
                left[i] = each[written:]
                written = max(0, written - len(each))

    def seal(self) -> None:
        """Nobody can change the file any more, whoever has its descriptor."""
        fcntl.fcntl(self.number, F_ADD_SEALS, F_SEAL_SEAL | SEALS)

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            with suppress(OSError):  # a program that becomes a daemon has closed all descriptors
                os.close(number)

    def __del__(self) -> None:
        self.close()


_files: weakref.WeakSet[File] = weakref.WeakSet()


class Exported:
    """Bytes that other processes may open."""

    __slots__ = ("__weakref__", "broker", "file", "home", "kept", "shared", "token")

    def __init__(
        self, broker: Broker, home: _core.Context, kept: Any, shared: bytes, file: File | None = None
    ) -> None:
        self.broker = broker
        self.home = home
        self.kept = kept  # what keeps the bytes in place
        self.shared = shared  # what those who open it are told: of device memory `_core._share_bytes`
        self.file = file  # what they get a descriptor of
        self.token = secrets.token_bytes(16)


class _Peer:
    """A connection, and the export that it holds."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.lease: Exported | None = None


class Broker:
    """The socket of this process, and its thread. `own` returns the only one."""

    def __init__(self) -> None:
        self.name = f"saeta-{os.getpid()}-{secrets.token_hex(16)}".encode()
        self._exported: weakref.WeakValueDictionary[bytes, Exported] = weakref.WeakValueDictionary()
        self._peers: set[_Peer] = set()
        self._silent: dict[_Peer, None] = {}  # those that have not asked yet, the longest silent one first
        self._posted: dict[bytes, tuple[Exported, int]] = {}  # with the number of tokens on their way
        self._posted_lock = threading.Lock()
        self._asked: deque[Callable[[], object]] = deque()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(b"\0" + self.name)
        self._listener.listen(_MOST_WAITING)
        self._listener.setblocking(False)
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._run_requests)
        threading.Thread(target=self._serve, name="saeta broker", daemon=True).start()

    def add(self, entry: Exported) -> None:
        self._exported[entry.token] = entry

    def post(self, entry: Exported) -> None:
        """Keeps an export until its token, which is on the way to another process, has arrived."""
        with self._posted_lock:
            _, count = self._posted.get(entry.token, (entry, 0))
            self._posted[entry.token] = (entry, count + 1)

    def note_arrival(self, entry: Exported) -> None:
        """Notes that a token that was posted has arrived."""
        with self._posted_lock:
            _, count = self._posted.pop(entry.token, (entry, 0))
            if count > 1:
                self._posted[entry.token] = (entry, count - 1)

    def find(self, token: bytes) -> Exported | None:
        return self._exported.get(token)

    def watch(self, connection: socket.socket, ended: Callable[[], None]) -> None:
        """Calls `ended` and closes the connection when the other side has closed it."""

        def on_end() -> None:
            self._selector.unregister(connection)
            connection.close()
            ended()

        self._asked.append(lambda: self._selector.register(connection, selectors.EVENT_READ, on_end))
        with suppress(BlockingIOError):  # the socket is full, so the thread is woken already
            self._wake_sender.send(b"!")

    def abandon(self) -> None:
        """Closes everything in a child of fork.

        Peers wait for these sockets to close, which must happen with the parent.
        """
        self._selector.close()
        for each in (self._listener, self._wake_sender, self._wake_receiver):
            each.close()
        for peer in self._peers:
            peer.connection.close()

    def _serve(self) -> None:
        try:
            while True:
                self._poll()  # a function of its own: a local variable here would keep a lease alive
        except OSError as failure:  # the program has closed all descriptors, as one that becomes a daemon
            _log.info("other processes can't open tables of this one any more: %s", failure)

    def _poll(self) -> None:
        for key, _ in self._selector.select(self._timeout()):
            try:
                key.data()
            except Exception:
                _log.exception("a connection of another process failed")
        now = time.monotonic()
        while (peer := self._longest_silent()) and now - peer.since > _REQUEST_TIMEOUT:
            self._drop(peer)

    def _longest_silent(self) -> _Peer | None:
        return next(iter(self._silent), None)

    def _timeout(self) -> float | None:
        first = self._longest_silent()
        return None if first is None else max(0.0, first.since + _REQUEST_TIMEOUT - time.monotonic()) + 0.01

    def _run_requests(self) -> None:
        self._wake_receiver.recv(4096)
        while self._asked:
            self._asked.popleft()()

    def _accept(self) -> None:
        """Accepts waiting connections.

        Connections of other users are sent away at once, so that they can't take the places of the owner's
        connections.
        """
        for _attempt in range(_MOST_AT_ONCE):
            try:
                connection, _sender = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # The peer is gone, or no descriptor is left. The connections in the queue are tried again.
                time.sleep(0.01)
                return
            connection.setblocking(False)
            user = wire.peer_user(connection)
            if user == os.geteuid():
                peer = _Peer(connection)
                self._admit(peer)
                self._read(peer)  # the request mostly follows at once
            else:
                _reject(connection, user)

    def _admit(self, peer: _Peer) -> None:
        if len(self._silent) >= _MOST_SILENT:
            self._drop(next(iter(self._silent)))
        self._peers.add(peer)
        self._silent[peer] = None
        self._selector.register(peer.connection, selectors.EVENT_READ, lambda: self._read(peer))

    def _drop(self, peer: _Peer) -> None:
        if peer not in self._peers:  # dropped already, in the same poll
            return
        self._peers.discard(peer)
        self._silent.pop(peer, None)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        peer.lease = None

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data == wire.END_OF_LEASE:
            peer.lease = None
            return
        if not data or peer.lease is not None:  # a connection holds one lease
            self._drop(peer)
            return
        self._silent.pop(peer, None)
        try:
            self._reply(peer, data)
        except OSError:  # the peer is gone
            self._drop(peer)

    def _reply(self, peer: _Peer, data: bytes) -> None:
        asked = wire.read_request(data)
        if asked is None:
            self._refuse(peer, wire.FAILED, "the process that exported the buffer does not know this request")
            return
        kind, token = asked
        entry = self.find(token)
        if entry is None:
            self._refuse(
                peer,
                wire.GONE,
                "the buffer is not shared any more: its handle or the buffer that was exported must be kept "
                "until it is opened",
            )
        elif kind in (wire.OPEN, wire.TAKE):
            peer.lease = entry
            if kind == wire.TAKE:
                self.note_arrival(entry)
            files = [] if entry.file is None else [entry.file.number]
            socket.send_fds(peer.connection, [bytes([wire.DONE]) + entry.shared], files)
        elif kind == wire.POST:
            self.post(entry)
            peer.connection.send(bytes([wire.DONE]))
        else:
            self._send_pool(peer, entry)

    def _send_pool(self, peer: _Peer, entry: Exported) -> None:
        try:
            descriptor = _core._share_pool(entry.home)
        except Exception as failed:
            self._refuse(peer, wire.FAILED, f"the pool of the buffer can't be shared: {failed}")
            return
        try:
            socket.send_fds(peer.connection, [bytes([wire.DONE])], [descriptor])
        finally:
            os.close(descriptor)

    def _refuse(self, peer: _Peer, code: int, text: str) -> None:
        try:
            peer.connection.send(bytes([code]) + text.encode())
        finally:
            self._drop(peer)


def _reject(connection: socket.socket, user: int) -> None:
    text = f"the buffer was exported by user {os.geteuid()}, not by user {user}"
    with connection, suppress(OSError):
        connection.send(bytes([wire.FORBIDDEN]) + text.encode())


_lock = threading.Lock()
_own: Broker | None = None


def own() -> Broker:
    """Returns the broker of this process, which starts on first use."""
    global _own
    with _lock:
        if _own is None:
            _own = Broker()
        return _own


def _reset_in_child() -> None:
    global _lock, _own
    _lock = threading.Lock()
    for each in list(_files):
        each.close()
    if _own is not None:
        _own.abandon()
        _own = None


os.register_at_fork(after_in_child=_reset_in_child)
