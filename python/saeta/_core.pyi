"""
The compiled part of Saeta: devices, memory, columns and the exchange protocols.
"""

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence
)
import os
from typing import (
    Any,
    ClassVar,
    IO,
    Literal,
    Never,
    SupportsIndex,
    overload
)

import cupy
import jax
import numpy.typing
import pandas
import polars
import pyarrow
import torch
from typing_extensions import Buffer as _Buffer, CapsuleType, Self

import saeta._ipc
import saeta._metadata
import saeta._share.packed
import saeta._share.spilling
import saeta._share.tables


def _version() -> str: ...

class Device:
    """
    A device that can be used now.

    Example:
        >>> import saeta as sa
        >>> host = sa.devices()[-1]
        >>> host.name
        'host'
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def name(self) -> str:
        """
        How Saeta names it: "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].name
            'host'
        """

    @property
    def kind(self) -> int:
        """
        Device type as DLPack and Arrow number it.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].kind
            1
        """

    @property
    def ordinal(self) -> int:
        """
        Its number among those of its kind.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].ordinal
            0
        """

    @property
    def model(self) -> str:
        """
        Name of the product.

        Example:
            >>> import saeta as sa
            >>> isinstance(sa.devices()[-1].model, str)
            True
        """

    @property
    def architecture(self) -> str:
        """
        Compute capability of a GPU, instruction set of the host.

        Example:
            >>> import saeta as sa
            >>> isinstance(sa.devices()[-1].architecture, str)
            True
        """

    @property
    def driver(self) -> str:
        """
        Driver version, empty on the host.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].driver
            ''
        """

    @property
    def total_bytes(self) -> int:
        """
        Bytes of memory of the whole device.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].total_bytes > 0
            True
        """

    @property
    def free_bytes(self) -> int | None:
        """
        Bytes free in the whole device when this object was made. None for a CUDA device that this process does not use yet: only a CUDA context can tell, and asking makes none.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].free_bytes > 0
            True
        """

    @property
    def multiprocessors(self) -> int:
        """
        Streaming multiprocessors, or threads of the CPU.

        Example:
            >>> import saeta as sa
            >>> sa.devices()[-1].multiprocessors > 0
            True
        """

    def __repr__(self) -> str: ...

def devices() -> list[Device]:
    """
    Devices that can be used now: CUDA devices first, then the host. Needs no driver, makes no CUDA context and takes no memory of any device.

    Example:
        >>> import saeta as sa
        >>> [device.name for device in sa.devices() if device.name == 'host']
        ['host']
    """

def _human_bytes(bytes: int) -> str:
    """
    Bytes with a binary unit and at most two decimals: "512 B", "1.5 KiB", "8 GiB".
    """

def _parse_bytes(text: str) -> int:
    """Bytes of a size for people, as "8GiB"."""

def _runtime() -> dict[str, Any]:
    """
    What this build and this machine can do, and if CUDA can't be used, why.
    """

class GraphCapture:
    """
    The announcement of a graph capture, from `Context.capturing`.

    Example:
        >>> import saeta as sa
        >>> with sa.context('host').capturing() as announced:
        ...     announced
        <saeta.GraphCapture, open>
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    def __enter__(self) -> GraphCapture: ...

    def __exit__(self, *exception: object) -> None: ...

class StrictMode:
    """
    A block without downloads, from `Context.forbid_downloads`.

    Example:
        >>> import saeta as sa
        >>> table = sa.table({'a': [1, 2, 3]}, 'host')
        >>> with table.context.forbid_downloads():
        ...     last = table.take([2])
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    def __enter__(self) -> StrictMode: ...

    def __exit__(self, *exception: object) -> None: ...

class Context:
    """
    Everything Saeta keeps for one device of this process: memory under a budget, streams and counters. There is one per device; `saeta.context` gives it. `memory.child` and `memory.reserve` give further ones that share all of it but the budget.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> ctx.device
        'host'
        >>> block = ctx.allocate('1KiB', tag='scratch')
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def device(self) -> str:
        """
        "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.device
            'host'
        """

    @property
    def budget(self) -> int | None:
        """
        Limit in bytes, None for no limit. Set it to an int, "8GiB" or "50%" (of the device's memory). InvalidError if more bytes are already in use.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host').memory.child('part', '1MiB')
            >>> ctx.budget
            1048576
        """

    @budget.setter
    def budget(self, limit: int | str | None, /) -> None: ...

    @property
    def memory(self) -> Memory:
        """
        Statistics, budgets and records of its memory.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> print(ctx.memory.report().splitlines()[0])
            memory of host
        """

    @property
    def options(self) -> dict[str, Any]:
        """
        The options that it was made with: `stack` (top first), `wait` (seconds), `guard_quarantine`, `exportable_pool` (whether other processes can open its memory), `pool_threshold` (bytes; None: all), `record` (events kept from the start), `staging_threads` (0: the machine's, at most 16), `staging_pinned` (bytes; None: 96 MiB, and 12 MiB a thread), `host_cache` (bytes of host memory kept for downloads), and where tables of `spillable` go: `spill_folder` ("": no files), and the limits in bytes `spill_pinned`, `spill_pageable` and `spill_files` (None: no limit). The budget has an attribute of its own.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> 'stack' in ctx.options
            True
        """

    @property
    def closed(self) -> bool:
        """
        Whether it refuses new work.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.closed
            False
        """

    def counters(self) -> dict[str, Any]:
        """
        What was moved, allocated and waited for since the last reset. For each direction a dict of `transfers` (planned movements), `calls` (copies given to the driver) and `bytes`; `peer_to_device` came from another GPU by peer access. Beside them `allocations`, `imports` and `exports` (imported and exported views), `synchronizations` (waits of the host), `staged` (tables copied from another GPU through the host, because the two have no peer access) and `events` (recorded to order streams; work on one stream needs none).

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> sorted(ctx.counters()['host_to_device'])
            ['bytes', 'calls', 'transfers']
        """

    def reset_counters(self) -> None:
        """
        Sets all counters to zero.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.reset_counters()
            >>> ctx.counters()['host_to_host']['bytes']
            0
        """

    def allocate(self, nbytes: int | str, *, tag: str = '', stream: object = None, alignment: int = 0, kind: Literal['device', 'pinned'] = 'device') -> Buffer:
        """
        Memory charged to this context's budget under a tag, ready on a stream (None: the context's own; see `saeta.use` for the others). Contents are undefined. `kind` "pinned" is page-locked host memory, charged to the budget of the host's context; on the host it is ordinary memory of this one. BudgetExceeded, OutOfMemory, ClosedError, UnsupportedError for other kinds.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> block = ctx.allocate('1KiB', tag='scratch')
            >>> block.nbytes
            1024
        """

    def spillable(self, table: Table, *, priority: int = 0) -> saeta._share.spilling.SpillHandle:
        """
        Keeps a table that may leave the device while nobody uses it. When a request does not fit, the tables of unused handles move to the host: to page-locked memory, pageable memory or a file, the first that has room. Those of the lowest `priority` move first, among them the one that was unused for the longest time. `SpillHandle.use` brings the table back.

        The handle keeps the table packed: one that is packed already, as every read leaves it, is not copied; others are gathered by one kernel under the budget of this context. Drop the table after this call, because a table that is still referenced can't leave.

        Raises InvalidError for a table of another device, UnsupportedError for types that the IPC format can't describe, BudgetExceeded if the gathered copy does not fit.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> trips = ctx.spillable(sa.table({'fare': [12.5, None]}, ctx), priority=1)
            >>> with trips.use() as table:
            ...     table['fare'].to_pylist()
            [12.5, None]
        """

    def capturing(self) -> GraphCapture:
        """
        Announces that a CUDA graph is captured inside a `with` block. Views that are dropped meanwhile are released after the capture; otherwise their release could end it. Needed on streams that do not synchronise with the legacy default stream, as those of torch.cuda.graph, unless the capture itself takes a view or opens a token on its stream. Does nothing on the host.

        Example:
            >>> import torch
            >>> import saeta as sa
            >>> ctx = sa.context('cuda:0')
            >>> x = sa.column('x', [1.0, 2.0], ctx=ctx).to_torch()
            >>> doubled = x * 2  # loads the kernel that is captured
            >>> graph = torch.cuda.CUDAGraph()
            >>> with ctx.capturing(), torch.cuda.graph(graph):
            ...     doubled = x * 2
            >>> graph.replay()
            >>> doubled.tolist()
            [2.0, 4.0]
        """

    def forbid_downloads(self) -> StrictMode:
        """
        Strict mode inside a `with` block: copying data from this device to the host raises DownloadForbidden before anything is copied, on every thread. Scalars that metadata needs are still read. Copies that other libraries make are not seen, and on the host there is nothing to download.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'a': [1, 2, 3]}, 'host')
            >>> with table.context.forbid_downloads():
            ...     last = table.take([2])
            >>> last['a'].to_pylist()
            [3]
        """

    def synchronize(self) -> None:
        """
        Waits for all work on the device that was queued so far, also by other libraries, and for memory whose release waits for it. While a graph is captured, for the context's own stream alone.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.synchronize()
        """

    def close(self) -> dict[str, int]:
        """
        Refuses new work from now on. Returns the bytes that are still alive, by tag; they stay valid until their owners drop them. Bytes of a reservation that were not drawn return at once.

        Example:
            >>> import saeta as sa
            >>> query = sa.context('host').memory.child('query', limit='1MiB')
            >>> block = query.allocate('1KiB', tag='scratch')
            >>> query.close()
            {'scratch': 1024}
        """

    def __enter__(self) -> Context:
        """
        A context of `memory.child` or `memory.reserve` closes at the end of a `with` block. The context of the process does not: InvalidError.
        """

    def __exit__(self, *exception: object) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

def context(device: str | None = None, *, budget: int | str | None = None, stack: str | None = None, wait: float | None = None, exportable_pool: bool | None = None) -> Context:
    """
    The context of a device ("host", "cuda", "cuda:1"; None: the best there is), made on first use.

    `budget` is its limit: bytes, "8GiB", or "50%" of the device's memory; None leaves it unchanged. `stack` names its resources, top first ("logging, budget, guard, caching"); `wait` is the number of seconds for which a request that does not fit waits in line. With `exportable_pool` other processes can open its memory (`saeta.cuda`); the host has no pool. All of them apply at the first use: InvalidError if the context exists with other ones. Set `Context.budget` to change the limit of the process, and take `Context.memory.child` to limit your own part. DeviceError where there is no such device, with the reason.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> ctx.device
        'host'
    """

class Memory:
    """
    Statistics, budgets and records of a context's memory.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> with ctx.memory.child('query', limit='1MiB') as query:
        ...     query.budget
        1048576
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def statistics(self) -> dict[str, int | None]:
        """
        Bytes of the context's budget: `limit`, `current`, `reserved` (promised and not drawn yet), `remaining` (None: no limit), `peak`; its counts of accepted `requests` and `refused` ones. Bytes of the device: `own` (held by buffers), `external` (views of foreign memory), `pinned` (page-locked host memory), `held` (taken from the device: in use or cached), `foreign` (used on the device by others; 0 on the host), `host_held` (ordinary host memory taken for downloads: in use, where it counts as `own`, or kept for the next); counts of live `buffers` and of `pending_releases` (waiting for work to finish).

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host').memory.child('query', '1MiB')
            >>> block = ctx.allocate('1KiB')
            >>> ctx.memory.statistics()['current']
            1024
        """

    def by_tag(self) -> dict[str, int]:
        """
        Live bytes by tag, largest first; views of foreign memory as "external:TAG". For a child budget, the bytes charged to it.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host').memory.child('query', '1MiB')
            >>> block = ctx.allocate('1KiB', tag='scratch')
            >>> ctx.memory.by_tag()
            {'scratch': 1024}
        """

    def by_budget(self) -> dict[str, int]:
        """
        Live bytes of own buffers on the whole device by the name of the budget that holds the charge, largest first.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> query = ctx.memory.child('query', '1MiB')
            >>> block = query.allocate('1KiB')
            >>> ctx.memory.by_budget()['query']
            1024
        """

    def report(self) -> str:
        """
        The statistics and the live bytes by tag and by budget, as text.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> print(ctx.memory.report().splitlines()[0])
            memory of host
        """

    def timeline(self, path: str | os.PathLike[str], recording: MemoryRecording | None = None, *, phases: Sequence[tuple[str, int]] = ()) -> None:
        """
        Writes a recording of `record` (None: the one that SAETA_RECORD began) as one self-contained HTML page: bytes over time by tag, the budget, refusals and trims. `phases` names stretches of it: (name, number of records when it ended), in order.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.record() as recording:
            ...     block = ctx.allocate('1KiB')
            >>> _ = ctx.memory.timeline('timeline.html', recording)
        """

    def __repr__(self) -> str: ...

    @property
    def device(self) -> str:
        """
        "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> sa.context('host').memory.device
            'host'
        """

    def trim(self) -> int:
        """
        Returns unused memory of the pools to the device. Returns the number of bytes.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> freed = ctx.memory.trim()
        """

    def guard_check(self) -> list[str]:
        """
        Checks canaries and freed memory, waiting for all work of the device; returns what the guard has found so far, one line each. InvalidError if the stack has no guard.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host', stack='budget, guard, direct')
            >>> ctx.memory.guard_check()
            []
        """

    def child(self, name: str, limit: int | str | None = None) -> Context:
        """
        A context of this device with a budget of its own (None: no limit), whose allocations count in this one, too. As a context manager it closes at the end; memory in use stays valid and charged.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> query = ctx.memory.child('query 7', limit='1MiB')
            >>> query.budget
            1048576
        """

    def reserve(self, nbytes: int | str, overbook: bool = False) -> Context:
        """
        A context of this device whose allocations draw from bytes that are set aside now. No budget refuses them, and every request beyond them is refused. As a context manager it returns the bytes that were not drawn at the end. Room is made, and waited for in line, as for an allocation; BudgetExceeded if there is none. With `overbook`, bytes beyond the limit are promised at once, and drawing them may be refused.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.reserve('1MiB') as promised:
            ...     block = promised.allocate('512KiB')
            >>> block.nbytes
            524288
        """

    @property
    def reservation(self) -> dict[str, int] | None:
        """
        The reservation that this context draws from: `bytes` reserved, `left`, and how many of these are `overbooked`. None without a reservation.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.reserve('1MiB') as promised:
            ...     promised.memory.reservation['bytes']
            1048576
        """

    def window(self) -> MemoryWindow:
        """
        Measures peak, requests and refusals of the budget from now on.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     del_me = ctx.allocate('1KiB')
            >>> window.requests
            1
        """

    def reset_peak(self) -> None:
        """
        Resets the peak to the bytes in use now.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.memory.reset_peak()
        """

    def add_hook(self, fn: Callable[[int], int | None], *, name: str, priority: int = 0) -> MemoryHook:
        """
        Asks `fn(bytes_needed)` to make room when a request on this device does not fit; it returns the bytes that it freed, None for 0. Hooks of higher priority are called earlier, on the thread of the request. An exception goes to sys.unraisablehook and counts as 0.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.add_hook(lambda missing: 0, name='cache') as hook:
            ...     hook.name
            'cache'
        """

    def record(self, *, capacity: int = 1048576) -> MemoryRecording:
        """
        Records every allocation, free, refusal and trim of the device, and every view of foreign memory, from now on. Keeps the last `capacity` records.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.record() as recording:
            ...     block = ctx.allocate('1KiB', tag='scratch')
            >>> [each['tag'] for each in recording.records()]
            ['scratch']
        """

    @property
    def recording(self) -> MemoryRecording | None:
        """
        The records of the device since its context was made; None unless SAETA_RECORD is set.

        Example:
            >>> import saeta as sa
            >>> sa.context('host').memory.recording is None
            True
        """

    def log_to(self, target: str) -> MemoryLog:
        """
        Writes the events of the device to "csv:PATH", "jsonl:PATH" or "trace:PATH" (Chrome's trace format, for Perfetto) from now on. InvalidError for another kind, FileError if the file can't be opened.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.log_to('csv:memory.csv'):
            ...     block = ctx.allocate('1KiB')
        """

    @property
    def log_dropped(self) -> int:
        """
        Number of records that a log could not write, because the disk was full.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> ctx.memory.log_dropped >= 0
            True
        """

class MemoryWindow:
    """
    Counts of a budget since `memory.window()`. They change until the end of a `with` block and stay fixed then. Windows may be nested.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> with ctx.memory.window() as window:
        ...     block = ctx.allocate('1KiB')
        >>> window.current - window.start
        1024
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    @property
    def start(self) -> int:
        """
        Bytes in use when the window was opened.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     block = ctx.allocate('1KiB')
            >>> window.start < window.current
            True
        """

    @property
    def current(self) -> int:
        """
        Bytes in use now.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     block = ctx.allocate('1KiB')
            >>> window.current - window.start
            1024
        """

    @property
    def peak(self) -> int:
        """
        Most bytes in use at one time inside the window.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     block = ctx.allocate('1KiB')
            ...     del block
            >>> window.peak - window.start
            1024
        """

    @property
    def requests(self) -> int:
        """
        Accepted requests inside the window.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     block = ctx.allocate('1KiB')
            >>> window.requests
            1
        """

    @property
    def refused(self) -> int:
        """
        Refused requests inside the window.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.window() as window:
            ...     block = ctx.allocate('1KiB')
            >>> window.refused
            0
        """

    def __enter__(self) -> MemoryWindow: ...

    def __exit__(self, *exception: object) -> None: ...

class MemoryHook:
    """
    A hook of `memory.add_hook`; stays until it is removed.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> hook = ctx.memory.add_hook(lambda missing: 0, name='cache')
        >>> hook.remove()
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    @property
    def name(self) -> str:
        """
        The name under which it was added.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.add_hook(lambda missing: 0, name='cache') as hook:
            ...     hook.name
            'cache'
        """

    def remove(self) -> None:
        """
        Removes the hook. Does nothing the second time.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> hook = ctx.memory.add_hook(lambda missing: 0, name='cache')
            >>> hook.remove()
        """

    def __enter__(self) -> MemoryHook: ...

    def __exit__(self, *exception: object) -> None: ...

class MemoryRecording:
    """
    The events of a device's memory, from `memory.record()` to the end of its `with` block.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> with ctx.memory.record() as recording:
        ...     block = ctx.allocate('1KiB', tag='scratch')
        >>> [each['bytes'] for each in recording.records()]
        [1024]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    def records(self) -> list[dict[str, Any]]:
        """
        The records, oldest first: `order`, `time_ns`, `event`, `device`, `thread`, `stream`, `bytes`, `address`, `generation`, `tag`, `account` (the budget that was charged), `limit`, `outcome`, and, if the memory of the device changed, its `reserved` and `held`.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.record() as recording:
            ...     block = ctx.allocate('1KiB', tag='scratch')
            >>> [each['event'] for each in recording.records()]
            ['allocate']
        """

    @property
    def forgotten(self) -> int:
        """
        Number of records that were dropped for later ones.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> with ctx.memory.record() as recording:
            ...     block = ctx.allocate('1KiB')
            >>> recording.forgotten
            0
        """

    def __enter__(self) -> MemoryRecording: ...

    def __exit__(self, *exception: object) -> None: ...

class MemoryLog:
    """
    A log of `memory.log_to`; written until it is closed or dropped.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> with ctx.memory.log_to('jsonl:memory.jsonl'):
        ...     block = ctx.allocate('1KiB')
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

    def close(self) -> None:
        """
        Completes the file. Does nothing the second time.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> log = ctx.memory.log_to('jsonl:memory.jsonl')
            >>> log.close()
        """

    def __enter__(self) -> MemoryLog: ...

    def __exit__(self, *exception: object) -> None: ...

class SymbolTable:
    """
    Names and their symbols: numbers from 0 on, in the order in which names were added. Names are never removed. The process has one, `saeta.symbols`; others are made with `SymbolTable()`.

    Safe to use from any thread: look-ups of known names don't wait. The memory belongs to no context and no budget counts it.

    Example:
        >>> import saeta as sa
        >>> number = sa.symbols.intern('Lyon')
        >>> sa.symbols.name(number)
        'Lyon'

    Example:
        >>> import saeta as sa
        >>> table = sa.SymbolTable()
        >>> table.intern('Lyon'), table.intern('Bern'), table.intern('Lyon')
        (0, 1, 0)
    """

    def __init__(self, limit: int | None = None) -> None:
        """`limit`: the maximum number of names, 2**32 by default."""

    def intern(self, name: str) -> int:
        """
        The symbol of a name, which is added if it is new. SizeOverflow if the table is full.

        Example:
            >>> import saeta as sa
            >>> sa.SymbolTable().intern('Lyon')
            0
        """

    def intern_all(self, names: Iterable[str]) -> list[int]:
        """
        The symbols of many names, in their order.

        Example:
            >>> import saeta as sa
            >>> sa.SymbolTable().intern_all(['Lyon', 'Bern', 'Lyon'])
            [0, 1, 0]
        """

    def name(self, symbol: int) -> str:
        """
        The name of a symbol. OutOfRange for one that the table does not have.

        Example:
            >>> import saeta as sa
            >>> table = sa.SymbolTable()
            >>> table.name(table.intern('Lyon'))
            'Lyon'
        """

    def lookup(self, symbol: int) -> str | None:
        """
        The name of a symbol, None for one that the table does not have.

        Example:
            >>> import saeta as sa
            >>> table = sa.SymbolTable()
            >>> table.lookup(7) is None
            True
        """

    def find(self, name: str) -> int | None:
        """
        The symbol of a name, None for one that the table does not have. Adds nothing.

        Example:
            >>> import saeta as sa
            >>> table = sa.SymbolTable()
            >>> number = table.intern('Lyon')
            >>> table.find('Lyon') == number, table.find('Bern') is None
            (True, True)
        """

    def __contains__(self, name: object) -> bool:
        """Whether the table has the name."""

    def __len__(self) -> int: ...

    @property
    def limit(self) -> int:
        """
        The maximum number of names.

        Example:
            >>> import saeta as sa
            >>> sa.SymbolTable().limit > 0
            True
        """

    @property
    def nbytes(self) -> int:
        """
        Bytes of host memory in use.

        Example:
            >>> import saeta as sa
            >>> table = sa.SymbolTable()
            >>> number = table.intern('Lyon')
            >>> table.nbytes > 0
            True
        """

    def __eq__(self, other: object, /) -> bool:
        """True if both are the same table."""

    def __hash__(self) -> int: ...

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __repr__(self) -> str: ...

symbols: SymbolTable = ...

class DataType:
    """
    An Arrow data type, made from its Arrow name ("int64", "timestamp[us, tz=UTC]"), from a type of another Arrow library such as pyarrow, or from a dtype of NumPy or torch. Python's `float` is float64, as in NumPy, while Arrow's name "float" is float32. Compares equal to its name as text.

    Example:
        >>> import saeta as sa
        >>> sa.DataType('timestamp[us, tz=UTC]').byte_width
        8
    """

    def __init__(self, type: DataType | str | object) -> None:
        """
        InvalidError for text that is not a type. A schema is taken for a struct.
        """

    @property
    def name(self) -> str:
        """
        The Arrow name: "timestamp[us, tz=UTC]".

        Example:
            >>> import saeta as sa
            >>> sa.DataType('list<item: int32>').name
            'list<item: int32>'
        """

    @property
    def format(self) -> str:
        """
        Format string of the Arrow C Data Interface; that of the indices for a dictionary.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('int64').format
            'l'
        """

    @property
    def byte_width(self) -> int:
        """
        Bytes of one value (of an index, for dictionaries); 0 for bits and variable lengths.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('float64').byte_width
            8
        """

    @property
    def dtype(self) -> str | None:
        """
        NumPy's name of the element type. For fixed-size lists and structs of one type, that of their numbers. None if tensors have no such type.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('float64').dtype
            'float64'
        """

    @property
    def is_bool8(self) -> bool:
        """
        True for booleans of one byte: bool8, as in tensors, and the extension arrow.bool8.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('bool8').is_bool8
            True
        """

    @property
    def is_symbol(self) -> bool:
        """
        True for symbols: numbers that stand for names.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('uint32').is_symbol
            False
        """

    @property
    def symbol_table(self) -> SymbolTable | None:
        """
        The SymbolTable of symbols, else None.

        Example:
            >>> import saeta as sa
            >>> sa.symbol().symbol_table == sa.symbols
            True
        """

    @property
    def ordered(self) -> bool:
        """
        Whether the values of a dictionary are in order.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('dictionary<values=string, indices=int32>').ordered
            False
        """

    @property
    def index_type(self) -> DataType | None:
        """
        Type of the indices of a dictionary, else None.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('dictionary<values=string, indices=int32>').index_type.name
            'int32'
        """

    @property
    def value_type(self) -> DataType | None:
        """
        Type of the values of a dictionary, else None.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('dictionary<values=string, indices=int32>').value_type.name
            'string'
        """

    @property
    def fields(self) -> list[Field]:
        """
        Fields of the children of a nested type, as in the Arrow format; the entries of a map are one struct.

        Example:
            >>> import saeta as sa
            >>> [field.name for field in sa.DataType('struct<x: int32, y: int32>').fields]
            ['x', 'y']
        """

    @property
    def extension_name(self) -> str:
        """
        Name of the Arrow extension type, empty without one.

        Example:
            >>> import saeta as sa
            >>> sa.DataType('bfloat16').extension_name
            'saeta.bfloat16'
        """

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule (Arrow PyCapsule Interface)."""

def _type_of_format(format: str) -> DataType:
    """A type from a format string of the Arrow C Data Interface."""

def _nested_type(format: str, fields: Sequence[Field], keys_sorted: bool = False) -> DataType:
    """
    A nested type by the format string of the Arrow C Data Interface and its children.
    """

def _dictionary_type(indices: DataType, values: DataType, ordered: bool) -> DataType: ...

def _type_state(type: DataType) -> tuple[Any, ...]:
    """The state from which `_type_of_state` makes the type again."""

def _type_of_state(special: str, format: bytes, fields: Sequence[Field], keys_sorted: bool, index: DataType | None, value: DataType | None, ordered: bool, extension: bytes, metadata: bytes) -> DataType: ...

def _bool8_type() -> DataType: ...

def _byte_bool_type() -> DataType: ...

def _narrow_float_type(name: str) -> DataType | None:
    """
    A float for which Arrow has no type, such as "bfloat16"; None for other names.
    """

def _symbol_type(table: SymbolTable | None = None) -> DataType: ...

class Field:
    """
    A name, a type, whether nulls are allowed, and metadata.

    Example:
        >>> import saeta as sa
        >>> sa.Field('fare', 'float64').nullable
        True
    """

    def __init__(self, name: str, type: DataType | str | object, nullable: bool = True, metadata: Mapping[Any, Any] | None = None) -> None:
        """
        `type` is what `DataType` takes; `metadata` maps text or bytes to text or bytes.
        """

    @property
    def name(self) -> str:
        """
        Its name; may be empty.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').name
            'fare'
        """

    @property
    def type(self) -> DataType:
        """
        Its data type.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').type.name
            'double'
        """

    @property
    def nullable(self) -> bool:
        """
        Whether nulls are allowed.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64', nullable=False).nullable
            False
        """

    @property
    def metadata(self) -> saeta._metadata.Metadata:
        """
        A mapping of bytes to bytes; its `pairs` has repeated keys too.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64', metadata={'unit': 'EUR'}).metadata
            {b'unit': b'EUR'}

        Example:
            >>> import saeta as sa
            >>> sa.schema([('a', 'int8')], metadata={'source': 'meter'}).metadata
            {b'source': b'meter'}
        """

    def with_name(self, name: str) -> Field:
        """
        The same field under another name.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').with_name('price').name
            'price'
        """

    def with_type(self, type: DataType | str | object) -> Field:
        """
        The same field with another type.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').with_type('float32').type.name
            'float'
        """

    def with_nullable(self, nullable: bool) -> Field:
        """
        The same field, which may or may not have nulls.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').with_nullable(False).nullable
            False
        """

    def with_metadata(self, metadata: Mapping[Any, Any] | None) -> Field:
        """
        The same field with this metadata and no other.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64').with_metadata({'unit': 'EUR'}).metadata
            {b'unit': b'EUR'}
        """

    def equals(self, other: object) -> bool:
        """
        As ==: name, type, nullability and metadata.

        Example:
            >>> import saeta as sa
            >>> sa.field('a', 'int32').equals(sa.field('a', 'int32'))
            True
        """

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule (Arrow PyCapsule Interface)."""

class Schema:
    """
    The fields of a table, in order. Names may repeat or be empty.

    Example:
        >>> import saeta as sa
        >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
        >>> schema['fare'].type.name
        'double'
        >>> len(schema)
        2
    """

    def __init__(self, fields: object, metadata: Mapping[Any, Any] | None = None) -> None:
        """
        `fields` is a sequence of Field objects, of fields of another Arrow library or of pairs (name, type), a mapping of names to types, or an object with `__arrow_c_schema__`, whose metadata is kept unless `metadata` is given.
        """

    @property
    def names(self) -> list[str]:
        """
        Names of the fields, in order.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.names
            ['city', 'fare']
        """

    @property
    def fields(self) -> list[Field]:
        """
        The fields, in order.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> [field.nullable for field in schema.fields]
            [True, True]
        """

    @property
    def types(self) -> list[DataType]:
        """
        Types of the fields, in order.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> [type.name for type in schema.types]
            ['string', 'double']
        """

    @property
    def metadata(self) -> saeta._metadata.Metadata:
        """
        A mapping of bytes to bytes; its `pairs` has repeated keys too.

        Example:
            >>> import saeta as sa
            >>> sa.field('fare', 'float64', metadata={'unit': 'EUR'}).metadata
            {b'unit': b'EUR'}

        Example:
            >>> import saeta as sa
            >>> sa.schema([('a', 'int8')], metadata={'source': 'meter'}).metadata
            {b'source': b'meter'}
        """

    @property
    def _has_pandas_metadata(self) -> bool:
        """
        Whether the metadata has an entry of pandas, which may name columns of an index.
        """

    def field(self, key: str | int) -> Field:
        """
        The only field of that name (InvalidError when there is none or there are several), or the one of that number; negative numbers count from the end.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.field(0).name
            'city'
        """

    def with_metadata(self, metadata: Mapping[Any, Any] | None) -> Schema:
        """
        The same fields with this metadata of the schema and no other.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.with_metadata({'source': 'meter'}).metadata
            {b'source': b'meter'}
        """

    def get_field_index(self, name: str) -> int:
        """
        Number of the only field of that name, -1 when there is none or there are several.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.get_field_index('fare')
            1
        """

    def equals(self, other: object) -> bool:
        """
        As ==: fields in order, and metadata.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.equals(sa.schema([('city', 'string'), ('fare', 'float64')]))
            True
        """

    def __len__(self) -> int: ...

    def __getitem__(self, key: str | int) -> Field:
        """
        The only field of that name (InvalidError when there is none or there are several), or the one of that number; negative numbers count from the end.

        Example:
            >>> import saeta as sa
            >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])
            >>> schema.field(0).name
            'city'
        """

    def __iter__(self) -> Iterator[Field]:
        """The fields, in order."""

    def __contains__(self, key: str | Field) -> bool:
        """Whether a field has that name, or equals that Field."""

    def _ipython_key_completions_(self) -> list[str]:
        """Names for tab completion."""

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule of a struct (Arrow PyCapsule Interface)."""

def _unknown_column(name: object, names: Sequence[str]) -> str:
    """
    The text of an error about an unknown column: the closest name, and all names.
    """

def _require_memory_for(objects: int, label: str) -> None:
    """
    Raises OutOfMemory if so many Python objects take more than the available memory.
    """

def _require_memory_for_values(rows: int, label: str) -> None:
    """
    Raises OutOfMemory if values of one byte for so many rows take more than the available memory.
    """

class Column:
    """
    A named, typed, immutable column on a device, in one or several chunks. Slices and selections share its memory.

    Example:
        >>> import saeta as sa
        >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
        >>> len(fare), fare.null_count
        (3, 1)
        >>> fare[0]
        12.5
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Column:
        """
        One value (None for a null), downloaded from a device, or the rows of a slice, without a copy. A slice with a step other than 1 is a copy, as `take` makes it.
        """

    def __setitem__(self, index: Never, value: Never) -> Never:
        """Raises TypeMismatch: columns are immutable."""

    def __iter__(self) -> Iterator[Any]: ...

    def to_pylist(self) -> list[Any]:
        """
        All values as Python objects, None for nulls. A device column is downloaded.

        OutOfMemory, before any of them is made, if they take more than the available memory: nulls, runs and fixed-size lists need no bytes in a file. FormatError if the column views a mapped file that was rewritten or truncated since it was read.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_pylist()
            [12.5, None, 8.0]
        """

    def _raw_values(self, most: int | None = None) -> list[bytes | bool | None]:
        """
        Values in the Arrow layout, with dictionaries decoded. Each has at most so many values inside, and each text so many bytes.
        """

    def slice(self, offset: int = 0, length: int | None = None) -> Column:
        """
        Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the column.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.slice(1, 2).to_pylist()
            [None, 8.0]
        """

    @property
    def name(self) -> str:
        """
        Its name; may be empty.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.name
            'fare'
        """

    @property
    def type(self) -> DataType:
        """
        Its data type.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.type.name
            'double'
        """

    @property
    def field(self) -> Field:
        """
        Name, type, nullability and metadata.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.field.nullable
            True
        """

    @property
    def context(self) -> Context:
        """
        The context that holds the memory.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.context.device
            'host'
        """

    @property
    def device(self) -> str:
        """
        "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.device
            'host'
        """

    @property
    def chunks(self) -> list[Column]:
        """
        The pieces in memory, each as a column of one chunk; no copy.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> [len(chunk) for chunk in sa.Column.from_chunks([fare, fare[:1]]).chunks]
            [3, 1]
        """

    @property
    def num_chunks(self) -> int:
        """
        Number of pieces in memory.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> sa.Column.from_chunks([fare, fare]).num_chunks
            2
        """

    @property
    def null_count(self) -> int:
        """
        Number of rows that are None in `to_pylist`. If it is not known yet, it is counted on the device and remembered.

        Rows that refer to a null in a dictionary, in a run or in a child of a union count as well. These are counted each time.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.null_count
            1
        """

    @property
    def physical_null_count(self) -> int:
        """
        Number of nulls that the column's own validity has: `null_count` of pyarrow's arrays and of the Arrow C Data Interface. It is 0 for unions and run-end encoded columns, which have no validity.

        Example:
            >>> import saeta as sa
            >>> import pyarrow as pa
            >>> runs = pa.RunEndEncodedArray.from_arrays([2, 3], [1.5, None])
            >>> column = sa.from_arrow(pa.table({'x': runs}), 'host')['x']
            >>> column.null_count, column.physical_null_count
            (1, 0)
        """

    @property
    def nbytes(self) -> int:
        """
        Bytes that the rows refer to. A slice counts the text, the list values, the runs and the children of its own rows, and of a dictionary the share that it has of the column's rows. On a device, slices and views read a few numbers with one small copy for each level of nesting: the host waits for it once, and the result is remembered. Other columns are not read. While the device can't be read, values count as evenly spread over the rows.

        Example:
            >>> import saeta as sa
            >>> age = sa.column('age', [31, 54, 8], ctx='host')
            >>> age.nbytes
            24
        """

    @property
    def address(self) -> int:
        """
        Address of the first row's value (index of a dictionary, offset of a string), to prove that memory is shared. BufferError for several chunks.

        Example:
            >>> import saeta as sa
            >>> import numpy as np
            >>> age = sa.column('age', [31, 54, 8], ctx='host')
            >>> np.from_dlpack(age).ctypes.data == age.address
            True
        """

    def __len__(self) -> int: ...

    def with_name(self, name: str) -> Column:
        """
        The same column under another name.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.with_name('price').name
            'price'
        """

    @staticmethod
    def from_chunks(chunks: Sequence[Column], name: str | None = None) -> Column:
        """
        One column of the chunks of several columns, in order; no copy. TypeMismatch if their types differ.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> sa.Column.from_chunks([fare, fare]).to_pylist()
            [12.5, None, 8.0, 12.5, None, 8.0]
        """

    def combine_chunks(self) -> Column:
        """
        The same rows in one chunk: one kernel on the device, into memory under the budget. A column of one chunk is returned unchanged. More than one chunk is left only if 32-bit offsets, run ends or dictionary indices can't count the rows.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> sa.Column.from_chunks([fare, fare]).combine_chunks().num_chunks
            1
        """

    def _with_field(self, field: Field) -> Column: ...

    def __eq__(self, other: object, /) -> bool:
        """
        True if both show the same rows of the same memory under the same field, False if fields or numbers of rows differ. Otherwise UnsupportedError: `equals` compares values.
        """

    def equals(self, other: Column, *, check_metadata: bool = False) -> bool:
        """
        Whether both columns have the same data: types and numbers of rows are the same, nulls are at the same rows, and valid values are equal, to any depth. The columns are compared on their device; only the answer leaves it.

        Names and the layout of the data do not count: chunks, offsets, values under nulls, the order of dictionaries, runs. As in pyarrow, a NaN is not equal to itself and 0.0 is equal to -0.0. Unlike in pyarrow, columns with dictionaries in different order are equal if their rows have equal values.

        Args:
            other: a Column of the same context.
            check_metadata: metadata of the fields, and the names of the values of lists, count as well.

        Raises InvalidError for a column of another context or device, and TypeMismatch for anything that is not a Column: `saeta.from_arrow` makes one.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.equals(fare.take([0, 1, 2]))
            True
        """

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

    def __dir__(self) -> list[str]: ...

    def _repr_html_(self) -> str: ...

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def take(self, indices: Any) -> Column:
        """
        The rows with these numbers, in this order, as a Column of one chunk. `Table.take` describes the indices and the errors.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.take([2, 0]).to_pylist()
            [8.0, 12.5]
        """

    def filter(self, mask: Any) -> Column:
        """
        The rows whose mask is true, as a Column of one chunk. `Table.filter` describes the mask and the errors.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.filter([True, False, True]).to_pylist()
            [12.5, 8.0]
        """

    def cast(self, type: Any, *, cast: Literal['round'] | None = None) -> Column:
        """
        The column as another type of numbers, converted by one kernel per chunk; nulls stay null. Decimals become integers and floats.

        Args:
            type: what `saeta.DataType` takes: an integer or a float. Also a type over the same bytes, such as the integers of a timestamp, without a copy. Of a dictionary the values of the rows are taken and then converted, so the type of its values is possible as well.
            cast: None: every value must be equal in the other type. 'round': floats and decimals become the nearest integer, ties to even, and numbers become the nearest float. Integers must still have the range.

        Raises OutOfRange naming the first row that has no such value, and TypeMismatch for types that are not numbers, and for other decimals.

        Example:
            >>> import saeta as sa
            >>> age = sa.column('age', [31, 54, 8], ctx='host')
            >>> age.cast('float32').to_pylist()
            [31.0, 54.0, 8.0]
        """

    def fill_null(self, value: Any) -> Column:
        """
        The column with every null replaced by one value, on its device.

        Args:
            value: a value that the type has exactly, or a Column of one row and this type.

        Chunks without nulls are not copied if their values have 1, 2, 4 or 8 bytes.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.fill_null(0.0).to_pylist()
            [12.5, 0.0, 8.0]
        """

    def is_null(self) -> Column:
        """
        A column of bool8, one byte a row: 1 where `to_pylist` shows None, 0 elsewhere. One kernel per chunk, and a few more where dictionaries, runs or unions refer to nulls.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.is_null().to_pylist()
            [False, True, False]
        """

    def drop_null(self) -> Column:
        """
        The rows that are not null, copied as `filter` does. A column without nulls is returned unchanged.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.drop_null().to_pylist()
            [12.5, 8.0]
        """

    def to(self, ctx: Context | Device | str) -> Column:
        """
        The column in the memory of another context of this process, as `Table.to`.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to('host').device
            'host'
        """

    def _take(self, indices: Column) -> Column: ...

    def _take_in_steps(self, first: int, step: int, count: int) -> Column:
        """Rows first, first + step and so on, which the column must have."""

    def _filter(self, mask: Column) -> Column: ...

    def _cast(self, type: DataType, rounds: bool) -> Column: ...

    def _plain_numbers(self) -> Column:
        """The numbers of a dictionary or of runs, one for each row."""

    def _fill_null(self, fill: Column) -> Column: ...

    def _to(self, target: Context) -> Column: ...

    def as_bool8(self, *, extension: bool = True) -> Column:
        """
        Booleans as booleans of one byte, which tensors can view. Booleans of one bit are converted by one kernel per chunk; those of one byte share their memory. The result is of the extension type arrow.bool8, which Arrow consumers get without a copy. With extension=False it is bool8, which Arrow consumers get as bits.

        Example:
            >>> import saeta as sa
            >>> flag = sa.column('flag', [True, False], ctx='host')
            >>> flag.as_bool8().nbytes
            2
        """

    def as_bool(self) -> Column:
        """
        Booleans of one byte (or any int8 or uint8, where not 0 is true) as booleans of one bit.

        Example:
            >>> import saeta as sa
            >>> flag = sa.column('flag', [True, False], ctx='host')
            >>> flag.as_bool8().as_bool().type.name
            'bool'
        """

    def _with_type_of_bytes(self, type: DataType) -> Column: ...

    def _dictionary_parts(self) -> list[tuple[Column, Column]]:
        """
        Of a dictionary column, for each chunk: the values of its dictionary, and its indices as integers over the same memory. Without chunks both are empty.
        """

    def _masked(self, valid: Column) -> Column: ...

    def as_symbols(self, table: SymbolTable | None = None) -> Column:
        """
        Strings, dictionaries of strings, or the numbers of symbols (uint32, int32) as symbols of a SymbolTable, without one of the process's.

        The values of a dictionary are interned once, used or not, and its indices become symbols on the device. Strings are downloaded from a device. Numbers are not copied, but all are checked: OutOfRange names the first row whose number the table does not have. ExchangeError for numbers that are symbols of another process according to the metadata, and for those of XLOG, which name no table: without `table` nothing says what they mean.

        Example:
            >>> import saeta as sa
            >>> city = sa.column('city', ['Lyon', 'Bern', 'Lyon'], ctx='host')
            >>> city.as_symbols().to_pylist()
            ['Lyon', 'Bern', 'Lyon']
        """

    def to_arrow(self) -> pyarrow.ChunkedArray:
        """
        A pyarrow ChunkedArray: views of a host column, a download of a device column.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_arrow().to_pylist()
            [12.5, None, 8.0]
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.typing.NDArray[Any]: ...

    def to_pandas(self) -> pandas.Series[Any]:
        """
        A pandas Series of that name, through pyarrow.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_pandas().shape
            (3,)
        """

    def to_polars(self) -> polars.Series:
        """
        A polars Series of that name, through the Arrow C stream.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_polars().null_count()
            1
        """

    @overload
    def to_numpy(self, *, copy: bool | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> numpy.typing.NDArray[Any]: ...

    @overload
    def to_numpy(self, *, copy: bool | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]:
        """
        A NumPy array. `copy=None` copies only if necessary (device memory, several chunks, types that NumPy does not have) and otherwise returns a read-only view; False raises ExchangeError instead of copying; True always copies. Nulls and types without a tensor type: as for `to_torch`, with these exceptions: without `codes` a dictionary gives the values of its rows, and without `reinterpret` and `dtype` pyarrow converts times, strings and other types that tensors lack, also beside a mask.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_numpy(nulls='nan').tolist()
            [12.5, nan, 8.0]
            >>> values, valid = fare.to_numpy(with_mask=True)
            >>> valid.tolist()
            [True, False, True]
        """

    @overload
    def to_torch(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> torch.Tensor: ...

    @overload
    def to_torch(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[torch.Tensor, torch.Tensor]:
        """
        A torch tensor on the column's device, without a copy. It must not be written to.

        Nulls are an ExchangeError unless one of three keywords handles them. `nulls='nan'` (floats) and `fill=value` copy if there are nulls, with one kernel, into memory under the budget. `with_mask=True` gives a pair (values, mask): the values without a copy, undefined at nulls, and a bool tensor that is True where the value is valid. `reinterpret=True` gives the integers of dates, times, timestamps and durations, `codes=True` the indices of a dictionary. `dtype` names another type of number, which is a copy: any float, rounded to the nearest, or an integer type that has all values of the column's type. Decimals need it, and OutOfRange names the first that is not equal to an integer. Runs become a copy with a value for each row.

        A column of fixed-size lists has a dimension more, of `arrow.fixed_shape_tensor` those of its shape in the order of its permutation, of structs whose fields are of one type a last one for the fields; all without a copy, the last where the fields are equally spaced in one allocation. Choices about nulls speak of rows; nulls of values inside of rows are ExchangeError.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.to_torch(fill=0).tolist()
            [12.5, 0.0, 8.0]
            >>> values, valid = fare.to_torch(with_mask=True)
            >>> valid.tolist()
            [True, False, True]
        """

    @overload
    def to_cupy(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> cupy.ndarray: ...

    @overload
    def to_cupy(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[cupy.ndarray, cupy.ndarray]:
        """
        A CuPy array on the column's device, without a copy. It must not be written to. Keywords as for `to_torch`.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='cuda:0')
            >>> float(fare.to_cupy(fill=0).sum())
            20.5
        """

    @overload
    def to_numba(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> Any: ...

    @overload
    def to_numba(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[Any, Any]:
        """
        A device array of Numba, for a kernel, without a copy. It must not be written to. Numba waits for our last write before it returns. Bools become one byte per value, so packed ones are copied. Keywords as for `to_torch`. ExchangeError for a column on the host.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='cuda:0')
            >>> fare.to_numba(fill=0).copy_to_host().tolist()
            [12.5, 0.0, 8.0]
        """

    @overload
    def to_jax(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> jax.Array: ...

    @overload
    def to_jax(self, *, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[jax.Array, jax.Array]:
        """
        A JAX array on the column's device, without a copy. Keywords as for `to_torch`.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], 'float32', 'host')
            >>> fare.to_jax(nulls='nan').tolist()
            [12.5, nan, 8.0]
        """

    __dlpack_c_exchange_api__: CapsuleType

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType:
        """
        A DLPack capsule, zero-copy and read-only: a 1-D tensor, of more dimensions for fixed-size lists and structs of one type. The consumer's stream waits for our last write: None and 1 the legacy default stream, 2 the per-thread one, -1 no ordering, above 2 a handle. On the host it must be None. Several chunks are joined, which is a copy. BufferError for nulls, for types without a DLPack type, and for a copy that copy=False forbids.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and number, as DLPack numbers them."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """
        The CUDA Array Interface, version 3, of a column on a GPU: zero-copy and read-only, ordered by the stream that it names. The memory stays while this object lives, and until all work of the device that was queued by then is done. BufferError for nulls (consumers drop masks) and for several chunks.
        """

    @overload
    def offsets_and_values(self, *, with_mask: Literal[False] = False) -> tuple[Column, Column]: ...

    @overload
    def offsets_and_values(self, *, with_mask: Literal[True]) -> tuple[Column, Column, Column]:
        """
        Strings, binaries, lists and maps as two columns, which libraries take as tensors: row i has the values [offsets[i], offsets[i + 1]).

        The offsets are int32 or int64, one more than there are rows. The values are the bytes of strings and binaries as uint8, of lists the values of every row. No copy: a slice has a part of the offsets and all of the values, so its offsets need not begin at 0. `with_mask=True` gives a third column of bool8, 1 where a row is not null; without it a null is ExchangeError, as are string views. Several chunks are joined, which is a copy.

        Example:
            >>> import saeta as sa
            >>> words = sa.column('word', ['to', 'be', 'or'], ctx='host')
            >>> offsets, letters = words.offsets_and_values()
            >>> offsets.to_pylist()
            [0, 2, 4, 6]
        """

    def is_valid(self) -> Column:
        """
        A column of bool8, one byte a row: 1 where a value is not null, 0 where it is. One kernel per chunk.

        Example:
            >>> import saeta as sa
            >>> fare = sa.column('fare', [12.5, None, 8.0], ctx='host')
            >>> fare.is_valid().to_pylist()
            [True, False, True]
        """

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule (Arrow PyCapsule Interface)."""

    def __arrow_c_array__(self, requested_schema: object | None = None, **kwargs: Any) -> tuple[CapsuleType, CapsuleType]:
        """
        Capsules of schema and array, in host memory: zero-copy from a host column, downloaded from a device. BufferError for several chunks.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """A capsule of a stream of the chunks, in host memory."""

    def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: Any) -> tuple[CapsuleType, CapsuleType]:
        """
        Capsules of schema and array where the memory is, without a copy. The array's sync_event is behind our last write. BufferError for several chunks.
        """

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """
        A capsule of a stream of the chunks where their memory is, without a copy.
        """

class Buffer:
    """
    Bytes on a device, from `Context.allocate`. Access them inside `saeta.use`. Slices share memory.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context('host')
        >>> block = ctx.allocate('1KiB', tag='scratch')
        >>> block.nbytes, block.tag, block.kind
        (1024, 'scratch', 'host')
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def nbytes(self) -> int:
        """
        Size in bytes.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB')
            >>> block.nbytes
            1024
        """

    @property
    def tag(self) -> str:
        """
        The name under which the memory is accounted.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB', tag='scratch')
            >>> block.tag
            'scratch'
        """

    @property
    def generation(self) -> int:
        """
        A number that distinguishes this block from earlier ones at the same address.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context('host')
            >>> one, two = ctx.allocate(8), ctx.allocate(8)
            >>> one.generation < two.generation
            True
        """

    @property
    def device(self) -> str:
        """
        "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB')
            >>> block.device
            'host'
        """

    @property
    def kind(self) -> str:
        """
        What kind of memory it is: "device", "managed", "pinned" (page-locked host memory) or "host".

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB')
            >>> block.kind
            'host'
        """

    @property
    def context(self) -> Context:
        """
        The context that holds the memory.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB')
            >>> block.context.device
            'host'
        """

    @property
    def address(self) -> int:
        """
        The address as an identity. For access to the bytes, use the pointer of a token of `saeta.use`.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate('1KiB')
            >>> with sa.use(reads=[block]) as token:
            ...     token.pointer(block) == block.address
            True
        """

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice) -> Buffer:
        """A view of some of the bytes, with step 1."""

    def __repr__(self) -> str: ...

def _to_bytes(where: Context, size: int | str) -> int:
    """Bytes of a size: an int, "8GiB", or "50%" of the device's memory."""

def _stream_number(stream: Any) -> int | None:
    """
    A stream as `__dlpack__` numbers it, None for None. TypeMismatch for other objects.
    """

class UseToken:
    """
    Access to buffers and columns for work on one stream; `saeta.use` makes it, a `with` block opens it.

    Example:
        >>> import saeta as sa
        >>> import numpy as np
        >>> block = sa.context('host').allocate(16)
        >>> with sa.use(writes=[block]) as token:
        ...     np.asarray(token.array(block, 'i4'))[:] = 7
        >>> with sa.use(reads=[block]) as token:
        ...     np.asarray(token.array(block, 'i4')).tolist()
        [7, 7, 7, 7]
    """

    def __init__(self, stream: int | None, reads: Iterable[Buffer | Column], writes: Iterable[Buffer | Column]) -> None: ...

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def stream(self) -> int | None:
        """
        Handle of the stream to launch on, as `__dlpack__` numbers it; None on the host.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(writes=[block]) as token:
            ...     token.stream is None
            True
        """

    @property
    def is_open(self) -> bool:
        """
        True inside the `with` block.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(writes=[block]) as token:
            ...     token.is_open
            True
        """

    def __repr__(self) -> str: ...

    def synchronize(self) -> None:
        """
        Makes the host wait for the token's stream: for the work that the token waits for, and for work queued since. Does nothing on the host. ClosedError outside the `with` block.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(writes=[block]) as token:
            ...     token.synchronize()
        """

    def pointer(self, memory: Buffer | Column) -> int:
        """
        Device address of a buffer's first byte, or of the first row of a column in one chunk. InvalidError if it was not named, ClosedError outside the `with` block.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(writes=[block]) as token:
            ...     token.pointer(block) == block.address
            True
        """

    def writable(self, memory: Buffer | Column) -> bool:
        """
        True if it was named in `writes`.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(reads=[block]) as token:
            ...     token.writable(block)
            False
        """

    def array(self, memory: Buffer | Column, dtype: object = None) -> Any:
        """
        A 1-D array over a buffer (dtype None: bytes) or a column without nulls (None: its own type): an object with `__cuda_array_interface__` (version 3), on the host with `__array_interface__`. Page-locked and managed memory have both; reading the latter waits for the stream. Only inside the `with` block. Read-only unless it was named in `writes`. The consumer works on this token's stream and need not wait.

        Example:
            >>> import saeta as sa
            >>> block = sa.context('host').allocate(16)
            >>> with sa.use(writes=[block]) as token:
            ...     len(token.array(block, 'f8'))
            2
        """

    def __enter__(self) -> UseToken: ...

    def __exit__(self, *exception: object) -> None: ...

class Table:
    """
    Columns of equal length on one device, in batches. Slices and selections share the memory.

    Example:
        >>> import saeta as sa
        >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
        >>> table.shape
        (3, 2)
        >>> table['fare'].to_pylist()
        [12.5, None, 8.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    @property
    def schema(self) -> Schema:
        """
        Names, types, nullability and metadata; a copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.schema.names
            ['city', 'fare']
        """

    @property
    def num_rows(self) -> int:
        """
        Number of rows.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.num_rows
            3
        """

    @property
    def shape(self) -> tuple[int, int]:
        """
        Rows and columns.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.shape
            (3, 2)
        """

    @property
    def num_columns(self) -> int:
        """
        Number of columns.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.num_columns
            2
        """

    @property
    def column_names(self) -> list[str]:
        """
        Names of the columns, in order.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.column_names
            ['city', 'fare']
        """

    @property
    def columns(self) -> list[Column]:
        """
        The columns, in order; no copy of their memory.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> [column.name for column in table.columns]
            ['city', 'fare']
        """

    @property
    def nbytes(self) -> int:
        """
        Bytes that the rows refer to, as `Column.nbytes` counts them; bytes that columns share count once. The slices of a table sum to about its size.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'fare': [12.5, 8.0]}, 'host')
            >>> table.nbytes
            16
        """

    @property
    def context(self) -> Context:
        """
        The context that holds the memory.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.context.device
            'host'
        """

    @property
    def device(self) -> str:
        """
        "host" or "cuda:0".

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.device
            'host'
        """

    @property
    def batches(self) -> list[Table]:
        """
        The pieces in memory, each as a table of one batch; no copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> [batch.num_rows for batch in sa.concat_tables([table, table[:1]]).batches]
            [3, 1]
        """

    @property
    def num_batches(self) -> int:
        """
        Number of pieces in memory.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> sa.concat_tables([table, table]).num_batches
            2
        """

    def __eq__(self, other: object, /) -> bool:
        """
        True if both show the same rows of the same memory under the same schema, False if schemas or numbers of rows differ. Otherwise UnsupportedError: `equals` compares values.
        """

    def equals(self, other: Table, *, check_metadata: bool = False) -> bool:
        """
        Whether both tables have the same data: names, types and nullability of the columns in order, the number of rows, and the columns as `Column.equals` compares them. The tables are compared on their device, all columns at once; only the answer leaves it.

        Args:
            other: a Table of the same context.
            check_metadata: metadata of the schema and of the fields, and the names of the values of lists, count as well.

        Raises InvalidError for a table of another context or device, and TypeMismatch for anything that is not a Table: `saeta.from_arrow` makes one.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.equals(table.select(['city', 'fare']))
            True
        """

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]: ...

    def _ipython_key_completions_(self) -> list[str]:
        """Names for tab completion."""

    def __repr__(self) -> str: ...

    def __dir__(self) -> list[str]: ...

    def _repr_html_(self) -> str: ...

    __reversed__: None = None

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @overload
    def __getitem__(self, key: str | int) -> Column: ...

    @overload
    def __getitem__(self, key: slice | list[str]) -> Table:
        """
        A column by its name (which must be the only one of that name) or number, columns by a list of names, or rows by a slice; no copy. A slice with a step other than 1 is a copy, as `take` makes it.
        """

    def column(self, key: str | int) -> Column:
        """
        A column by its name, which must be the only one of that name, or number; no copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.column(1).name
            'fare'
        """

    def field(self, key: str | int) -> Field:
        """
        The field of a column by its name or number.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.field('fare').type.name
            'double'
        """

    def __contains__(self, name: str) -> bool:
        """Whether a column has that name. TypeMismatch for anything but text."""

    def __iter__(self) -> Never:
        """
        Raises TypeMismatch, which names columns, column_names, batches and to_pylist instead.
        """

    def __setitem__(self, key: Never, value: Never) -> Never:
        """Raises TypeMismatch, which names with_column instead."""

    def __delitem__(self, key: Never) -> Never:
        """Raises TypeMismatch, which names drop_columns instead."""

    def __len__(self) -> int: ...

    def slice(self, offset: int = 0, length: int | None = None) -> Table:
        """
        Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the table.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.slice(1, 2)['city'].to_pylist()
            ['Bern', None]
        """

    def head(self, rows: int = 5) -> Table:
        """
        The first `rows` rows; a negative number leaves out as many at the end. No copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.head(2).num_rows
            2
        """

    def tail(self, rows: int = 5) -> Table:
        """
        The last `rows` rows; a negative number leaves out as many at the beginning. No copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.tail(1)['fare'].to_pylist()
            [8.0]
        """

    def select(self, columns: str | int | Iterable[str | int]) -> Table:
        """
        These columns, by name or number, in this order; no copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.select(['fare']).column_names
            ['fare']
        """

    def drop_columns(self, columns: str | int | Iterable[str | int]) -> Table:
        """
        All columns but these, by name or number; no copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.drop_columns('city').column_names
            ['fare']
        """

    def drop(self, columns: str | int | Iterable[str | int]) -> Table:
        """
        As drop_columns.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.drop('city').column_names
            ['fare']
        """

    def take(self, indices: Any) -> Table:
        """
        The rows with these numbers, in this order, copied on the table's device. One kernel takes the values of all columns of fixed width.

        Args:
            indices: a Column of integers, a DLPack tensor, a NumPy array or a sequence of numbers, in any order, with repeats. Negative numbers do not count from the end. A null gives a null row.

        Returns a Table of one batch, under the budget of its context; of several only if 32-bit offsets or run ends can't count the values. Raises OutOfRange naming the first index that is not a row, TypeMismatch for anything but integers, and BudgetExceeded.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.take([2, 0])['city'].to_pylist()
            [None, 'Lyon']
        """

    def filter(self, mask: Any) -> Table:
        """
        The rows whose mask is true, copied on the table's device.

        Args:
            mask: a Column of booleans, of bits or bytes, a DLPack tensor, a NumPy array or a sequence, with one boolean for each row. A null drops its row.

        Returns a Table as `take` does. Raises InvalidError for a mask of another length, and TypeMismatch for anything but booleans.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.filter([True, False, True])['fare'].to_pylist()
            [12.5, 8.0]
        """

    def cast(self, types: Mapping[str, Any], *, cast: Literal['round'] | None = None) -> Table:
        """
        The table with some columns as other types of numbers: a type for each name, as `Column.cast` takes it.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'age': [31, 54]}, 'host')
            >>> table.cast({'age': 'float32'})['age'].to_pylist()
            [31.0, 54.0]
        """

    def fill_null(self, values: Mapping[str, Any]) -> Table:
        """
        The table with the nulls of some columns replaced: a value for each name, as `Column.fill_null` takes it.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.fill_null({'fare': 0.0})['fare'].to_pylist()
            [12.5, 0.0, 8.0]
        """

    def drop_null(self, columns: str | int | Iterable[str | int] | None = None) -> Table:
        """
        The rows without a null in these columns, by name or number (None: in any column), copied as `filter` does. A table without nulls is returned unchanged.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.drop_null()['city'].to_pylist()
            ['Lyon']
        """

    def to(self, ctx: Context | Device | str) -> Table:
        """
        The table in the memory of another context of this process: uploaded from the host to a device, downloaded, or copied from one GPU to another. Types, symbols, dictionaries and batches stay the same.

        From one GPU to another it is one copy by peer access, ordered on both. Many small columns are joined by a kernel first, in at most 64 MiB of the source's budget. GPUs without peer access exchange it through the host; `Context.counters()` has both, as `peer_to_device` and `staged`.

        Args:
            ctx: a Context or the name of a device. A context of the table's own device copies nothing.

        The result is charged to the budget of that context. Raises BudgetExceeded, and DownloadForbidden in strict mode for a way to or through the host.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.to('host').device
            'host'
        """

    def _take(self, indices: Column) -> Table: ...

    def _take_permuted(self, key: int, first: int, skipped: int, count: int, group: int, stride: int) -> Table:
        """
        Rows in the order of a key, the same on every device. Row k is at the place of the number first + (k + skipped) // group * stride + (k + skipped) % group in the permutation of all rows.
        """

    def _filter(self, mask: Column) -> Table: ...

    def _drop_null(self, columns: Sequence[int]) -> Table: ...

    def _to(self, target: Context) -> Table: ...

    def to_pydict(self) -> dict[str, list[Any]]:
        """
        A list of Python values for each name. A device table is downloaded. InvalidError if names repeat.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.to_pydict()
            {'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}
        """

    def to_pylist(self) -> list[dict[str, Any]]:
        """
        A dict from names to Python values for each row. A device table is downloaded. InvalidError if names repeat.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table[:1].to_pylist()
            [{'city': 'Lyon', 'fare': 12.5}]
        """

    def _raw_values(self, most: int) -> list[list[bytes | bool | None]]:
        """The result of `Column._raw_values` for each column."""

    def with_column(self, name: str | Field, values: Any) -> Table:
        """
        The table with a column that replaces the one of that name, or is added at the end; no copy of columns on its device. `values` is what `saeta.column` takes.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.with_column('tip', [1, 2, 3]).column_names
            ['city', 'fare', 'tip']
        """

    def to_batches(self, max_chunksize: int | None = None) -> list[Table]:
        """
        The batches, each as a table, cut to at most `max_chunksize` rows; no copy.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> [batch.num_rows for batch in table.to_batches(max_chunksize=2)]
            [2, 1]
        """

    def append_column(self, name: str | Field, values: Any) -> Table:
        """
        The table with one more column at the end, even if the name exists. A Field also gives type, nullability and metadata.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.append_column('tip', [1, 2, 3]).column_names
            ['city', 'fare', 'tip']
        """

    def add_column(self, index: int, name: str | Field, values: Any) -> Table:
        """
        The table with one more column before column `index`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.add_column(0, 'tip', [1, 2, 3]).column_names
            ['tip', 'city', 'fare']
        """

    def set_column(self, index: int, name: str | Field, values: Any) -> Table:
        """
        The table with another column instead of column `index`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.set_column(1, 'tip', [1, 2, 3]).column_names
            ['city', 'tip']
        """

    def remove_column(self, index: int) -> Table:
        """
        The table without column `index`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.remove_column(0).column_names
            ['fare']
        """

    def rename_columns(self, names: Sequence[str] | Mapping[str, str]) -> Table:
        """
        The same columns under other names: a name for each, or a mapping from old names to new ones. InvalidError for another number of names, or for an unknown old name.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.rename_columns({'fare': 'price'}).column_names
            ['city', 'price']
        """

    def replace_schema_metadata(self, metadata: Mapping[Any, Any] | None = None) -> Table:
        """
        The same table with this metadata of the schema and no other.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.replace_schema_metadata({'source': 'meter'}).schema.metadata
            {b'source': b'meter'}
        """

    def combine_chunks(self) -> Table:
        """
        The same rows in one batch, so that each column is one piece of memory: one kernel on the device for the whole table, into memory under the budget. A table of one batch is returned unchanged. More than one batch is left only if 32-bit offsets, run ends or dictionary indices can't count the rows. Dictionaries that differ become one.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> sa.concat_tables([table, table]).combine_chunks().num_batches
            1
        """

    def _with_columns(self, columns: Sequence[Column]) -> Table: ...

    def _with_schema(self, schema: Schema) -> Table: ...

    def to_arrow(self) -> pyarrow.Table:
        """
        A pyarrow Table: views of a host table, a download of a device table.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.to_arrow().num_rows
            3
        """

    def to_pandas(self) -> pandas.DataFrame:
        """
        A pandas DataFrame, through pyarrow.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.to_pandas().shape
            (3, 2)
        """

    def to_polars(self) -> polars.DataFrame:
        """
        A polars DataFrame, through the Arrow C stream.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> table.to_polars().shape
            (3, 2)
        """

    def write_ipc(self, path: str | os.PathLike[str] | IO[bytes], *, compression: Literal['lz4', 'zstd'] | None = None, format: Literal['file', 'stream'] | None = None, progress: bool | Callable[[saeta._ipc.Progress], object] | None = None, durable: bool = True, replace_read_only: bool = False, filesystem: Any = None) -> int:
        """
        Writes the table as an Arrow IPC file, to a path, a URL or an object with `write()`; see `saeta.write_ipc`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> size = table.write_ipc('trips.arrow', compression='zstd')
            >>> sa.read_ipc('trips.arrow', 'host').equals(table)
            True
        """

    def to_ipc_bytes(self, *, compression: Literal['lz4', 'zstd'] | None = None, format: Literal['file', 'stream'] = 'file') -> bytes:
        """
        The table as the bytes of an Arrow IPC file, or with format='stream' of a stream. `compression` is None, 'lz4' or 'zstd'. A device table is downloaded. The bytes are not charged to a budget.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> sa.read_ipc(table.to_ipc_bytes(), 'host').num_rows
            3
        """

    def pack(self) -> saeta._share.packed.Packed:
        """
        The table in the packed form: metadata, which is an Arrow IPC stream without bodies, and one contiguous body in the memory of the table, as a Column of uint8. `saeta.unpack` makes the table again, without a copy.

        A table that is packed already, as after every whole read, shares its memory with the body: nothing is copied and no kernel runs. Its body may have unused bytes between the columns: up to an eighth of it, or 4 KiB. Other tables are gathered by one kernel into memory of their context, under its budget. Of slices only the rows are copied; dictionaries and the bytes behind views are copied as a whole. Symbols become dictionaries of their names.

        Raises UnsupportedError for types that the IPC format can't describe, as `write_ipc` does.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> metadata, body = table.pack()
            >>> sa.unpack(metadata, body).equals(table)
            True
        """

    def share(self) -> saeta._share.tables.SharedTable:
        """
        Shares the table with other processes of the same user on this machine. Returns a token that can be pickled; `saeta.open_shared` opens it.

        A host table is copied once into an unnamed file in memory that nobody can change, and the copy is charged to its context. A table on a GPU is shared where it is, packed: its context needs an exportable pool (`saeta.context('cuda:0', exportable_pool=True)`). Every call for a table that is still shared returns a token for the same memory. The memory is kept as long as this process has a token, or another process has the table open.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')
            >>> token = table.share()
            >>> sa.open_shared(token).equals(table)
            True
        """

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule of a struct (Arrow PyCapsule Interface)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """
        A capsule of a stream of the batches in host memory; a device table downloads each batch on request.
        """

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """
        A capsule of a stream of the batches where their memory is, without a copy. The sync_event of each array is behind our last write.
        """

    def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: Any) -> tuple[CapsuleType, CapsuleType]:
        """
        Capsules of the schema and of a struct array of the one batch where its memory is, without a copy, as `pyarrow.record_batch` takes it. ExchangeError for a table of several batches.
        """

    def _device_array(self) -> tuple[CapsuleType, CapsuleType]:
        """
        Schema and device array of the table as one struct array. No protocol of its own: consumers take an object with `__arrow_c_device_array__` for a column of structs.
        """

    @overload
    def to_torch(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> torch.Tensor: ...

    @overload
    def to_torch(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[torch.Tensor, torch.Tensor]:
        """
        A torch tensor of rows and columns on the table's device. It must not be written to unless it is a copy.

        All columns must have one type. For columns of several types, `dtype` names the type: any float, to which values are rounded, or an integer type that has all values of the columns. TypeMismatch otherwise. Decimals need it.

        No copy is made if the columns are equally spaced in one allocation and there is one batch: the tensor then has strides, and the values of a column are contiguous. Otherwise one kernel per batch gathers all columns into memory under the budget. `order='row'` makes the values of a row contiguous, `order='column'` those of a column; None takes either if that saves the copy, else 'row'. Nulls, `reinterpret` and `codes`: as for `Column.to_torch`; the mask has rows and columns, too.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'host')
            >>> table.to_torch(dtype='float32').tolist()
            [[1.0, 0.5], [2.0, 1.5]]
        """

    @overload
    def to_cupy(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> cupy.ndarray: ...

    @overload
    def to_cupy(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[cupy.ndarray, cupy.ndarray]:
        """
        A CuPy array of rows and columns on the table's device. Keywords as for `to_torch`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'cuda:0')
            >>> table.to_cupy(dtype='float32').tolist()
            [[1.0, 0.5], [2.0, 1.5]]
        """

    @overload
    def to_jax(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> jax.Array: ...

    @overload
    def to_jax(self, *, order: Literal['row', 'column'] | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[jax.Array, jax.Array]:
        """
        A JAX array of rows and columns on the table's device. Keywords as for `to_torch`. JAX takes only arrays without gaps, so the default of `order` is 'row'.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'host')
            >>> table.to_jax(dtype='float32').tolist()
            [[1.0, 0.5], [2.0, 1.5]]
        """

    @overload
    def to_numpy(self, *, order: Literal['row', 'column'] | None = None, copy: bool | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[False] = False) -> numpy.typing.NDArray[Any]: ...

    @overload
    def to_numpy(self, *, order: Literal['row', 'column'] | None = None, copy: bool | None = None, nulls: Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, codes: bool = False, dtype: Any = None, with_mask: Literal[True]) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[Any]]:
        """
        A NumPy array of rows and columns. `copy=False` raises ExchangeError instead of copying, True always copies, None copies if necessary. Other keywords as for `to_torch`.

        Example:
            >>> import saeta as sa
            >>> table = sa.table({'x': [1, 2], 'y': [0.5, None]}, 'host')
            >>> table.to_numpy(dtype='float32', fill=0).tolist()
            [[1.0, 0.5], [2.0, 0.0]]
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType:
        """
        A DLPack capsule of a tensor of rows and columns, whose columns are of one type: zero-copy and read-only if they are equally spaced in one allocation, else gathered by one kernel per batch, row by row. Streams as for `Column.__dlpack__`. BufferError for nulls and for a copy that copy=False forbids, TypeMismatch for columns of several types.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and number, as DLPack numbers them."""

def _from_columns(where: Context, columns: Sequence[Column]) -> Table:
    """A table of columns of one length and one context; no copy."""

def _from_bytes(where: Context, schema: Schema, columns: Sequence[object]) -> Table:
    """
    A table of raw little-endian values, one object with the buffer protocol per field; one transfer.
    """

def _concat_tables(tables: Sequence[Table]) -> Table:
    """The batches of several tables one after the other; no copy."""

def _united_schema(schemas: Sequence[Schema], names: Sequence[str], meant: Schema | None = None) -> Schema:
    """
    The schema of the rows of all of these, which messages call by `names`. With `meant` this one, which must allow them.
    """

class CountedTable:
    """
    A table with room for more rows than there are, and a number on the device that says how many are valid: the result of a kernel that can't know in advance how many rows it finds. The number is read once, on request.

    Example:
        >>> import saeta as sa
        >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
        >>> counted.to_table()['a'].to_pylist()
        [7, 8]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises TypeMismatch, which names the function that makes one."""

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def capacity(self) -> Table:
        """
        The Table of all rows that there is room for. Those beyond the count are undefined.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.capacity.num_rows
            3
        """

    @property
    def count(self) -> Column:
        """
        The number on the device, a Column of one row.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.count.to_pylist()
            [2]
        """

    @property
    def num_rows(self) -> int:
        """
        Number of valid rows; one number is copied from the device the first time. OutOfRange if it exceeds the capacity.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.num_rows
            2
        """

    @property
    def known_num_rows(self) -> int | None:
        """
        The number of valid rows if it was read before, else None. Copies nothing.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.num_rows == counted.known_num_rows
            True
        """

    @property
    def schema(self) -> Schema:
        """
        Names, types, nullability and metadata; a copy.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.schema.names
            ['a']
        """

    def __len__(self) -> int: ...

    def to_table(self) -> Table:
        """
        The valid rows as a Table, over the same memory. Reads the count. OutOfRange if it exceeds the capacity.

        Example:
            >>> import saeta as sa
            >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), sa.column('n', [2], 'uint32', 'host'))
            >>> counted.to_table()['a'].to_pylist()
            [7, 8]
        """

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> CapsuleType:
        """An "arrow_schema" capsule of a struct (Arrow PyCapsule Interface)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """As that of Table, of the valid rows. Reads the count."""

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: Any) -> CapsuleType:
        """As that of Table, of the valid rows. Reads the count."""

    def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: Any) -> tuple[CapsuleType, CapsuleType]:
        """
        A pair of capsules ("arrow_schema", "arrow_device_array") of the valid rows, which are joined to one batch. Reads the count.
        """

def _counted_table(capacity: Table, count: Column, num_rows: int | None = None) -> CountedTable: ...

def _permute_rows(where: Context, rows: int, key: int) -> Column:
    """
    Numbers of rows in the order of a key, the same on every device, as a column of uint32, or of int64 for more than 2^32 rows.
    """

class _Cancellation:
    """
    A `with` block of one thread at a time. After `cancel` its waits for memory and work end with ClosedError within 50 ms, and so do those of later blocks.
    """

    def __init__(self) -> None: ...

    def cancel(self) -> None:
        """Ends the waits. Any thread may call it."""

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...

def _call_to_the_end(action: Callable[[], object]) -> None:
    """
    Calls a function, and again when Ctrl-C ended it early. KeyboardInterrupt comes afterwards.
    """

class _Ending:
    """
    Calls a function once, and to its end: when it is called, when it is dropped, or at the end of the program. Ctrl-C that comes meanwhile is raised in the program afterwards, not lost in a destructor; the function may be begun several times for that. The function must not own the object.
    """

    def __init__(self, action: Callable[[], object]) -> None: ...

    def __call__(self) -> None: ...

    def detach(self) -> None:
        """Forgets the function."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

class _IteratorOfStream:
    """
    The values of an iterator, for callers that turn KeyboardInterrupt into an error of their own: the program gets it afterwards.
    """

    def __init__(self, inner: Iterator[object]) -> None: ...

    def __iter__(self) -> _IteratorOfStream: ...

    def __next__(self) -> object: ...

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

def _import_stream(where: Context, stream: object, copy: bool | None = None, as_column: bool = False) -> Table | Column:
    """
    Takes an "arrow_array_stream" capsule: a stream of structs becomes a table unless `as_column`, any other a column.
    """

def _import_array(where: Context, type: object, array: object, copy: bool | None = None, as_column: bool = False) -> Table | Column:
    """Takes an "arrow_array" capsule described by an "arrow_schema" one."""

def _import_device_stream(where: Context, stream: object, copy: bool | None = None, as_column: bool = False) -> Table | Column:
    """Takes an "arrow_device_array_stream" capsule, as `_import_stream`."""

def _import_device_array(where: Context, type: object, array: object, copy: bool | None = None, as_column: bool = False) -> Table | Column:
    """
    Takes an "arrow_device_array" capsule described by an "arrow_schema" one.
    """

def _device_of_capsule(capsule: object) -> tuple[int, int | None]:
    """
    Device type and number of a capsule with an Arrow device array or stream. The capsule stays unconsumed: the first array of a stream on a GPU, which has the number, is requested and kept in it. A stream of the host, or without arrays, has no number.
    """

def _device_type_of_capsule(capsule: object) -> int:
    """Device type of such a capsule, which no array is requested for."""

def _import_field(capsule: object) -> Field:
    """Reads an "arrow_schema" capsule as a Field, whatever its type."""

def _import_schema(capsule: object) -> Schema | Field:
    """
    Reads an "arrow_schema" capsule: a struct becomes a Schema, any other type a Field.
    """

def _capsule_name(object: object | None) -> object:
    """The name of a capsule, None for anything else."""

def _import_cuda_array(where: Context, values: tuple[int, bool, str, list[int], list[int] | None, int, int | None, object], mask: tuple[int, bool, str, list[int], list[int] | None, int, int | None, object] | None, copy: bool | None, name: str) -> Column:
    """
    Takes an array of the CUDA Array Interface, field by field, and keeps its last field alive.
    """

class _LentCapsule:
    """
    A DLPack capsule that `from_dlpack` can take, and that is consumed by `keep`.
    """

    def __init__(self, capsule: object) -> None: ...

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def keep(self) -> None:
        """Consumes the capsule."""

    def give_back(self) -> None:
        """
        Leaves the capsule as it was, once the work on its tensor has finished.
        """

@overload
def from_dlpack(source: Any, ctx: Context | Device | str | None = None, *, copy: bool | None = None, name: str = '', columns: Literal[False] = False, schema: None = None, cast: None = None) -> Column: ...

@overload
def from_dlpack(source: Any, ctx: Context | Device | str | None = None, *, copy: bool | None = None, name: str = '', columns: Literal[True], schema: Schema | None = None, cast: Literal['reinterpret'] | None = None) -> Table: ...

@overload
def from_dlpack(source: Any, ctx: Context | Device | str | None = None, *, copy: bool | None = None, name: str = '', columns: bool, schema: Schema | None = None, cast: Literal['reinterpret'] | None = None) -> Column | Table:
    """
    Takes a tensor into a context as a column without nulls, or with columns=True as a table.

    Memory is shared and kept alive until our last work on it has finished; our first work waits for the producer's. Bools become bool8: a copy has 0 and 1, a view keeps its bytes, and every byte except 0 is true.

    Args:
        source: an object with `__dlpack__` and `__dlpack_device__`, one with `to_dlpack` alone (cuDF's series), or a capsule. A raw capsule names no stream: from a device it waits for all work queued so far.
        ctx: a Context, a Device or the name of one. None: the context of the tensor's device.
        copy: True copies into memory of the context, under its budget; False raises ExchangeError where a copy would be needed. A strided tensor is gathered by one kernel into memory of the context. A tensor of another GPU than the context's needs True, and is copied as `Column.to` does.
        name: of the column.
        columns: False: a tensor of more than one dimension is a column of fixed-size lists, one inside of the other for each dimension behind the first. True: a tensor of two dimensions is a table; columns whose values lie side by side are shared, others are gathered.
        schema: of the table; None: col_0, col_1 ... of the tensor's type.
        cast: 'reinterpret' takes integers for those of the schema that have the same width and another sign.

    Returns:
        A Column, or a Table.

    Raises:
        TypeMismatch: it is not a tensor, or the schema has other types. ExchangeError: a type, shape or device that no column has, or a forbidden copy. FormatError: a tensor that breaks the standard.

    Example:
        >>> import numpy as np
        >>> import saeta as sa
        >>> sa.from_dlpack(np.arange(6).reshape(3, 2), 'host', columns=True)['col_1'].to_pylist()
        [1, 3, 5]
    """

def _tensor_device(capsule: object) -> tuple[int, int]:
    """
    Device type and number of the tensor in a capsule. The capsule stays unconsumed.
    """

class _TensorChoices:
    """The keywords of a `to_...` call, checked."""

    def __init__(self, nulls: str | None = None, fill: Any = None, with_mask: bool = False, reinterpret: bool = False, codes: bool = False, order: str | None = None, dtype: Any = None) -> None:
        """
        InvalidError for an unknown word, and if more than one keyword handles nulls.
        """

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    @property
    def shows_values(self) -> bool:
        """
        True if no keyword changes the values: none was given, or a mask is wanted besides.
        """

    @property
    def refuses_nulls(self) -> bool:
        """True if no keyword handles nulls."""

    @property
    def codes(self) -> bool:
        """True if the codes of a dictionary are wanted."""

    @property
    def with_mask(self) -> bool:
        """True if a mask is wanted besides the values."""

    def mask(self) -> _TensorChoices:
        """The choices of that mask."""

class _ChosenTensor:
    """
    A column or table with its choices, for `from_dlpack` of any library. `on_host` downloads it from a device if the consumer names none. `copy` applies if the consumer does not choose.
    """

    def __init__(self, source: Column | Table, chosen: _TensorChoices, *, on_host: bool = False, copy: bool | None = None) -> None: ...

    def __copy__(self) -> Self: ...

    def __deepcopy__(self, memo: object) -> Self:
        """The object itself."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> CapsuleType:
        """As `Column.__dlpack__` and `Table.__dlpack__`."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and number, as DLPack numbers them."""

def _lend(where: Context, nbytes: int, tag: str, stream: int | None) -> int:
    """
    Address of memory that is charged to the context until `_take_back`, ready on a stream as `__dlpack__` numbers it (None: the context's own).
    """

def _lend_ready(where: Context, nbytes: int, tag: str) -> int:
    """The same, ready on every stream: the host waits for earlier users."""

def _take_back(where: Context, address: int, nbytes: int, stream: int | None) -> None:
    """
    Ends a loan behind the work queued on the stream (None: on the whole device). Never raises.
    """

class _LentMemory:
    """
    Memory charged to a context until this is dropped; reused behind all work.
    """

    def __init__(self, where: Context, nbytes: int, tag: str, stream: int | None) -> None: ...

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

def _serve_torch(where: Context, ordinal: int, tag: str) -> dict[str, int]:
    """
    Makes saeta_torch_allocate of this library lend from the context for the device of that number. Returns the addresses of the hooks, by the names of the setters of torch's allocator.
    """

def _serve_torch_segments(where: Context, ordinal: int, tag: str) -> None:
    """As `_serve_torch`, for saeta_torch_allocate_segment."""

def _write_bytes(target: Buffer, offset: int, source: _Buffer) -> None:
    """
    Copies host memory into a buffer, behind its users; returns when that is done.
    """

def _read_bytes(source: Buffer, offset: int, target: _Buffer) -> None:
    """
    Fills writable host memory from a buffer, behind its last writers; returns when that is done.
    """

def _copy_bytes(target: Buffer, target_offset: int, source: Buffer, source_offset: int, nbytes: int) -> None:
    """Copies among buffers in order; the host does not wait."""

def _foreign_bytes(where: Context, address: int, nbytes: int, owner: object, tag: str) -> Buffer:
    """A view of memory that the device can access and `owner` keeps alive."""

def _kind_at(where: Context, address: int) -> str:
    """
    The kind of the memory at an address according to the driver: "device", "managed", "pinned", or "host" for memory that it does not know.
    """

def _driver_context(where: Context) -> int:
    """The CUcontext that the context works in; 0 if there is none."""

class _ImportedPool:
    """The memory pool of another process."""

    def __init__(self, where: Context, descriptor: int) -> None: ...

    def open(self, where: Context, shared: bytes, lease: object, tag: str) -> Buffer:
        """
        A view of bytes that the other process shares. `lease` is dropped once our work on them has finished and they are unmapped.
        """

def _shareable_context(device: str) -> Context:
    """
    The context of a device, opened with an exportable pool if it was not open.
    """

def _device_uuid(where: Context) -> bytes:
    """16 bytes that name the device in every process of the machine."""

def _share_pool(where: Context) -> int:
    """A descriptor of the context's memory pool, which the caller closes."""

def _bytes_of(column: Column) -> Buffer:
    """The buffer of a column of uint8, which must have rows."""

def _column_of(buffer: Buffer) -> Column:
    """A column of uint8 over the bytes."""

def _share_bytes(of: Buffer) -> bytes:
    """
    The description with which another process can open the bytes, after their last writes. The bytes must be kept until it has closed them.
    """

class _Descriptor:
    """A file descriptor, which is closed with the object."""

    @property
    def number(self) -> int:
        """-1 once it is closed."""

    def close(self) -> None: ...

def _memory_file(name: str) -> _Descriptor:
    """
    An unnamed file in memory, which can be sealed. OSError if the system refuses one.
    """

def _close_descriptors() -> None:
    """Closes them all, in a child of fork."""

class _Connection:
    """
    A connection to the socket of another process. Its waits end after some seconds (BlockingIOError), and when a signal's handler raises.
    """

    def __init__(self, name: bytes, seconds: float) -> None: ...

    def fileno(self) -> int: ...

    def peer_user(self) -> int: ...

    def send(self, data: bytes) -> None: ...

    def receive(self, most: int) -> tuple[bytes, list[_Descriptor]]:
        """One message, empty at the end, and at most one descriptor."""

    def close(self) -> None: ...

class _Lease:
    """
    Says when it is dropped, with the message `end`, that memory of another process is not used any more. Appends the broker and the connection to `idle` then.
    """

    def __init__(self, idle: list[tuple[bytes, _Connection]], broker: bytes, connection: _Connection, end: bytes) -> None: ...

    def ended(self) -> bool:
        """
        Whether the exporter has ended: what is open stays, and nobody else can open it.
        """

class _FileMapping:
    """
    The first bytes of a file, which must not change, for reading. Keeps `kept`.
    """

    def __init__(self, number: int, nbytes: int, kept: object) -> None: ...

    def view(self) -> memoryview: ...

class GraphPool:
    """
    Memory for what is allocated while a CUDA graph is captured, from `saeta.allocators.graph_pool`. Inside a `with` block around one capture, Saeta's allocators for CuPy and RMM take from it what this thread allocates on capturing streams. All of it stays charged to the context until `release` or until the pool is dropped: keep the pool as long as its graphs. The block announces the capture, as `Context.capturing` does.

    Example:
        >>> import saeta as sa
        >>> pool = sa.allocators.graph_pool(sa.context('host'))
        >>> with pool:  # around the capture
        ...     pass
    """

    def __init__(self, where: Context, tag: str) -> None: ...

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Never:
        """Raises TypeMismatch, which names what to do instead."""

    def __enter__(self) -> GraphPool: ...

    def __exit__(self, *exception: object) -> None: ...

    def release(self) -> None:
        """
        Returns the memory to the context, behind all work of the device; memory still in use returns when it is freed. The graphs that were captured with it must not be launched any more.

        Example:
            >>> import saeta as sa
            >>> pool = sa.allocators.graph_pool(sa.context('host'))
            >>> pool.release()
        """

    @property
    def nbytes(self) -> int:
        """
        Bytes charged to the context.

        Example:
            >>> import saeta as sa
            >>> sa.allocators.graph_pool(sa.context('host')).nbytes
            0
        """

class _PlainCopies:
    """
    Copies of so many bytes, one at a time and to be timed in turns with others: "memcpy" (one thread, ordinary memory), "host_to_device" or "device_to_host" (page-locked memory). The memory stays with the object. The last two count as copies of the context.
    """

    def __init__(self, where: Context, bytes: int, kind: str) -> None: ...

    def time(self) -> float:
        """Seconds that one copy takes."""
