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
from saeta._share import wire as _wire


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


def test_the_importer_checks_the_user_of_the_exporter(monkeypatch: Any) -> None:
    with Peer("sim") as exporter, simulated():
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        with pytest.raises(PermissionError, match="the buffer was exported by user"):
            cuda.Context(0).open_ipc_buffer(handle(text))


def test_the_exporter_refuses_other_users() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with simulated(), Peer("sim") as importer:
        buffer = cuda.Context(0).buffer_from_data(b"abc")
        text = buffer.export_for_ipc().serialize().to_pybytes().hex()
        importer.run("os.setuid(65534)")
        with pytest.raises(RefusedError, match="was exported by user 0, this process is of user 65534"):
            importer.run(f"opened_handle({text!r})")
        importer.run("os.geteuid = lambda: 0")
        with pytest.raises(RefusedError, match=r"PermissionError.*exported by user 0, not by user 65534"):
            importer.run(f"opened_handle({text!r})")
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
        exporter.run("_broker._REQUEST_TIMEOUT = 0.1")
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
            for count in (200, 400):
                other.stdin.write("200\n")
                other.stdin.flush()
                assert other.stdout.readline() == f"{count}\n"
                assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
                assert is_open(own)
            assert exporter.run("result = len(_broker.own()._peers)") < 10, "those of its own user"
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


def test_a_forked_child_exports_through_its_own_broker() -> None:
    program = """
made = ctx.buffer_from_data(b"abc")
kept = made.export_for_ipc()
_broker._own = None  # simulates a fork, because a forked child can't use a GPU
again = made.export_for_ipc()._handle
own = _broker.own()
result = (again.broker == own.name, again.broker != kept._handle.broker, own.find(again.token) is not None,
          export(made))
"""
    with Peer("sim") as exporter, simulated():
        *seen, text = exporter.run(program)
        assert seen == [True, True, True]
        assert cuda.Context(0).open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
    assert exporter.errors == ""


@pytest.mark.parametrize("said", [b"x", b"\0" * 27, b"SAETAIPC" + b"\xff" * 19, b"y" * 10_000])
def test_invalid_requests_are_refused(said: bytes) -> None:
    with Peer("sim") as exporter, simulated():
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        with raw(text) as talker:
            talker.send(said)
            reply = talker.recv(1000)
            assert reply[0] == _wire.FAILED
            assert b"does not know this request" in reply
            assert talker.recv(1000) == b""
        assert cuda.Context(0).open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
    assert exporter.errors == ""


def test_the_reply_of_an_exporter_is_validated(monkeypatch: Any) -> None:
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        exporter.run(
            "entry = made._exported\nright = entry.shared\n"
            "def with_numbers(*numbers):\n"
            "    entry.shared = right[:72] + b''.join(each.to_bytes(8, 'little') for each in numbers)\n"
        )
        for numbers in [(1, 2, 0, 3), (1, 100, 98, 3), (1, 100, 2**64 - 1, 3)]:
            exporter.run(f"with_numbers(*{numbers})")
            with pytest.raises(sa.FormatError, match=r"3 bytes at .* exceed an allocation of"):
                ctx.open_ipc_buffer(handle(text))
        exporter.run("entry.shared = right[8:]")
        with pytest.raises(sa.FormatError, match="has 104 bytes, not 96"):
            ctx.open_ipc_buffer(handle(text))
        exporter.run("entry.shared = b'\\0' * 72 + right[72:]")
        with pytest.raises(sa.DeviceError, match="do not describe an allocation"):
            ctx.open_ipc_buffer(handle(text))
        exporter.run("entry.shared = right")
        assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"abc"
        assert exporter.run(
            "result = wait_until(lambda: sum(each.lease is not None for each in _broker.own()._peers) == 0)"
        )


def test_waiting_for_an_exporter_times_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(_wire, "WAIT", 0.2)
    with Peer("sim") as exporter, simulated():
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
