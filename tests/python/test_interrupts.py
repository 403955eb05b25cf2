"""Ctrl-C ends the waits of the package: KeyboardInterrupt comes while the wait could last much longer."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A queue's `put` is C code: as a memory hook it tells the other thread that the main thread is about to wait, and runs no
# line of Python that could take the signal.
PRELUDE = """
import os, queue, signal, threading
import saeta as sa

ctx = sa.context("host", wait=86400)
about_to_wait = queue.SimpleQueue()

def interrupt():
    if about_to_wait.get() is not False:
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
"""

BUDGET = """
child = ctx.memory.child("small", 100)
held = child.allocate(100)
hook = ctx.memory.add_hook(about_to_wait.put, name="tell")
try:
    child.allocate(100)
except KeyboardInterrupt:
    print("interrupted")
assert child.memory.statistics()["current"] == 100
del held
child.allocate(100)
"""

READER = """
import io, sys
import pyarrow as pa

numbers = pa.table({"a": list(range(1000))})
sink = io.BytesIO()
with pa.ipc.new_file(sink, numbers.schema) as writer:
    writer.write_table(numbers)
reader = sa.ipc.module().open_bytes(sink.getvalue())
inside, leave = threading.Event(), threading.Event()

def hold(so_far):
    inside.set()
    leave.wait()

other = threading.Thread(target=lambda: reader.read_all(ctx, hold))
other.start()
inside.wait()
about_to_wait.put(None)
try:
    reader.read_all(ctx)
except KeyboardInterrupt:
    print("interrupted")
leave.set()
other.join()
"""

HOOK = """
about_to_wait.put(False)  # no signal comes
child = ctx.memory.child("small", 100)
held = child.allocate(100)

def ask(needed):
    raise KeyboardInterrupt

hook = ctx.memory.add_hook(ask, name="interrupted")
try:
    child.allocate(100)
except KeyboardInterrupt:
    print("interrupted")
"""

WAITS = {
    "for_the_budget": BUDGET,
    "after_a_hook_that_was_interrupted": HOOK,
    "for_a_reader_of_another_thread": READER,
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_the_wait(wait):
    if "ipc" in WAITS[wait]:
        pytest.importorskip("saeta._ipc", reason="this build has no IPC module")
    command = [sys.executable, "-c", PRELUDE + WAITS[wait]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
