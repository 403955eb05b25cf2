"""Contexts that fail a test which leaves memory allocated, and sums of their counters."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import saeta as sa

PROJECT = Path(__file__).resolve().parents[2]


@contextmanager
def clean(device: str) -> Iterator[sa.Context]:
    """Yields a context without a budget and with zeroed counters. Fails if the block leaks memory."""
    ctx = sa.context(device)
    if ctx.memory.statistics()["current"]:
        gc.collect()  # frees cycles of earlier tests
        ctx.synchronize()
    before = ctx.memory.statistics()
    ctx.memory.limit = None
    ctx.reset_counters()
    yield ctx
    ctx.synchronize()
    if left_alive(ctx, before):
        gc.collect()  # frees reference cycles, for example the traceback of an expected error
        ctx.synchronize()
    ctx.memory.limit = None
    assert not left_alive(ctx, before), (
        f"alive after the test: {left_alive(ctx, before)}, {ctx.memory.by_tag()}"
    )


@contextmanager
def leaving_nothing(ctx: sa.Context) -> Iterator[sa.Context]:
    """Yields the context, whose charge must be the same after the block. Cycles are not collected first."""
    ctx.synchronize()
    before = ctx.memory.statistics()["current"]
    yield ctx
    ctx.memory.limit = None
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before


def left_alive(ctx: sa.Context, before: dict[str, int | None]) -> dict[str, int]:
    """Returns the statistics of the context that have grown, and by how much."""
    after = ctx.memory.statistics()
    more = {name: (after[name] or 0) - (before[name] or 0) for name in ("current", "external", "buffers")}
    return {name: count for name, count in more.items() if count > 0}


def copies(ctx: sa.Context) -> int:
    """Returns the number of transfers in all directions since the counters were reset."""
    counted = ctx.counters()
    ways = ("host_to_device", "device_to_host", "device_to_device", "host_to_host")
    return sum(counted[way]["transfers"] for way in ways)
