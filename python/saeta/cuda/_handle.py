"""The handle by which another process opens a buffer."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pyarrow as pa

from saeta import _core

_MAGIC = b"SAETAIPC"
_VERSION = 1
_HANDLE = struct.Struct("<8sH16s16s16sQB")


class Handle(NamedTuple):
    """The contents of a handle: the exporter that shares the buffer, and the expected size."""

    boot: bytes  # id of the machine since its last start
    device: bytes
    token: bytes  # a secret: every process that has it may open the buffer
    size: int
    broker: bytes  # name of the exporter's socket

    def pack(self) -> bytes:
        fixed = _HANDLE.pack(
            _MAGIC, _VERSION, self.boot, self.device, self.token, self.size, len(self.broker)
        )
        return fixed + self.broker

    @staticmethod
    def unpack(data: bytes) -> Handle:
        """Reads a handle. ArrowInvalid for bytes that `pack` did not make."""
        if len(data) < _HANDLE.size:
            raise pa.ArrowInvalid(
                f"not a handle of device memory: {len(data)} bytes, at least {_HANDLE.size} expected"
            )
        magic, version, boot, device, token, size, length = _HANDLE.unpack_from(data)
        if magic != _MAGIC:
            raise pa.ArrowInvalid(
                "not a handle of device memory: the first 8 bytes are not those of saeta.cuda"
            )
        if version != _VERSION:
            raise pa.ArrowInvalid(
                f"a handle of device memory of version {version}: this process knows version {_VERSION}"
            )
        broker = data[_HANDLE.size :]
        if len(broker) != length or not _core._is_broker_name(broker):
            raise pa.ArrowInvalid(
                "not a handle of device memory: it does not end with the name of its process"
            )
        return Handle(boot, device, token, size, broker)


class IpcMemHandle:
    """A handle of device memory for other processes of the same user on this machine.

    `CudaBuffer.export_for_ipc` makes it. Keep it, or the buffer, until the other process has opened it.

    Example:
        >>> import saeta.cuda as cuda
        >>> buffer = cuda.Context(0).buffer_from_data(b"abcd")
        >>> buffer.export_for_ipc()
        <saeta.cuda.IpcMemHandle of 4 bytes>
    """

    _handle: Handle
    _exported: object  # the export of the buffer; None in other processes

    def __init__(self) -> None:
        raise TypeError(
            "Do not call IpcMemHandle's constructor directly, use `CudaBuffer.export_for_ipc` instead."
        )

    @staticmethod
    def _make(handle: Handle, exported: object = None) -> IpcMemHandle:
        made = IpcMemHandle.__new__(IpcMemHandle)
        made._handle = handle
        made._exported = exported
        return made

    @staticmethod
    def from_buffer(opaque_handle: pa.Buffer) -> IpcMemHandle:
        """Reads a handle that `serialize` wrote in another process. ArrowInvalid for other bytes.

        Example:
            >>> import saeta.cuda as cuda
            >>> buffer = cuda.Context(0).buffer_from_data(b"abcd")
            >>> written = buffer.export_for_ipc().serialize()    # send it to the other process
            >>> cuda.IpcMemHandle.from_buffer(written)
            <saeta.cuda.IpcMemHandle of 4 bytes>
        """
        given = opaque_handle if isinstance(opaque_handle, pa.Buffer) else pa.py_buffer(opaque_handle)
        return IpcMemHandle._make(Handle.unpack(given.to_pybytes()))

    def serialize(self, pool: pa.MemoryPool | None = None) -> pa.Buffer:
        """Writes the handle as bytes into host memory, from `pool`.

        Anybody who has the bytes may open the buffer.

        Example:
            >>> import saeta.cuda as cuda
            >>> buffer = cuda.Context(0).buffer_from_data(b"abcd")
            >>> written = buffer.export_for_ipc().serialize()
            >>> written.is_cpu
            True
        """
        packed = self._handle.pack()
        buffer = pa.allocate_buffer(len(packed), memory_pool=pool)
        memoryview(buffer).cast("B")[:] = packed
        return buffer

    def __repr__(self) -> str:
        return f"<saeta.cuda.IpcMemHandle of {self._handle.size} bytes>"
