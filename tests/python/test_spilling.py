"""Spill handles: tables that leave the device under memory pressure and return when used."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

import saeta as sa
from sim_devices import simulator
from threads import run_in_threads
from waiting import eventually

MIB = 1 << 20


@pytest.fixture
def sim():
    device = simulator().Device(0)
    device.context.memory.limit = MIB
    yield device.context
    assert device.races == []


def trips(ctx, start, rows=10_000):
    fares = np.arange(start, start + rows)
    return sa.table({"fare": fares, "tip": fares % 7}, ctx)


def fares_of(handle):
    with handle.use() as table:
        return table["fare"].to_pylist()


def test_a_table_returns_from_each_tier(sim):
    handle = sim.spillable(trips(sim, 5, 100), priority=3)
    assert (handle.tier, handle.priority, handle.context, handle.closed) == ("device", 3, sim, False)
    for tier in ("pinned", "pageable"):
        assert handle.spill(tier) == tier
        assert handle.spill() == tier
        assert f"on the tier {tier}" in repr(handle)
        assert fares_of(handle) == list(range(5, 105))
        assert handle.tier == "device"
    assert handle.nbytes >= 1600


def test_types_names_metadata_and_nulls_are_kept(sim):
    table = sa.table({"city": ["Lyon", None, "Bern"], "seen": [[1], [], None]}, sim)
    handle = sim.spillable(table)
    expected = table.to_arrow()
    del table
    handle.spill("pageable")
    with handle.use(sim) as back:
        assert back.to_arrow() == expected
        assert back.schema == handle_schema(expected, sim)


def handle_schema(arrow, ctx):
    return sa.from_arrow(arrow, ctx).schema


def test_tables_of_three_times_the_budget_are_never_refused(sim):
    handles = [sim.spillable(trips(sim, 10 * i)) for i in range(20)]
    assert sum(each.nbytes for each in handles) > 3 * MIB
    for i, each in enumerate(handles):
        assert fares_of(each)[:2] == [10 * i, 10 * i + 1]
    assert sim.memory.statistics()["refused"] == 0
    seen = sa.spill_statistics(sim)
    tiers = seen["tiers"]
    assert sum(each["handles"] for each in tiers.values()) == 20
    assert tiers["device"]["charged"] <= tiers["device"]["limit"] == MIB
    assert tiers["pinned"]["spills"] + tiers["pageable"]["spills"] >= 14
    assert seen["failures"] == 0
    assert "spillable tables" in sim.memory.report()


def test_a_table_in_use_can_not_be_spilled(sim):
    handle = sim.spillable(trips(sim, 0, 10))
    with handle.use() as table, pytest.raises(sa.BusyError, match="in use"):
        handle.spill()
    with pytest.raises(sa.BusyError, match="in use"):
        handle.spill()
    column = table["tip"]
    del table
    with pytest.raises(sa.BusyError, match="in use"):
        handle.spill()
    del column
    assert handle.spill() != "device"


def test_a_use_ends_with_its_block_even_after_an_error(sim):
    handle = sim.spillable(trips(sim, 0, 10))

    def fail_inside():
        with handle.use():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert handle.spill() != "device"


def test_other_allocations_spill_tables_too(sim):
    handle = sim.spillable(trips(sim, 0))
    block = sim.allocate(MIB - 4096, tag="other")
    assert handle.tier != "device"
    with pytest.raises(sa.BudgetExceeded, match="refused 160000 bytes"), handle.use():
        pass
    del block
    assert fares_of(handle)[-1] == 9_999


def test_a_closed_handle_frees_its_table(sim):
    handle = sim.spillable(trips(sim, 0))
    with handle.use() as table:
        handle.close()
        handle.close()
        assert table.num_rows == 10_000
    del table
    sim.synchronize()
    assert handle.closed
    assert sim.memory.statistics()["current"] == 0
    assert "closed" in repr(handle)
    for action in (handle.spill, lambda: handle.tier, lambda: fares_of(handle)):
        with pytest.raises(sa.ClosedError, match="handle"):
            action()


def test_a_dropped_handle_frees_its_table(sim):
    handle = sim.spillable(trips(sim, 0))
    handle.spill()
    del handle
    tiers = sa.spill_statistics(sim)["tiers"]
    assert [each["charged"] for name, each in tiers.items() if name != "device"] == [0, 0, 0]


def test_spills_are_recorded_and_drawn_in_the_timeline(sim, tmp_path):
    with sim.memory.record() as recording:
        handle = sim.spillable(trips(sim, 0, 10))
        handle.spill("pageable")
        fares_of(handle)
    moves = [each for each in recording.records() if each["event"] in ("spill", "unspill")]
    assert [(each["event"], each["tag"], each["bytes"]) for each in moves] == [
        ("spill", "pageable", handle.nbytes),
        ("unspill", "pageable", handle.nbytes),
    ]
    page = tmp_path / "timeline.html"
    sim.memory.timeline(page, recording)
    assert "spilled: a table that nobody used" in page.read_text()


@pytest.fixture
def tiered(tmp_path):
    """A context whose page-locked and pageable tiers each have room for two tables of 1,000 rows."""
    device = simulator().Device(0, tiers=(36_000, 36_000, str(tmp_path)))
    device.context.memory.limit = MIB
    yield device.context
    assert device.races == []
    assert list(tmp_path.iterdir()) == []


def settled(ctx):
    """Waits until no table moves between tiers. Returns the statistics of the tiers."""
    deadline = time.monotonic() + 60
    while True:
        tiers = sa.spill_statistics(ctx)["tiers"]
        lower = [tiers[name] for name in ("pinned", "pageable", "file")]
        if all(each["bytes"] == each["charged"] <= 0.85 * (each["limit"] or MIB) for each in lower):
            return tiers
        assert time.monotonic() < deadline, tiers
        time.sleep(0.001)


def test_tables_are_demoted_from_full_tiers(tiered, tmp_path):
    with tiered.memory.record() as recording:
        handles = [tiered.spillable(trips(tiered, i, 1_000)) for i in range(8)]
        for each in handles:
            each.spill()
        tiers = settled(tiered)
    assert [tiers[name]["handles"] <= 1 for name in ("pinned", "pageable")] == [True, True]
    assert tiers["file"]["demotions"] == len([each for each in recording.records() if demoted(each, "file")])
    assert tiers["file"]["demoted_bytes"] == tiers["file"]["demotions"] * handles[0].nbytes > 0
    assert [fares_of(each)[0] for each in handles] == list(range(8))
    assert sa.spill_statistics(tiered)["failures"] == 0
    page = tmp_path.with_suffix(".html")
    tiered.memory.timeline(page, recording)
    assert "moved on: a spilled table left a full tier for a slower one" in page.read_text()


def demoted(record, tier):
    return (record["event"], record["tag"], record["outcome"]) == ("demote", tier, "ok")


def test_an_unwritable_spill_folder_is_logged_once(caplog, tmp_path):
    device = simulator().Device(0, tiers=(0, 170_000, str(tmp_path / "missing")))
    handles = [device.context.spillable(trips(device.context, i, 5_000)) for i in range(2)]
    for before in range(3):
        for each in handles:
            each.spill("pageable")
        assert eventually(lambda seen=before: sa.spill_statistics(device.context)["failures"] > seen)
        assert [fares_of(each)[0] for each in handles] == [0, 1]
    assert [each.getMessage() for each in caplog.records] == [
        f"spill: tables can't be spilled to files: can't make a spill file in '{tmp_path}/missing': "
        "No such file or directory (errno 2)"
    ]


def test_handles_closed_during_demotion_leak_nothing(tiered):
    def work(seed):
        chance = np.random.default_rng(seed)
        kept = {}
        for turn in range(60):
            number = int(chance.integers(0, 6))
            if number not in kept:
                kept[number] = tiered.spillable(trips(tiered, number, 1_000))
            elif turn % 3 == 0:
                del kept[number]
            else:
                kept[number].spill()
                assert fares_of(kept[number])[0] == number, (seed, turn)
                kept[number].spill()

    run_in_threads(8, work)
    assert all(each["charged"] == 0 for name, each in settled(tiered).items() if name != "device")
    assert sa.spill_statistics(tiered)["failures"] == 0


def test_threads_share_handles(sim):
    handles = [sim.spillable(trips(sim, i, 2_000)) for i in range(60)]

    def work(seed):
        for i in np.random.default_rng(seed).integers(0, len(handles), 30):
            assert fares_of(handles[i])[0] == i

    run_in_threads(8, work)
    assert sim.memory.statistics()["refused"] == 0


def test_errors_name_wrong_arguments(sim, host):
    with pytest.raises(sa.InvalidError, match="does not share"):
        sim.spillable(sa.table({"a": [1]}, host))
    handle = sim.spillable(trips(sim, 0, 10))
    with pytest.raises(sa.InvalidError, match="expected pinned, pageable or file"):
        handle.spill("disk")
    with pytest.raises(sa.UnsupportedError, match="SAETA_SPILL_DIR"):
        handle.spill("file")
    with pytest.raises(sa.TypeMismatch, match=r"Context\.spillable"):
        sa.SpillHandle(None)
    with pytest.raises(sa.TypeMismatch, match="pickle the table"):
        pickle.dumps(handle)


HOST = """
import os, sys
import numpy as np
import saeta as sa

ctx = sa.context("host", budget="1MiB")
def trips(start, rows=10_000):
    fares = np.arange(start, start + rows)
    return ctx.spillable(sa.table({"fare": fares, "tip": fares}, ctx))
"""


@pytest.fixture
def on_host(run_python, tmp_path):
    """A function that runs a program on the host with a spill folder, and returns its output."""

    def run(program):
        done = run_python(HOST + program, SAETA_SPILL_DIR=str(tmp_path))
        assert list(tmp_path.iterdir()) == []
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return run


def test_host_tables_are_spilled_to_unnamed_files(on_host):
    program = """
handles = [trips(i) for i in range(20)]
print(sum(each.nbytes for each in handles) > 3 << 20)
for i, each in enumerate(handles):
    with each.use() as table:
        assert np.from_dlpack(table["fare"])[0] == i
    del table
print(ctx.memory.statistics()["refused"], {each.tier for each in handles} == {"device", "file"})
print(ctx.spill_dir == os.environ["SAETA_SPILL_DIR"], os.listdir(ctx.spill_dir))
"""
    assert on_host(program) == ["True", "0", "True", "True", "[]"]


FULL = """
import numpy as np
import saeta as sa

def fill(ctx):
    return [ctx.spillable(sa.table({"a": np.full(30_000, float(i))}, ctx)) for i in range(24)]
"""


def test_a_folder_for_spilled_tables_is_an_argument_of_the_context(run_python, tmp_path):
    """A program that needs more than its budget names the folder in code, not in the environment."""
    program = f"""
ctx = sa.context("host", budget="2MiB", spill_dir={str(tmp_path)!r})
handles = fill(ctx)
for i, handle in enumerate(handles):
    with handle.use() as table:
        assert table["a"][0] == i
    del table
print(ctx.spill_dir == {str(tmp_path)!r}, {{handle.tier for handle in handles}} == {{"device", "file"}})
"""
    done = run_python(FULL + program)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["True", "True"], "")


def test_a_refusal_says_how_spillable_tables_could_leave_the_host(run_python, tmp_path):
    program = f"""
ctx = sa.context("host", budget="2MiB")
print(ctx.spill_dir)
child = ctx.memory.child("query")
for asked in (ctx, child):
    try:
        handles = fill(asked)
    except sa.BudgetExceeded as refused:
        print("can't leave the host" in str(refused), "spill_dir= to saeta.context" in str(refused))
kept = [ctx.spillable(sa.table({{"a": [1.0]}}, ctx))]
try:
    ctx.allocate("4MiB")
except sa.BudgetExceeded as refused:
    print(refused.requested == 4 << 20, refused.limit == 2 << 20)
ctx.spill_dir = {str(tmp_path)!r}
handles = fill(ctx)
with kept[0].use() as in_use:
    try:
        ctx.allocate("4MiB")
    except sa.BudgetExceeded as refused:
        print("leave" in str(refused))
print(sa.context("host", spill_dir={str(tmp_path)!r}) == ctx)
"""
    done = run_python(FULL + program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["None", "True", "True", "True", "True", "True", "True", "False", "True"]


def test_the_folder_can_change_while_tables_are_in_files(run_python, tmp_path):
    folders = [str(tmp_path / name) for name in ("a", "b")]
    program = f"""
import os
folders = {folders!r}
for folder in folders:
    os.mkdir(folder)
ctx = sa.context("host", spill_dir=folders[0])
handles = fill(ctx)

def used(folder):
    places = (os.path.realpath(f"/proc/self/fd/{{each}}") for each in os.listdir("/proc/self/fd"))
    return any(place.startswith(folder) for place in places)

handles[0].spill()
ctx.spill_dir = folders[1]
handles[1].spill()
print([used(folder) for folder in folders])
ctx.spill_dir = None
try:
    handles[2].spill()
except sa.UnsupportedError as refused:
    print("spill_dir" in str(refused), ctx.spill_dir)
for i in range(3):
    with handles[i].use() as table:
        assert table["a"][0] == i
for wrong in (folders[0] + "/none", __import__("sys").executable):
    try:
        ctx.spill_dir = wrong
    except sa.FileError as refused:
        print(type(refused).__name__, wrong in str(refused), ctx.spill_dir)
"""
    done = run_python(FULL + program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "[True, True]",
        "True None",
        "MissingFileError True None",
        "MissingFileError True None",
    ]


def test_spilled_tables_share_a_file_descriptor_and_release_disk_blocks(on_host):
    program = """
def there():
    numbers = [int(each) for each in os.listdir("/proc/self/fd")]
    seen = []
    for each in numbers:
        try:
            if os.readlink(f"/proc/self/fd/{each}").startswith(os.environ["SAETA_SPILL_DIR"]):
                seen.append(os.fstat(each).st_blocks * 512)
        except FileNotFoundError:  # the descriptor of this listing
            pass
    return len(seen), sum(seen)

handles = [trips(i, 200) for i in range(400)]
for each in handles:
    each.spill()
bytes_of_all = sum(each.nbytes for each in handles)
files, used = there()
print(files, bytes_of_all <= used <= 2 * bytes_of_all)
del handles[1::2], each
files, left = there()
print(files, left == used / 2)
for i, each in enumerate(handles):
    with each.use() as table:
        assert table["fare"].to_pylist()[0] == 2 * i
    del table
print(*there())
"""
    assert on_host(program) == ["1", "True", "1", "True", "0", "0"]


def test_a_killed_process_leaves_no_file(run_python, tmp_path):
    program = """
handles = [trips(i) for i in range(20)]
os.kill(os.getpid(), 9)
"""
    assert run_python(HOST + program, SAETA_SPILL_DIR=str(tmp_path)).returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_spill_folder_loses_no_table(run_python):
    program = """
kept = [trips(i) for i in range(5)]
try:
    kept[0].spill()
except sa.FileError as refused:
    print("'/proc/self'" in str(refused))
try:
    more = [trips(i) for i in (5, 6, 7)]
except sa.BudgetExceeded as refused:
    print(refused.limit == 1 << 20)
print([each.tier for each in kept] == ["device"] * 5, sa.spill_statistics(ctx)["failures"] > 0)
for i, each in enumerate(kept):
    with each.use() as table:
        assert table["fare"].to_pylist()[0] == i
"""
    done = run_python(HOST + program, SAETA_SPILL_DIR="/proc/self")
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 4)
    assert done.stderr.count("tables can't be spilled to files: can't make a spill file in '/proc/self'") == 1


def test_a_spill_folder_that_is_removed_and_restored_loses_no_table(run_python, tmp_path):
    program = """
first, second = trips(1), trips(2)
first.spill()
os.rmdir(os.environ["SAETA_SPILL_DIR"])
print(second.spill())  # the file of the first table is still open
for number, each in ((1, first), (2, second)):
    with each.use() as table:
        print(table["fare"].to_pylist()[0] == number)
    del table
try:
    second.spill()
except sa.FileError as refused:
    print(os.environ["SAETA_SPILL_DIR"] in str(refused))
print(first.tier, second.tier)
os.mkdir(os.environ["SAETA_SPILL_DIR"])
print(first.spill(), second.spill())
"""
    folder = tmp_path / "spill"
    folder.mkdir()
    done = run_python(HOST + program, SAETA_SPILL_DIR=str(folder))
    expected = ["file", "True", "True", "True", "device", "device", "file", "file"]
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", expected)
    assert list(folder.iterdir()) == []


def test_the_interpreter_exits_with_live_handles(on_host):
    assert on_host("kept = [trips(i) for i in range(20)]\nsa.kept = kept\nprint(len(kept))") == ["20"]


def test_a_forked_child_can_not_use_the_handles_of_its_parent(on_host):
    program = """
handle = trips(3)
handle.spill()
child = os.fork()
if child == 0:
    try:
        with handle.use():
            pass
    except sa.DeviceError as refused:
        os._exit(7 if "of the parent of this process" in repr(handle) else 8)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with handle.use() as table:
    print(table["fare"].to_pylist()[0])
"""
    assert on_host(program) == ["7", "3"]


def test_the_example_runs(run_python, tmp_path):
    from contexts import PROJECT

    done = run_python((PROJECT / "examples" / "out_of_core.py").read_text(), SAETA_SPILL_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "3.0 times the budget" in done.stdout
    assert "0 were refused" in done.stdout
