"""Arrow's CUDA module for pyarrow's released wheels: the names of `pyarrow.cuda`, on Saeta's contexts.

Names, arguments, defaults and errors are those of the published module. Memory comes from the process's
context of the device. It counts in the context's budget and ledger, copies are ordered with its users, and it
is returned after their work. Buffers, devices and memory managers are pyarrow's own classes, so
`pyarrow.record_batch(table)`, `.copy_to(ctx.memory_manager)` and `repr` work for arrays on a device, also for
those of other libraries. `install()` makes `import pyarrow.cuda` find this module.

Without pyarrow, or with a release of it that this package was not built for, the import raises
MissingDependency, which is an ImportError.

Example:
    >>> import saeta.cuda as cuda  # in place of: import pyarrow.cuda as cuda
    >>> ctx = cuda.Context(0)
    >>> ctx.buffer_from_data(b"abcd").copy_to_host().to_pybytes()
    b'abcd'
"""

from __future__ import annotations

from saeta.cuda import _libarrow as _libarrow  # first, because it raises MissingDependency
from saeta.cuda._context import Context, CudaBuffer
from saeta.cuda._files import BufferReader, BufferWriter
from saeta.cuda._handle import IpcMemHandle
from saeta.cuda._host_buffer import HostBuffer, new_host_buffer
from saeta.cuda._install import install
from saeta.cuda._messages import read_message, read_record_batch, serialize_record_batch

__all__ = [
    "BufferReader",
    "BufferWriter",
    "Context",
    "CudaBuffer",
    "HostBuffer",
    "IpcMemHandle",
    "install",
    "new_host_buffer",
    "read_message",
    "read_record_batch",
    "serialize_record_batch",
]


def __dir__() -> list[str]:
    return __all__
