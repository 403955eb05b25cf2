"""Shares tables with other processes of the same user on this machine.

A shared table is one body and its metadata. On the host both lie in an immutable, unnamed file in memory. On
a GPU the body is memory of an exportable pool. Its metadata is part of the reply to a process that opens the
table, or lies in such a file if the reply would be too large. A process that opens the table maps the file
or the memory of the pool.
"""

from __future__ import annotations

import fcntl
import functools
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias, overload

from saeta import _core, _ipc
from saeta._core import Column, Context, Table
from saeta._report import human_bytes
from saeta._share import broker, leases, pools, wire
from saeta._share.packed import ALIGNMENT, body_of, host_bytes
from saeta._share.weak import WeakValues
from saeta.errors import (
    AccessError,
    ClosedError,
    Error,
    ExchangeError,
    FileError,
    FormatError,
    InvalidError,
    TypeMismatch,
)
from saeta.exchange import ContextLike, context_of, from_arrow

_TAG = "share"
_SIZES = struct.Struct("<QQ")  # bytes of the body and of the metadata


_Packed: TypeAlias = tuple[bytes, Column]  # metadata and body


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
    _entry: broker.Exported | None  # keeps the memory; None if the token came from another process

    def __init__(self, *args: object) -> None:
        raise TypeMismatch("a SharedTable can't be made by calling its class: use Table.share")

    @staticmethod
    def _make(place: _Place, entry: broker.Exported | None = None) -> SharedTable:
        token = SharedTable.__new__(SharedTable)
        token._place = place
        token._entry = entry
        return token

    @property
    def nbytes(self) -> int:
        """Bytes of the shared memory, metadata included."""
        return self._place.nbytes

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
        "broker": isinstance(place.broker, bytes) and wire.NAME.fullmatch(place.broker) is not None,
        "token": isinstance(place.token, bytes) and len(place.token) == 16,
        "device": isinstance(place.device, bytes) and len(place.device) in (0, 16),
        "nbytes": isinstance(place.nbytes, int) and place.nbytes >= 0,
        "posted": isinstance(place.posted, bool),
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise FormatError(
                f"the token of a shared table is broken: its {name} is not one that share makes"
            )
    return SharedTable._make(place)


class _HostMemory:
    """A table in an unnamed file: body and metadata. The bytes are charged to a context while it lives."""

    device = b""

    def __init__(self, where: Context, body: Column, metadata: bytes) -> None:
        self.reply = _SIZES.pack(len(body), len(metadata))
        self.nbytes = len(body) + len(metadata)
        self._promised = where.memory.reserve(self.nbytes)
        self.file = _sealed_file("saeta table", host_bytes(body), metadata)

    def open(self) -> _Packed:
        return _packed_in_file(self.file.number, self.reply, self)

    def in_file(self) -> tuple[_core._Descriptor, bytes]:
        return self.file, self.reply


class _DeviceMemory:
    """A table on a GPU: the body in an exportable pool, and the metadata, in a file only if it is large."""

    def __init__(self, where: Context, body: Column, metadata: bytes) -> None:
        body = _core._shareable(body, _TAG) if len(body) else body
        self.device = pools.uuid_of(where)
        self.nbytes = len(body) + len(metadata)
        self.reply = _SIZES.pack(len(body), len(metadata))
        self.reply += _core._share_bytes(_core._bytes_of(body)) if len(body) else b""
        self.file = None
        self._packed = metadata, body
        if len(self.reply) + len(metadata) < wire.LARGEST:
            self.reply += metadata
        else:
            self.file = _sealed_file("saeta metadata", metadata)

    def open(self) -> _Packed:
        return self._packed

    def in_file(self) -> tuple[_core._Descriptor, bytes]:
        """Copies the table into a file like that of a table on the host, which outlives this process."""
        metadata, body = self._packed
        content = host_bytes(body.to("host"))
        return _sealed_file("saeta table", content, metadata), _SIZES.pack(len(body), len(metadata))


def _sealed_file(name: str, *contents: Any) -> _core._Descriptor:
    """Returns an immutable, unnamed file."""
    try:
        return broker.write_file(name, *contents, seal=True)
    except OSError as failed:
        size = sum(memoryview(content).nbytes for content in contents)
        raise FileError(
            f"a table can't be shared: no file of {size} bytes in memory can be made: {failed.strerror} "
            f"(errno {failed.errno})",
            errno=failed.errno,
        ) from failed


# Returns the token of a table, None if the table is not shared any more.
_Finder: TypeAlias = Callable[[Table], "SharedTable | None"]


class _Known(weakref.ref[Table]):
    """The record of a table that is shared or open, as long as the table lives.

    A weak reference, because a Table has no hash and so can't be the key of a dict.
    """

    __slots__ = ("find", "unchecked")

    find: _Finder
    unchecked: _Packed | None  # the packed form of the table, if it was opened without a check of the values

    __hash__ = object.__hash__
    __eq__ = object.__eq__


# The callback of a dropped table is `set.discard`. In a callback that runs lines of Python, Ctrl-C would be
# lost.
_known: set[_Known] = set()
_opened: WeakValues[bytes, Table] = WeakValues()
_lock = threading.Lock()


def share(self: Table) -> SharedTable:
    """Implements `Table.share`."""
    with _saying("the table can't be shared"), _lock:
        known = _find(self)
        token = None if known is None else known.find(self)
        return _share_own(self) if token is None else token


@contextmanager
def _saying(what: str) -> Iterator[None]:
    """Turns errors of the system and of the other process into errors of Saeta. `what` begins the message."""
    try:
        yield
    except Error:
        raise
    except wire.GoneError as gone:
        raise ClosedError(f"{what}: {gone}") from None
    except OSError as failed:
        if failed.errno is not None:
            text = f"{what}: {failed.strerror} (errno {failed.errno})"
            raise FileError(text, errno=failed.errno) from failed
        kind = AccessError if isinstance(failed, PermissionError) else ExchangeError
        raise kind(f"{what}: {failed}") from failed


def _share_own(table: Table, *, opened: bool = False) -> SharedTable:
    """Shares a table through the broker of this process.

    `opened`: the table lies in memory of another process. It is copied if it is on a GPU.
    """
    own_memory = from_arrow(table, table.context, copy=True) if opened and table.device != "host" else table
    metadata, body = _ipc.pack(own_memory)
    kind = _HostMemory if table.device == "host" else _DeviceMemory
    memory = kind(body.context, body, metadata)
    own = broker.own()
    entry = broker.Exported(own, body.context, memory, memory.reply, memory.file)
    own.add(entry)
    shared = weakref.ref(entry)
    _remember(table, lambda _: _token_of(shared()))
    return _token_of(entry)


@overload
def _token_of(entry: broker.Exported) -> SharedTable: ...
@overload
def _token_of(entry: broker.Exported | None) -> SharedTable | None: ...
def _token_of(entry: broker.Exported | None) -> SharedTable | None:
    if entry is None:
        return None
    memory = entry.kept
    return SharedTable._make(
        _Place(wire.boot_id(), entry.broker.name, entry.token, memory.device, memory.nbytes, False), entry
    )


def _remember(table: Table, find: _Finder, unchecked: _Packed | None = None) -> None:
    known = _find(table)
    if known is None:
        known = _Known(table, _known.discard)
        known.unchecked = unchecked
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
            with _saying("the table can't be sent on"):
                leases.ask(token._place.broker, wire.POST, token._place.token)
        except ClosedError:  # the process that shared the table has ended
            with _saying("the table can't be sent on"), _lock:
                token = _share_own(table, opened=True)
    if token._entry is not None:
        broker.own().post(token._entry)
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
    with _saying("the table can't be opened"):
        if token._place.boot != wire.boot_id():
            raise ExchangeError("the token was made on another machine, or before this one was started again")
        table = _opened.get(token._place.token)
        if table is None:
            table = _open(token, ctx, validate)
        else:
            if token._place.posted:
                with suppress(wire.GoneError):  # the exporter has ended, but this process has the table open
                    _ask(token)  # tells the exporter that the token has arrived
            if validate:
                _check(table)
    return table if ctx is None or context_of(ctx) == table.context else table.to(context_of(ctx))


def _check(table: Table) -> None:
    """Checks the values of a table that was opened without a check."""
    known = _find(table)
    if known is not None and known.unchecked is not None:
        _ipc.unpack(*known.unchecked, True)
        known.unchecked = None


def _open(token: SharedTable, ctx: ContextLike, validate: bool) -> Table:
    own = broker.own()
    place = token._place._replace(posted=False)  # for tokens of the opened table
    find: _Finder
    if place.broker == own.name:
        entry = own.find(token._place.token)
        if entry is None:
            raise wire.GoneError("it is not shared any more: keep the token until it is opened")
        packed, validate, unchecked = entry.kept.open(), False, None
        if token._place.posted:
            own.note_arrival(entry)
        # The entry in the token keeps the export as long as this process has the table.
        find = functools.partial(_same, SharedTable._make(place, entry))
    else:
        lease, reply, descriptors = _ask(token)
        find = functools.partial(_same_or_copy, SharedTable._make(place), weakref.ref(lease))
        packed = _packed_of(token, ctx, reply, descriptors, lease)
        unchecked = None if validate else packed
    metadata, body = packed
    table = _ipc.unpack(metadata, body, validate)
    if token._place.device and table.device == "host":  # the exporter has ended and left a copy on the host
        table = table.to(_home_of(token, ctx))
    with _lock:
        kept = _opened.get(place.token)
        if kept is None:
            _remember(table, find, unchecked)
            _opened[place.token] = table
            return table
    # Another thread has opened the table meanwhile, with its own lease, and perhaps without a check.
    if unchecked is None:
        _check(kept)
    return kept


def _same(token: SharedTable, _table: Table) -> SharedTable:
    return token


def _same_or_copy(token: SharedTable, lease: weakref.ref[_core._Lease], table: Table) -> SharedTable:
    """Returns the token of an open table, or the token of a copy if the exporter of the table has ended."""
    held = lease()
    return _share_own(table, opened=True) if held is None or held.ended() else token


def _ask(token: SharedTable) -> tuple[_core._Lease, bytes, list[_core._Descriptor]]:
    place = token._place
    return leases.ask(place.broker, wire.TAKE if place.posted else wire.OPEN, place.token)


def _packed_of(
    token: SharedTable,
    ctx: ContextLike,
    reply: bytes,
    descriptors: list[_core._Descriptor],
    lease: _core._Lease,
) -> _Packed:
    on_device = token._place.device != b""
    if len(reply) < _SIZES.size or (len(descriptors) != 1 and not on_device):
        raise FormatError("the process that shared the table sent no table")
    if descriptors and (not on_device or len(reply) == _SIZES.size):
        return _packed_in_file(descriptors[0].number, reply, lease)
    return _packed_on_device(token, ctx, reply, descriptors, lease)


def _packed_in_file(number: int, sizes: bytes, lease: object) -> _Packed:
    body_bytes, metadata_bytes = _SIZES.unpack_from(sizes)
    view = _map(number, body_bytes + metadata_bytes, lease)
    body = _ipc.body_over(_core.context("host"), view[:body_bytes], ALIGNMENT, None)
    return bytes(view[body_bytes:]), body


def _packed_on_device(
    token: SharedTable,
    ctx: ContextLike,
    reply: bytes,
    descriptors: list[_core._Descriptor],
    lease: _core._Lease,
) -> _Packed:
    body_bytes, metadata_bytes = _SIZES.unpack_from(reply)
    if descriptors:
        number = descriptors[0].number
        _require_sealed(number, metadata_bytes)
        shared, metadata = reply[_SIZES.size :], os.pread(number, metadata_bytes, 0)
    else:
        behind = len(reply) - metadata_bytes
        if behind < _SIZES.size:
            raise FormatError(
                f"the process that shared the table sent {len(reply)} bytes, which can't have metadata of "
                f"{metadata_bytes} bytes"
            )
        shared, metadata = reply[_SIZES.size : behind], reply[behind:]
    home = _home_of(token, ctx)
    if body_bytes == 0:
        return metadata, body_of(b"", home, None)
    key = (token._place.broker, token._place.device)
    memory = pools.open_bytes(home, key, token._place.token, shared, lease, _TAG)
    return metadata, _core._column_of(memory)


def _map(number: int, size: int, kept: object = None) -> memoryview:
    """Maps the first `size` bytes of an immutable, unnamed file. The mapping keeps `kept` alive."""
    _require_sealed(number, size)
    return _core._FileMapping(number, size, kept).view()


def _require_sealed(descriptor: int, size: int) -> None:
    try:
        seals = fcntl.fcntl(descriptor, broker.F_GET_SEALS)
    except OSError:
        seals = 0  # not a file in memory
    held = os.fstat(descriptor).st_size
    if seals & broker.SEALS != broker.SEALS or size > held or size == 0:
        raise FormatError(
            f"the process that shared the table sent a file of {held} bytes with seals {seals:#x}, expected "
            f"at least {size} bytes and seals {broker.SEALS:#x}"
        )


@functools.cache
def _gpus() -> list[str]:
    """Returns the names of the GPUs. Cached, because listing the devices takes 100 microseconds."""
    return [device.name for device in _core.devices() if device.name != "host"]


def _home_of(token: SharedTable, ctx: ContextLike) -> Context:
    """Returns the context of the GPU that has the shared memory, `ctx` if it is one."""
    if ctx is not None:
        where = context_of(ctx)
        if where.device != "host" and pools.uuid_of(where) == token._place.device:
            return where
    for name in _gpus():
        where = _core._shareable_context(name)
        if pools.uuid_of(where) == token._place.device:
            return where
    raise InvalidError(
        "the shared table is on a GPU that this process does not have: copy it through the host (share "
        "table.to('host'))"
    )


def _reset_in_child() -> None:
    """Forgets the parent's shared tables in a child of fork. Tables that were open stay readable."""
    global _lock
    _lock = threading.Lock()
    _known.clear()
    _opened.clear()


os.register_at_fork(after_in_child=_reset_in_child)
