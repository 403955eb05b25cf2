"""Contexts: one per device, budgets as numbers or texts, counters, and memory statistics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

import saeta as sa
from contexts import copies


def test_a_device_has_one_context(host):
    assert sa.context("host") == host
    assert hash(sa.context("cpu")) == hash(host)
    assert host != "host"
    assert sa.context("host").device == "host"


@pytest.mark.parametrize(
    ("given", "limit"),
    [(4096, 4096), ("8KiB", 8192), ("1.5 MiB", 1572864), ("10MB", 10_000_000), (None, None)],
)
def test_a_budget_is_a_number_or_a_text(host, given, limit):
    host.memory.limit = given
    assert host.memory.limit == limit
    assert host.memory.statistics()["limit"] == limit


def test_a_budget_can_be_a_share_of_the_device(host):
    host.memory.limit = "50%"
    total = next(device.total_bytes for device in sa.devices() if device.name == "host")
    assert host.memory.limit == total // 2


def test_opening_a_context_again_with_another_budget_sets_it(host):
    """The cell of a notebook that opens the context is run again, with another budget."""
    for text, limit in (("4GiB", 4 << 30), ("2GiB", 2 << 30), ("2048 MiB", 2 << 30), ("3GiB", 3 << 30)):
        assert sa.context("host", budget=text) == host
        assert host.memory.limit == limit
        assert sa.context("host") == host
        assert host.memory.limit == limit
    host.memory.limit = None
    assert sa.context("host", budget=1 << 30).memory.limit == 1 << 30


@pytest.mark.parametrize("shared", ["host", "child"])
def test_a_budget_is_never_set_below_what_is_in_use(host, shared):
    child = host.memory.child("child", "1MiB")
    block = (host if shared == "host" else child).allocate(5000)
    with host.memory.reserve(1000):
        used = host.memory.statistics()["current"] + 1000
        for set_it in (
            lambda limit: sa.context("host", budget=limit),
            lambda limit: setattr(host.memory, "limit", limit),
        ):
            host.memory.limit = None
            with pytest.raises(sa.InvalidError, match=rf"{used - 1} bytes: .* and 1000 reserved"):
                set_it(used - 1)
            assert host.memory.limit is None
            set_it(used)
            assert host.memory.limit == used
            with pytest.raises(sa.BudgetExceeded):
                child.allocate(1)
            assert child.memory.limit == 1 << 20
    del block


def test_a_refused_budget_reaches_no_option_and_a_refused_option_no_budget(host):
    block = host.allocate(4096)
    with pytest.raises(sa.InvalidError):
        sa.context("host", budget=1, stack="budget, direct")
    assert host.memory.limit is None
    with pytest.raises(sa.InvalidError, match="the stack"):
        sa.context("host", budget="1GiB", stack="logging, budget, direct")
    assert host.memory.limit is None
    del block


def test_threads_that_set_budgets_and_allocate_never_exceed_one(host):
    """Two notebooks in one process: every limit is one that somebody set, and no bytes exceed it."""
    budgets = [1 << 20, 2 << 20, 3 << 20]
    refused = []

    def set_budgets():
        for number in range(300):
            try:
                sa.context("host", budget=budgets[number % 3])
            except sa.InvalidError as failure:
                refused.append(str(failure))

    def allocate():
        for number in range(300):
            with suppress(sa.BudgetExceeded):
                block = host.allocate((number % 5) << 18)
                now = host.memory.statistics()
                assert now["current"] <= now["limit"]
                del block

    sa.context("host", budget=budgets[0])
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for work in (set_budgets, allocate, set_budgets, allocate)]:
            done.result()
    assert host.memory.limit in budgets
    assert all("bytes are live" in text for text in refused)


def test_the_first_to_open_a_context_sets_its_budget(run_python):
    program = """
import saeta as sa
total = next(device.total_bytes for device in sa.devices() if device.name == "host")
assert sa.context("host", budget="50%").memory.limit == total // 2
assert sa.context("host", budget="50%").memory.limit == total // 2
"""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_budget_below_the_allocated_bytes_is_refused(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    host.memory.limit = "1GiB"
    with pytest.raises(sa.InvalidError):
        host.memory.limit = held.nbytes // 2
    assert host.memory.limit == 1 << 30


def test_counters_count_and_reset(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    counted = host.counters()
    assert counted["host_to_host"]["transfers"] == 1
    assert counted["host_to_host"]["bytes"] >= held.nbytes
    assert counted["allocations"] == 1
    assert counted["events"] == 0, "a single stream needs no events"
    host.reset_counters()
    assert copies(host) == 0


def test_memory_statistics_follow_allocations(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    now = host.memory.statistics()
    assert now["own"] == now["current"] >= held.nbytes
    assert now["peak"] >= now["current"]
    assert sum(host.memory.by_tag().values()) == now["own"]
    del held
    host.synchronize()
    assert host.memory.statistics()["current"] == 0
    host.memory.reset_peak()
    assert host.memory.statistics()["peak"] == 0


def test_views_of_foreign_memory_are_external_and_not_charged(host):
    host.memory.limit = 1
    values = np.arange(1000)
    column = sa.from_dlpack(values, host)
    now = host.memory.statistics()
    assert now["external"] == values.nbytes
    assert now["current"] == 0
    assert column.nbytes == values.nbytes


def test_the_report_names_budget_and_tags(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    host.memory.limit = "1GiB"
    text = host.memory.report()
    assert "budget    1 GiB" in text
    assert f"{held.nbytes:,}"[:4] in text
    assert "live bytes by tag" in text
    assert "host" in repr(host)


def test_closing_a_context_reports_live_buffers_and_refuses_new_work(run_python, flights):
    program = """
import sys
import saeta as sa

ctx = sa.context("host")
table = sa.read_ipc(sys.argv[1], ctx, copy=True)
left = ctx.close()
assert ctx.closed
assert sum(left.values()) == ctx.memory.statistics()["current"] > 0, left
assert table["delay"].to_numpy().sum() == 1500159, "what lives stays valid"
try:
    sa.read_ipc(sys.argv[1], ctx, copy=True)
except sa.ClosedError as failure:
    print("refused:", failure)
"""
    done = run_python(program, str(flights))
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout


def test_info_needs_no_other_package():
    found = sa.info()
    assert found["version"] == sa.__version__
    assert found["devices"][-1]["name"] == "host"
    assert {"usable", "built_for", "loaded"} == set(found["saeta.cuda"])
    assert all(set(each) == {"part", "why"} for each in found["missing"])
