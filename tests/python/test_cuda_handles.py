"""Serialized IPC handles of saeta.cuda and requests to an exporter: corrupt handles, other users, and peers
that send nothing or invalid requests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import saeta as sa
from cuda_module import cuda, simulated
from cuda_peer import Peer, RefusedError, handle
from saeta import _core
from share_wire import (
    DONE,
    FAILED,
    FORBIDDEN,
    OPEN,
    POOL,
    FalseBroker,
    connect,
    limits,
    receive,
    request,
)


@pytest.fixture(scope="module")
def some_handle() -> bytes:
    """The bytes of a handle whose memory is no longer shared, so that no changed handle can open it."""
    with simulated():
        return bytes(cuda.Context(0).buffer_from_data(b"abc").export_for_ipc().serialize())


def test_a_truncated_handle_is_refused(some_handle: bytes) -> None:
    for size in range(len(some_handle)):
        with pytest.raises(pa.ArrowInvalid, match="not a handle of device memory"):
            cuda.IpcMemHandle.from_buffer(pa.py_buffer(some_handle[:size]))
    with pytest.raises(pa.ArrowInvalid):
        cuda.IpcMemHandle.from_buffer(pa.py_buffer(some_handle + b"0"))
    for other in (None, 1, "abc"):
        with pytest.raises(TypeError):
            cuda.IpcMemHandle.from_buffer(other)


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_not_a_handle(data: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        cuda.IpcMemHandle.from_buffer(pa.py_buffer(data))


def test_a_handle_with_wrong_bytes_opens_nothing(some_handle: bytes) -> None:
    places = st.tuples(st.integers(0, len(some_handle) - 1), st.integers(0, 255))

    @given(st.lists(places, min_size=1, max_size=4))
    def check(changes: list[tuple[int, int]]) -> None:
        changed = bytearray(some_handle)
        for place, value in changes:
            changed[place] = value
        with pytest.raises((pa.ArrowInvalid, OSError)):
            ctx.open_ipc_buffer(cuda.IpcMemHandle.from_buffer(pa.py_buffer(bytes(changed))))

    with simulated():
        ctx = cuda.Context(0)
        check()


def test_serialize_accepts_a_memory_pool(some_handle: bytes) -> None:
    pool = pa.system_memory_pool()
    made = cuda.IpcMemHandle.from_buffer(pa.py_buffer(some_handle))
    before = pool.bytes_allocated()
    written = made.serialize(pool)
    assert pool.bytes_allocated() > before
    assert written.is_cpu
    assert bytes(written) == bytes(made.serialize()) == some_handle
    with simulated(), pytest.raises(TypeError, match="expected an IpcMemHandle, got bytes"):
        cuda.Context(0).open_ipc_buffer(some_handle)


def test_the_exporter_refuses_other_users() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with simulated(), Peer("sim") as importer:
        buffer = cuda.Context(0).buffer_from_data(b"abc")
        text = buffer.export_for_ipc().serialize().to_pybytes().hex()
        importer.run("os.setuid(65534)")
        with pytest.raises(RefusedError, match="was exported by user 0, this process is of user 65534"):
            importer.run(f"opened_handle({text!r})")
        name = handle(text)._handle.broker
        said = importer.run(f"""
import socket
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(b"\\0" + {name!r})
result = connection.recv(1000)
""")
        assert said == bytes([FORBIDDEN]) + b"the buffer was exported by user 0, not by user 65534"
        del buffer
    assert importer.errors == ""


def raw(text: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.connect(b"\0" + handle(text)._handle.broker)
    return made


def test_silent_connections_do_not_block_others() -> None:
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        silent = [raw(text) for _ in range(100)]
        assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
        assert silent[0].recv(100) == b"", "the first connection was closed for a later one"
        exporter.run("_core._share_limits(silent=0.1)")
        assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
        for each in silent:
            with contextlib.suppress(ConnectionError):
                assert each.recv(100) == b""
            each.close()
        assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"


def is_open(connection: socket.socket) -> bool:
    """Returns whether the peer has neither closed the connection nor sent bytes."""
    return select.select([connection], [], [], 0)[0] == []


def test_the_65th_silent_connection_closes_only_the_first() -> None:
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        silent = [raw(text) for _ in range(64)]
        served = ctx.open_ipc_buffer(handle(text))  # the 65th silent connection until it sends its request
        assert served.to_pybytes() == b"abc"
        assert [is_open(each) for each in silent] == [False] + 63 * [True]
        served = None
        for each in silent:
            each.close()


OTHER_USER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
held = []
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(b"\\0" + sys.argv[1].encode())
        held.append(connection)
    print(len(held), flush=True)
"""


def test_silent_connections_of_another_user_close_none_of_the_exporters_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        own = raw(text)
        name = handle(text)._handle.broker.decode()
        program = [sys.executable, "-c", OTHER_USER, name]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            before = exporter.run("result = len(os.listdir('/proc/self/fd'))")
            for count in (200, 400):
                other.stdin.write("200\n")
                other.stdin.flush()
                assert other.stdout.readline() == f"{count}\n"
                assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
                assert is_open(own)
            here = exporter.run("result = len(os.listdir('/proc/self/fd'))")
            assert here < before + 10, "it keeps connections of its own user alone"
            other.stdin.close()
        own.close()
    assert exporter.errors == ""


def test_a_handle_of_no_bytes_opens_an_empty_buffer() -> None:
    with Peer("sim") as exporter, simulated():
        text = exporter.run("made = ctx.buffer_from_data(b'')\nresult = export(made)")
        opened = cuda.Context(0).open_ipc_buffer(handle(text))
        assert (opened.size, opened.to_pybytes(), handle(text)._handle.size) == (0, b"", 0)
        assert opened.context.device_number == 0


def test_a_context_handle_of_0_is_the_default(monkeypatch: Any) -> None:
    with simulated():
        monkeypatch.setattr(sa._core, "_driver_context", lambda home: 0x77)
        assert [cuda.Context(0, handle=each).device_number for each in (0, 0x77)] == [0, 0]
        with pytest.raises(
            ValueError, match="context 0x1 is not the primary context of device 0, which is 0x77"
        ):
            cuda.Context(0, handle=1)


def test_a_buffer_is_exported_once_by_a_broker() -> None:
    """Another user, like a child of fork, gets a broker of its own. A child can't use a GPU of its parent."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    program = """
made = ctx.buffer_from_data(b"abc")
kept = made.export_for_ipc()
same = made.export_for_ipc()._handle == kept._handle
os.seteuid(65534)
again = made.export_for_ipc()._handle
own = _core._broker_name()
result = (same, again.broker == own, again.broker != kept._handle.broker,
          _core._find_shared(again.token) is not None, again.token != kept._handle.token)
os.seteuid(0)
"""
    with Peer("sim") as exporter:
        assert exporter.run(program) == (True, True, True, True, True)
    assert exporter.errors == ""


@pytest.mark.parametrize("said", [b"x", b"\0" * 27, b"SAETAIPC" + b"\xff" * 19, b"y" * 10_000])
def test_invalid_requests_are_refused(said: bytes) -> None:
    with Peer("sim") as exporter, simulated():
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        with raw(text) as talker:
            talker.send(said)
            reply = talker.recv(1000)
            assert reply[0] == FAILED
            assert b"does not know this request" in reply
            assert talker.recv(1000) == b""
        assert cuda.Context(0).open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
    assert exporter.errors == ""


def test_the_reply_of_an_exporter_is_validated() -> None:
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        known = handle(text)._handle
        with connect(known.broker) as connection:
            connection.send(request(OPEN, known.token))
            right = receive(connection)[0][1:]
        replied = right

        def answer(connection: socket.socket) -> None:
            connection.send(bytes([DONE]) + replied)

        false = FalseBroker(answer)
        other = cuda.IpcMemHandle._make(known._replace(broker=false.name))
        with pytest.raises(OSError, match="sent no descriptor of its pool"):
            ctx.open_ipc_buffer(other)

        def answer_or_forward(connection: socket.socket) -> None:
            if forwarding.said != request(POOL, known.token):
                return answer(connection)
            with connect(known.broker) as there:
                there.send(forwarding.said)
                data, descriptors = receive(there)
            socket.send_fds(connection, [data], descriptors)
            for each in descriptors:
                os.close(each)
            return None

        forwarding = FalseBroker(answer_or_forward)
        other = cuda.IpcMemHandle._make(known._replace(broker=forwarding.name))
        for numbers in [(1, 2, 0, 3), (1, 100, 98, 3), (1, 100, 2**64 - 1, 3)]:
            replied = right[:72] + b"".join(each.to_bytes(8, "little") for each in numbers)
            with pytest.raises(sa.FormatError, match=r"3 bytes at .* exceed an allocation of"):
                ctx.open_ipc_buffer(other)
        replied = right[8:]
        with pytest.raises(sa.FormatError, match="has 104 bytes, not 96"):
            ctx.open_ipc_buffer(other)
        replied = b"\0" * 72 + right[72:]
        with pytest.raises(sa.DeviceError, match="do not describe an allocation"):
            ctx.open_ipc_buffer(other)
        replied = right
        assert ctx.open_ipc_buffer(other).to_pybytes() == b"abc"
        assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
        _core._close_idle_connections()
        for each in (false, forwarding):
            each.close()
        exporter.run("del made\ngc.collect()")
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)"), "no lease has stayed"


def test_waiting_for_an_exporter_times_out() -> None:
    with limits(wait=0.2), Peer("sim") as exporter, simulated():
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        os.kill(exporter.pid, signal.SIGSTOP)
        os.waitpid(exporter.pid, os.WUNTRACED)  # until the process has stopped
        try:
            with pytest.raises(OSError, match=r"has not replied for 0.2 seconds"):
                cuda.Context(0).open_ipc_buffer(handle(text))
        finally:
            os.kill(exporter.pid, signal.SIGCONT)
        assert (
            exporter.run("del made\ngc.collect()\nresult = wait_until(lambda: ctx.bytes_allocated == 0)")
            is True
        )
