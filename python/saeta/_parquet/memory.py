"""Lets RMM take the memory of a thread that decodes from a context, under its budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saeta import _core
from saeta._core import Context
from saeta.errors import BudgetExceeded

TAG = "parquet"


class _Thread(threading.local):
    context: Context | None = None  # that the thread decodes for
    refusal: BudgetExceeded | None = None  # the last one


class DecodingMemory:
    """The resource of RMM for a device while files are decoded.

    libcudf takes what a function needs beside its result from RMM's current resource, which is one for all
    threads of a device. Threads that decode get memory of their contexts, and all others get it from the
    resource that was the current one before. It is the current one again when nothing is decoded any more.
    """

    def __init__(self, ordinal: int, mr: Any) -> None:
        self._ordinal = ordinal
        self._mr = mr
        self._thread = _Thread()
        self._turn = threading.Lock()
        self._users = 0
        self._before: Any = None
        self._owners: dict[int, Any] = {}  # by the address: a context or another resource
        self._resource = mr.CallbackMemoryResource(self._allocate, self._deallocate)

    def begin(self) -> None:
        with self._turn:
            self._users += 1
            current = self._mr.get_per_device_resource(self._ordinal)
            if current is not self._resource:
                self._before = current
                self._mr.set_per_device_resource(self._ordinal, self._resource)

    def end(self) -> None:
        with self._turn:
            self._users -= 1
            if not self._users and self._mr.get_per_device_resource(self._ordinal) is self._resource:
                self._mr.set_per_device_resource(self._ordinal, self._before)

    @contextmanager
    def of(self, ctx: Context) -> Iterator[Any]:
        """Returns the resource for what this thread decodes for a context.

        MemoryError of RMM becomes the BudgetExceeded behind it.
        """
        thread = self._thread
        thread.context, thread.refusal = ctx, None
        try:
            yield self._resource
        except MemoryError as failure:
            refusal, thread.refusal = thread.refusal, None
            if isinstance(failure, BudgetExceeded):
                raise
            raise (refusal or BudgetExceeded(f"decoding Parquet: {failure}")) from None
        finally:
            thread.context = None

    def _allocate(self, nbytes: int, stream: Any) -> int:
        ctx = self._thread.context
        if ctx is None:
            before = self._before
            address: int = before.allocate(nbytes, stream)
            self._owners[address] = before
            return address
        try:
            address = _core._lend(ctx, nbytes, TAG, _core._stream_number(stream))
        except BudgetExceeded as refusal:
            self._thread.refusal = refusal.with_traceback(None)
            raise
        self._owners[address] = ctx
        return address

    def _deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        owner = self._owners.pop(address)
        if isinstance(owner, Context):
            _core._take_back(owner, address, nbytes, _core._stream_number(stream))
        else:
            owner.deallocate(address, nbytes, stream)


_of_devices: dict[int, DecodingMemory] = {}
_turn = threading.Lock()


def decoding_memory(ordinal: int, mr: Any) -> DecodingMemory:
    """Returns the one object of a device. It is never dropped, because memory from it may be in use."""
    with _turn:
        if ordinal not in _of_devices:
            _of_devices[ordinal] = DecodingMemory(ordinal, mr)
        return _of_devices[ordinal]
