"""Forked children: each has its own contexts, can read the host memory of its parent, and exits normally."""

from __future__ import annotations

import pytest

CHILDREN = 8

# `run(child)` forks while four threads of the parent allocate, and waits for the child. A child that exceeds
# the timeout is killed and counts as a failure.
PRELUDE = """
import os, signal, sys, threading, traceback, warnings
import numpy as np
import saeta as sa

warnings.simplefilter("ignore", DeprecationWarning)  # about fork in a multi-threaded process
ctx = sa.context("host")
source = np.arange(1 << 20)  # 8 MiB: more than one chunk, so that the staging ring uses its threads
column = sa.from_dlpack(source, ctx, copy=True)
view = sa.from_dlpack(source, ctx)
lent = np.from_dlpack(column)
kept = ctx.allocate(1 << 12, tag="kept")
stop = threading.Event()
running = threading.Barrier(5)

def load():
    for turn in range(1 << 60):
        made = [ctx.allocate(1 << (6 + turn % 12), tag=f"tag {turn % 50}") for _ in range(8)]
        sa.from_dlpack(source[:100], ctx, copy=True)
        for _ in range(20):
            column.__arrow_c_array__()
        del made
        if turn == 3:
            running.wait()
        if stop.is_set():
            return

threads = [threading.Thread(target=load) for _ in range(4)]
for thread in threads:
    thread.start()
running.wait()

def run(child, leave=os._exit):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            child()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        leave(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def finish(codes):
    stop.set()
    for thread in threads:
        thread.join()
    print(codes)
    sys.exit(any(codes))
"""

JOBS = {
    "a_context_of_the_host": """
def child():
    own = sa.context("host")
    made = sa.from_dlpack(source, own, copy=True)
    assert np.from_dlpack(made).sum() == source.sum()
    assert own.memory.statistics()["current"] >= source.nbytes
    del made
    own.memory.trim()
""",
    "the_context_that_it_inherited": """
def child():
    assert ctx == sa.context("host")
    before = ctx.memory.statistics()["current"]
    assert before == 0, before
    made = ctx.allocate(1 << 16, tag="child")
    assert ctx.memory.by_tag() == {"child": 1 << 16}
    repr(ctx), ctx.counters(), ctx.synchronize()
""",
    "columns_of_its_parent": """
def child():
    assert np.array_equal(np.from_dlpack(column), source)
    assert np.array_equal(column.to_numpy(), source)
    assert column[5] == 5 and column.slice(10, 20)[0] == 10
    assert np.array_equal(column.to_arrow().to_numpy(), source)
    assert np.array_equal(lent, source)
    with sa.use(reads=[kept]) as token:
        assert token.pointer(kept) == kept.address
    again = sa.from_dlpack(np.from_dlpack(column), copy=True)
    assert np.array_equal(again.to_numpy(), source)
""",
    "arrow_data": """
def child():
    again = sa.from_arrow(column)
    assert again[5] == 5 and len(again) == len(source)
    assert sa.from_arrow(again.slice(1, 2), copy=True).to_pylist() == [1, 2]
""",
    "nothing_but_drops": """
def child():
    global ctx, column, view, kept, lent
    del column, view, kept, lent, ctx
    import gc
    gc.collect()
""",
}


@pytest.mark.parametrize("job", JOBS)
def test_a_child_of_a_busy_process_can_work(run_python, job):
    done = run_python(PRELUDE + JOBS[job] + f"finish([run(child) for _ in range({CHILDREN})])")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_a_child_of_a_busy_process_exits_normally(run_python):
    """`sys.exit` runs the destructors of all objects that the child inherited."""
    done = run_python(
        PRELUDE
        + JOBS["a_context_of_the_host"]
        + f"""
codes = []
for _ in range({CHILDREN // 2}):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        stop.set()
        child()
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
finish(codes)
"""
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_forked_workers_share_a_table_that_the_parent_has_read(run_python, tmp_path):
    program = """
import multiprocessing, sys
import numpy as np
import saeta as sa

column = sa.from_dlpack(np.arange(1 << 20), sa.context("host"), copy=True)

def total(part):
    begin, end = part
    own = sa.from_dlpack(np.from_dlpack(column.slice(begin, end - begin)), sa.context("host"), copy=True)
    return int(own.to_numpy().sum())

if __name__ == "__main__":
    parts = [(row, row + (1 << 17)) for row in range(0, 1 << 20, 1 << 17)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        found = pool.map_async(total, parts).get(timeout=120)
    assert sum(found) == (1 << 19) * ((1 << 20) - 1), found
"""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_counts_the_nulls_of_slices_of_its_parents_columns(run_python):
    program = """
import os
import saeta as sa

column = sa.column([None if row % 3 == 0 else row for row in range(1000)], "host", name="x", type="int64")
pid = os.fork()
if pid == 0:
    print(column.slice(1, 100).null_count, column.slice(3, 8).null_count, flush=True)
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = run_python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "33 3\n", "")


def test_a_child_budget_of_the_parent_is_refused_in_a_forked_child(run_python):
    program = """
import os
import saeta as sa

child = sa.context("host").memory.child("part", 1 << 20)
pid = os.fork()
if pid == 0:
    try:
        child.allocate(64)
    except sa.DeviceError as refused:
        os._exit(0 if "forked process" in str(refused) else 1)
    os._exit(2)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_saeta_log_writes_a_file_for_each_process(run_python, tmp_path):
    program = """
import os
import saeta as sa

sa.context("host").allocate(64, tag="parent")
pid = os.fork()
if pid == 0:
    sa.context("host").allocate(64, tag="child")
    print(os.getpid(), flush=True)
    sa.context("host").close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    done = run_python(program, SAETA_LOG=f"csv:{tmp_path}/memory.csv", SAETA_STACK="logging, budget")
    assert (done.returncode, done.stderr) == (0, "")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"memory-host.csv", f"memory-host-{done.stdout.strip()}.csv"}
    owns = (tmp_path / "memory-host.csv").read_text()
    assert "parent" in owns
    assert "child" not in owns
    assert "child" in (tmp_path / f"memory-host-{done.stdout.strip()}.csv").read_text()


@pytest.mark.gpu
def test_cuda_is_refused_in_a_child_of_a_process_that_used_it(run_python):
    program = """
import os
import warnings
import saeta as sa

warnings.simplefilter("ignore", DeprecationWarning)  # about fork in a multi-threaded process
inherited = sa.context("cuda:0").allocate(64)
pid = os.fork()
if pid == 0:
    try:
        sa.context("cuda:0")
    except sa.DeviceError as refused:
        if "forked process" not in str(refused) or "spawn" not in str(refused):
            os._exit(1)
    else:
        os._exit(2)
    try:
        inherited.context.allocate(64)
    except sa.DeviceError:
        del inherited
        os._exit(0 if sa.devices()[0].name == "host" else 3)
    os._exit(4)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    import saeta as sa

    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")
