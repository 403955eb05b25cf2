"""Reads and writes Arrow IPC messages in device memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from saeta.cuda._context import Context, CudaBuffer, wrap
from saeta.cuda._files import BufferReader
from saeta.cuda._libarrow import bridge, classes
from saeta.errors import FormatError


@contextmanager
def _as_arrow() -> Iterator[None]:
    """Turns FormatError into pyarrow.ArrowInvalid, which callers of pyarrow's functions catch."""
    try:
        yield
    except FormatError as failure:
        raise pa.ArrowInvalid(str(failure)) from failure


def serialize_record_batch(batch: pa.RecordBatch, ctx: Context) -> CudaBuffer:
    """Writes a record batch on the host or the device as an IPC message into memory of the context.

    Returns the device buffer. Its bytes are those of `batch.serialize()`.

    Example:
        >>> import pyarrow as pa
        >>> import saeta.cuda as cuda
        >>> batch = pa.record_batch({"fare": [12.5, 8.0]})
        >>> message = cuda.serialize_record_batch(batch, cuda.Context(0))
        >>> message.to_pybytes() == batch.serialize().to_pybytes()
        True
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"expected Context instance, got {type(ctx).__name__}")
    if not isinstance(batch, pa.RecordBatch):
        raise TypeError(f"expected RecordBatch instance, got {type(batch).__name__}")
    with _as_arrow():
        return wrap(bridge.serialize(ctx._share, batch))


def read_message(source: CudaBuffer | BufferReader, pool: pa.MemoryPool | None = None) -> pa.Message:
    """Reads an IPC message from a device buffer, or the next message of a reader.

    The metadata is copied to the host; the body stays on the device. pyarrow.ArrowInvalid if the bytes are
    not a message, EOFError at the end of a stream.

    Example:
        >>> import pyarrow as pa
        >>> import saeta.cuda as cuda
        >>> batch = pa.record_batch({"fare": [12.5, 8.0]})
        >>> message = cuda.read_message(cuda.serialize_record_batch(batch, cuda.Context(0)))
        >>> message.type
        'record batch'
    """
    if isinstance(source, BufferReader):
        at = source.tell()
        rest = source.read_buffer()
        source.seek(at)
    elif isinstance(source, CudaBuffer):
        rest = source
    else:
        raise TypeError(f"expected CudaBuffer or BufferReader instance, got {type(source).__name__}")
    with _as_arrow():
        address, taken = bridge.read_message(rest, classes.pool_address(pool))
    if not address:
        raise EOFError("End of Arrow stream")
    if isinstance(source, BufferReader):
        source.seek(at + taken)
    return classes.message_at(address)


def read_record_batch(
    buffer: CudaBuffer,
    schema: pa.Schema,
    *,
    dictionary_memo: pa.lib.DictionaryMemo | None = None,
    pool: pa.MemoryPool | None = None,
) -> pa.RecordBatch:
    """Reads the record batch of an IPC message that is on a device. Its columns stay there.

    Compressed bodies are decoded on the host. `dictionary_memo` has the dictionaries of the schema's fields,
    if there are any. pyarrow.ArrowInvalid if the bytes are not such a message: every length in it, and every
    value that refers to other data, is checked before it is used.

    Example:
        >>> import pyarrow as pa
        >>> import saeta.cuda as cuda
        >>> batch = pa.record_batch({"fare": [12.5, 8.0]})
        >>> message = cuda.serialize_record_batch(batch, cuda.Context(0))
        >>> there = cuda.read_record_batch(message, batch.schema)
        >>> there.is_cpu, there.num_rows
        (False, 2)
    """
    if not isinstance(buffer, CudaBuffer):
        raise TypeError(f"expected CudaBuffer instance, got {type(buffer).__name__}")
    with _as_arrow():
        return bridge.read_batch(
            buffer.memory.context,
            schema,
            classes.memo_address(dictionary_memo),
            buffer,
            classes.pool_address(pool),
        )
