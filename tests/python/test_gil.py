"""Calls that move data release the GIL."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The import exceeds the budget until another thread frees memory, for which it needs the GIL. The hook of the
# main thread is `put`, which is C code and does not release the GIL.
IMPORT = """
import queue, sys, threading
import numpy as np
import pyarrow as pa
import saeta as sa

ctx = sa.context("host", wait=86400)
child = ctx.memory.child("small", 10_000)
held = [child.allocate(10_000)]
asked = queue.SimpleQueue()

def free():
    asked.get()
    held.clear()

source = np.arange(1000)
other = threading.Thread(target=free)
other.start()
with ctx.memory.add_hook(asked.put, name="tell"):
    made = {call}
other.join()
assert np.array_equal(made.to_numpy(), source)
"""

# A huge switch interval keeps the interpreter from switching threads, so the other thread runs only while a
# call has released the GIL. `progress` itself does not release it. On a busy machine a file may be complete
# before the other thread is scheduled, so the program tries several files.
WRITE = """
import queue, sys, threading
import pyarrow as pa
import saeta as sa

ctx = sa.context("host")
rows = pa.table({"a": pa.array(range(1 << 16), pa.int64())})
table = sa.from_arrow(pa.concat_tables([rows] * 150), ctx)
turns = queue.SimpleQueue()
steps = []

def follow():
    while turns.get():
        steps.append(None)

sys.setswitchinterval(1000)
other = threading.Thread(target=follow)
other.start()
seen = []

def progress(so_far):
    turns.put(True)
    seen.append(len(steps))

for _ in range(50):
    seen.clear()
    table.write_ipc(sys.argv[1], progress=progress, durable=False)
    assert len(seen) >= 150, len(seen)
    if seen[-1] > seen[0]:
        break
else:
    raise AssertionError("no other thread ran during the calls")
turns.put(False)
other.join()
"""


def run(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "call",
    [
        "sa.from_arrow(pa.array(source), child, copy=True)",
        "sa.from_arrow(pa.chunked_array([source]), child, copy=True)",
        "sa.from_dlpack(source, child, copy=True)",
    ],
)
def test_other_threads_run_while_an_import_waits(call):
    done = run(IMPORT.replace("{call}", call))
    assert (done.returncode, done.stderr) == (0, "")


def test_other_threads_run_while_a_file_is_written(tmp_path):
    done = run(WRITE, str(tmp_path / "out.arrow"))
    assert (done.returncode, done.stderr) == (0, "")
