"""Device buffers as files, for pyarrow's readers and writers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from saeta.cuda._context import CudaBuffer
from saeta.cuda._libarrow import classes


class BufferReader(classes.BufferReaderBase):  # type: ignore[misc, name-defined]
    """A pyarrow.NativeFile that reads a device buffer. `read` copies to the host; `read_buffer` does not.

    C++ code of Arrow that reads from it gets device memory.

    Example:
        >>> import saeta.cuda as cuda
        >>> reader = cuda.BufferReader(cuda.Context(0).buffer_from_data(b"abcdef"))
        >>> reader.read(2)
        b'ab'
    """

    def __init__(self, obj: CudaBuffer) -> None:
        if not isinstance(obj, CudaBuffer):
            raise TypeError(f"expected CudaBuffer instance, got {type(obj).__name__}")
        self._open(obj)
        self._source = obj

    def read_buffer(self, nbytes: int | None = None) -> CudaBuffer:
        """Returns the next bytes as a slice of the buffer; None: all remaining ones.

        Example:
            >>> import saeta.cuda as cuda
            >>> reader = cuda.BufferReader(cuda.Context(0).buffer_from_data(b"abcdef"))
            >>> reader.read_buffer(2).to_pybytes()
            b'ab'
            >>> reader.read_buffer().to_pybytes()
            b'cdef'
        """
        if nbytes is not None and nbytes < 0:
            raise ValueError(f"nbytes must not be negative, got {nbytes}")
        at = self.tell()
        left = self.size() - at
        count = left if nbytes is None else min(left, nbytes)
        self.seek(at + count)
        return self._source._part(at, count)


class BufferWriter(classes.BufferWriterBase):  # type: ignore[misc, name-defined]
    """A pyarrow.NativeFile that writes to a device buffer, from its beginning.

    It never writes beyond the buffer's end.

    Each write is a copy to the device unless `buffer_size` is set. Then writes are collected on the host, and
    `flush` or a full host buffer copies them.

    Example:
        >>> import saeta.cuda as cuda
        >>> target = cuda.Context(0).buffer_from_data(b"......")
        >>> writer = cuda.BufferWriter(target)
        >>> writer.write(b"ab")
        2
        >>> target.to_pybytes()
        b'ab....'
    """

    def __init__(self, buffer: CudaBuffer) -> None:
        if not isinstance(buffer, CudaBuffer):
            raise TypeError(f"expected CudaBuffer instance, got {type(buffer).__name__}")
        if not buffer.is_mutable:
            raise ValueError("the device buffer is read-only")
        self._open(buffer)

    def writeat(self, position: int, data: Any) -> None:
        """Writes host bytes at a position. The next `write` continues after them.

        Example:
            >>> import saeta.cuda as cuda
            >>> target = cuda.Context(0).buffer_from_data(b"......")
            >>> cuda.BufferWriter(target).writeat(4, b"ab")
            >>> target.to_pybytes()
            b'....ab'
        """
        self._write_at(position, data if isinstance(data, pa.Buffer) else pa.py_buffer(data))

    def flush(self) -> None:
        """Copies the bytes collected on the host to the device.

        Example:
            >>> import saeta.cuda as cuda
            >>> target = cuda.Context(0).buffer_from_data(b"......")
            >>> writer = cuda.BufferWriter(target)
            >>> writer.buffer_size = 100
            >>> writer.write(b"ab")
            2
            >>> target.to_pybytes()
            b'......'
            >>> writer.flush()
            >>> target.to_pybytes()
            b'ab....'
        """
        super().flush()

    def seek(self, position: int, whence: int = 0) -> int:
        """Moves to a position from the beginning (whence 0) or from the current one (1).

        Returns the position.

        Example:
            >>> import saeta.cuda as cuda
            >>> target = cuda.Context(0).buffer_from_data(b"......")
            >>> writer = cuda.BufferWriter(target)
            >>> writer.seek(3)
            3
            >>> writer.write(b"ab")
            2
            >>> target.to_pybytes()
            b'...ab.'
        """
        if whence not in (0, 1):
            raise ValueError(f"Invalid value of whence: {whence}")
        self._seek(position + (self.tell() if whence == 1 else 0))
        return int(self.tell())

    @property
    def buffer_size(self) -> int:
        """Capacity in bytes of the host buffer that collects writes; 0: none."""
        return int(self._buffer_size())

    @buffer_size.setter
    def buffer_size(self, buffer_size: int) -> None:
        self._set_buffer_size(buffer_size)

    @property
    def num_bytes_buffered(self) -> int:
        """Number of bytes on the host that wait for `flush`."""
        return int(self._num_bytes_buffered())
