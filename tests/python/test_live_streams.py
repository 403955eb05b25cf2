"""Unusual sources: streams that are still being sent, objects that return text or nothing, and files that are
not at their start."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import io
import itertools
import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

TABLE = arrow_data.table(30)
SMALL = pa.table({"a": range(30)})  # fits into the buffer of any pipe
END = b"\xff\xff\xff\xff\0\0\0\0"


def stream_of(table=TABLE, chunk=10):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue()


def file_of(table=TABLE):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return sink.getvalue()


class Pipe(io.RawIOBase):
    """A raw file object that can't seek and returns at most `most` bytes per read."""

    def __init__(self, content, most=100):
        self.left = content
        self.most = most

    def readable(self):
        return True

    def readinto(self, target):
        most = min(self.most, len(target))
        part, self.left = self.left[:most], self.left[most:]
        target[: len(part)] = part
        return len(part)


def pipe_with(content):
    """Returns the reading end of a pipe that another thread fills. The writing end stays open."""
    reading, writing = os.pipe()
    sender = threading.Thread(target=os.write, args=(writing, content))
    sender.start()
    return os.fdopen(reading, "rb"), writing, sender


def test_batches_are_yielded_as_sent_and_the_read_ends_at_the_end_marker(host):
    whole = stream_of(SMALL)
    ends = [len(stream_of(SMALL.slice(0, rows))) - len(END) for rows in (10, 20, 30)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = ours.makefile("rb")
        theirs.sendall(whole[: ends[0]])
        with sa.scan_ipc(connection, host) as scan:
            assert scan.num_batches == -1
            assert next(scan).to_arrow().equals(SMALL.slice(0, 10)), "only the first batch has been sent"
            theirs.sendall(whole[ends[0] : ends[1]])
            assert next(scan).to_arrow().equals(SMALL.slice(10, 10))
            theirs.sendall(whole[ends[1] :] + b"the next query" + whole)
            assert next(scan).to_arrow().equals(SMALL.slice(20, 10))
            assert next(scan, None) is None
            assert next(scan, None) is None
        assert connection.read(14) == b"the next query"
        assert sa.read_ipc(connection, host).to_arrow().equals(SMALL), "the connection stays usable"


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_unseekable_sources_are_read_only_to_the_end_of_the_stream(anywhere, compression, tmp_path):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE, max_chunksize=10)
    whole = sink.getvalue()
    raw = Pipe(whole + b"rest")
    buffered = io.BufferedReader(Pipe(whole + b"rest"))
    packed = gzip.GzipFile(fileobj=Pipe(gzip.compress(whole + b"rest")))
    of_pyarrow = pa.PythonFile(Pipe(whole + b"rest"), "r")
    for source in (raw, buffered, packed, of_pyarrow):
        assert sa.read_ipc(source, anywhere).to_arrow().equals(TABLE)
        assert source.read(4) == b"rest"


def test_pipes_are_sources_by_object_and_by_path(host, tmp_path):
    whole = stream_of()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(whole,))
    writer.start()
    assert sa.read_ipc(fifo, host).to_arrow().equals(TABLE)
    writer.join()
    reading, writing, sender = pipe_with(whole)
    with reading:
        assert sa.read_ipc(f"/dev/fd/{reading.fileno()}", host).to_arrow().equals(TABLE)
    sender.join()
    os.close(writing)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = threading.Thread(target=theirs.sendall, args=(whole,))
        sending.start()
        assert sa.read_ipc(f"/proc/self/fd/{ours.fileno()}", host).to_arrow().equals(TABLE)
        sending.join()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdin.write(whole)  # the other process reads to the end of the stream
        other.stdin.close()
        assert [batch.num_rows for batch in sa.scan_ipc(other.stdout, host)] == [10, 10, 10]


STDIN = """
import sys
import saeta as sa
source = {"object": sys.stdin.buffer, "path": "/dev/stdin"}[sys.argv[1]]
print(sa.read_ipc(source, "host").num_rows, sys.stdin.buffer.read() if sys.argv[1] == "object" else "")
"""


@pytest.mark.parametrize("way", ["object", "path"])
def test_standard_input_is_a_source(way):
    done = subprocess.run(
        [sys.executable, "-c", STDIN, way], input=stream_of() + b"rest", capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split()[:1] == [b"30"]
    assert way == "path" or b"rest" in done.stdout


def test_a_file_that_can_not_seek_is_read_to_its_end(anywhere):
    assert sa.read_ipc(Pipe(file_of()), anywhere).to_arrow().equals(TABLE)
    some = sa.read_ipc(io.BufferedReader(Pipe(file_of())), anywhere, batches=slice(-1, None))
    assert some.to_arrow().equals(TABLE.slice(20, 10))
    with pytest.raises(sa.FormatError, match="truncated"):
        sa.read_ipc(Pipe(file_of()[:-1]), anywhere)


def test_batches_of_a_live_stream_are_selected_by_number(host):
    source = io.BufferedReader(Pipe(stream_of() + b"rest"))
    assert sa.read_ipc(source, host, batches=1).to_arrow().equals(TABLE.slice(10, 10))
    untouched = Pipe(stream_of())
    with pytest.raises(sa.InvalidError, match="the number of batches of a stream is unknown"):
        sa.read_ipc(untouched, host, batches=slice(0, 1))
    with pytest.raises(sa.ExchangeError, match="not in memory"):
        sa.read_ipc(Pipe(stream_of()), host, copy=False)


def test_a_stream_that_ends_inside_a_message_is_an_error_with_the_offset(host):
    end = len(stream_of(TABLE.slice(0, 10))) - len(END)
    with sa.scan_ipc(Pipe(stream_of()[: end + 50]), host) as scan:
        assert next(scan).num_rows == 10
        with pytest.raises(
            sa.FormatError, match=rf"Pipe: batch 1: the message at offset {end} has \d+ bytes"
        ):
            next(scan)
    assert len(list(sa.scan_ipc(Pipe(stream_of()[:end]), host))) == 1, "no error between messages"


class Odd:
    """An object whose `read` always returns the same value, or raises it."""

    def __init__(self, gives):
        self.gives = gives

    def read(self, size=-1):
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


class Sizeless:
    """An object whose `read` takes no argument."""

    def __init__(self, gives):
        self.gives = gives

    def read(self):
        return self.gives


def test_text_read_from_an_object_is_never_used_as_a_path(host, tmp_path):
    path = tmp_path / "secret.arrow"
    path.write_bytes(file_of())
    with path.open(encoding="latin-1") as opened, codecs.open(str(path), encoding="latin-1") as codec:
        for source in (Odd(str(path)), Sizeless(str(path)), io.StringIO(str(path)), opened, codec):
            for way in (sa.read_ipc, sa.scan_ipc):
                with pytest.raises(sa.TypeMismatch, match=r"returns text.*binary mode"):
                    way(source, host)
    for gives in (7, Ellipsis, [str(path)], path):
        with pytest.raises(sa.TypeMismatch, match="expected bytes"):
            sa.read_ipc(Odd(gives), host)
    assert sa.read_ipc(Sizeless(file_of()), host).to_arrow().equals(TABLE)
    done = subprocess.run(
        [sys.executable, "-c", "import sys, saeta as sa; sa.read_ipc(sys.stdin, 'host')"],
        input=str(path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "TypeMismatch: read() of '<stdin>' returns text" in done.stderr


def test_errors_for_non_blocking_sources_and_oversized_reads(host):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering=0) as raw, os.fdopen(writing, "wb"):
        for source in (raw, io.BufferedReader(raw), Odd(None), Odd(BlockingIOError(11, "no bytes"))):
            with pytest.raises(sa.FileError, match="is non-blocking and has no bytes now"):
                sa.read_ipc(source, host)
            if isinstance(source, io.BufferedReader):
                source.detach()
    with pytest.raises(sa.FileError, match="returned 100 bytes when 4 were requested"):
        sa.read_ipc(Odd(b"x" * 100), host)
    with pytest.raises(ConnectionResetError):
        sa.read_ipc(Odd(ConnectionResetError(104, "reset")), host)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"PAR1" + bytes(100), "Parquet.*read_parquet"),
        (b"FEA1" + bytes(100), "Feather V1"),
        (gzip.compress(b"x" * 100), "gzip"),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "Zstandard"),
        (b"id,name\n1,a\n", "CSV"),
        (b'{"id": 1}\n', "JSON"),
        (b"", "empty"),
    ],
)
def test_the_error_names_the_format_of_any_other_source(host, tmp_path, content, name):
    path = tmp_path / "other"
    path.write_bytes(content)
    for source in (lambda: path, lambda: content, lambda: io.BytesIO(content), lambda: Pipe(content)):
        with pytest.raises(sa.FormatError, match=name):
            sa.read_ipc(source(), host)
        with pytest.raises(sa.FormatError, match=name):
            sa.ipc.inspect(source())


def test_every_source_can_be_inspected(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(file_of())
    expected = sa.ipc.inspect(path)
    for source in (str(path), file_of(), io.BytesIO(file_of()), Pipe(file_of())):
        assert sa.ipc.inspect(source) == expected
    source = io.BufferedReader(Pipe(stream_of() + b"rest"))
    seen = sa.ipc.inspect(source)
    assert seen == {**sa.ipc.inspect(stream_of()), "bytes": len(stream_of())}
    assert source.read() == b"rest"


# Interrupting or closing while a read waits for bytes.

CTRL_C = """
import io, os, signal, sys, threading
import saeta as sa

interrupted = threading.Event()

def once(*_):
    if not interrupted.is_set():
        interrupted.set()
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, once)
reading, writing = os.pipe()
os.write(writing, bytes.fromhex(sys.argv[1]))
asked = threading.Event()

class Source(io.RawIOBase):
    def readable(self): return True
    def readinto(self, target):
        if self.left == 0:
            asked.set()
        got = os.readv(reading, [target])
        self.left -= got
        return got

source = Source()
source.left = len(bytes.fromhex(sys.argv[1]))

def interrupt():
    asked.wait()
    while not interrupted.wait(0.05):  # a signal just before the wait is lost
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
seen = []
try:
    with sa.scan_ipc(source, "host") as scan:
        for batch in scan:
            seen.append(batch.num_rows)
except KeyboardInterrupt:
    print("interrupted", seen)
"""


def test_ctrl_c_ends_the_wait_for_bytes():
    sent = stream_of(SMALL)[: -len(END)]
    command = [sys.executable, "-c", CTRL_C, sent.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted [10, 10, 10]\n", "")


def test_a_live_scan_is_closed_while_another_thread_waits_for_it(host):
    reading, writing, sender = pipe_with(stream_of(SMALL)[: -len(END)])
    sender.join()
    waits = threading.Event()

    class Source:
        def read(self, size):
            if size == 4 and self.left == 0:
                waits.set()
            part = os.read(reading.fileno(), size)
            self.left -= len(part)
            return part

    source = Source()
    source.left = len(stream_of(SMALL)) - len(END)
    scan = sa.scan_ipc(source, host)
    rows, failures = [], []

    def take():
        try:
            rows.extend(batch.num_rows for batch in scan)
        except sa.ClosedError as failure:
            failures.append(failure)

    taker = threading.Thread(target=take)
    taker.start()
    assert waits.wait(60)
    scan.close()
    with pytest.raises(sa.ClosedError):
        next(scan)
    os.close(writing)
    taker.join()
    reading.close()
    assert rows == [10, 10, 10]
    assert not failures or "closed" in str(failures[0])


def test_a_live_stream_is_scanned_asynchronously(host):
    async def read():
        return [batch.num_rows async for batch in sa.scan_ipc(Pipe(stream_of()), host)]

    assert asyncio.run(read()) == [10, 10, 10]


def test_a_refused_live_batch_can_be_requested_again(host):
    numbers = pa.table({"a": np.arange(60_000)})
    host.memory.limit = int(1.5 * 10_000 * 8)
    scan = sa.scan_ipc(Pipe(stream_of(numbers, 10_000), 5000), host)
    kept = next(scan)
    with pytest.raises(sa.BudgetExceeded):
        next(scan)
    with pytest.raises(sa.BudgetExceeded):
        next(scan)
    del kept
    total = 0
    for batch in scan:
        total += int(batch["a"].to_numpy().sum())
        del batch
    assert total == sum(range(10_000, 60_000))


def test_an_fsspec_file_is_read_from_its_position(host, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "joined"
    for content in (file_of(), stream_of()):
        path.write_bytes(b"a header of somebody" + content)
        for name, options in (("file", {}), ("memory", {})):
            fs = fsspec.filesystem(name, **options)
            where = str(path) if name == "file" else "/joined"
            if name == "memory":
                fs.pipe_file(where, path.read_bytes())
            with fs.open(where, "rb") as file:
                file.seek(20)
                assert sa.read_ipc(file, host).to_arrow().equals(TABLE)


def test_a_pyarrow_file_is_read_from_its_position(host, tmp_path):
    path = tmp_path / "joined"
    for content in (file_of(), stream_of()):
        path.write_bytes(b"a header of somebody" + content)
        with pa.OSFile(str(path)) as file:
            file.seek(20)
            assert sa.read_ipc(file, host).to_arrow().equals(TABLE)


def test_progress_never_decreases(anywhere, tmp_path):
    path = tmp_path / "many.arrow"
    for compression in (None, "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        numbers = pa.table({"a": np.arange(3_000_000), "s": [f"{i}" for i in range(1000)] * 3000})
        with pa.ipc.new_file(path, numbers.schema, options=options) as writer:
            writer.write_table(numbers, max_chunksize=100_000)
        for options in ({}, {"copy": True}, {"combine_chunks": True}, {"batches": (3, 20)}):
            told = []
            sa.read_ipc(
                path,
                anywhere,
                progress=lambda now, told=told: told.append((now.batches, now.rows, now.bytes)),
                **options,
            )
            count = 17 if "batches" in options else 30
            assert told[-1][:2] == (count, count * 100_000)
            for before, after in itertools.pairwise(told):
                assert all(a <= b for a, b in zip(before, after, strict=True)), (before, after)
