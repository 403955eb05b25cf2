"""Exports buffers to other processes and opens theirs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from saeta import _core
from saeta._share import broker, leases, pools, wire
from saeta.cuda import _devices
from saeta.cuda._handle import Handle


def export(kept: Any, ctx: _core.Context, known: broker.Exported | None) -> broker.Exported:
    """Shares the bytes of a CudaBuffer, after their last writes.

    Returns `known`, an earlier export of the same bytes, where it is still valid.
    """
    shared = _core._share_bytes(kept._memory) if kept.size else b""
    own = broker.own()
    if known is None or known.broker is not own:
        known = broker.Exported(own, ctx, kept, shared)
        own.add(known)
    return known


def handle_of(entry: broker.Exported) -> Handle:
    return Handle(
        wire.boot_id(),
        pools.uuid_of(entry.home),
        entry.token,
        entry.kept.size,
        entry.broker.name,
    )


def open_memory(ctx: _core.Context, handle: Handle) -> _core.Buffer:
    """Opens the shared bytes in this process.

    In the process that exported them, returns the memory of the buffer.
    """
    if handle.boot != wire.boot_id():
        raise OSError("the handle was made on another machine, or before this one was started again")
    if handle.device != pools.uuid_of(ctx):
        raise pa.ArrowInvalid(f"the handle is of memory of another device than {ctx.device}")
    own = broker.own()
    if handle.broker == own.name:
        entry = own.find(handle.token)
        if entry is None:
            raise OSError("the buffer is not shared any more: keep it, or its handle, until it is opened")
        memory: _core.Buffer = entry.kept._memory
        return memory
    lease, shared, _ = leases.ask(handle.broker, wire.OPEN, handle.token)
    size = int.from_bytes(shared[-8:], "little") if shared else 0
    if size != handle.size:
        raise OSError(f"the handle is of {handle.size} bytes, but the shared buffer has {size}")
    if not shared:
        return ctx.allocate(0, tag=_devices.TAG)
    return pools.open_bytes(ctx, (handle.broker, handle.device), handle.token, shared, lease, _devices.TAG)
