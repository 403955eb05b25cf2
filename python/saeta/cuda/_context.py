"""`Context`: a device, and the memory that this module allocates on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.util import get_contiguous_span

from saeta import _core
from saeta.cuda import _devices
from saeta.cuda._libarrow import classes
from saeta.cuda._wire import Handle

if TYPE_CHECKING:
    from saeta.cuda._broker import Exported
    from saeta.cuda._buffers import CudaBuffer


class Context:
    """The primary CUDA context of a device, with the memory that Saeta keeps there.

    Parameters
    ----------
    device_number : int (default 0)
        The number of the GPU.
    handle : int, optional
        A CUcontext of another library. Saeta works in the primary context of a device, as CUDA's runtime and
        all frameworks do. Any other context is a ValueError.
    """

    def __init__(self, device_number: int = 0, handle: int = 0) -> None:
        known = self.get_num_devices()
        if not 0 <= device_number < known:
            raise ValueError(f"device_number argument must be non-negative less than {known}")
        home = _devices.home(device_number)
        if handle:
            own = _core._driver_context(home)
            if handle != own:
                raise ValueError(
                    f"context {handle:#x} is not the primary context of device {device_number}, which is "
                    f"{own:#x}: Saeta works in primary contexts alone"
                )
        self._open(home)

    def _open(self, home: _core.Context) -> None:
        self._home = home

    @property
    def _share(self) -> _core.Context:
        """The context that pays for buffers. A child of fork has its own."""
        return _devices.share(self._home)

    @classmethod
    def from_saeta(cls, ctx: _core.Context) -> Context:
        """Makes the context of a device that Saeta has open: a GPU or the host.

        The memory of a host context is ordinary host memory.
        """
        made = cls.__new__(cls)
        made._open(ctx)
        return made

    @staticmethod
    def from_numba(context: Any = None) -> Context:
        """Makes the context of a Numba CUDA context; None: Numba's current one."""
        from saeta.cuda import _numba

        return _numba.context_from(context)

    def to_numba(self) -> Any:
        """Returns Numba's context of the device."""
        from saeta.cuda import _numba

        return _numba.context_of(self.device_number)

    @staticmethod
    def get_num_devices() -> int:
        """Returns the number of GPUs."""
        return _devices.count()

    @property
    def device_number(self) -> int:
        """The number of the device."""
        return _devices.number_of(self._home)

    @property
    def handle(self) -> int:
        """The CUcontext; 0 if there is none."""
        return _core._driver_context(self._home)

    @property
    def saeta(self) -> _core.Context:
        """Saeta's context of the device, with its budget, ledger and counters."""
        return self._home

    @property
    def bytes_allocated(self) -> int:
        """Live bytes of buffers that this module made on the device. Waits for pending releases."""
        memory = self._share.memory
        if memory.statistics()["pending_releases"]:
            self._home.synchronize()
        return memory.statistics()["current"] or 0

    @property
    def memory_manager(self) -> pa.MemoryManager:
        """pyarrow's memory manager of the device, for `copy_to`."""
        return classes.memory_manager_of(self.new_buffer(0))

    @property
    def device(self) -> pa.Device:
        """pyarrow's object for the device."""
        return self.memory_manager.device

    def synchronize(self) -> None:
        """Waits until the device has finished all work queued so far, from any source."""
        self._home.synchronize()

    def get_device_address(self, address: int) -> int:
        """Returns the address at which kernels access device, managed or page-locked host memory.

        OSError for memory that the device can't access.
        """
        if self._home.device != "host" and _core._kind_at(self._home, address) == "host":
            raise OSError(
                f"address {address:#x}: no memory that {self._home.device} reaches (not of a device, managed "
                "or page-locked)"
            )
        return address

    def new_buffer(self, nbytes: int) -> CudaBuffer:
        """Allocates device memory of undefined content, charged to the budget.

        BudgetExceeded, a MemoryError, if the budget has no room.
        """
        from saeta.cuda._buffers import wrap

        if nbytes < 0:
            raise ValueError(f"nbytes must not be negative, got {nbytes}")
        return wrap(self._share.allocate(nbytes, tag=_devices.TAG))

    def foreign_buffer(self, address: int, size: int, base: object = None) -> CudaBuffer:
        """Makes a view of memory that another library owns and the device can access.

        `base` is kept alive until our work on the memory has finished. With address and size 0, makes a new
        buffer of no bytes.
        """
        from saeta.cuda._buffers import wrap

        if not address and size == 0:
            return self.new_buffer(0)
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        if not address:
            raise ValueError(f"{size} bytes at address 0")
        reached = self.get_device_address(address)
        return wrap(_core._foreign_bytes(self._home, reached, size, base, _devices.TAG))

    def open_ipc_buffer(self, ipc_handle: IpcMemHandle) -> CudaBuffer:
        """Opens memory of another process by its handle, without a copy.

        The other process keeps the memory until the last object here that shows it is gone and our work on it
        has finished. Streams of two processes don't wait for each other: the processes must synchronise
        writes after the export themselves.

        OSError if the other process has ended, no longer shares the buffer, or belongs to another user.
        ArrowInvalid for memory of another device. In the process that exported the buffer, the result is a
        view of the buffer itself.
        """
        from saeta.cuda import _sharing

        if not isinstance(ipc_handle, IpcMemHandle):
            raise TypeError(f"expected an IpcMemHandle, got {type(ipc_handle).__name__}")
        return _sharing.open_buffer(self._home, ipc_handle._handle)

    def buffer_from_data(self, data: Any, offset: int = 0, size: int = -1) -> CudaBuffer:
        """Makes a device buffer with a copy of the bytes of `data` from `offset` on; size -1: all of them.

        `data` is a buffer of the device or the host, or an object that `pyarrow.py_buffer` takes.
        """
        from saeta.cuda._buffers import is_on_device

        source = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        whole = source.size
        if offset < 0 or (whole and offset >= whole):
            raise ValueError("offset argument is out-of-range")
        if size < 0:
            size = max(whole - offset, 0)
        elif offset + size > whole:
            raise ValueError("requested larger slice than available in device buffer")
        part = source.slice(offset, size) if whole else source
        made = self.new_buffer(size)
        if is_on_device(part):
            made.copy_from_device(part, position=0, nbytes=size)
        else:
            made.copy_from_host(part, position=0, nbytes=size)
        return made

    def buffer_from_object(self, obj: Any) -> CudaBuffer:
        """Makes a view of memory that the device can access.

        `obj` is a buffer of this module, or any object with `__cuda_array_interface__`. An array that is not
        contiguous is a ValueError, other objects a pyarrow.ArrowTypeError.
        """
        from saeta.cuda._buffers import CudaBuffer, HostBuffer

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
        return f"<saeta.cuda.Context of {self._home.device}>"


class IpcMemHandle:
    """A handle of device memory for other processes of the same user on this machine.

    `CudaBuffer.export_for_ipc` makes it. Keep it, or the buffer, until the other process has opened it.
    """

    _handle: Handle
    _exported: Exported | None  # only in the process that made the handle

    def __init__(self) -> None:
        raise TypeError(
            "Do not call IpcMemHandle's constructor directly, use `CudaBuffer.export_for_ipc` instead."
        )

    @staticmethod
    def _make(handle: Handle, exported: Exported | None = None) -> IpcMemHandle:
        made = IpcMemHandle.__new__(IpcMemHandle)
        made._handle = handle
        made._exported = exported
        return made

    @staticmethod
    def from_buffer(opaque_handle: pa.Buffer) -> IpcMemHandle:
        """Reads a handle that `serialize` wrote in another process. ArrowInvalid for other bytes."""
        given = opaque_handle if isinstance(opaque_handle, pa.Buffer) else pa.py_buffer(opaque_handle)
        return IpcMemHandle._make(Handle.unpack(given.to_pybytes()))

    def serialize(self, pool: pa.MemoryPool | None = None) -> pa.Buffer:
        """Writes the handle as bytes into host memory, from `pool`.

        Anybody who has the bytes may open the buffer.
        """
        packed = self._handle.pack()
        made = pa.allocate_buffer(len(packed), memory_pool=pool)
        memoryview(made).cast("B")[:] = packed
        return made

    def __repr__(self) -> str:
        return f"<saeta.cuda.IpcMemHandle of {self._handle.size} bytes>"
