"""Assertions about memory and movement, for the tests of programs that use Saeta.

Each is a context manager over one context and raises AssertionError with the numbers and the tags. Work of
other threads on the same device during the block counts too. The counters of the context are read, never
reset.

Example:
    >>> import numpy as np
    >>> import saeta as sa
    >>> from saeta.testing import assert_no_copies, assert_no_leaks
    >>> fare = sa.column([12.5, 8.0], "host", name="fare")
    >>> with assert_no_leaks(fare.context), assert_no_copies(fare.context):
    ...     total = np.from_dlpack(fare).sum()
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from saeta import _core
from saeta._core import Context
from saeta._report import human_bytes

__all__ = ["assert_no_copies", "assert_no_host_sync", "assert_no_leaks", "assert_peak_at_most"]


def __dir__() -> list[str]:
    return __all__


_DIRECTIONS = ("host_to_device", "device_to_host", "device_to_device", "peer_to_device", "host_to_host")


@contextmanager
def assert_no_copies(ctx: Context) -> Iterator[None]:
    """Asserts that no data is moved in any direction.

    Scalars that metadata needs (a null count) don't count.

    Example:
        >>> import saeta as sa
        >>> import numpy as np
        >>> from saeta.testing import assert_no_copies
        >>> fare = sa.column([12.5, 8.0], "host", name="fare")
        >>> with assert_no_copies(fare.context):
        ...     array = np.from_dlpack(fare)
    """
    before = ctx.counters()
    yield
    after = ctx.counters()
    moved = []
    for direction in _DIRECTIONS:
        calls = after[direction]["calls"] - before[direction]["calls"]
        count = after[direction]["bytes"] - before[direction]["bytes"]
        if calls or count:
            moved.append(f"{direction} {count:,} B in {calls:,} calls")
    if moved:
        raise AssertionError(f"expected no copies on {ctx.device}: {', '.join(moved)}")


@contextmanager
def assert_no_host_sync(ctx: Context) -> Iterator[None]:
    """Asserts that the host never waits for the device. Waits inside frameworks are not seen.

    Example:
        >>> import saeta as sa
        >>> from saeta.testing import assert_no_host_sync
        >>> fare = sa.column([12.5, 8.0], "host", name="fare")
        >>> with assert_no_host_sync(fare.context):
        ...     price = fare.with_name("price")
    """
    before = ctx.counters()["synchronizations"]
    yield
    waits = ctx.counters()["synchronizations"] - before
    if waits:
        raise AssertionError(f"expected no wait of the host for {ctx.device}: it waited {waits:,} times")


@contextmanager
def assert_no_leaks(ctx: Context) -> Iterator[None]:
    """Asserts that no more bytes and buffers are alive after the block than before, external views included.

    At the end, waits for pending releases, and collects garbage if something seems to be left.

    Example:
        >>> import saeta as sa
        >>> from saeta.testing import assert_no_leaks
        >>> ctx = sa.context("host")
        >>> with assert_no_leaks(ctx):
        ...     block = ctx.allocate("1KiB")
        ...     del block
    """
    before = _count_live(ctx)
    tags = ctx.memory.by_tag()
    yield
    ctx.synchronize()
    if _more(before, _count_live(ctx)):
        gc.collect()  # frees reference cycles, for example the traceback of an expected error
        ctx.synchronize()
    left = _more(before, _count_live(ctx))
    if left:
        numbers = ", ".join(f"{name} +{count:,}" for name, count in left.items())
        owners = _tags(_more(tags, ctx.memory.by_tag()))
        raise AssertionError(f"leaked on {ctx.device}: {numbers}; by tag: {owners}")


@contextmanager
def assert_peak_at_most(ctx: Context, nbytes: int | str) -> Iterator[None]:
    """Asserts that the context's budget never has more than `nbytes` in use.

    `nbytes` is an int, "8GiB", or "50%" of the device.

    Bytes that were alive before the block count too, as they do for a budget.

    Example:
        >>> import saeta as sa
        >>> from saeta.testing import assert_peak_at_most
        >>> ctx = sa.context("host").memory.child("step", "1MiB")
        >>> with assert_peak_at_most(ctx, "4KiB"):
        ...     block = ctx.allocate("1KiB")
    """
    limit = _core._to_bytes(ctx, nbytes)
    with ctx.memory.window() as window:
        yield
    if window.peak > limit:
        raise AssertionError(
            f"expected a peak of at most {limit:,} B ({human_bytes(limit)}) on {ctx.device}: it was "
            f"{window.peak:,} B, {window.start:,} B of them at the start; alive by tag: "
            f"{_tags(ctx.memory.by_tag())}"
        )


def _count_live(ctx: Context) -> dict[str, int]:
    now = ctx.memory.statistics()
    return {name: now[name] or 0 for name in ("current", "own", "external", "buffers")}


def _more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in grown.items() if count > 0}


def _tags(counts: dict[str, int]) -> str:
    return ", ".join(f"'{tag}' {count:,} B" for tag, count in counts.items()) or "none"
