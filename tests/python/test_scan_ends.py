"""How scans end: interrupted or closed while they wait, refused repeatedly, inherited by a forked child, or
waiting for memory that can no longer become free."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

ROWS = 100_000  # per batch, 800 kB


def _written(path, compression):
    table = pa.table({"a": np.arange(6 * ROWS)})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=ROWS)
    return str(path)


@pytest.fixture
def large(tmp_path):
    return _written(tmp_path / "large.arrow", None)


@pytest.fixture
def packed(tmp_path):
    """A compressed file, whose batches are read as a whole."""
    return _written(tmp_path / "packed.arrow", "lz4")


# A context whose requests wait for up to a day. A hook signals that a request is about to wait.
WAITING = """
import os, signal, sys, threading
import saeta as sa

ctx = sa.context("host", budget="1MiB", wait=86400)

def asked_for():
    asked = threading.Event()
    return asked, ctx.memory.add_hook(lambda _: asked.set(), name="asked")

def waiting_scan(path):
    asked, hook = asked_for()
    scan = sa.scan_ipc(open(path, "rb"), ctx, copy=True, in_flight=1)
    first = next(scan)
    asked.wait()
    return scan, first

def scanning():
    return [thread for thread in threading.enumerate() if thread.name == "saeta-scan"]
"""

# The same for a scan whose windows are smaller than the budget. Another allocation uses the rest of the
# budget.
WINDOWS = """
def waiting_scan(path):
    asked, hook = asked_for()
    scan = sa.scan_ipc(path, ctx, copy=True, in_flight=1)
    taken = [next(scan)]
    while ctx.memory.statistics()["current"] < 2 * taken[0].nbytes:
        pass
    taken.append(ctx.allocate(ctx.memory.statistics()["remaining"]))
    taken.append(next(scan))
    asked.wait()
    return scan, taken

def scanning():
    return []
"""

LEFT = """
def fail_in(scan):
    try:
        with scan:
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass

def interrupted(scan):
    # The main thread waits for a batch, and the scan's thread for memory.
    interrupt = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
    try:
        with scan:
            interrupt.start()
            next(scan)
    except KeyboardInterrupt:
        pass

for leave in (sa.Scan.close, fail_in, interrupted):
    scan, first = waiting_scan(sys.argv[1])
    leave(scan)
    assert scanning() == []
    try:
        next(scan)
    except sa.ClosedError:
        print(leave.__name__)
    del first
    assert ctx.memory.statistics()["current"] == 0
"""

DROPPED_WINDOWS = """
scan, taken = waiting_scan(sys.argv[1])
del scan, taken
assert ctx.memory.statistics()["current"] == 0
print("ended")
"""

DROPPED = """
scan, first = waiting_scan(sys.argv[1])
thread, = scanning()
del scan
thread.join()
print("ended")
"""

CHILD = """
held = ctx.allocate("900KiB")

def leave(child):
    with child:
        pass

def close_above(child):
    above.close()

for close in (sa.Context.close, leave, close_above):
    above = ctx.memory.child("session")
    child = above.memory.child("query")
    asked, hook = asked_for()
    results = []

    def ask():
        try:
            results.append(child.allocate("500KiB"))
        except sa.ClosedError as failure:
            results.append("refused")

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait()
    close(child)
    thread.join()
    print(results)
    assert ctx.memory.statistics()["current"] == 900 << 10
del held
assert ctx.allocate("500KiB").nbytes == 500 << 10, "others go on"
"""

NEVER = """
asked, hook = asked_for()
child = ctx.memory.child("query", "2MiB")
try:
    child.allocate("1025KiB")
except sa.BudgetExceeded as refused:
    print(refused.limit, asked.is_set())
"""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (LEFT, "close\nfail_in\ninterrupted\n"),
        (DROPPED, "ended\n"),
        (WINDOWS + LEFT, "close\nfail_in\ninterrupted\n"),
        (WINDOWS + DROPPED_WINDOWS, "ended\n"),
        (CHILD, "['refused']\n" * 3),
        (NEVER, f"{1 << 20} False\n"),
    ],
    ids=[
        "a_scan_that_is_left",
        "a_scan_that_is_dropped",
        "a_scan_by_windows_that_is_left",
        "a_scan_by_windows_that_is_dropped",
        "in_a_child_that_is_closed",
        "for_what_can_never_fit",
    ],
)
def test_a_wait_ends_when_it_is_abandoned_or_can_not_succeed(run_python, large, program, says):
    done = run_python(WAITING + program, large)
    assert (done.returncode, done.stdout, done.stderr) == (0, says, "")


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("source", ["file", "object"])
def test_a_scan_can_be_refused_repeatedly_and_continue(host, large, packed, copy, source):
    if source == "file" and copy is None:
        pytest.skip("views allocate no memory")
    host.memory.limit = int(1.5 * ROWS * 8)
    with Path(large).open("rb") as opened:
        scan = sa.scan_ipc(opened if source == "object" else packed, host, copy=copy, in_flight=1)
        held = [next(scan)]
        for _ in range(3):
            with pytest.raises(sa.BudgetExceeded):
                next(scan)
        held.clear()
        total = 0
        while (batch := next(scan, None)) is not None:
            total += batch.num_rows
            del batch
        assert total == 5 * ROWS
        assert next(scan, None) is None
        scan.close()


def test_a_closed_scan_keeps_no_batch(host, large):
    before = host.memory.statistics()["current"]
    scan = sa.scan_ipc(large, host, copy=True, in_flight=4)
    next(scan)
    scan.close()
    assert host.memory.statistics()["current"] == before


def _ended(thread):
    thread.join(20)
    return not thread.is_alive()


def test_a_scan_can_be_closed_while_its_thread_waits_for_memory(host, large):
    scan = sa.scan_ipc(large, host, in_flight=1)
    assert next(scan).num_rows == ROWS
    time.sleep(0.2)  # by now the thread has read the next batch and waits for memory
    closing = threading.Thread(target=scan.close, daemon=True)
    closing.start()
    assert _ended(closing)


class _Held(io.BytesIO):
    """A file whose reads block until it is released."""

    def __init__(self, content):
        super().__init__(content)
        self.held = threading.Event()
        self.held.set()

    def read(self, size=-1):
        self.held.wait()
        return super().read(size)


def test_closing_a_scan_raises_in_a_thread_that_waits_for_a_batch(host, large):
    source = _Held(Path(large).read_bytes())
    scan = sa.scan_ipc(source, host)
    source.held.clear()
    seen = []

    def take():
        try:
            seen.append(next(scan, "the end"))
        except sa.ClosedError as failure:
            seen.append(str(failure))

    waiting = threading.Thread(target=take, daemon=True)
    waiting.start()
    time.sleep(0.2)
    closing = threading.Thread(target=scan.close, daemon=True)
    closing.start()
    assert _ended(waiting)
    assert seen == ["the scan is closed"]
    source.held.set()
    assert _ended(closing)


def test_a_dropped_scan_keeps_no_batch_while_its_thread_still_reads(host, large):
    source = _HeldAtEnd(Path(large).read_bytes())
    scan = sa.scan_ipc(source, host, copy=True, in_flight=4)
    before = host.memory.statistics()["current"]
    assert next(scan).num_rows == ROWS
    assert source.asked.wait(60)
    assert host.memory.statistics()["current"] > before
    (thread,) = [each for each in threading.enumerate() if each.name == "saeta-scan"]
    del scan
    assert host.memory.statistics()["current"] == before
    assert thread.is_alive()
    source.held.set()
    assert _ended(thread)


class _HeldAtEnd(io.BytesIO):
    """A file whose reads of the last batches block until it is released."""

    def __init__(self, content):
        super().__init__(content)
        self.held, self.asked = threading.Event(), threading.Event()
        self._bytes = len(content)

    def read(self, size=-1):
        if 3 * ROWS * 8 < self.tell() < self._bytes - ROWS * 8:
            self.asked.set()
            self.held.wait()
        return super().read(size)


def test_a_batch_joined_of_two_windows_can_be_retried_after_a_refusal(host, large):
    rows = ROWS * 3 // 2
    host.memory.limit = 2 * rows * 8 - ROWS  # enough for two windows but not for a copy of their rows
    scan = sa.scan_ipc(large, host, copy=True, window=ROWS * 8, batch_size=rows, in_flight=1)
    for _ in range(2):
        with pytest.raises(sa.BudgetExceeded):
            next(scan)
    host.memory.limit = None
    found = [np.asarray(batch["a"].to_numpy()) for batch in scan]
    assert [len(each) for each in found] == [rows] * 4
    assert np.array_equal(np.concatenate(found), np.arange(6 * ROWS))
    scan.close()


def test_a_refused_batch_does_not_end_the_scan(host, packed):
    host.memory.limit = int(1.5 * ROWS * 8)
    scan = sa.scan_ipc(packed, host, in_flight=1)
    held = [next(scan)]
    with pytest.raises(sa.BudgetExceeded):
        next(scan)
    held.clear()
    assert scan.__arrow_c_stream__() is not None
    total = 0
    while (batch := next(scan, None)) is not None:
        total += batch.num_rows
        del batch
    assert total == 5 * ROWS
    with pytest.raises(sa.ClosedError, match="at its end"):
        scan.__arrow_c_stream__()
    scan.close()


FORK = """
import os, signal, sys
import saeta as sa

scan = sa.scan_ipc(sys.argv[1], "host", in_flight=1, copy=sys.argv[2] == "windows")
next(scan)
reader = sa._ipc.open_file(sys.argv[1])
child = os.fork()
if child == 0:
    signal.alarm(60)
    again = "the parent of this forked process: open its source again"
    for use, text in (
        (lambda: next(scan), f"the scan belongs to process {os.getppid()}, {again}"),
        (lambda: list(scan), f"the scan belongs to process {os.getppid()}, {again}"),
        (lambda: reader.next(sa.context("host")), f"the reader belongs to {again}"),
    ):
        try:
            use()
        except sa.ClosedError as failure:
            assert str(failure) == text, failure
        else:
            os._exit(1)
    scan.close()
    reader.close()
    with scan:
        pass
    assert sa.read_ipc(sys.argv[1], "host").num_rows == 600_000
    del scan, reader
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, sum(batch.num_rows for batch in scan), reader.next(sa.context("host")).num_rows)
"""


@pytest.mark.parametrize("batches", ["windows", "views"])
def test_a_scan_is_refused_in_a_forked_child_and_continues_in_the_parent(run_python, large, batches):
    done = run_python(FORK, large, batches, PYTHONWARNINGS="ignore")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 500000 100000\n", "")
