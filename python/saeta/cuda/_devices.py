"""The contexts of the process by device number, as `Context` and libarrow ask for them."""

from __future__ import annotations

import os

from saeta import _core
from saeta._core import Buffer, Context
from saeta.cuda._libarrow import bridge

TAG = "saeta.cuda"

# What stands in for a GPU of that number; tests put simulated devices here.
stand_ins: dict[int, Context] = {}
_uuids: dict[str, bytes] = {}
_shares: dict[str, tuple[Context, Context]] = {}


def count() -> int:
    if stand_ins:
        return len(stand_ins)
    return sum(1 for each in _core.devices() if each.name.startswith("cuda"))


def home(number: int) -> Context:
    """The process's context of a GPU; with an exportable pool where it was not open."""
    return stand_ins[number] if number in stand_ins else _core._shareable_context(f"cuda:{number}")


def share(of: Context) -> Context:
    """What allocates for this module: a context of the same device whose bytes are counted apart."""
    known = _shares.get(of.device)
    if known is None or known[0] != of or known[0].closed:
        known = _shares[of.device] = (of, of.memory.child(TAG))
    return known[1]


def holding(memory: Buffer) -> Context:
    """The context of the device that memory is on, whatever part of its budget pays for it."""
    return _core.context("host") if memory.device == "host" else home(number_of(memory.context))


def uuid_of(ctx: Context) -> bytes:
    """16 bytes that name the device in every process of the machine."""
    known = _uuids.get(ctx.device)
    if known is None:
        known = _uuids[ctx.device] = _core._device_uuid(ctx)
    return known


def number_of(ctx: Context) -> int:
    kind, _, ordinal = ctx.device.partition(":")
    return int(ordinal) if kind != "host" else 0


os.register_at_fork(after_in_child=_shares.clear)  # a child's contexts are its own
bridge.register(home)
