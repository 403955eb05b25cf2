"""The parts of the broker by themselves: what it does when a connection, a pool or the system fails."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from saeta import _core

cuda = pytest.importorskip("saeta.cuda")

from saeta._share import broker as _broker  # noqa: E402
from saeta._share import leases as _leases  # noqa: E402
from saeta._share import pools as _pools  # noqa: E402
from saeta._share import wire as _wire  # noqa: E402
from saeta.cuda import _sharing  # noqa: E402


class Connection:
    """A socket whose calls fail as they are told to."""

    def __init__(self, data=b"", failure=None):
        self.data = data
        self.failure = failure
        self.sent = []
        self.closed = False

    def recv(self, size):
        assert size == 4096
        if self.failure is not None:
            raise self.failure
        return self.data

    def send(self, data):
        if self.failure is not None:
            raise self.failure
        self.sent.append(data)

    def sendmsg(self, buffers, _):
        self.send(b"".join(buffers))

    def close(self):
        self.closed = True


class Selector:
    def __init__(self):
        self.known = []

    def register(self, connection, *_):
        self.known.append(connection)

    def unregister(self, connection):
        self.known.remove(connection)


@pytest.fixture
def broker():
    """A broker without a socket and a thread."""
    made = _broker.Broker.__new__(_broker.Broker)
    made._exported, made._peers, made._silent, made._selector = {}, set(), {}, Selector()
    return made


def admitted(broker, connection):
    peer = _broker._Peer(connection)
    broker._admit(peer)
    return peer


def exported(broker, shared=b"shared"):
    entry = _broker.Exported(broker, "home", "kept", shared)
    broker.add(entry)
    return entry


def test_what_may_come_later_is_waited_for(broker):
    peer = admitted(broker, Connection(failure=BlockingIOError()))
    broker._read(peer)
    assert peer in broker._peers
    assert not peer.connection.closed


@pytest.mark.parametrize("connection", [Connection(b""), Connection(failure=ConnectionResetError())])
def test_a_connection_that_ends_takes_its_lease_along(broker, connection):
    peer = admitted(broker, connection)
    peer.lease = exported(broker)
    broker._read(peer)
    assert (peer.connection.closed, peer.lease, broker._peers) == (True, None, set())
    assert broker._selector.known == []
    broker._drop(peer)


def test_a_request_is_answered_once(broker):
    entry = exported(broker)
    peer = admitted(broker, Connection(_wire.request(_wire.OPEN, entry.token)))
    broker._read(peer)
    assert peer.connection.sent == [b"\0shared"]
    assert peer.lease is entry
    assert peer not in broker._silent
    broker._read(peer)
    assert peer.connection.closed, "a connection holds one lease"


def test_a_connection_whose_lease_has_ended_serves_again(broker):
    entry = exported(broker)
    peer = admitted(broker, Connection(_wire.request(_wire.OPEN, entry.token)))
    broker._read(peer)
    peer.connection.data = _wire.END_OF_LEASE
    broker._read(peer)
    assert peer.lease is None
    assert not peer.connection.closed
    peer.connection.data = _wire.request(_wire.OPEN, entry.token)
    broker._read(peer)
    assert peer.lease is entry
    assert peer.connection.sent == [b"\0shared"] * 2


class Exporter:
    """Says how many connections it has been asked for, and answers every request with its token."""

    def __init__(self, monkeypatch):
        self.sockets = []
        monkeypatch.setattr(_leases, "_idle", [])
        monkeypatch.setattr(_wire, "connect", self.connect)
        monkeypatch.setattr(_wire, "ask", lambda connection, _, token: (connection.asked(token), []))

    def connect(self, broker):
        made = Connection()
        made.asked = lambda token: token
        self.sockets.append(made)
        return made


def test_a_connection_is_used_again_when_its_lease_has_ended(monkeypatch):
    exporter = Exporter(monkeypatch)
    for turn in range(3):
        lease, reply, _ = _leases.ask(b"broker", _wire.OPEN, bytes([turn]))
        assert reply == bytes([turn])
        del lease
    (connection,) = exporter.sockets
    assert connection.sent == [_wire.END_OF_LEASE] * 3
    first, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    second, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    other, *_ = _leases.ask(b"another", _wire.OPEN, b"")
    assert len(exporter.sockets) == 3, "one for each lease, and for each broker"
    del first, second, other
    assert len(_leases._idle) == 3


def test_few_connections_are_kept_without_a_lease(monkeypatch):
    exporter = Exporter(monkeypatch)
    held = [_leases.ask(b"broker", _wire.OPEN, b"")[0] for _ in range(20)]
    held.clear()
    assert [each.closed for each in exporter.sockets].count(False) == _leases._MOST_IDLE


def test_a_connection_that_ended_without_a_lease_is_replaced(monkeypatch):
    exporter = Exporter(monkeypatch)
    _leases.ask(b"broker", _wire.OPEN, b"")

    def gone(token):
        raise _wire.GoneError("ended")

    (first,) = exporter.sockets
    first.asked = gone
    assert _leases.ask(b"broker", _wire.OPEN, b"token")[1] == b"token"
    assert first.closed
    assert len(exporter.sockets) == 2


def test_a_lease_of_an_exporter_that_has_ended_closes_its_connection(monkeypatch):
    exporter = Exporter(monkeypatch)
    lease, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    (connection,) = exporter.sockets
    connection.failure = BrokenPipeError()
    del lease
    assert connection.closed
    assert _leases._idle == []


def test_a_lease_that_an_interrupt_left_without_a_connection_ends_silently():
    _leases.Lease.__new__(_leases.Lease).__del__()


def test_other_requests_are_refused_with_their_reasons(broker):
    for data, code, text in (
        (b"nonsense", _wire.FAILED, "does not know this request"),
        (_wire.request(_wire.OPEN, bytes(16)), _wire.GONE, "the buffer is not shared any more"),
    ):
        peer = admitted(broker, Connection(data))
        broker._read(peer)
        (reply,) = peer.connection.sent
        assert reply[0] == code
        assert text in reply[1:].decode()
        assert peer.connection.closed


def test_a_request_that_comes_with_its_connection_is_answered_at_once(broker, monkeypatch):
    entry = exported(broker)
    made = Connection(_wire.request(_wire.OPEN, entry.token))
    made.setblocking = lambda value: None
    waiting = [made]

    def accept():
        if not waiting:
            raise BlockingIOError
        return waiting.pop(), None

    monkeypatch.setattr(_wire, "peer_user", lambda connection: os.geteuid())
    broker._listener = SimpleNamespace(accept=accept)
    broker._accept()
    assert made.sent == [b"\0shared"]


def test_a_peer_that_is_gone_before_its_answer_is_dropped(broker):
    class Gone(Connection):
        def send(self, data):
            raise BrokenPipeError

    peer = admitted(broker, Gone(b"nonsense"))
    broker._read(peer)
    assert peer.connection.closed
    assert not broker._peers


def test_a_pool_that_can_not_be_shared_is_said(broker, monkeypatch):
    entry = exported(broker)
    peer = admitted(broker, Connection(_wire.request(_wire.POOL, entry.token)))

    def fail(home):
        assert home == "home"
        raise RuntimeError("no pool")

    monkeypatch.setattr(_core, "_share_pool", fail)
    broker._read(peer)
    assert peer.connection.sent == [
        bytes([_wire.FAILED]) + b"the pool of the buffer can't be shared: no pool"
    ]
    assert peer.connection.closed


def test_the_descriptor_of_a_pool_is_sent_and_closed(broker, monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(_core, "_share_pool", lambda home: write)
    with ours, theirs:
        broker._send_pool(SimpleNamespace(connection=ours), exported(broker))
        data, descriptors = _wire._receive(theirs)
    assert data == bytes([_wire.DONE])
    (received,) = descriptors
    os.close(received)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)


def test_the_longest_silent_connection_makes_room(broker, monkeypatch):
    monkeypatch.setattr(_broker, "_MOST_SILENT", 2)
    first, second = (admitted(broker, Connection()) for _ in range(2))
    entry = exported(broker)
    talking = admitted(broker, Connection(_wire.request(_wire.OPEN, entry.token)))
    assert (first.connection.closed, second.connection.closed) == (True, False)
    broker._read(talking)
    admitted(broker, Connection())
    assert not second.connection.closed
    assert not talking.connection.closed


def test_silent_connections_end_after_their_time(broker, monkeypatch):
    assert broker._timeout() is None
    first, second, third = (admitted(broker, Connection()) for _ in range(3))
    now = 1000.0
    monkeypatch.setattr(_broker, "time", SimpleNamespace(monotonic=lambda: now))
    first.since, second.since, third.since = 990.0, 995.0, 0.0
    del broker._silent[third]
    assert broker._timeout() == pytest.approx(0.01)
    first.since = 992.5
    assert broker._timeout() == pytest.approx(2.51)
    broker._selector.select = lambda timeout: []
    now = 1002.6
    broker._poll()
    assert [peer.connection.closed for peer in (first, second, third)] == [True, False, False]
    second.since = 0.0
    broker._poll()
    assert second.connection.closed
    assert broker._timeout() is None


def test_a_failed_connection_is_logged_and_the_others_are_served(broker, caplog):
    served = []

    def fail():
        raise ZeroDivisionError

    broker._selector.select = lambda timeout: [
        (SimpleNamespace(data=fail), 1),
        (SimpleNamespace(data=lambda: served.append(1)), 1),
    ]
    with caplog.at_level(logging.ERROR, "saeta.share"):
        broker._poll()
    assert served == [1]
    (record,) = caplog.records
    assert record.getMessage() == "a connection of another process failed"
    assert record.exc_info[0] is ZeroDivisionError


def test_when_no_descriptor_is_left_accepting_is_tried_again(broker, monkeypatch):
    naps, tries = [], []

    class Listener:
        def accept(self):
            tries.append(1)
            raise OSError("too many open files")

    broker._listener = Listener()
    monkeypatch.setattr(_broker, "time", SimpleNamespace(sleep=naps.append, monotonic=time.monotonic))
    broker._accept()
    assert (naps, tries) == ([0.01], [1])


def test_so_many_connections_are_accepted_at_once(broker, monkeypatch):
    monkeypatch.setattr(_broker, "_MOST_AT_ONCE", 3)
    monkeypatch.setattr(_wire, "peer_user", lambda connection: os.geteuid())
    blocking = []

    class Accepted(Connection):
        def setblocking(self, value):
            blocking.append(value)

    broker._listener = SimpleNamespace(accept=lambda: (Accepted(failure=BlockingIOError()), None))
    broker._accept()
    assert (len(broker._peers), blocking) == (3, [False] * 3)


def test_a_child_closes_what_it_inherited(broker):
    closed = []
    for name in ("_listener", "_wake_sender", "_wake_receiver", "_selector"):
        setattr(
            broker, name, SimpleNamespace(close=lambda name=name: closed.append(name), register=lambda *_: 0)
        )
    peer = admitted(broker, Connection())
    broker.abandon()
    assert sorted(closed) == ["_listener", "_selector", "_wake_receiver", "_wake_sender"]
    assert peer.connection.closed


def test_after_a_fork_a_process_begins_anew(monkeypatch):
    abandoned = []
    old = threading.Lock()
    monkeypatch.setattr(_broker, "_lock", old)
    monkeypatch.setattr(_broker, "_own", SimpleNamespace(abandon=lambda: abandoned.append(1)))
    _broker._reset_in_child()
    assert (abandoned, _broker._own) == ([1], None)
    assert _broker._lock is not old
    _broker._reset_in_child()
    assert abandoned == [1]
    monkeypatch.setattr(_pools, "_lock", old)
    monkeypatch.setattr(_pools, "_pools", {1: 2})
    _pools._reset_in_child()
    assert _pools._pools == {}
    assert _pools._lock is not old
    connection = Connection()
    monkeypatch.setattr(_wire, "_connections", {connection})
    _wire._reset_in_child()
    assert connection.closed
    assert not _wire._connections


def test_a_full_queue_is_tried_until_its_time_is_over(monkeypatch):
    tries, naps = [], []

    class Full(Connection):
        def settimeout(self, seconds):
            assert seconds == _wire.WAIT == 30

        def connect(self, name):
            tries.append(name)
            raise BlockingIOError

    made = Full()
    now = iter([100.0, 100.0, 130.0, 130.5])
    monkeypatch.setattr(_wire, "_connections", set())
    monkeypatch.setattr(_wire.socket, "socket", lambda *_: made)
    monkeypatch.setattr(_wire, "time", SimpleNamespace(sleep=naps.append, monotonic=lambda: next(now)))
    with pytest.raises(BlockingIOError):
        _wire.connect(b"name")
    assert (tries, naps, made.closed) == ([b"\0name"] * 3, [0.001] * 2, True)


def pair_that_says(*messages):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for data, descriptors in messages:
        socket.send_fds(theirs, [data], descriptors)
    return ours, theirs


def test_a_refusal_closes_the_descriptors_that_came_with_it():
    read, write = os.pipe()
    ours, theirs = pair_that_says((bytes([_wire.FAILED]) + b"no", [write]))
    os.close(write)
    with ours, theirs, pytest.raises(OSError, match=r"^no$"):
        _wire.ask(ours, _wire.POOL, bytes(16))
    assert os.read(read, 1) == b"", "no other end is open"
    os.close(read)


def test_the_kind_of_a_refusal_is_the_kind_of_its_error():
    for code, kind in (
        (_wire.FORBIDDEN, PermissionError),
        (_wire.GONE, _wire.GoneError),
        (_wire.FAILED, OSError),
    ):
        ours, theirs = pair_that_says((bytes([code]) + b"why \xff", []))
        with ours, theirs, pytest.raises(OSError, match="why \ufffd") as refused:
            _wire.ask(ours, _wire.OPEN, bytes(16))
        assert type(refused.value) is kind


def test_an_exporter_that_ends_before_it_replies_is_said():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours, pytest.raises(OSError, match="the process that exported the buffer ended before it replied"):
        _wire.ask(ours, _wire.OPEN, bytes(16))


@pytest.mark.parametrize("number", [0, 2])
def test_a_pool_comes_with_one_descriptor(monkeypatch, number):
    connection = Connection()
    monkeypatch.setattr(_wire, "connect", lambda name: connection)
    monkeypatch.setattr(_wire, "ask", lambda *_: (b"", [7] * number))
    with pytest.raises(OSError, match="sent no descriptor of its pool"):
        _pools._Pool("home").get((b"broker", b"device"), bytes(16))
    assert connection.closed


def test_a_pool_that_can_not_be_imported_closes_its_descriptor(monkeypatch):
    connection = Connection()
    read, write = os.pipe()
    monkeypatch.setattr(_wire, "connect", lambda name: connection)
    monkeypatch.setattr(_wire, "ask", lambda *_: (b"", [write]))

    def fail(home, descriptor):
        assert (home, descriptor) == ("home", write)
        raise RuntimeError("no pool")

    monkeypatch.setattr(_core, "_ImportedPool", fail)
    with pytest.raises(RuntimeError, match="no pool"):
        _pools._Pool("home").get((b"broker", b"device"), bytes(16))
    assert os.read(read, 1) == b""
    os.close(read)
    assert connection.closed


def test_pools_are_known_by_broker_device_and_context(monkeypatch):
    monkeypatch.setattr(_pools, "_pools", {})
    key = (b"b", b"d")
    first = _pools._pool_of(key, "home")
    assert _pools._pool_of(key, "home") is first
    assert _pools._pool_of((b"b", b"e"), "home") is not first
    assert _pools._pool_of(key, "another") is not first
    assert _pools._pools[key].home == "another"


def test_requests_are_read_as_they_are_made():
    token = bytes(range(16))
    assert _wire.read_request(_wire.request(_wire.POOL, token)) == (_wire.POOL, token)
    assert _wire.read_request(_wire.request(_wire.OPEN, token)) == (_wire.OPEN, token)
    assert _wire.read_request(_wire.request(_wire.TAKE, token)) == (_wire.TAKE, token)
    assert _wire.read_request(_wire.request(_wire.POST, token)) == (_wire.POST, token)
    good = _wire.request(_wire.OPEN, token)
    for wrong in (good + b"!", good[:-1], b"X" + good[1:], _wire.request(4, token), _wire.request(0, token)):
        assert _wire.read_request(wrong) is None
    assert _wire.read_request(good[:8] + b"\2\0" + good[10:]) is None, "another version"


def test_the_same_bytes_are_exported_once_by_each_broker(broker, monkeypatch):
    monkeypatch.setattr(_broker, "own", lambda: broker)
    monkeypatch.setattr(_core, "_share_bytes", lambda memory: f"shared {memory}".encode())
    kept = SimpleNamespace(size=5, _memory="memory")
    first = _sharing.export(kept, "home", None)
    assert (first.broker, first.home, first.kept, first.shared) == (broker, "home", kept, b"shared memory")
    assert broker.find(first.token) is first
    assert _sharing.export(kept, "home", first) is first
    other = _broker.Broker.__new__(_broker.Broker)
    other._exported = {}
    monkeypatch.setattr(_broker, "own", lambda: other)
    again = _sharing.export(kept, "home", first)
    assert again.broker is other
    assert other.find(again.token) is again
    assert _sharing.export(SimpleNamespace(size=0, _memory=None), "home", None).shared == b""
