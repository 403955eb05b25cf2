"""Page-locked buffers on the host, which are buffers of pyarrow."""

from __future__ import annotations

from saeta import _core
from saeta.cuda import _devices
from saeta.cuda._libarrow import bridge, classes


class HostBuffer(classes.BufferBase):  # type: ignore[misc, name-defined]
    """A pyarrow.Buffer of page-locked host memory, made by `new_host_buffer`.

    Devices read and write it at the speed of the link.

    Example:
        >>> import saeta.cuda as cuda
        >>> buffer = cuda.new_host_buffer(16)
        >>> buffer.is_cpu
        True
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

    Example:
        >>> import saeta.cuda as cuda
        >>> cuda.new_host_buffer(16).size
        16
    """
    if size < 0:
        raise ValueError(f"size must not be negative, got {size}")
    known = _devices.count()
    if known and not 0 <= device < known:
        raise ValueError(f"device argument must be non-negative less than {known}")
    ctx = _devices.context_of(device) if known else _core.context("host")
    buffer = HostBuffer.__new__(HostBuffer)
    buffer._memory = ctx.allocate(size, tag=_devices.TAG, kind="pinned")
    buffer._take(bridge.wrap_host(buffer._memory))
    return buffer
