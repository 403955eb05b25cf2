"""The classes `Context`, a device and its allocations by this module, and `CudaBuffer`, one allocation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow.util import get_contiguous_span

from saeta import _core
from saeta.cuda import _devices, _numba
from saeta.cuda._handle import IpcMemHandle
from saeta.cuda._host_buffer import HostBuffer
from saeta.cuda._libarrow import bridge, classes
from saeta.cuda._ranges import bytes_to_copy


class Context:
    """The primary CUDA context of a device, with the memory that Saeta keeps there.

    Parameters
    ----------
    device_number : int (default 0)
        The number of the GPU.
    handle : int, optional
        A CUcontext of another library. Saeta works in the primary context of a device, as CUDA's runtime and
        all frameworks do. Any other context is a ValueError.

    Example:
        >>> import saeta.cuda as cuda
        >>> cuda.Context(0).buffer_from_data(b"abcd").to_pybytes()
        b'abcd'
    """

    def __init__(self, device_number: int = 0, handle: int = 0) -> None:
        known = self.get_num_devices()
        if not 0 <= device_number < known:
            raise ValueError(f"device_number argument must be non-negative less than {known}")
        ctx = _devices.context_of(device_number)
        if handle:
            own = _core._driver_context(ctx)
            if handle != own:
                raise ValueError(
                    f"context {handle:#x} is not the primary context of device {device_number}, which is "
                    f"{own:#x}: Saeta works in primary contexts alone"
                )
        self._open(ctx)

    def _open(self, ctx: _core.Context) -> None:
        self._ctx = ctx

    @property
    def _share(self) -> _core.Context:
        """The context that buffers are charged to. A forked child has its own."""
        return _devices.share(self._ctx)

    @classmethod
    def from_saeta(cls, ctx: _core.Context) -> Context:
        """Makes the context of a device that Saeta has open: a GPU or the host.

        The memory of a host context is ordinary host memory.

        Example:
            >>> import saeta as sa
            >>> import saeta.cuda as cuda
            >>> cuda.Context.from_saeta(sa.context("host"))
            <saeta.cuda.Context of host>
        """
        context = cls.__new__(cls)
        context._open(ctx)
        return context

    @staticmethod
    def from_numba(context: Any = None) -> Context:
        """Makes the context of a Numba CUDA context; None: Numba's current one.

        Example:
            >>> from numba import cuda as numba_cuda
            >>> import saeta.cuda as cuda
            >>> ctx = cuda.Context.from_numba(numba_cuda.current_context())
        """
        number, handle = _numba.number_and_handle(context)
        return Context(device_number=number, handle=handle)

    def to_numba(self) -> Any:
        """Returns Numba's context of the device."""
        return _numba.context_of(self.device_number)

    @staticmethod
    def get_num_devices() -> int:
        """Returns the number of GPUs."""
        return _devices.count()

    @property
    def device_number(self) -> int:
        """The number of the device."""
        return _devices.number_of(self._ctx)

    @property
    def handle(self) -> int:
        """The CUcontext; 0 if there is none."""
        return _core._driver_context(self._ctx)

    @property
    def saeta(self) -> _core.Context:
        """Saeta's context of the device, with its budget, ledger and counters."""
        return self._ctx

    @property
    def bytes_allocated(self) -> int:
        """Live bytes of buffers that this module made on the device. Waits for pending releases."""
        memory = self._share.memory
        if memory.statistics()["pending_releases"]:
            self._ctx.synchronize()
        return memory.statistics()["current"] or 0

    @property
    def memory_manager(self) -> pa.MemoryManager:
        """The memory manager of pyarrow for the device, for `copy_to`."""
        return classes.memory_manager_of(self.new_buffer(0))

    @property
    def device(self) -> pa.Device:
        """The object of pyarrow for the device."""
        return self.memory_manager.device

    def synchronize(self) -> None:
        """Waits until the device has finished all work queued so far, from any source."""
        self._ctx.synchronize()

    def get_device_address(self, address: int) -> int:
        """Returns the address at which kernels access device, managed or page-locked host memory.

        OSError for memory that the device can't access.

        Example:
            >>> import saeta.cuda as cuda
            >>> ctx = cuda.Context(0)
            >>> buffer = ctx.new_buffer(16)
            >>> ctx.get_device_address(buffer.address) == buffer.address
            True
        """
        if self._ctx.device != "host" and _core._kind_at(self._ctx, address) == "host":
            raise OSError(
                f"address {address:#x} is not memory that {self._ctx.device} can reach (device, managed or "
                "page-locked)"
            )
        return address

    def new_buffer(self, nbytes: int) -> CudaBuffer:
        """Allocates device memory of undefined content, charged to the budget.

        BudgetExceeded, a MemoryError, if the budget has no room.

        Example:
            >>> import saeta.cuda as cuda
            >>> cuda.Context(0).new_buffer(128).size
            128
        """
        if nbytes < 0:
            raise ValueError(f"nbytes must not be negative, got {nbytes}")
        return wrap(self._share.allocate(nbytes, tag=_devices.TAG))

    def foreign_buffer(self, address: int, size: int, base: object = None) -> CudaBuffer:
        """Makes a view of memory that another library owns and the device can access.

        `base` is kept alive until our work on the memory has finished. With address and size 0, makes a new
        empty buffer.

        Example:
            >>> import saeta.cuda as cuda
            >>> ctx = cuda.Context(0)
            >>> theirs = ctx.buffer_from_data(b"abcd")
            >>> ctx.foreign_buffer(theirs.address + 1, 2, base=theirs).to_pybytes()
            b'bc'
        """
        if not address and size == 0:
            return self.new_buffer(0)
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        if not address:
            raise ValueError(f"{size} bytes at address 0")
        reached = self.get_device_address(address)
        return wrap(_core._foreign_bytes(self._ctx, reached, size, base, _devices.TAG))

    def open_ipc_buffer(self, ipc_handle: IpcMemHandle) -> CudaBuffer:
        """Opens memory of another process by its handle, without a copy.

        The other process keeps the memory until the last object here that shows it is gone and our work on it
        has finished. Streams of two processes don't wait for each other: the processes must synchronise
        writes after the export themselves.

        OSError if the other process has ended, no longer shares the buffer, or belongs to another user.
        ArrowInvalid for memory of another device. In the process that exported the buffer, the result is a
        view of the buffer itself.

        Example:
            >>> import saeta.cuda as cuda
            >>> ctx = cuda.Context(0)
            >>> handle = ctx.buffer_from_data(b"abcd").export_for_ipc()
            >>> ctx.open_ipc_buffer(handle).to_pybytes()  # as another process does
            b'abcd'
        """
        from saeta.cuda import _sharing

        if not isinstance(ipc_handle, IpcMemHandle):
            raise TypeError(f"expected an IpcMemHandle, got {type(ipc_handle).__name__}")
        return wrap(_sharing.open_memory(self._ctx, ipc_handle._handle))

    def buffer_from_data(self, data: Any, offset: int = 0, size: int = -1) -> CudaBuffer:
        """Makes a device buffer with a copy of the bytes of `data` from `offset` on; size -1: all of them.

        `data` is a buffer of the device or the host, or an object that `pyarrow.py_buffer` takes.

        Example:
            >>> import saeta.cuda as cuda
            >>> cuda.Context(0).buffer_from_data(b"abcd", offset=1).to_pybytes()
            b'bcd'
        """
        source = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        whole = source.size
        if offset < 0 or (whole and offset >= whole):
            raise ValueError("offset argument is out-of-range")
        if size < 0:
            size = max(whole - offset, 0)
        elif offset + size > whole:
            raise ValueError("requested larger slice than available in device buffer")
        part = source.slice(offset, size) if whole else source
        buffer = self.new_buffer(size)
        if is_on_device(part):
            buffer.copy_from_device(part, position=0, nbytes=size)
        else:
            buffer.copy_from_host(part, position=0, nbytes=size)
        return buffer

    def buffer_from_object(self, obj: Any) -> CudaBuffer:
        """Makes a view of memory that the device can access.

        `obj` is a buffer of this module, or any object with `__cuda_array_interface__`. An array that is not
        contiguous is a ValueError, other objects a pyarrow.ArrowTypeError.

        Example:
            >>> import saeta.cuda as cuda
            >>> cuda.Context(0).buffer_from_object(cuda.new_host_buffer(4)).size
            4
        """
        if isinstance(obj, HostBuffer):
            return self.foreign_buffer(obj.address, obj.size, base=obj)
        if isinstance(obj, pa.Buffer):
            return CudaBuffer.from_buffer(obj)
        described = getattr(obj, "__cuda_array_interface__", None)
        if described is None:
            raise pa.ArrowTypeError(f"cannot create device buffer view from `{type(obj)}` object")
        address = described["data"][0]
        start, end = get_contiguous_span(
            described["shape"], described.get("strides"), int(described["typestr"][2:])
        )
        if not address or start == end:
            return self.new_buffer(0)
        return self.foreign_buffer(address + start, end - start, base=obj)

    def __repr__(self) -> str:
        return f"<saeta.cuda.Context of {self._ctx.device}>"


def wrap(memory: _core.Buffer) -> CudaBuffer:
    """Makes a buffer from a writable buffer of Saeta."""
    buffer = CudaBuffer.__new__(CudaBuffer)
    buffer._take(bridge.wrap(memory, True))
    buffer._memory = memory
    return buffer


def is_on_device(buffer: pa.Buffer) -> bool:
    return isinstance(buffer, CudaBuffer) or not buffer.is_cpu


class CudaBuffer(classes.DeviceBufferBase):  # type: ignore[misc, name-defined]
    """A pyarrow.Buffer whose memory is on a GPU. `Context.new_buffer` and similar functions make it.

    Copies wait for all earlier users of the memory, on any stream, and later users wait for the copies. The
    memory is returned when the last object that shows it is gone and all work on it has finished.

    Example:
        >>> import saeta.cuda as cuda
        >>> buffer = cuda.Context(0).buffer_from_data(b"abcd")
        >>> buffer.size, buffer.is_cpu, buffer[1:].to_pybytes()
        (4, False, b'bcd')
    """

    _memory: _core.Buffer
    _exported: _core._Exported | None = None  # set once other processes may open the buffer

    def __init__(self) -> None:
        raise TypeError(
            "Do not call CudaBuffer's constructor directly, use `<saeta.cuda.Context instance>.new_buffer` "
            "method instead."
        )

    @staticmethod
    def from_buffer(buf: pa.Buffer) -> CudaBuffer:
        """Makes a CudaBuffer from a buffer of pyarrow.

        pyarrow.ArrowTypeError if its memory is not on a GPU.

        Example:
            >>> import pyarrow as pa
            >>> import saeta.cuda as cuda
            >>> there = pa.array([1, 2]).copy_to(cuda.Context(0).memory_manager)
            >>> cuda.CudaBuffer.from_buffer(there.buffers()[1]).size
            16
        """
        if not isinstance(buf, pa.Buffer):
            raise TypeError(f"expected a pyarrow.Buffer, got {type(buf).__name__}")
        memory = buf._memory if isinstance(buf, CudaBuffer) else bridge.memory_of(buf)
        if memory is None:
            raise pa.ArrowTypeError("buffer is not backed by a CudaBuffer")
        buffer = CudaBuffer.__new__(CudaBuffer)
        buffer._take(buf)
        buffer._memory = memory
        return buffer

    @staticmethod
    def from_numba(mem: Any) -> CudaBuffer:
        """Makes a view of a Numba MemoryPointer.

        Example:
            >>> from numba import cuda as numba_cuda
            >>> import saeta.cuda as cuda
            >>> array = numba_cuda.device_array(3)
            >>> cuda.CudaBuffer.from_numba(array.gpu_data).size
            24
        """
        ctx = Context.from_numba(getattr(mem, "context", None))
        return ctx.foreign_buffer(_numba.address_of(mem.device_pointer_value), mem.size, base=mem)

    def to_numba(self) -> Any:
        """Returns a Numba MemoryPointer to the memory, which keeps this buffer alive."""
        return _numba.pointer_to(self)

    @property
    def memory(self) -> _core.Buffer:
        """The same memory as a `saeta.Buffer` for `saeta.use`, for ordered work on a stream of yours."""
        return self._memory

    @property
    def context(self) -> Context:
        """The context that holds the memory."""
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

        Example:
            >>> import saeta.cuda as cuda
            >>> buffer = cuda.Context(0).buffer_from_data(b"abcd")
            >>> buffer.copy_to_host(position=1, nbytes=2).to_pybytes()
            b'bc'
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

        Example:
            >>> import saeta.cuda as cuda
            >>> buffer = cuda.Context(0).buffer_from_data(b"....")
            >>> buffer.copy_from_host(b"ab", position=1), buffer.to_pybytes()
            (2, b'.ab.')
        """
        source = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        count = bytes_to_copy(position, nbytes, source.size, self.size, "host buffer")
        _core._write_bytes(self._writable(), position, memoryview(source)[:count])
        return count

    def copy_from_device(self, buf: CudaBuffer, position: int = 0, nbytes: int = -1) -> int:
        """Copies a buffer of this device or another one to `position`, and returns the number of bytes.

        nbytes -1: as many bytes as there are and fit.

        Example:
            >>> import saeta.cuda as cuda
            >>> ctx = cuda.Context(0)
            >>> source, target = ctx.buffer_from_data(b"ab"), ctx.buffer_from_data(b"....")
            >>> target.copy_from_device(source, position=1), target.to_pybytes()
            (2, b'.ab.')
        """
        source = CudaBuffer.from_buffer(buf)
        count = bytes_to_copy(position, nbytes, source.size, self.size, "device buffer")
        _core._copy_bytes(self._writable(), position, source._memory, 0, count)
        return count

    def export_for_ipc(self) -> IpcMemHandle:
        """Makes a handle of these bytes for other processes of the same user on this machine.

        Waits for the last writes. Keep the buffer, or the handle, until the other process has opened it. From
        then on the other process keeps the memory. UnsupportedError, a NotImplementedError, for memory that
        is not the context's own, and if the context was opened before without `exportable_pool`
        (`saeta.context`).

        Example:
            >>> import saeta.cuda as cuda
            >>> cuda.Context(0).buffer_from_data(b"abcd").export_for_ipc()
            <saeta.cuda.IpcMemHandle of 4 bytes>
        """
        from saeta.cuda import _sharing

        ctx = self.context._ctx
        self._exported = _core._share_buffer(ctx, self._memory if self.size else None, self._exported)
        return IpcMemHandle._make(_sharing.handle_of(self._exported), self._exported)

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
        part = CudaBuffer.__new__(CudaBuffer)
        part._take_slice(self, offset, length)
        part._memory = self._memory[offset : offset + length]
        return part

    def _byte(self, index: int) -> int:
        return int(self.copy_to_host(position=index, nbytes=1)[0])

    def _writable(self) -> _core.Buffer:
        if not self.is_mutable:
            raise ValueError("the device buffer is read-only")
        return self._memory
