"""Every environment variable has its effect, tested in new processes."""

from __future__ import annotations

import pytest

PRELUDE = """
import sys
import saeta as sa

ctx = sa.context(sys.argv[1] if len(sys.argv) > 1 else "host")
"""
MIB = 1 << 20


@pytest.fixture
def shown(run_python):
    """A function that runs a program after a prelude and returns the words that it printed."""

    def run(program, *arguments, **environment):
        done = run_python(PRELUDE + program, *arguments, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return run


def test_saeta_budget_limits_what_is_allocated(shown):
    program = """
try:
    ctx.allocate(2 << 20)
    print("allocated")
except sa.BudgetExceeded as refused:
    print(refused.limit)
"""
    assert shown(program, SAETA_BUDGET="1MiB") == [str(MIB)]
    assert shown(program) == ["allocated"]


def test_saeta_budget_wait_lets_a_request_wait_until_others_free(shown):
    program = """
import queue, threading

child = ctx.memory.child("small", 100)
asked = queue.SimpleQueue()
hook = ctx.memory.add_hook(asked.put, name="tell")
outcomes = set()
for _ in range(20):
    held = [child.allocate(100)]

    def free():
        asked.get()
        held.clear()

    other = threading.Thread(target=free)
    other.start()
    try:
        child.allocate(100)
        outcomes.add("allocated")
    except sa.BudgetExceeded:
        outcomes.add("refused")
    other.join()
print(*outcomes, ctx.options["wait"])
"""
    assert shown(program, SAETA_BUDGET_WAIT="100000") == ["allocated", "100.0"]
    assert shown(program)[-1] == "0.0"


def test_saeta_resource_chooses_where_memory_comes_from(shown):
    program = """
made = ctx.allocate(1 << 16)
del made
ctx.synchronize()
print(ctx.memory.statistics()["held"])
"""
    assert shown(program, SAETA_RESOURCE="direct") == ["0"]
    assert int(*shown(program, SAETA_RESOURCE="caching")) > 0
    assert int(*shown(program)) > 0


def test_saeta_stack_chooses_the_decorators(shown, run_python):
    program = """
made = ctx.allocate(100)
with sa.use(writes=[made]) as token:
    import ctypes
    ctypes.memset(token.pointer(made), 0, 101)
print(len(ctx.memory.guard_check()))
"""
    done = run_python(PRELUDE + program, SAETA_STACK="budget, guard, direct")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "bytes behind it were overwritten" in done.stderr
    assert shown('print("guard" in ctx.options["stack"])') == ["False"]


def test_saeta_guard_detects_overruns_and_quarantines_freed_memory(shown):
    program = """
made = ctx.allocate(1 << 16)
del made
ctx.synchronize()
print(ctx.memory.statistics()["held"] >> 16, ctx.memory.guard_check())
"""
    assert shown(program, SAETA_RESOURCE="direct", SAETA_GUARD="1MiB") == ["1", "[]"]
    assert shown(program, SAETA_RESOURCE="direct", SAETA_GUARD="0") == ["0", "[]"]


def test_saeta_log_writes_every_event_to_files(shown, tmp_path):
    files = f"csv:{tmp_path}/memory.csv;jsonl:{tmp_path}/memory.jsonl"
    shown('ctx.allocate(100, tag="a tag of mine")', SAETA_LOG=files)
    assert {path.name for path in tmp_path.iterdir()} == {"memory-host.csv", "memory-host.jsonl"}
    for path in tmp_path.iterdir():
        assert path.read_text().count("a tag of mine") >= 2, "one line each for allocation and release"


def test_saeta_record_keeps_events_from_the_start(shown, tmp_path):
    program = f"""
import numpy as np
for number in range(30):
    ctx.allocate(64, tag=f"tag {{number}}")
view = sa.from_dlpack(np.arange(5), ctx)
ctx.memory.timeline({str(tmp_path / "memory.html")!r})
events = [record["event"] for record in ctx.memory.child("own").memory.recording.records()]
print(len(events), events[-1], ctx.options["record"],
      open({str(tmp_path / "memory.html")!r}).read().count("tag 2"))
"""
    kept, last, option, drawn = shown(program, SAETA_RECORD="20")
    assert (kept, last, option) == ("20", "adopt", "20")
    assert int(drawn) > 0
    assert shown("print(ctx.memory.recording)") == ["None"]
    refused = """
try:
    ctx.memory.timeline("never.html")
except sa.InvalidError as failure:
    print("SAETA_RECORD" in str(failure))
"""
    assert shown(refused) == ["True"]


@pytest.mark.parametrize("threads", [1, 3])
def test_saeta_staging_threads_sets_the_number_of_copying_threads(shown, threads):
    program = """
import os
import numpy as np
import pyarrow as pa

source = np.zeros(16 << 20, dtype=np.uint8)
before = len(os.listdir("/proc/self/task"))
sa.from_arrow(pa.array(source), ctx, copy=True)
print(len(os.listdir("/proc/self/task")) - before + 1, ctx.options["staging_threads"])
"""
    assert shown(program, SAETA_STAGING_THREADS=str(threads)) == [str(threads)] * 2


@pytest.mark.parametrize(("pinned", "calls"), [("9MiB", "4"), ("2.25MiB", "16"), ("", "1")])
def test_saeta_staging_pinned_sets_the_size_of_one_copy(shown, pinned, calls):
    program = """
import numpy as np
import pyarrow as pa

source = np.zeros(1 << 20, dtype=np.uint8)
ctx.reset_counters()
sa.from_arrow(pa.array(source), ctx, copy=True)
print(ctx.counters()["host_to_host"]["calls"], ctx.options["staging_pinned"])
"""
    bytes_shown = str(int(float(pinned[:-3]) * (1 << 20))) if pinned else "None"
    # Four threads have 36 chunks of the size of a thread's chunk, as a shared chunk counts twice.
    shown_by = shown(program, SAETA_STAGING_THREADS="4", SAETA_STAGING_PINNED=pinned)
    assert shown_by == [calls, bytes_shown]


@pytest.mark.gpu
def test_saeta_host_cache_limits_memory_kept_for_later_downloads(shown):
    import saeta as sa

    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    program = """
import numpy as np

here = sa.table({"n": np.arange(1 << 18)}, ctx).to_arrow()
del here
print(ctx.memory.statistics()["host_held"] >> 20)
"""
    assert shown(program, "cuda:0", SAETA_HOST_CACHE="0") == ["0"]
    assert shown(program, "cuda:0", SAETA_HOST_CACHE="64MiB") == ["2"]


@pytest.mark.gpu
def test_saeta_pool_threshold_limits_what_the_drivers_pool_keeps(shown):
    import saeta as sa

    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    program = """
free = lambda: next(each.free_bytes for each in sa.devices() if each.name == ctx.device)
before = free()
made = ctx.allocate(256 << 20)
ctx.synchronize()
del made
ctx.synchronize()
print((before - free()) >> 27)
"""
    assert shown(program, "cuda", SAETA_RESOURCE="async", SAETA_POOL_THRESHOLD="0") == ["0"]
    assert shown(program, "cuda", SAETA_RESOURCE="async") == ["2"]


def test_saeta_pool_threshold_reaches_the_options_of_a_context(shown):
    assert shown('print(ctx.options["pool_threshold"])', SAETA_POOL_THRESHOLD="1MiB") == [str(MIB)]
    assert shown('print(ctx.options["pool_threshold"])') == ["None"]


SPILLED = """
handle = ctx.spillable(sa.table({"a": [1, 2, 3]}, ctx))
tiers = sa.spill_statistics(ctx)["tiers"]
"""


def test_saeta_spill_dir_is_the_folder_of_tables_spilled_from_the_host(shown, tmp_path):
    program = """
try:
    print(handle.spill())
except sa.UnsupportedError as refused:
    print("SAETA_SPILL_DIR" in str(refused))
"""
    assert shown(SPILLED + program, SAETA_SPILL_DIR=str(tmp_path)) == ["file"]
    assert shown(SPILLED + program) == ["True"]


def test_saeta_spill_files_limits_the_files(shown, tmp_path):
    program = """
try:
    print(handle.spill())
except sa.BudgetExceeded as refused:
    print(refused.limit, handle.tier)
"""
    folder = str(tmp_path)
    assert shown(SPILLED + program, SAETA_SPILL_DIR=folder, SAETA_SPILL_FILES="1") == ["1", "device"]
    assert shown(SPILLED + program, SAETA_SPILL_DIR=folder, SAETA_SPILL_FILES="1KiB") == ["file"]


def test_saeta_spill_pinned_limits_page_locked_memory(shown):
    program = SPILLED + "print(tiers['pinned']['limit'])"
    assert shown(program, SAETA_SPILL_PINNED="2MiB") == [str(2 * MIB)]
    assert int(shown(program)[0]) > MIB


def test_saeta_spill_pageable_limits_pageable_memory(shown):
    program = SPILLED + "print(tiers['pageable']['limit'])"
    assert shown(program, SAETA_SPILL_PAGEABLE="2MiB") == [str(2 * MIB)]
    assert shown(program) == ["None"]


def test_saeta_spill_compress(shown, tmp_path):
    program = """
import numpy as np, saeta as sa
ctx = sa.context("host")
for compress in (None, False, True):
    handle = ctx.spillable(sa.table({"n": np.arange(20_000)}, ctx), compress=compress)
    handle.spill()
    print(handle.stored_nbytes < handle.nbytes)
"""
    folder = {"SAETA_SPILL_DIR": str(tmp_path)}
    assert shown(program, **folder) == ["False", "False", "True"]
    assert shown(program, **folder, SAETA_SPILL_COMPRESS="1") == ["True", "False", "True"]
