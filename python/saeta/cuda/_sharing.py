"""Exports buffers to other processes and opens theirs."""

from __future__ import annotations

import pyarrow as pa

from saeta import _core
from saeta.cuda import _devices
from saeta.cuda._handle import Handle
from saeta.errors import AccessError, ClosedError, ExchangeError


def handle_of(entry: _core._Exported) -> Handle:
    boot, broker, token, device, size, _ = entry.place
    return Handle(boot, device, token, size, broker)


def open_memory(ctx: _core.Context, handle: Handle) -> _core.Buffer:
    """Opens the shared bytes in this process.

    In the process that exported them, returns the memory of the buffer.
    """
    if handle.boot != _core._machine_id():
        raise OSError("the handle was made on another machine, or before this one was started again")
    if handle.device != _core._device_uuid(ctx):
        raise pa.ArrowInvalid(f"the handle is of memory of another device than {ctx.device}")
    place = handle.boot, handle.broker, handle.token, handle.device, handle.size, False
    try:
        return _core._open_shared_buffer(ctx, place, _devices.TAG)
    except AccessError as refused:
        raise PermissionError(str(refused)) from None
    except (ClosedError, ExchangeError) as refused:
        raise OSError(str(refused)) from None
