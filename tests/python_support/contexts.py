"""Contexts for tests: one that must be clean afterwards, and what its counters say."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import saeta as sa

PROJECT = Path(__file__).resolve().parents[2]


@contextmanager
def clean(device: str) -> Iterator[sa.Context]:
    """A context without a budget and with counters at zero. What the block leaves alive is a failure."""
    ctx = sa.context(device)
    if ctx.memory.statistics()["current"]:
        gc.collect()  # of tests before this one
        ctx.synchronize()
    before = ctx.memory.statistics()
    ctx.budget = None
    ctx.reset_counters()
    yield ctx
    ctx.synchronize()
    if left_alive(ctx, before):
        gc.collect()  # what hangs in a cycle, as in the traceback of an expected error
        ctx.synchronize()
    ctx.budget = None
    assert not left_alive(ctx, before), (
        f"alive after the test: {left_alive(ctx, before)}, {ctx.memory.by_tag()}"
    )


@contextmanager
def leaving_nothing(ctx: sa.Context) -> Iterator[sa.Context]:
    """The context, which must be charged as before when the block ends, without a look for cycles."""
    ctx.synchronize()
    before = ctx.memory.statistics()["current"]
    yield ctx
    ctx.budget = None
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before


def left_alive(ctx: sa.Context, before: dict[str, int | None]) -> dict[str, int]:
    """What the context holds more than before."""
    after = ctx.memory.statistics()
    more = {name: (after[name] or 0) - (before[name] or 0) for name in ("current", "external", "buffers")}
    return {name: count for name, count in more.items() if count > 0}


def copies(ctx: sa.Context) -> int:
    """Transfers of data of any direction since the counters were reset."""
    counted = ctx.counters()
    ways = ("host_to_device", "device_to_host", "device_to_device", "host_to_host")
    return sum(counted[way]["transfers"] for way in ways)
