"""Memory management from Python: child budgets, reservations, windows, pressure hooks, logs and resource
stacks."""

from __future__ import annotations

import csv
import gc
import json
import sys
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import saeta as sa
from threads import run_in_threads

KIB = 1024


@contextmanager
def unraisable():
    """Collects the messages passed to sys.unraisablehook inside the block."""
    seen = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda what: seen.append(f"{what.err_msg or what.object}: {what.exc_value!r}")
    try:
        yield seen
    finally:
        sys.unraisablehook = before


def test_a_child_counts_against_itself_and_its_parent(anywhere):
    anywhere.memory.limit = 100 * KIB
    with anywhere.memory.child("query", "10KiB") as query:
        held = query.allocate(8 * KIB, tag="rows")
        assert query.memory.limit == 10 * KIB
        assert query.memory.statistics()["current"] == 8 * KIB
        assert anywhere.memory.statistics()["current"] == 8 * KIB
        assert query.memory.by_tag() == {"rows": 8 * KIB}
        assert anywhere.memory.by_budget() == {"query": 8 * KIB}
        with pytest.raises(sa.BudgetExceeded) as caught:
            query.allocate(3 * KIB)
        assert (caught.value.layer, caught.value.remaining) == ("query", 2 * KIB)
        assert "child 'query'" in repr(query)
    assert query.closed
    assert not anywhere.closed
    with pytest.raises(sa.ClosedError):
        query.allocate(1)
    assert held.nbytes == 8 * KIB, "buffers of a closed child stay valid"
    assert anywhere.memory.statistics()["current"] == 8 * KIB


def test_a_child_is_accepted_wherever_a_context_is(host):
    with host.memory.child("load") as load:
        column = sa.from_dlpack(np.arange(3), load, copy=True)
        assert load.memory.statistics()["current"] == column.nbytes == 24
        assert column.context == load
        assert column.to_pylist() == [0, 1, 2]


def test_a_table_accepts_columns_of_every_context_of_its_device(anywhere):
    with anywhere.memory.child("load") as load, anywhere.memory.reserve("1MiB") as promised:
        columns = {
            name: sa.from_dlpack(np.arange(4, dtype="i4") + place, where, copy=True)
            for place, (name, where) in enumerate({"a": anywhere, "b": load, "c": promised}.items())
        }
        for where in (anywhere, load, promised):
            table = sa.table(columns, where)
            assert table.context == where
            assert [column.to_pylist()[0] for column in table.columns] == [0, 1, 2]
        joined = sa.Column.from_chunks(list(columns.values()))
        assert joined.to_pylist() == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]
        assert sa.table({"all": joined}, load).num_rows == 12
        assert table.append_column("d", columns["a"]).column_names == ["a", "b", "c", "d"]


def test_the_process_context_can_not_be_a_context_manager(anywhere):
    with pytest.raises(sa.InvalidError, match="belongs to the process"), anywhere:
        pass
    assert not anywhere.closed


def test_the_unused_part_of_a_reservation_is_released(anywhere):
    anywhere.memory.limit = 64 * KIB
    assert anywhere.memory.reservation is None
    with anywhere.memory.reserve("40KiB") as promised:
        assert promised.memory.reservation == {"bytes": 40 * KIB, "left": 40 * KIB, "overbooked": 0}
        assert anywhere.memory.statistics()["reserved"] == 40 * KIB
        with pytest.raises(sa.BudgetExceeded):
            anywhere.allocate(30 * KIB)
        held = promised.allocate(16 * KIB)
        assert promised.memory.reservation["left"] == 24 * KIB
        now = anywhere.memory.statistics()
        assert (now["current"], now["reserved"], now["remaining"]) == (16 * KIB, 24 * KIB, 24 * KIB)
        with pytest.raises(sa.BudgetExceeded):
            promised.allocate(25 * KIB)
        with pytest.raises(sa.InvalidError, match="no limit of its own"):
            promised.memory.limit = "1MiB"
    now = anywhere.memory.statistics()
    assert (now["current"], now["reserved"]) == (held.nbytes, 0)


def test_a_reservation_overbooks_only_on_request(anywhere):
    anywhere.memory.limit = 10 * KIB
    with pytest.raises(sa.BudgetExceeded) as caught:
        anywhere.memory.reserve(11 * KIB)
    assert caught.value.requested == 11 * KIB
    with anywhere.memory.reserve(11 * KIB, overbook=True) as promised:
        assert promised.memory.reservation == {"bytes": 11 * KIB, "left": 11 * KIB, "overbooked": KIB}
        with pytest.raises(sa.BudgetExceeded):
            promised.allocate(11 * KIB)


def test_windows_measure_separately_and_keep_their_final_values(anywhere):
    anywhere.memory.limit = 20 * KIB
    before = anywhere.allocate(4 * KIB)
    with anywhere.memory.window() as outer:
        with anywhere.memory.window() as inner:
            anywhere.allocate(8 * KIB)
            anywhere.synchronize()
        with pytest.raises(sa.BudgetExceeded):
            anywhere.allocate(40 * KIB)
        later = anywhere.allocate(KIB)
        assert (outer.current, outer.requests) == (before.nbytes + later.nbytes, 2)
    expected = {"start": 4 * KIB, "current": 4 * KIB, "peak": 12 * KIB, "requests": 1, "refused": 0}
    assert {name: getattr(inner, name) for name in expected} == expected
    assert (outer.start, outer.peak, outer.requests, outer.refused) == (4 * KIB, 12 * KIB, 2, 1)


def test_hooks_are_called_by_priority_until_the_request_fits(anywhere):
    anywhere.memory.limit = 10 * KIB
    spillable = [anywhere.allocate(8 * KIB, tag="spillable")]
    asked = []

    def spill(needed):
        asked.append(("spill", needed))
        spillable.clear()
        anywhere.synchronize()
        return 8 * KIB

    def nothing(needed):
        asked.append(("nothing", needed))

    with (
        anywhere.memory.add_hook(spill, name="spill") as hook,
        anywhere.memory.add_hook(nothing, name="nothing", priority=5),
    ):
        assert hook.name == "spill"
        held = anywhere.allocate(9 * KIB)
    assert [name for name, _ in asked] == ["nothing", "spill"]
    assert all(needed > 0 for _, needed in asked)
    with pytest.raises(sa.BudgetExceeded):
        anywhere.allocate(9 * KIB)
    assert len(asked) == 2, "a removed hook must not be called"
    assert held.nbytes == 9 * KIB


def test_dropping_the_handle_does_not_remove_the_hook(anywhere):
    anywhere.memory.limit = KIB
    asked = []
    handle = anywhere.memory.add_hook(asked.append, name="kept")
    keep = [handle]
    del handle
    held = anywhere.allocate(KIB)
    with pytest.raises(sa.BudgetExceeded):
        anywhere.allocate(KIB)
    del held
    assert len(asked) == 1
    keep[0].remove()
    keep[0].remove()


@pytest.mark.parametrize("wrong", [-1, "many", 1.5])
def test_a_failing_hook_is_reported_and_counts_as_zero_bytes(host, wrong):
    host.memory.limit = KIB
    held = host.allocate(KIB)

    def broken(_needed):
        if wrong == "many":
            raise LookupError("lost")
        return wrong

    with (
        unraisable() as seen,
        host.memory.add_hook(broken, name="broken"),
        pytest.raises(sa.BudgetExceeded),
    ):
        host.allocate(KIB)
    del held
    assert len(seen) == 1
    assert "'broken'" in seen[0]


def test_a_hook_can_be_any_callable_and_nothing_else(host):
    with pytest.raises(sa.TypeMismatch, match="'text'"):
        host.memory.add_hook("not callable", name="text")


def test_a_removed_hook_is_freed(host):
    class Holder:
        def __call__(self, _needed):
            return 0

    holder = Holder()
    holder.context = host.memory.child("held by its hook")
    hook = holder.context.memory.add_hook(holder, name="holder")
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is not None
    hook.remove()
    assert gone() is None


def test_hooks_are_not_called_after_the_interpreter_has_ended(run_python):
    program = """
import saeta as sa

ctx = sa.context("host")
ctx.memory.add_hook(lambda needed: 0, name="left")
recording = ctx.memory.record()
kept = ctx.allocate(100)
token = sa.use(writes=[kept])
token.__enter__()
print("ends")
"""
    done = run_python(program)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_recording_has_the_events_of_its_block(anywhere):
    anywhere.memory.limit = 10 * KIB
    with anywhere.memory.record() as recording:
        with anywhere.memory.child("part") as part:
            held = part.allocate(KIB, tag="rows")
            with pytest.raises(sa.BudgetExceeded):
                part.allocate(20 * KIB, tag="too much")
        generation, address = held.generation, held.address
        del held
        anywhere.synchronize()
    after = anywhere.allocate(KIB)
    records = recording.records()
    assert recording.forgotten == 0
    assert [record["order"] for record in records] == sorted({record["order"] for record in records})
    taken, given = (
        next(r for r in records if r["event"] == event and r["tag"] == "rows")
        for event in ("allocate", "free")
    )
    for record in (taken, given):
        assert (record["bytes"], record["generation"], record["address"]) == (KIB, generation, address)
        assert (record["account"], record["outcome"]) == ("part", "ok")
        assert record["device"] == anywhere.device
    refused = next(r for r in records if r["event"] == "refuse")
    assert (refused["bytes"], refused["tag"]) == (20 * KIB, "too much")
    assert not any(record["generation"] == after.generation for record in records)
    assert anywhere.memory.log_dropped == 0


def test_a_full_recording_drops_the_oldest_records(host):
    with host.memory.record(capacity=2) as recording:
        for _ in range(3):
            host.allocate(8)
        host.synchronize()
    assert len(recording.records()) == 2
    assert recording.forgotten >= 4


def test_logs_are_complete_files_once_closed(host, tmp_path):
    paths = {kind: tmp_path / f"memory.{kind}" for kind in ("csv", "jsonl", "trace")}
    logs = [host.memory.log_to(f"{kind}:{path}") for kind, path in paths.items()]
    host.allocate(KIB, tag='a "quoted", tag')
    host.synchronize()
    for log in logs:
        log.close()
        log.close()
    host.allocate(KIB, tag="later")
    with paths["csv"].open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    parsed = [json.loads(line) for line in paths["jsonl"].read_text().splitlines()]
    assert [row["event"] for row in rows][:1] == ["allocate"]
    for row, one in zip(rows, parsed, strict=True):
        assert {name: str(value) for name, value in one.items()} == row
        assert row["tag"] == 'a "quoted", tag'
    assert json.loads(paths["trace"].read_text())
    with pytest.raises(sa.InvalidError, match="xml"):
        host.memory.log_to("xml:x")
    with pytest.raises(sa.FileError):
        host.memory.log_to(f"csv:{tmp_path}/missing/x.csv")


def test_a_timeline_is_one_page(host, tmp_path):
    with host.memory.record() as recording:
        host.allocate(KIB, tag="drawn")
        host.synchronize()
    page = tmp_path / "memory.html"
    host.memory.timeline(page, recording)
    text = page.read_text()
    assert "drawn" in text
    assert "</html>" in text


def test_guard_findings_need_a_guard(host):
    with pytest.raises(sa.InvalidError, match="has no guard"):
        host.memory.guard_check()


def test_stack_and_wait_are_set_by_the_first_use(run_python):
    program = """
import ctypes
import threading
import saeta as sa

ctx = sa.context("host", stack="logging, budget, guard, direct", wait=60)
assert sa.context("host") == ctx
for other in ({"stack": "budget, direct"}, {"wait": 1}):
    try:
        sa.context("host", **other)
        raise SystemExit(f"{other} was accepted")
    except sa.InvalidError as failure:
        print(failure)

assert ctx.memory.guard_check() == []
held = ctx.allocate(64, tag="short")
with sa.use(writes=[held]) as token:
    ctypes.c_ubyte.from_address(token.pointer(held) + 64).value = 1
found = ctx.memory.guard_check()
assert len(found) == 1 and "short" in found[0], found

ctx.memory.limit = 1024
waits = threading.Event()
first = [ctx.allocate(900)]

def make_room(needed):
    waits.set()  # the last step before the request waits in line
    return 0

ctx.memory.add_hook(make_room, name="says that it waits")
other = threading.Thread(target=lambda: (waits.wait(), first.clear()))
other.start()
second = ctx.allocate(800)
other.join()
assert second.nbytes == 800
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "guard" in done.stdout


def test_a_reservation_waits_as_long_as_its_context(run_python):
    program = """
import threading
import saeta as sa

ctx = sa.context("host", budget=1024, wait=60)
waits = threading.Event()
first = [ctx.allocate(900)]

def make_room(needed):
    waits.set()  # the last step before the request waits in line
    return 0

ctx.memory.add_hook(make_room, name="says that it waits")
other = threading.Thread(target=lambda: (waits.wait(), first.clear()))
other.start()
with ctx.memory.reserve(800) as promised:
    other.join()
    assert promised.memory.reservation == {"bytes": 800, "left": 800, "overbooked": 0}
    assert ctx.memory.statistics()["current"] == 0
try:
    ctx.memory.reserve(1025)  # can never fit, so it fails without waiting
except sa.BudgetExceeded as failure:
    print(failure.limit)
"""
    done = run_python(program)
    assert (done.stdout.strip(), done.stderr) == ("1024", "")


@pytest.mark.parametrize("wait", [-1, float("nan"), 1e12])
def test_invalid_waits_are_refused(wait):
    with pytest.raises(sa.InvalidError, match="wait"):
        sa.context("host", wait=wait)


def test_sizes_of_children_and_buffers_are_numbers_or_texts(host):
    assert host.allocate("1KiB").nbytes == KIB
    with host.memory.child("a", "2KiB") as child:
        assert child.memory.limit == 2 * KIB
    with pytest.raises(sa.InvalidError, match="lots"):
        host.memory.child("b", "lots")
    with pytest.raises(sa.InvalidError, match="lots"):
        host.memory.reserve("lots")


def test_a_report_shows_reserved_bytes_and_budgets(host):
    host.memory.limit = "1MiB"
    with host.memory.child("query") as query, host.memory.reserve("3KiB"):
        held = [query.allocate(KIB, tag="rows"), host.allocate(KIB)]
        text = host.memory.report()
    assert len(held) == 2
    assert "reserved  3 KiB" in text
    assert "live bytes by budget" in text
    assert "query" in text


def test_threads_share_a_reservation_exactly(host):
    host.memory.limit = 100 * KIB
    kept, refused = [], []
    with host.memory.reserve(32 * KIB) as promised:

        def draw(_):
            for _ in range(16):
                try:
                    kept.append(promised.allocate(KIB))
                except sa.BudgetExceeded:
                    refused.append(1)

        run_in_threads(4, draw)
        assert promised.memory.reservation["left"] == 0
    assert (len(kept), len(refused)) == (32, 32)
    assert host.memory.statistics()["current"] == 32 * KIB
