"""The frameworks that tests/soak/soak.py exchanges arrays with: one class each, with the same interface.

Arrays are 1-D int32 with one value in all elements, so that their sum checks every element. `total` may
return a pending sum, for which `int()` waits. In a block of `on(stream)` the framework works on one of
Saeta's streams, given by its number in `__dlpack__`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import Any

import numpy as np

import saeta as sa


class Peer:
    """The default implementation, for a framework with DLPack."""

    name = ""
    reads_read_only = True  # accepts arrays over read-only memory

    def __init__(self, module: Any) -> None:
        self.module = module

    def own_stream(self) -> AbstractContextManager[Any]:
        """Returns a context manager in which the framework works on a stream that Saeta does not know."""
        return nullcontext()

    def on(self, _stream: int | None) -> AbstractContextManager[Any]:
        return nullcontext()

    def array(self, value: int, rows: int) -> Any:
        return self.module.full(rows, value, dtype=self.module.int32)

    def view(self, lent: Any) -> Any:
        """Returns the framework's array over memory that a use token gives access to."""
        return self.module.asarray(lent)

    def fill(self, array: Any, value: int) -> None:
        array.fill(value)

    def take(self, column: sa.Column) -> Any:
        return self.module.from_dlpack(column)

    def give(self, array: Any, ctx: sa.Context) -> sa.Column:
        return sa.from_dlpack(array, ctx, name=self.name)

    def total(self, array: Any) -> Any:
        return array.sum(dtype=self.module.int64)


class NumpyPeer(Peer):
    name = "numpy"


class CupyPeer(Peer):
    name = "cupy"

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        # A fixed number of streams, because CuPy's pool never merges the memory of different streams.
        self.streams = cycle([module.cuda.Stream(non_blocking=True) for _ in range(8)])

    def own_stream(self) -> AbstractContextManager[Any]:
        made: AbstractContextManager[Any] = next(self.streams)
        return made

    def on(self, stream: int | None) -> AbstractContextManager[Any]:
        made: AbstractContextManager[Any] = self.module.cuda.ExternalStream(stream)
        return made


class TorchPeer(Peer):
    name = "torch"
    reads_read_only = False

    def __init__(self, module: Any, on_host: bool) -> None:
        super().__init__(module)
        self.on_host = on_host
        self.device = "cpu" if on_host else "cuda"

    def own_stream(self) -> AbstractContextManager[Any]:
        if self.on_host:
            return nullcontext()
        made: AbstractContextManager[Any] = self.module.cuda.stream(self.module.cuda.Stream())
        return made

    def on(self, stream: int | None) -> AbstractContextManager[Any]:
        if self.on_host:
            return nullcontext()
        made: AbstractContextManager[Any] = self.module.cuda.stream(self.module.cuda.ExternalStream(stream))
        return made

    def array(self, value: int, rows: int) -> Any:
        return self.module.full((rows,), value, dtype=self.module.int32, device=self.device)

    def view(self, lent: Any) -> Any:
        return self.module.as_tensor(lent, device=self.device)

    def fill(self, array: Any, value: int) -> None:
        array.fill_(value)


class JaxPeer(Peer):
    name = "jax"

    def total(self, array: Any) -> Any:
        return int(np.asarray(array).sum(dtype=np.int64))

    def give(self, array: Any, ctx: sa.Context) -> sa.Column:
        return sa.from_dlpack(np.asarray(array), ctx, name=self.name)


class PyarrowPeer(Peer):
    """Uses Arrow's protocol instead of DLPack; columns of a device are downloaded."""

    name = "pyarrow"

    def array(self, value: int, rows: int) -> Any:
        return self.module.array(np.full(rows, value, dtype=np.int32))

    def take(self, column: sa.Column) -> Any:
        # Not pyarrow.array: it would request device memory, which pyarrow's wheels do not support.
        return column.to_arrow()

    def give(self, array: Any, ctx: sa.Context) -> sa.Column:
        made: sa.Column = sa.from_arrow(array, ctx)
        return made

    def total(self, array: Any) -> Any:
        return int(np.asarray(array).sum(dtype=np.int64))


def _module(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


def find_peers(ctx: sa.Context) -> list[Peer]:
    """Returns the frameworks that are installed and can access the memory of the context."""
    found: list[Peer] = []
    on_host = ctx.device == "host"
    if on_host:
        found.append(NumpyPeer(np))
    torch = _module("torch")
    if torch is not None and (on_host or torch.cuda.is_available()):
        found.append(TorchPeer(torch, on_host))
    cupy = None if on_host else _module("cupy")
    if cupy is not None:
        found.append(CupyPeer(cupy))
    if on_host and _module("jax") is not None:
        found.append(JaxPeer(__import__("jax.numpy").numpy))
    pyarrow = _module("pyarrow")
    if pyarrow is not None:
        found.append(PyarrowPeer(pyarrow))
    return found


def kernel_peer(peers: list[Peer]) -> Peer | None:
    """Returns a framework that can access the memory of a use token, or None."""
    by_name = {peer.name: peer for peer in peers}
    return next((by_name[name] for name in ("numpy", "cupy", "torch") if name in by_name), None)
