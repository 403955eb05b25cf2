"""Buffers on a device and page-locked buffers on the host, which are buffers of pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from saeta import _core
from saeta.cuda import _devices
from saeta.cuda._libarrow import bridge, classes

if TYPE_CHECKING:
    from saeta.cuda._broker import Exported
    from saeta.cuda._context import Context, IpcMemHandle


def wrap(memory: _core.Buffer) -> CudaBuffer:
    """Makes a buffer from memory of Saeta that others may write."""
    made = CudaBuffer.__new__(CudaBuffer)
    made._take(bridge.wrap(memory, True))
    made._memory = memory
    return made


def is_on_device(buffer: pa.Buffer) -> bool:
    return isinstance(buffer, CudaBuffer) or not buffer.is_cpu


def _room(position: int, nbytes: int, available: int, size: int, whose: str) -> int:
    """Returns how many bytes to copy from `available` bytes to `position` of a buffer of `size` bytes.

    nbytes -1: as many as fit.
    """
    if not 0 <= position <= size:
        raise ValueError(f"position argument is out-of-range: {position} in a buffer of {size} bytes")
    if nbytes < 0:
        return min(size - position, available)
    if nbytes > available:
        raise ValueError(f"requested more to copy than available from {whose}: {nbytes} of {available} bytes")
    if nbytes > size - position:
        raise ValueError(
            f"requested more to copy than available in device buffer: {nbytes} bytes at {position} of {size}"
        )
    return nbytes


class CudaBuffer(classes.DeviceBufferBase):  # type: ignore[misc, name-defined]
    """A pyarrow.Buffer whose memory is on a GPU. `Context.new_buffer` and similar functions make it.

    Copies wait for all earlier users of the memory, on any stream, and later users wait for the copies. The
    memory is returned when the last object that shows it is gone and all work on it has finished.
    """

    _memory: _core.Buffer
    _exported: Exported | None = None  # set once other processes may open the buffer

    def __init__(self) -> None:
        raise TypeError(
            "Do not call CudaBuffer's constructor directly, use `<saeta.cuda.Context instance>.new_buffer` "
            "method instead."
        )

    @staticmethod
    def from_buffer(buf: pa.Buffer) -> CudaBuffer:
        """Makes a CudaBuffer from a buffer of pyarrow.

        pyarrow.ArrowTypeError if its memory is not on a GPU.
        """
        if not isinstance(buf, pa.Buffer):
            raise TypeError(f"expected a pyarrow.Buffer, got {type(buf).__name__}")
        memory = buf._memory if isinstance(buf, CudaBuffer) else bridge.memory_of(buf)
        if memory is None:
            raise pa.ArrowTypeError("buffer is not backed by a CudaBuffer")
        made = CudaBuffer.__new__(CudaBuffer)
        made._take(buf)
        made._memory = memory
        return made

    @staticmethod
    def from_numba(mem: Any) -> CudaBuffer:
        """Makes a view of a Numba MemoryPointer."""
        from saeta.cuda import _numba

        return _numba.buffer_from(mem)

    def to_numba(self) -> Any:
        """Returns a Numba MemoryPointer to the memory, which keeps this buffer alive."""
        from saeta.cuda import _numba

        return _numba.pointer_to(self)

    @property
    def memory(self) -> _core.Buffer:
        """The same memory as a `saeta.Buffer` for `saeta.use`, for ordered work on a stream of yours."""
        return self._memory

    @property
    def context(self) -> Context:
        """The context that holds the memory."""
        from saeta.cuda._context import Context

        return Context.from_saeta(_devices.holding(self._memory))

    def copy_to_host(
        self,
        position: int = 0,
        nbytes: int = -1,
        buf: pa.Buffer | None = None,
        memory_pool: pa.MemoryPool | None = None,
        resizable: bool = False,
    ) -> pa.Buffer:
        """Copies bytes from `position` on into host memory. Returns that memory when the copy is complete.

        nbytes -1: all bytes, or as many as `buf` has room for. `buf` is a writable buffer of the host; None:
        a new one, from `memory_pool`. ValueError if there are not as many bytes or not as much room.
        """
        size = self.size
        if not 0 <= position <= size:
            raise ValueError(f"position argument is out-of-range: {position} in a buffer of {size} bytes")
        left = size - position
        if buf is not None and nbytes > buf.size:
            raise ValueError(f"requested copy does not fit into host buffer: {nbytes} bytes into {buf.size}")
        if nbytes > left:
            raise ValueError(
                f"requested more to copy than available from device buffer: {nbytes} bytes at {position} of "
                f"{size}"
            )
        if buf is None:
            count = left if nbytes < 0 else nbytes
            buf = pa.allocate_buffer(count, memory_pool=memory_pool, resizable=resizable)
        else:
            count = min(left, buf.size) if nbytes < 0 else nbytes
            if not buf.is_cpu:
                raise ValueError("the buffer to copy to is not in host memory")
            if not buf.is_mutable:
                raise ValueError("the host buffer to copy to is read-only")
        if count:
            _core._read_bytes(self._memory, position, memoryview(buf)[:count])
        return buf

    def copy_from_host(self, data: Any, position: int = 0, nbytes: int = -1) -> int:
        """Copies host memory to `position`, and returns the number of bytes when the copy is complete.

        nbytes -1: as many bytes as there are and fit.
        """
        source = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        count = _room(position, nbytes, source.size, self.size, "host buffer")
        if count:
            _core._write_bytes(self._writable(), position, memoryview(source)[:count])
        return count

    def copy_from_device(self, buf: CudaBuffer, position: int = 0, nbytes: int = -1) -> int:
        """Copies a buffer of this device or another one to `position`, and returns the number of bytes.

        nbytes -1: as many bytes as there are and fit.
        """
        source = CudaBuffer.from_buffer(buf)
        count = _room(position, nbytes, source.size, self.size, "device buffer")
        if count:
            _core._copy_bytes(self._writable(), position, source._memory, 0, count)
        return count

    def export_for_ipc(self) -> IpcMemHandle:
        """Makes a handle of these bytes for other processes of the same user on this machine.

        Waits for the last writes. Keep the buffer, or the handle, until the other process has opened it. From
        then on the other process keeps the memory. UnsupportedError, a NotImplementedError, for memory that
        is not the context's own, and if the context was opened before without `exportable_pool`
        (`saeta.context`).
        """
        from saeta.cuda import _sharing
        from saeta.cuda._context import IpcMemHandle

        exported = _sharing.export(self)
        return IpcMemHandle._make(_sharing.handle_of(exported), exported)

    def slice(self, offset: int = 0, length: int | None = None) -> CudaBuffer:
        """Returns the bytes from `offset` on, at most `length`, without a copy."""
        size = self.size
        if offset < 0 or (size and offset >= size) or offset > size:
            raise ValueError(f"offset argument is out-of-range: {offset} in a buffer of {size} bytes")
        if length is not None and length < 0:
            raise ValueError(f"length must not be negative, got {length}")
        return self._part(offset, size - offset if length is None else min(length, size - offset))

    def to_pybytes(self) -> bytes:
        """Returns the content as Python bytes."""
        return bytes(self.copy_to_host().to_pybytes())

    def hex(self) -> bytes:
        """Returns the content as hexadecimal digits."""
        return bytes(self.copy_to_host().hex())

    def equals(self, other: pa.Buffer) -> bool:
        """Whether both buffers have the same bytes, wherever they are."""
        if self.size != other.size:
            return False
        if self.address == other.address:
            return True
        there = other.copy_to_host() if isinstance(other, CudaBuffer) else other
        return bool(self.copy_to_host().equals(there))

    def __eq__(self, other: object) -> bool:
        return self.equals(other if isinstance(other, pa.Buffer) else pa.py_buffer(other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a CudaBuffer can't be pickled: pickle what `copy_to_host()` returns")

    def _part(self, offset: int, length: int) -> CudaBuffer:
        made = CudaBuffer.__new__(CudaBuffer)
        made._take_slice(self, offset, length)
        made._memory = self._memory[offset : offset + length]
        return made

    def _byte(self, index: int) -> int:
        return int(self.copy_to_host(position=index, nbytes=1)[0])

    def _writable(self) -> _core.Buffer:
        if not self.is_mutable:
            raise ValueError("the device buffer is read-only")
        return self._memory


class HostBuffer(classes.BufferBase):  # type: ignore[misc, name-defined]
    """A pyarrow.Buffer of page-locked host memory, made by `new_host_buffer`.

    Devices read and write it at the speed of the link.
    """

    _memory: _core.Buffer

    def __init__(self) -> None:
        raise TypeError(
            "Do not call HostBuffer's constructor directly, use `cuda.new_host_buffer` function instead."
        )

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self._memory.nbytes

    @property
    def memory(self) -> _core.Buffer:
        """The same memory as a `saeta.Buffer` for `saeta.use`."""
        return self._memory


def new_host_buffer(size: int, device: int = 0) -> HostBuffer:
    """Allocates page-locked host memory for a device, charged to the budget of the host.

    Without a GPU it is ordinary memory.
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}")
    known = _devices.count()
    if known and not 0 <= device < known:
        raise ValueError(f"device argument must be non-negative less than {known}")
    home = _devices.home(device) if known else _core.context("host")
    made = HostBuffer.__new__(HostBuffer)
    made._memory = home.allocate(size, tag=_devices.TAG, kind="pinned")
    made._take(bridge.wrap_host(made._memory))
    return made
