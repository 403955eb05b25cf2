"""Exports buffers to other processes and opens theirs."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pyarrow as pa

from saeta import _core
from saeta.cuda import _broker, _devices, _wire


def export(kept: Any, home: _core.Context, known: _broker.Exported | None) -> _broker.Exported:
    """Shares the bytes of a CudaBuffer, after their last writes.

    Returns `known`, an earlier export of the same bytes, where it is still valid.
    """
    shared = _core._share_bytes(kept._memory) if kept.size else b""
    broker = _broker.own()
    if known is None or known.broker is not broker:
        known = _broker.Exported(broker, home, kept, shared)
        broker.add(known)
    return known


def handle_of(entry: _broker.Exported) -> _wire.Handle:
    return _wire.Handle(
        _wire.boot_id(),
        _devices.uuid_of(entry.home),
        entry.token,
        entry.kept.size,
        entry.broker.name,
    )


class _Lease:
    """Closes its connection when it is dropped.

    The end of the connection tells the exporter that its memory is not used any more.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __del__(self) -> None:
        self._connection.close()


class _Pool:
    """The memory pool of another process. It is imported on first use, which takes milliseconds."""

    def __init__(self, home: _core.Context) -> None:
        self.home = home
        self.lock = threading.Lock()
        self.imported: _core._ImportedPool | None = None

    def get(self, key: tuple[bytes, bytes], token: bytes) -> _core._ImportedPool:
        with self.lock:
            if self.imported is None:
                self._import(key, token)
            return self.imported  # type: ignore[return-value]

    def _import(self, key: tuple[bytes, bytes], token: bytes) -> None:
        """Imports the pool, and forgets it when the exporter ends.

        An ended exporter can't share new memory of its pool.
        """
        connection = _wire.connect(key[0])
        try:
            _, descriptors = _wire.ask(connection, _wire.POOL, token)
            if len(descriptors) != 1:
                raise OSError("the process that exported the buffer sent no descriptor of its pool")
            try:
                self.imported = _core._ImportedPool(self.home, descriptors[0])
            finally:
                os.close(descriptors[0])
        except BaseException:
            connection.close()
            raise

        def forget() -> None:
            if _pools.get(key) is self:
                del _pools[key]

        connection.settimeout(None)
        _broker.own().watch(connection, forget)


_lock = threading.Lock()
_pools: dict[tuple[bytes, bytes], _Pool] = {}  # by broker and device


def _pool_of(handle: _wire.Handle, home: _core.Context) -> _Pool:
    key = (handle.broker, handle.device)
    with _lock:
        known = _pools.get(key)
        if known is None or known.home != home:
            known = _pools[key] = _Pool(home)
        return known


def open_memory(home: _core.Context, handle: _wire.Handle) -> _core.Buffer:
    """Opens the shared bytes in this process.

    In the process that exported them, returns the memory of the buffer.
    """
    if handle.boot != _wire.boot_id():
        raise OSError("the handle was made on another machine, or before this one was started again")
    if handle.device != _devices.uuid_of(home):
        raise pa.ArrowInvalid(f"the handle is of memory of another device than {home.device}")
    own = _broker.own()
    if handle.broker == own.name:
        entry = own.find(handle.token)
        if entry is None:
            raise OSError("the buffer is not shared any more: keep it, or its handle, until it is opened")
        memory: _core.Buffer = entry.kept._memory
        return memory
    connection = _wire.connect(handle.broker)
    try:
        shared, descriptors = _wire.ask(connection, _wire.OPEN, handle.token)
    except BaseException:
        connection.close()
        raise
    lease = _Lease(connection)
    for each in descriptors:
        os.close(each)
    size = int.from_bytes(shared[-8:], "little") if shared else 0
    if size != handle.size:
        raise OSError(f"the handle is of {handle.size} bytes, but the shared buffer has {size}")
    if not shared:
        return home.allocate(0, tag=_devices.TAG)
    pool = _pool_of(handle, home).get((handle.broker, handle.device), handle.token)
    return pool.open(home, shared, lease, _devices.TAG)


def _reset_in_child() -> None:
    """Forgets the imported pools in a child of fork, which opens memory for itself."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_reset_in_child)
