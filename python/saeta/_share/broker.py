"""The broker: a thread that lets other processes open memory of this process and notices when they are done.

An export (a buffer of saeta.cuda, a shared table) keeps its memory while its handle or token lives, and while
another process has it open. A process that opens an export holds a lease: a connection that stays open. The
lease ends when the process says so or when the connection closes, for whatever reason. If the memory were
freed earlier, the driver's pool would reuse it while the other process still reads it.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from saeta import _core
from saeta._share import wire
from saeta._share.weak import WeakValues

# Commands and seals from <fcntl.h> of Linux, which Python does not name everywhere.
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8
SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE

_log = logging.getLogger("saeta.share")
_REQUEST_TIMEOUT = 10.0  # seconds until a connection without a request is closed
_MOST_SILENT = 64
# Length of the socket's queue. Any user can connect, so the queue holds more connections than can arrive
# while one is refused.
_MOST_WAITING = 512
_STARVATION = 10.0  # seconds without free descriptors until a request is answered with that failure
_MOST_AT_ONCE = 256  # connections that are accepted before the existing ones are served


def write_file(name: str, *contents: Any, seal: bool = False) -> _core._Descriptor:
    """Writes an unnamed file in memory. Its descriptor is closed with the result, and in children of fork.

    Args:
        contents: objects with the buffer protocol. Their bytes are written one after the other.
        seal: whether to make the file immutable for every process that gets its descriptor.
    """
    file = _core._memory_file(name)
    for content in contents:
        left = memoryview(content).cast("B")
        while left:
            left = left[os.write(file.number, left) :]
    if seal:
        fcntl.fcntl(file.number, F_ADD_SEALS, F_SEAL_SEAL | SEALS)
    return file


@dataclass(eq=False, slots=True, weakref_slot=True)
class Exported:
    """An export: bytes that other processes may open."""

    broker: Broker
    home: _core.Context
    kept: Any  # owns the bytes
    shared: bytes  # the reply to a process that opens the export; for device memory `_core._share_bytes`
    file: _core._Descriptor | None = None  # sent with the reply
    token: bytes = field(default_factory=partial(secrets.token_bytes, 16))


class _Peer:
    """A connection from another process, and the export that it has open."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.lease: Exported | None = None


class Broker:
    """The broker's socket and thread. `own` returns the one of this process.

    The thread makes the sockets, because Python handles signals in the main thread only. There, Ctrl-C could
    come between the creation of a descriptor and that of the object that closes it.
    """

    _spare: (
        _core._Descriptor
    )  # a descriptor that is closed to accept a connection when the process has no other
    _refused_since: float | None = None

    def __init__(self) -> None:
        self.name = f"saeta-{os.getpid()}-{secrets.token_hex(16)}".encode()
        self.user = os.geteuid()
        self._exported: WeakValues[bytes, Exported] = WeakValues()
        self._peers: set[_Peer] = set()
        self._silent: dict[_Peer, None] = {}  # peers that have sent no request yet, the oldest first
        self._posted: dict[bytes, tuple[Exported, int]] = {}  # with the number of tokens that are in transit
        self._posted_lock = threading.Lock()
        self._asked: deque[Callable[[], object]] = deque()
        self._opened = ExitStack()  # closes the sockets and the selector
        self._serving = threading.Lock()  # held by the thread while it runs
        self.ready = False  # whether the thread has opened the socket, or has failed to
        self._failed: OSError | None = None
        self._going_on = True

    def start(self) -> None:
        """Starts the thread and returns when it has opened the socket. Several threads may call it at once.

        Ctrl-C can interrupt any line. `threading.Thread` and its conditions have locks that would then stay
        locked, so the thread is started by `_thread` and polled.
        """
        if not self.ready:
            _thread.start_new_thread(self._serve, ())
            while not self.ready:
                time.sleep(0.001)
        if self._failed is not None:
            raise self._failed

    def _open_sockets(self) -> None:
        self._listener = self._closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        self._listener.bind(b"\0" + self.name)
        self._listener.listen(_MOST_WAITING)
        self._listener.setblocking(False)
        self._wake_sender, self._wake_receiver = map(self._closing, socket.socketpair())
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._spare = self._closing(_core._memory_file("saeta spare"))
        self._selector = self._closing(selectors.DefaultSelector())
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._run_requests)

    def _closing(self, opened: Any) -> Any:
        return self._opened.enter_context(closing(opened))

    def add(self, entry: Exported) -> None:
        self._exported[entry.token] = entry

    def post(self, entry: Exported) -> None:
        """Keeps an export until another process has opened it by a token that is now sent there."""
        with self._posted_lock:
            _, count = self._posted.get(entry.token, (entry, 0))
            self._posted[entry.token] = (entry, count + 1)

    def note_arrival(self, entry: Exported) -> None:
        """Notes that a posted token has arrived: the export was opened by it."""
        with self._posted_lock:
            _, count = self._posted.pop(entry.token, (entry, 0))
            if count > 1:
                self._posted[entry.token] = (entry, count - 1)

    def posted(self) -> bool:
        return bool(self._posted)

    def wait_for_arrivals(self, seconds: float) -> None:
        """Waits until all posted tokens have arrived, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self._posted and time.monotonic() < deadline:
            time.sleep(0.001)

    def retire(self) -> tuple[socket.socket, list[tuple[Exported, int]]]:
        """Ends the thread. Returns the socket, and each export whose tokens are in transit with their number.

        All connections are closed. Peers that wait for a reply connect again, to the process that gets the
        socket.
        """
        self._ask(self._end)
        if not self._serving.acquire(timeout=wire.WAIT):
            raise OSError("the thread of the broker does not end")
        return self._listener, list(self._posted.values())

    def _end(self) -> None:
        self._going_on = False
        for peer in list(self._peers):
            self._drop(peer)

    def find(self, token: bytes) -> Exported | None:
        return self._exported.get(token)

    def watch(self, connection: _core._Connection, ended: Callable[[], None]) -> None:
        """Calls `ended` and closes the connection when the other side has closed it."""

        def on_end() -> None:
            self._selector.unregister(connection)
            connection.close()
            ended()

        self._ask(lambda: self._selector.register(connection, selectors.EVENT_READ, on_end))

    def _ask(self, request: Callable[[], object]) -> None:
        """Runs a function on the broker's thread, later."""
        self._asked.append(request)
        with suppress(BlockingIOError):  # the socket is full, so the thread is woken already
            self._wake_sender.send(b"!")

    def abandon(self) -> None:
        """Closes everything in a child of fork.

        Peers wait for these sockets to close, which must happen with the parent.
        """
        self._opened.close()
        for peer in self._peers:
            peer.connection.close()

    def _serve(self) -> None:
        if not self._serving.acquire(blocking=False):
            return  # an interrupt has ended the first call of `start`
        threading.current_thread().name = "saeta broker"
        try:
            self._open_sockets()
        except OSError as failed:
            self._failed = failed
            self.abandon()
        self.ready = True
        try:
            while self._going_on and self._failed is None:
                self._poll()  # in its own function, because local variables here would keep a lease alive
        except OSError as failure:  # the program has closed all descriptors, as daemons do when they start
            _log.info("other processes can't open tables of this one any more: %s", failure)
        self._serving.release()

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

        Connections of other users are refused at once, so that they don't use up the places of connections
        of this user.
        """
        for _attempt in range(_MOST_AT_ONCE):
            try:
                connection, _sender = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as failed:
                # The peer is gone, or this process has no free descriptor. Connections stay in the queue and
                # are accepted by the next poll.
                self._note_refusal(failed)
                return
            self._refused_since = None
            connection.setblocking(False)
            user = wire.peer_user(connection)
            if user == os.geteuid():
                peer = _Peer(connection)
                self._admit(peer)
                self._read(peer)  # a peer usually sends its request right after it has connected
            else:
                _reject(connection, user)

    def _note_refusal(self, failed: OSError) -> None:
        """Waits for a free descriptor for `_STARVATION` seconds, then answers peers that there is none."""
        now = time.monotonic()
        since = self._refused_since = self._refused_since or now
        if failed.errno not in (errno.EMFILE, errno.ENFILE) or now - since < _STARVATION:
            time.sleep(0.01)
            return
        text = f"the process that exported the buffer can't open a connection: {failed.strerror}"
        self._spare.close()
        with suppress(OSError):  # another thread has used the descriptor that was just closed
            connection, _sender = self._listener.accept()
            with connection:
                connection.send(bytes([wire.FAILED]) + text.encode())
        with suppress(OSError):
            self._spare = _core._memory_file("saeta spare")

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
            files = [] if entry.file is None else [entry.file.number]
            try:
                socket.send_fds(peer.connection, [bytes([wire.DONE]) + entry.shared], files)
            finally:
                if kind == wire.TAKE:  # after the reply, because a process that waits for arrivals then ends
                    self.note_arrival(entry)
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
    """Returns the broker of this process. It starts on first use, and again after the process's user changed.

    Raises OSError if the system has no socket or descriptor for it.
    """
    global _own
    with _lock:
        if _own is None or _own.user != os.geteuid():
            _own = Broker()
        broker = _own
        if not broker.ready:
            try:
                broker.start()
            except OSError:
                _own = None
                raise
    return broker


def running() -> Broker | None:
    """Returns the broker of this process, None if it has not been started."""
    return _own


def _reset_in_child() -> None:
    global _lock, _own
    _lock = threading.Lock()
    if _own is not None:
        _own.abandon()
        _own = None


os.register_at_fork(after_in_child=_reset_in_child)
