"""Pickles types, fields and schemas by their definitions, and columns and tables in the packed form.

Pickles refer to the functions `restored_...` of this module by name.
"""

from __future__ import annotations

import itertools
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

    From protocol 5 on, bodies are in buffers that a `buffer_callback` may take out of band. Large columns
    that need no copy are packed by themselves then, and the others together.
    """
    source = self if self.device == "host" else self.to("host")
    alone = _ipc.packed_alone(source) if protocol >= 5 else []
    if not alone:
        return restored_table, packed_content(source, protocol)
    others = [number for number in range(source.num_columns) if number not in alone]
    groups = [[number] for number in alone] + ([others] if others else [])
    return restored_groups, (groups, [packed_content(source.select(group), protocol) for group in groups])


def packed_content(table: Table, protocol: int) -> Reduced:
    """Returns the arguments of `restored_table`."""
    metadata, body = pack(table)
    content = host_bytes(body)
    return metadata, pickle.PickleBuffer(content) if protocol >= 5 else bytes(content)


def restored_table(metadata: bytes, content: Any) -> Table:
    body = body_of(content, _target.get() or _core.context("host"), None)
    table: Table = _ipc.unpack(metadata, body, True)
    return table


def restored_groups(groups: list[list[int]], contents: list[Reduced]) -> Table:
    """Returns the table of several packed forms, with the columns of these numbers each."""
    tables = [restored_table(*content) for content in contents]
    numbered = zip(itertools.chain(*groups), itertools.chain(*(each.columns for each in tables)), strict=True)
    in_order: list[Any] = sorted(numbered, key=lambda pair: pair[0])
    made: Table = tables[0]._with_columns([column for _, column in in_order])
    return made


def reduce_column(self: Column, protocol: Any) -> Reduced:
    """Implements `Column.__reduce_ex__`: pickles a table with this column only."""
    return restored_column, (_core._from_columns(self.context, [self]),)


def unpickled_context(device: str) -> Context:
    """Returns the context of `unpickling`, or the one of a device."""
    return _target.get() or _core.context(device)


def restored_column(table: Table) -> Column:
    return table.column(0)
