"""Unit tests of the sharing broker (saeta._share): failing connections, pools and system calls."""

from __future__ import annotations

import gc
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
from saeta._share.weak import WeakValues  # noqa: E402
from saeta.cuda import _sharing  # noqa: E402


class Connection:
    """Stands in for a socket: returns `data`, or raises `failure`."""

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
    """A broker without a listening socket and without a thread."""
    made = _broker.Broker.__new__(_broker.Broker)
    made._exported, made._peers, made._silent, made._selector = WeakValues(), set(), {}, Selector()
    return made


def admitted(broker, connection):
    peer = _broker._Peer(connection)
    broker._admit(peer)
    return peer


def exported(broker, shared=b"shared"):
    entry = _broker.Exported(broker, "home", "kept", shared)
    broker.add(entry)
    return entry


def test_a_connection_without_data_stays_open(broker):
    peer = admitted(broker, Connection(failure=BlockingIOError()))
    broker._read(peer)
    assert peer in broker._peers
    assert not peer.connection.closed


@pytest.mark.parametrize("connection", [Connection(b""), Connection(failure=ConnectionResetError())])
def test_closing_a_connection_ends_its_lease(broker, connection):
    peer = admitted(broker, connection)
    peer.lease = exported(broker)
    broker._read(peer)
    assert (peer.connection.closed, peer.lease, broker._peers) == (True, None, set())
    assert broker._selector.known == []
    broker._drop(peer)


def test_a_connection_may_request_one_lease(broker):
    entry = exported(broker)
    peer = admitted(broker, Connection(_wire.request(_wire.OPEN, entry.token)))
    broker._read(peer)
    assert peer.connection.sent == [b"\0shared"]
    assert peer.lease is entry
    assert peer not in broker._silent
    broker._read(peer)
    assert peer.connection.closed, "a connection can hold only one lease"


def test_a_connection_can_be_reused_after_its_lease_has_ended(broker):
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


def message_to(server):
    """Returns the next message at the server's end of a connection: None if there is none, b"" if it is
    closed."""
    try:
        return server.recv(4096, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None


class Listener:
    """A listening socket of an exporter that never responds by itself."""

    def __init__(self, queue=64):
        self.name = b"saeta-1-" + os.urandom(16).hex().encode()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(b"\0" + self.name)
        self.socket.listen(queue)

    def pair(self):
        """Returns a new connection to the socket, and its server end."""
        ours = _core._Connection(self.name, 5.0)
        return ours, self.socket.accept()[0]


@pytest.fixture
def listener():
    made = Listener()
    with made.socket:
        yield made


class Exporter:
    """Stands in for an exporter: keeps the server ends of connections and replies to each request with its
    token."""

    def __init__(self, monkeypatch, listener):
        self.listener = listener
        self.ends = []
        self.answer = lambda token: token
        monkeypatch.setattr(_leases, "_idle", [])
        monkeypatch.setattr(_wire, "connect", self.connect)
        monkeypatch.setattr(_wire, "ask", lambda connection, _, token: (self.answer(token), []))

    def connect(self, broker):
        ours, theirs = self.listener.pair()
        self.ends.append(theirs)
        return ours


@pytest.fixture
def exporter(monkeypatch, listener):
    made = Exporter(monkeypatch, listener)
    yield made
    for each in made.ends:
        each.close()


def test_the_importer_reuses_idle_connections(exporter):
    for turn in range(3):
        lease, reply, _ = _leases.ask(b"broker", _wire.OPEN, bytes([turn]))
        assert reply == bytes([turn])
        del lease
    (end,) = exporter.ends
    assert [message_to(end) for _ in range(4)] == [_wire.END_OF_LEASE] * 3 + [None]
    other, *_ = _leases.ask(b"another", _wire.OPEN, b"")
    assert len(exporter.ends) == 2, "the idle connection belongs to another broker"
    first, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    second, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    assert len(exporter.ends) == 3, "each lease and each broker needs a connection"
    del first, second, other
    assert len(_leases._idle) == 3


def test_the_number_of_idle_connections_is_limited(exporter):
    held = [_leases.ask(b"broker", _wire.OPEN, b"")[0] for _ in range(20)]
    held.clear()
    assert len(_leases._idle) == 8
    assert [message_to(each) for each in exporter.ends] == [_wire.END_OF_LEASE] * 20
    assert [message_to(each) for each in exporter.ends].count(b"") == 12, "surplus connections are closed"


def test_a_closed_idle_connection_is_replaced(exporter):
    _leases.ask(b"broker", _wire.OPEN, b"")
    (end,) = exporter.ends
    assert message_to(end) == _wire.END_OF_LEASE

    def gone_once(token):
        exporter.answer = lambda token: token
        raise _wire.GoneError("ended")

    exporter.answer = gone_once
    assert _leases.ask(b"broker", _wire.OPEN, b"token")[1] == b"token"
    assert message_to(end) == b""
    assert len(exporter.ends) == 2


def test_a_request_is_retried_because_an_ended_exporter_may_have_handed_over(exporter):
    def ended(token):
        exporter.answer = lambda token: token
        raise _wire.EndedError("ended before it replied")

    exporter.answer = ended
    assert _leases.ask(b"broker", _wire.OPEN, b"token")[1] == b"token"
    assert len(exporter.ends) == 2


def test_the_connection_of_an_ended_exporter_is_not_kept(exporter):
    lease, *_ = _leases.ask(b"broker", _wire.OPEN, b"")
    assert not lease.ended()
    exporter.ends[0].close()
    assert lease.ended()
    del lease
    assert _leases._idle == []


def test_refusals_have_a_reason(broker):
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


def test_a_request_sent_with_the_connection_is_served_at_once(broker, monkeypatch):
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


def test_a_peer_that_closes_before_the_reply_is_dropped(broker):
    class Gone(Connection):
        def send(self, data):
            raise BrokenPipeError

    peer = admitted(broker, Gone(b"nonsense"))
    broker._read(peer)
    assert peer.connection.closed
    assert not broker._peers


@pytest.mark.parametrize("failure", [None, BrokenPipeError()])
def test_a_token_counts_as_received_after_its_reply_was_sent(broker, failure):
    """The sending process may exit as soon as all its tables have been received."""
    entry = exported(broker)
    broker._posted, broker._posted_lock = {}, threading.Lock()
    broker.post(entry)

    class Replied(Connection):
        def send(self, data):
            assert broker.posted()
            if failure is not None:
                raise failure

    broker._read(admitted(broker, Replied(_wire.request(_wire.TAKE, entry.token))))
    assert not broker.posted()


def test_the_reply_explains_a_pool_that_can_not_be_shared(broker, monkeypatch):
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


def test_the_descriptor_of_a_pool_is_sent_and_closed(broker, monkeypatch, listener):
    ours, theirs = listener.pair()
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(_core, "_share_pool", lambda home: write)
    with theirs:
        broker._send_pool(SimpleNamespace(connection=theirs), exported(broker))
        data, descriptors = _wire._receive(ours)
    assert data == bytes([_wire.DONE])
    (received,) = descriptors
    received.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)


def test_the_oldest_silent_connection_is_closed_for_a_new_one(broker, monkeypatch):
    monkeypatch.setattr(_broker, "_MOST_SILENT", 2)
    first, second = (admitted(broker, Connection()) for _ in range(2))
    entry = exported(broker)
    talking = admitted(broker, Connection(_wire.request(_wire.OPEN, entry.token)))
    assert (first.connection.closed, second.connection.closed) == (True, False)
    broker._read(talking)
    admitted(broker, Connection())
    assert not second.connection.closed
    assert not talking.connection.closed


def test_silent_connections_time_out(broker, monkeypatch):
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


def test_accept_is_retried_after_running_out_of_descriptors(broker, monkeypatch):
    naps, tries = [], []

    class Listener:
        def accept(self):
            tries.append(1)
            raise OSError("too many open files")

    broker._listener = Listener()
    monkeypatch.setattr(_broker, "time", SimpleNamespace(sleep=naps.append, monotonic=time.monotonic))
    broker._accept()
    assert (naps, tries) == ([0.01], [1])


def test_a_connection_of_another_user_is_refused(broker, listener, monkeypatch):
    broker._listener = listener.socket
    listener.socket.setblocking(False)
    monkeypatch.setattr(_wire, "peer_user", lambda connection: os.geteuid() + 1)
    connection = _core._Connection(listener.name, 5.0)
    broker._accept()
    text = f"the buffer was exported by user {os.geteuid()}, not by user {os.geteuid() + 1}"
    assert connection.receive(4096)[0] == bytes([_wire.FORBIDDEN]) + text.encode()
    assert not broker._peers


def test_the_number_of_connections_accepted_at_once_is_limited(broker, monkeypatch):
    monkeypatch.setattr(_broker, "_MOST_AT_ONCE", 3)
    monkeypatch.setattr(_wire, "peer_user", lambda connection: os.geteuid())
    blocking = []

    class Accepted(Connection):
        def setblocking(self, value):
            blocking.append(value)

    broker._listener = SimpleNamespace(accept=lambda: (Accepted(failure=BlockingIOError()), None))
    broker._accept()
    assert (len(broker._peers), blocking) == (3, [False] * 3)


def test_a_forked_child_closes_inherited_sockets():
    broker = _broker.Broker()
    broker._open_sockets()
    opened = [broker._listener, broker._wake_sender, broker._wake_receiver]
    peer = admitted(broker, inherited := socket.socketpair()[0])
    broker.abandon()
    assert [each.fileno() for each in (*opened, inherited)] == [-1] * 4
    assert broker._spare.number == -1
    assert peer.connection is inherited
    with pytest.raises(ValueError, match="closed"):
        broker._selector.select(0)


def test_a_forked_child_starts_with_a_new_broker(monkeypatch):
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


def test_a_forked_child_closes_connections_and_files(listener):
    ours, theirs = listener.pair()
    file = _core._memory_file("file")
    child = os.fork()
    if child == 0:
        os._exit(0 if (ours.fileno(), file.number) == (-1, -1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with theirs:
        assert message_to(theirs) is None, "the parent's connection must stay open"
        assert os.fstat(file.number).st_size == 0


def test_connecting_to_a_full_queue_times_out(monkeypatch):
    monkeypatch.setattr(_wire, "WAIT", 0.05)
    listener = Listener(queue=0)
    with listener.socket:
        waiting = _wire.connect(listener.name)
        with pytest.raises(OSError, match=r"has not replied for 0\.05 seconds"):
            _wire.connect(listener.name)
        waiting.close()


def pair_that_says(listener, *messages):
    ours, theirs = listener.pair()
    for data, descriptors in messages:
        socket.send_fds(theirs, [data], descriptors)
    return ours, theirs


def test_descriptors_received_with_a_refusal_are_closed(listener):
    read, write = os.pipe()
    ours, theirs = pair_that_says(listener, (bytes([_wire.FAILED]) + b"no", [write]))
    os.close(write)
    with theirs, pytest.raises(OSError, match=r"^no$"):
        _wire.ask(ours, _wire.POOL, bytes(16))
    assert os.read(read, 1) == b"", "the received descriptor must be closed"
    os.close(read)


def test_a_reply_is_read_although_the_connection_was_closed_with_an_unread_request(listener):
    """The kernel first reports an error for the unread request, and then returns the reply."""
    ours, theirs = listener.pair()
    ours.send(b"a request that nobody reads")
    theirs.send(b"a reply")
    theirs.close()
    assert _wire._receive(ours) == (b"a reply", [])


def test_each_kind_of_refusal_raises_its_exception(listener):
    for code, kind in (
        (_wire.FORBIDDEN, PermissionError),
        (_wire.GONE, _wire.GoneError),
        (_wire.FAILED, OSError),
    ):
        ours, theirs = pair_that_says(listener, (bytes([code]) + b"why \xff", []))
        with theirs, pytest.raises(OSError, match="why \ufffd") as refused:
            _wire.ask(ours, _wire.OPEN, bytes(16))
        assert type(refused.value) is kind


def test_the_error_names_an_exporter_that_ended_before_its_reply(listener):
    ours, theirs = listener.pair()
    theirs.close()
    with pytest.raises(OSError, match="the process that exported the buffer ended before it replied"):
        _wire.ask(ours, _wire.OPEN, bytes(16))


@pytest.mark.parametrize("number", [0, 2])
def test_the_reply_with_a_pool_must_have_one_descriptor(monkeypatch, number):
    connection = Connection()
    monkeypatch.setattr(_wire, "connect", lambda name: connection)
    monkeypatch.setattr(_wire, "ask", lambda *_: (b"", [7] * number))
    with pytest.raises(OSError, match="sent no descriptor of its pool"):
        _pools._Pool("home").get((b"broker", b"device"), bytes(16))
    assert connection.closed


def test_the_descriptor_of_a_pool_is_closed_if_the_import_fails(monkeypatch):
    connection = Connection()
    sent = [_core._memory_file("pool")]
    number = sent[0].number
    monkeypatch.setattr(_wire, "connect", lambda name: connection)
    monkeypatch.setattr(_wire, "ask", lambda *_: (b"", [sent.pop()]))

    def fail(home, descriptor):
        assert (home, descriptor) == ("home", number)
        raise RuntimeError("no pool")

    monkeypatch.setattr(_core, "_ImportedPool", fail)
    with pytest.raises(RuntimeError, match="no pool"):
        _pools._Pool("home").get((b"broker", b"device"), bytes(16))
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert connection.closed


def test_imported_pools_are_cached_by_broker_device_and_context(monkeypatch):
    monkeypatch.setattr(_pools, "_pools", {})
    key = (b"b", b"d")
    first = _pools._pool_of(key, "home")
    assert _pools._pool_of(key, "home") is first
    assert _pools._pool_of((b"b", b"e"), "home") is not first
    assert _pools._pool_of(key, "another") is not first
    assert _pools._pools[key].home == "another"


def test_requests_are_encoded_and_decoded():
    token = bytes(range(16))
    assert _wire.read_request(_wire.request(_wire.POOL, token)) == (_wire.POOL, token)
    assert _wire.read_request(_wire.request(_wire.OPEN, token)) == (_wire.OPEN, token)
    assert _wire.read_request(_wire.request(_wire.TAKE, token)) == (_wire.TAKE, token)
    assert _wire.read_request(_wire.request(_wire.POST, token)) == (_wire.POST, token)
    good = _wire.request(_wire.OPEN, token)
    for wrong in (good + b"!", good[:-1], b"X" + good[1:], _wire.request(4, token), _wire.request(0, token)):
        assert _wire.read_request(wrong) is None
    assert _wire.read_request(good[:8] + b"\2\0" + good[10:]) is None, "another protocol version is refused"


def test_each_broker_exports_the_same_memory_once(broker, monkeypatch):
    monkeypatch.setattr(_broker, "own", lambda: broker)
    monkeypatch.setattr(_core, "_share_bytes", lambda memory: f"shared {memory}".encode())
    kept = SimpleNamespace(size=5, _memory="memory")
    first = _sharing.export(kept, "home", None)
    assert (first.broker, first.home, first.kept, first.shared) == (broker, "home", kept, b"shared memory")
    assert broker.find(first.token) is first
    assert _sharing.export(kept, "home", first) is first
    other = _broker.Broker.__new__(_broker.Broker)
    other._exported = WeakValues()
    monkeypatch.setattr(_broker, "own", lambda: other)
    again = _sharing.export(kept, "home", first)
    assert again.broker is other
    assert other.find(again.token) is again
    assert _sharing.export(SimpleNamespace(size=0, _memory=None), "home", None).shared == b""
