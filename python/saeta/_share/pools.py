"""Opens device memory of other processes. Each of their memory pools is imported once."""

from __future__ import annotations

import os
import threading
from typing import TypeAlias

from saeta import _core
from saeta._share import broker, wire

Key: TypeAlias = tuple[bytes, bytes]  # the broker of a process, and the device


class _Pool:
    """The memory pool of another process. It is imported on first use, which takes milliseconds."""

    def __init__(self, home: _core.Context) -> None:
        self.home = home
        self.lock = threading.Lock()
        self.imported: _core._ImportedPool | None = None

    def get(self, key: Key, token: bytes) -> _core._ImportedPool:
        with self.lock:
            if self.imported is None:
                self._import(key, token)
            return self.imported  # type: ignore[return-value]

    def _import(self, key: Key, token: bytes) -> None:
        """Imports the pool, and drops it when the exporter ends, because it then shares no more memory."""
        connection = wire.connect(key[0])
        try:
            _, descriptors = wire.ask(connection, wire.POOL, token)
            if len(descriptors) != 1:
                raise OSError("the process that exported the buffer sent no descriptor of its pool")
            self.imported = _core._ImportedPool(self.home, descriptors[0].number)
            descriptors[0].close()
        except BaseException:
            connection.close()
            raise

        def forget() -> None:
            if _pools.get(key) is self:
                del _pools[key]

        broker.own().watch(connection, forget)


# By device name. A query of the driver would take as long as the rest of an export.
_uuids: dict[str, bytes] = {}


def uuid_of(ctx: _core.Context) -> bytes:
    """Returns the 16 bytes that name the device in every process of the machine."""
    known = _uuids.get(ctx.device)
    if known is None:
        known = _uuids[ctx.device] = _core._device_uuid(ctx)
    return known


_lock = threading.Lock()
_pools: dict[Key, _Pool] = {}  # by broker and device


def _pool_of(key: Key, home: _core.Context) -> _Pool:
    with _lock:
        known = _pools.get(key)
        if known is None or known.home != home:
            known = _pools[key] = _Pool(home)
        return known


def open_bytes(
    home: _core.Context, key: Key, token: bytes, shared: bytes, lease: _core._Lease, tag: str
) -> _core.Buffer:
    """Opens bytes that another process shares under `token`. The lease ends after their last use."""
    return _pool_of(key, home).get(key, token).open(home, shared, lease, tag)


def _reset_in_child() -> None:
    """Drops the imported pools in a child of fork, which imports its own."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_reset_in_child)
