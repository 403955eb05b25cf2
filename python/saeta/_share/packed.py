"""Packs tables: metadata in host memory, and one contiguous body in the memory of the table's device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from saeta import _ipc
from saeta._convert.build import offers_bytes
from saeta._convert.from_tensors import take_tensor
from saeta._core import Column, Table
from saeta.errors import TypeMismatch
from saeta.exchange import ContextLike, context_of, from_arrow

ALIGNMENT = 8  # of a body, in bytes


class Packed:
    """A table in the packed form, from `Table.pack`: metadata and a body, which it also unpacks into.

    The metadata gives the offset of each buffer in the body, a multiple of 64.

    Example:
        >>> import saeta as sa
        >>> metadata, body = sa.table({"fare": [12.5, None]}, "host").pack()
        >>> body.device, len(body) % 64
        ('host', 0)
        >>> sa.unpack(metadata, body)["fare"].to_pylist()
        [12.5, None]
    """

    __slots__ = ("_body", "_metadata")

    def __init__(self, metadata: bytes, body: Column) -> None:
        self._metadata = metadata
        self._body = body

    @property
    def metadata(self) -> bytes:
        """An Arrow IPC stream without bodies: messages of the schema, the dictionaries and the batches."""
        return self._metadata

    @property
    def body(self) -> Column:
        """A Column of uint8 in the memory of the table, for DLPack, Arrow and the CUDA Array Interface."""
        return self._body

    def __iter__(self) -> Iterator[Any]:
        return iter((self._metadata, self._body))

    def __repr__(self) -> str:
        return f"<saeta.Packed of {len(self._metadata)} and {len(self._body)} bytes on {self._body.device}>"


def pack(self: Table) -> Packed:
    """Implements `Table.pack`."""
    return Packed(*_ipc.pack(self))


def unpack(
    metadata: bytes | bytearray | memoryview,
    body: Any,
    ctx: ContextLike = None,
    *,
    copy: bool | None = None,
    validate: bool = True,
) -> Table:
    """Makes the table of a packed form. Its columns are views of the body.

    The body is kept alive until our last work on it has finished, and our first work waits for the
    producer's, as in `from_dlpack`.

    Args:
        metadata: bytes, from `Table.pack`. All of its numbers are checked, as those of a file are.
        body: a Column of uint8, bytes or another object with the buffer protocol, or an object of DLPack, of
            the CUDA Array Interface or of Arrow that holds uint8 in one dimension.
        ctx: a Context or the name of its device. None: the context of the body's device.
        copy: None views the body where the context can use it. Otherwise the body is copied once: to another
            device, or from host memory that does not begin at a multiple of 8 bytes. False raises
            ExchangeError instead. True copies into memory of the context, under its budget.
        validate: True checks every value that refers to other data, as offsets and dictionary indices, with
            one kernel per level of nesting, also in rows of children that no list refers to, and counts nulls
            anew. False reads nothing of the body, for senders that you trust.

    Raises:
        FormatError: the metadata is broken, or does not fit the body; names the batch, the column and the
            numbers.
        TypeMismatch: the body does not consist of uint8.

    Example:
        >>> import saeta as sa
        >>> table = sa.table({"city": ["Lyon", "Bern"], "fare": [12.5, 8.0]}, "host")
        >>> metadata, body = table.pack()
        >>> sa.unpack(metadata, body).equals(table)
        True
    """
    table: Table = _ipc.unpack(metadata, body_of(body, ctx, copy), validate)
    return table


def host_bytes(body: Column) -> Any:
    """Returns the bytes of a body in host memory, as an object with the buffer protocol, without a copy."""
    return _ipc.BodyBytes(body)


def body_of(body: Any, ctx: ContextLike, copy: bool | None) -> Column:
    """Returns a body as a column of uint8 in a context."""
    if isinstance(body, Column):
        where = body.context if ctx is None else context_of(ctx)
        here = where.device == body.device and not copy
        taken: Column = body.to(where) if here else from_arrow(body, where, copy=copy)
        return taken
    if offers_bytes(body):
        return _ipc.body_over(context_of("host" if ctx is None else ctx), body, ALIGNMENT, copy)
    tensor = take_tensor(body, ctx, copy=copy)
    if tensor is not None:
        return tensor
    column = from_arrow(body, ctx, copy=copy)
    if not isinstance(column, Column):
        raise TypeMismatch(
            f"the body is of type {type(body).__name__} and has several columns, expected uint8"
        )
    return column
