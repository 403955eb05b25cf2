"""Interpreter shutdown while daemon threads run code of the package: the process must exit normally."""

from __future__ import annotations

import pytest

RUNS = 30

PROGRAM = """
import sys, threading
import numpy as np
import saeta as sa

ctx = sa.context("host")
source = np.arange(1 << 12)
path = sys.argv[2]

def allocate():
    ctx.allocate(1 << 12, tag="loop")

def exchange():
    np.from_dlpack(sa.from_dlpack(source, ctx, copy=True))

def read():
    sa.read_ipc(path, ctx, progress=lambda so_far: None)["a"].to_numpy()

class Producer:
    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **wanted):
        return source.__dlpack__(**{**wanted, "copy": None})

def produce():
    sa.from_dlpack(Producer(), ctx)
    with sa.use(reads=(made for made in [ctx.allocate(64)])) as token:
        token.pointer

def refuse():
    with ctx.memory.child("small", 100) as child:
        try:
            child.allocate(101)
        except sa.BudgetExceeded:
            pass

def hook():
    with ctx.memory.child("hooked", 100) as child:
        with child.memory.add_hook(lambda needed: sum(range(99)) * 0, name="hook"):
            try:
                child.allocate(101)
            except sa.BudgetExceeded:
                pass

work = globals()[sys.argv[1]]
running = threading.Barrier(5)

def loop():
    for _ in range(3):
        work()
    running.wait()
    while True:
        work()

for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
running.wait()
"""


@pytest.mark.parametrize("work", ["allocate", "exchange", "read", "produce", "refuse", "hook"])
def test_daemon_threads_inside_the_package_do_not_change_the_exit(run_python, tmp_path, work):
    import pyarrow as pa

    path = tmp_path / "numbers.arrow"
    numbers = pa.table({"a": list(range(1000))})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, numbers.schema) as writer:
        writer.write_table(numbers)
    for _ in range(RUNS // 6):
        done = run_python(PROGRAM, work, str(path))
        assert (done.returncode, done.stderr) == (0, "")


def test_objects_alive_at_exit_are_not_reported_as_leaks(run_python):
    program = """
import sys
import numpy as np
import saeta as sa

ctx = sa.context("host")
sys.modules["kept"] = [ctx, sa.from_dlpack(np.arange(9), ctx), ctx.allocate(64)]
kept = sys.modules["kept"]
kept.append(kept)
import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
"""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_closed_all_descriptors_exits_silently(run_python):
    program = '''
import io, os, subprocess, sys
import saeta as sa

OTHER = """
import sys
import saeta as sa
kept = sa.table({"a": [1]}, "host").share()
print(kept.to_bytes().hex(), flush=True)
sys.stdin.read()
"""

table = sa.table({"a": list(range(9))}, "host")
shared = table.share()
read_end, write_end = os.pipe()
os.write(write_end, table.to_ipc_bytes(format="stream"))
scan = sa.scan_ipc(f"/dev/fd/{read_end}", "host")
next(scan)
command = [sys.executable, "-c", OTHER]
exporter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
token = sa.SharedTable.from_bytes(bytes.fromhex(exporter.stdout.readline()))
opened = sa.open_shared(token)
os.closerange(3, 256)  # like a program that daemonizes
print("done", flush=True)
del opened, scan, shared
'''
    done = run_python(program)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("done", "", 0)
