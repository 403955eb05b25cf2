"""The contexts of the process by device number, for `Context` and libarrow."""

from __future__ import annotations

import os

from saeta import _core
from saeta._core import Buffer, Context
from saeta.cuda._libarrow import bridge

TAG = "saeta.cuda"

# Contexts used in place of GPUs, by number. Tests put simulated devices here.
stand_ins: dict[int, Context] = {}
_shares: dict[str, tuple[Context, Context]] = {}


def count() -> int:
    if stand_ins:
        return len(stand_ins)
    return sum(1 for device in _core.devices() if device.name.startswith("cuda"))


def context_of(number: int) -> Context:
    """Returns the process's context of a GPU. Opens it with an exportable pool if it is not open."""
    return stand_ins[number] if number in stand_ins else _core._shareable_context(f"cuda:{number}")


def share(of: Context) -> Context:
    """Returns the context that allocates for this module.

    It is a child context on the same device, so that its bytes are counted separately.
    """
    known = _shares.get(of.device)
    if known is None or known[0] != of or known[0].closed:
        known = _shares[of.device] = (of, of.memory.child(TAG))
    return known[1]


def holding(memory: Buffer) -> Context:
    """Returns the process's context of the memory's device, also for memory of a child context."""
    return _core.context("host") if memory.device == "host" else context_of(number_of(memory.context))


def number_of(ctx: Context) -> int:
    kind, _, ordinal = ctx.device.partition(":")
    return int(ordinal) if kind != "host" else 0


os.register_at_fork(after_in_child=_shares.clear)  # a child of fork makes its own contexts
bridge.register(context_of)
