"""Shares tables with other processes of the same user on this machine.

A shared table is one body and its metadata. On the host both lie in an immutable, unnamed file in memory. On
a GPU the body is memory of an exportable pool. Its metadata is part of the reply to a process that opens the
table, or lies in such a file if the reply would be too large. A process that opens the table maps the file
or the memory of the pool.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from saeta import _core, _ipc
from saeta._core import Context, Table
from saeta._report import human_bytes
from saeta._share.weak import WeakValues
from saeta.errors import ClosedError, FormatError, TypeMismatch
from saeta.exchange import ContextLike, context_of, from_arrow


class _Place(NamedTuple):
    """The address of a shared table."""

    boot: bytes  # id of the machine since its last start
    broker: bytes  # name of the socket of the process that has shared the table
    token: bytes  # a secret: every process that has it may open the table
    device: bytes  # 16 bytes that identify the GPU on this machine; empty for the host
    nbytes: int
    posted: bool  # the memory is kept until a process has opened the table by this token


class SharedTable:
    """A token for a shared table, from `Table.share`. It can be pickled and sent to other processes.

    Every process of the same user on this machine that has it can open the table. In the process that made
    it, the token keeps the shared memory. So keep it until it has been opened; afterwards every process that
    has the table open keeps the memory.

    Example:
        >>> import pickle
        >>> import saeta as sa
        >>> token = sa.table({"fare": [12.5, None]}, "host").share()
        >>> len(pickle.dumps(token)) < 500
        True
        >>> sa.open_shared(token)["fare"].to_pylist()
        [12.5, None]
    """

    _place: _Place
    _entry: _core._Exported | None  # keeps the memory; None if the token came from another process

    def __init__(self, *args: object) -> None:
        raise TypeMismatch("a SharedTable can't be made by calling its class: use Table.share")

    @staticmethod
    def _make(place: _Place, entry: _core._Exported | None = None) -> SharedTable:
        token = SharedTable.__new__(SharedTable)
        token._place = place
        token._entry = entry
        return token

    @property
    def nbytes(self) -> int:
        """Bytes of the shared memory, metadata included."""
        return self._place.nbytes

    def to_bytes(self) -> bytes:
        """Returns the token as some hundred bytes, for programs in any language: `from_bytes` restores it.

        Example:
            >>> import saeta as sa
            >>> token = sa.table({"fare": [12.5, None]}, "host").share()
            >>> sa.open_shared(sa.SharedTable.from_bytes(token.to_bytes()))["fare"].to_pylist()
            [12.5, None]
        """
        return _core._token_bytes(self._place)

    @staticmethod
    def from_bytes(content: bytes) -> SharedTable:
        """Returns the token that `to_bytes`, or `share_token::to_bytes` in C++, has written.

        Raises:
            FormatError: the bytes are not a token.

        Example:
            >>> import saeta as sa
            >>> token = sa.table({"fare": [12.5, None]}, "host").share()
            >>> sa.SharedTable.from_bytes(token.to_bytes()).nbytes == token.nbytes
            True
        """
        return SharedTable._make(_Place(*_core._token_place(content)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_token, tuple(self._place)

    def _repr_html_(self) -> str:
        from saeta._report.html import described

        where = "a GPU" if self._place.device else "the host"
        owner = "another process" if self._entry is None else "this process"
        facts = [("size", human_bytes(self.nbytes)), ("memory", where), ("shared by", owner)]
        return described("SharedTable", "a token that saeta.open_shared opens", facts)

    def __repr__(self) -> str:
        where = "a GPU" if self._place.device else "the host"
        return f"<saeta.SharedTable of {self.nbytes} bytes on {where}>"


def _restored_token(*values: Any) -> SharedTable:
    """Makes a token from a pickle, whose values are checked because they may come from anywhere."""
    if len(values) != len(_Place._fields):
        raise FormatError(
            f"the token of a shared table is broken: {len(values)} values, expected {len(_Place._fields)}"
        )
    place = _Place(*values)
    sound = {
        "boot": isinstance(place.boot, bytes) and len(place.boot) == 16,
        "broker": isinstance(place.broker, bytes) and _core._is_broker_name(place.broker),
        "token": isinstance(place.token, bytes) and len(place.token) == 16,
        "device": isinstance(place.device, bytes) and len(place.device) in (0, 16),
        "nbytes": isinstance(place.nbytes, int) and 0 <= place.nbytes < 1 << 64,
        "posted": isinstance(place.posted, bool),
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise FormatError(
                f"the token of a shared table is broken: its {name} is not one that share makes"
            )
    return SharedTable._make(place)


# Returns the token of a table, None if the table is not shared any more.
_Finder: TypeAlias = Callable[[Table], "SharedTable | None"]


class _Known(weakref.ref[Table]):
    """The record of a table that is shared or open, as long as the table lives.

    A weak reference, because a Table has no hash and so can't be the key of a dict.
    """

    __slots__ = ("find", "opened")

    find: _Finder
    opened: _core._Opened | None  # what is known of a table that was opened

    __hash__ = object.__hash__
    __eq__ = object.__eq__


# The callback of a dropped table is `set.discard`. In a callback that runs lines of Python, Ctrl-C would be
# lost.
_known: set[_Known] = set()
_opened: WeakValues[bytes, Table] = WeakValues()
_lock = threading.Lock()


def share(self: Table) -> SharedTable:
    """Implements `Table.share`."""
    with _lock:
        known = _find(self)
        token = None if known is None else known.find(self)
        return _share_own(self) if token is None else token


def _share_own(table: Table, *, opened: bool = False) -> SharedTable:
    """Shares a table through the broker of this process.

    `opened`: the table lies in memory of another process. It is copied if it is on a GPU.
    """
    own_memory = from_arrow(table, table.context, copy=True) if opened and table.device != "host" else table
    entry = _core._share_packed(*_ipc.pack(own_memory))
    token = _token_of(entry)
    _remember(table, functools.partial(_shared_still, token._place.token))
    return token


def _shared_still(key: bytes, _table: Table) -> SharedTable | None:
    """Returns the token of a table of this process, None if nobody keeps its shared memory any more."""
    entry = _core._find_shared(key)
    return None if entry is None else _token_of(entry)


def _token_of(entry: _core._Exported) -> SharedTable:
    return SharedTable._make(_Place(*entry.place), entry)


def _remember(table: Table, find: _Finder, opened: _core._Opened | None = None) -> None:
    known = _find(table)
    if known is None:
        known = _Known(table, _known.discard)
        known.opened = opened
    known.find = find
    _known.add(known)


def _find(table: Table) -> _Known | None:
    for reference in weakref.getweakrefs(table):
        if isinstance(reference, _Known) and reference in _known:
            return reference
    return None


def posted(table: Table) -> SharedTable:
    """Shares a table, and returns a token that can be sent: the memory is kept until it is opened once."""
    token = share(table)
    if token._entry is None:
        try:
            _core._post_shared(token._place)
        except ClosedError:  # the process that shared the table has ended
            with _lock:
                token = _share_own(table, opened=True)
    if token._entry is not None:
        token._entry.post()
    return SharedTable._make(token._place._replace(posted=True), token._entry)


def open_shared(token: SharedTable, ctx: ContextLike = None, *, validate: bool = True) -> Table:
    """Opens a table that another process has shared. Its columns are read-only views of the shared memory.

    The process that shared it keeps the memory until the last process that has it open drops the table, ends
    or is killed. A table that is open stays readable when the process that shared it ends. It may be shared
    again: `share` of an opened table returns a token for the same memory, or for a copy if the process that
    shared it has ended.

    Args:
        token: from `Table.share`.
        ctx: a Context or the name of its device. None: the host's, or that of the GPU that has the memory. In
            a context of another device the table is a copy.
        validate: as for `unpack`. While a process has a table open, it checks it only once: in the first call
            with True.

    Raises:
        ClosedError: the table is not shared any more, or the process that shared it has ended.
        AccessError: the process that shared it is of another user. It is a PermissionError.
        ExchangeError: the token is of another machine, or its process does not reply.
        FileError: the system has no descriptor or address space left for the table, or has no /proc.
        FormatError: the shared memory is not a packed table.

    Example:
        >>> import saeta as sa
        >>> token = sa.table({"fare": [12.5, None]}, "host").share()
        >>> sa.open_shared(token, "host")["fare"].to_pylist()
        [12.5, None]
    """
    if not isinstance(token, SharedTable):
        raise TypeMismatch(
            f"token is of type {type(token).__name__}, expected a SharedTable from Table.share"
        )
    place = token._place
    table = _opened.get(place.token)
    if table is None:
        table = _open(place, None if ctx is None else context_of(ctx), validate)
    else:
        if place.posted:
            _core._note_arrival(place)
        if validate:
            _check(table)
    return table if ctx is None or context_of(ctx) == table.context else table.to(context_of(ctx))


def _check(table: Table) -> None:
    """Checks the values of a table that was opened without a check."""
    known = _find(table)
    if known is not None and known.opened is not None:
        known.opened.check()


def _open(place: _Place, where: Context | None, validate: bool) -> Table:
    table, opened, entry = _core._open_shared(place, where, validate)
    token = SharedTable._make(place._replace(posted=False), entry)
    # The entry in the token keeps the export as long as this process has the table.
    find = functools.partial(_same, token) if entry else functools.partial(_same_or_copy, token, opened)
    with _lock:
        kept = _opened.get(place.token)
        if kept is None:
            _remember(table, find, opened)
            _opened[place.token] = table
            return table
    # Another thread has opened the table meanwhile, with its own lease, and perhaps without a check.
    if validate:
        _check(kept)
    return kept


def _same(token: SharedTable, _table: Table) -> SharedTable:
    return token


def _same_or_copy(token: SharedTable, opened: _core._Opened, table: Table) -> SharedTable:
    """Returns the token of an open table, or the token of a copy if the exporter of the table has ended."""
    return _share_own(table, opened=True) if opened.ended() else token


def _reset_in_child() -> None:
    """Forgets the parent's shared tables in a child of fork. Tables that were open stay readable."""
    global _lock
    _lock = threading.Lock()
    _known.clear()
    _opened.clear()


os.register_at_fork(after_in_child=_reset_in_child)
