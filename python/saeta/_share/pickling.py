"""Pickles types, fields and schemas by their definitions, and columns and tables in the packed form.

Pickles refer to the functions `restored_...` of this module by name.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from saeta import _core, _ipc
from saeta._core import Column, Context, DataType, Field, Schema, Table
from saeta._share.packed import body_of, host_bytes, pack
from saeta.exchange import ContextLike, context_of

Reduced: TypeAlias = tuple[Any, ...]

_target: ContextVar[Context | None] = ContextVar("saeta.unpickling", default=None)


@contextmanager
def unpickling(ctx: ContextLike) -> Iterator[Context]:
    """Unpickles columns and tables into a context inside the `with` block.

    Outside they go into the host context.

    The block affects this thread, or this asynchronous task, and not those that it starts.

    Args:
        ctx: a Context or the name of a device.

    Returns:
        A context manager that returns the Context on entry.

    Example:
        >>> import pickle
        >>> import saeta as sa
        >>> content = pickle.dumps(sa.table({"a": [1, 2]}, "host"))
        >>> small = sa.context("host").memory.child("1KiB")
        >>> with sa.unpickling(small):
        ...     pickle.loads(content).context == small
        True
    """
    where = context_of(ctx)
    token = _target.set(where)
    try:
        yield where
    finally:
        _target.reset(token)


def reduce_type(self: DataType, protocol: Any) -> Reduced:
    """Implements `DataType.__reduce_ex__`."""
    return restored_type, _core._type_state(self)


def restored_type(*state: Any) -> DataType:
    return _core._type_of_state(*state)


def reduce_field(self: Field, protocol: Any) -> Reduced:
    """Implements `Field.__reduce_ex__`."""
    return Field, (self.name, self.type, self.nullable, self.metadata.pairs)


def reduce_schema(self: Schema, protocol: Any) -> Reduced:
    """Implements `Schema.__reduce_ex__`."""
    return Schema, (self.fields, self.metadata.pairs)


def reduce_table(self: Table, protocol: Any) -> Reduced:
    """Implements `Table.__reduce_ex__` with the packed form in host memory.

    From protocol 5 on, the body is in a buffer that a `buffer_callback` may take out of band.
    """
    metadata, body = pack(self if self.device == "host" else self.to("host"))
    content = host_bytes(body)
    return restored_table, (metadata, pickle.PickleBuffer(content) if protocol >= 5 else bytes(content))


def restored_table(metadata: bytes, content: Any) -> Table:
    body = body_of(content, _target.get() or _core.context("host"), None)
    table: Table = _ipc.unpack(metadata, body, True)
    return table


def reduce_column(self: Column, protocol: Any) -> Reduced:
    """Implements `Column.__reduce_ex__`: pickles a table with this column only."""
    return restored_column, (_core._from_columns(self.context, [self]),)


def unpickled_context(device: str) -> Context:
    """Returns the context of `unpickling`, or the one of a device."""
    return _target.get() or _core.context(device)


def restored_column(table: Table) -> Column:
    return table.column(0)
