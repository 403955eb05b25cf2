"""Tables that may leave the device while nobody uses them, and come back when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from saeta import _ipc
from saeta._core import Context, Table
from saeta._report import human_bytes
from saeta.errors import ClosedError, DeviceError, TypeMismatch
from saeta.exchange import ContextLike, context_of

Tier: TypeAlias = Literal["device", "pinned", "pageable", "file"]


class SpillHandle:
    """A table that may leave the device while nobody uses it, from `Context.spillable`.

    The handle owns the table, wherever it is, and frees it when it is dropped. A table stays on the device as
    long as anybody has it or a part of it: a variable, an export to another library, an open `saeta.use`.

    Handles can be used from any thread. A forked child can't use those of its parent: DeviceError.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context("host")
        >>> trips = ctx.spillable(sa.table({"fare": [12.5, 8.0]}, ctx))
        >>> trips.tier
        'device'
        >>> with trips.use() as table:
        ...     sum(table["fare"].to_pylist())
        20.5
        >>> trips.close()
    """

    __slots__ = ("__weakref__", "_handle")

    _handle: _ipc.SpillHandle

    def __init__(self, handle: _ipc.SpillHandle) -> None:
        if not isinstance(handle, _ipc.SpillHandle):
            raise TypeMismatch(
                "a SpillHandle can't be made by calling its class: use saeta.Context.spillable"
            )
        self._handle = handle

    @contextmanager
    def use(self, ctx: ContextLike = None) -> Iterator[Table]:
        """Brings the table back for the duration of a `with` block, if it has left.

        The table is ready on the work stream of the context, as after every call. Drop it at the end of the
        block: a variable that still has it keeps it on the device.

        Args:
            ctx: a Context of the same device, or its name; charged for a table that comes back. None: the
                context of the handle.

        Returns:
            A context manager that returns the Table on entry.

        Raises:
            BudgetExceeded: the table does not fit. It stays where it is, and the call can be repeated.
            FileError: its file can't be read.
            ClosedError: the handle is closed.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context("host")
            >>> trips = ctx.spillable(sa.table({"fare": [12.5, 8.0]}, ctx))
            >>> with trips.use(ctx) as table:
            ...     table.num_rows
            2
        """
        used = self._handle.use(None if ctx is None else context_of(ctx))
        try:
            yield used.table
        finally:
            used.end()

    def spill(self, tier: Literal["pinned", "pageable", "file"] | None = None) -> Tier:
        """Moves the table now, unless it has already left. A table without bytes stays.

        Args:
            tier: where to; "file" needs `Context.spill_dir`. None: the first tier that has room. On the host
                the only tier is "file", because the others share its memory.

        Returns:
            Where the table went.

        Raises:
            BusyError: the table is in use.
            BudgetExceeded, FileError: the tier has no room. The table stays where it is.
            UnsupportedError: the device has no such tier.

        Example:
            >>> import tempfile
            >>> import saeta as sa
            >>> ctx = sa.context("host", spill_dir=tempfile.mkdtemp())
            >>> trips = ctx.spillable(sa.table({"fare": [12.5, 8.0]}, ctx))
            >>> trips.spill()
            'file'
        """
        moved: Tier = self._handle.spill(tier)  # type: ignore[assignment]
        return moved

    def close(self) -> None:
        """Drops the table. Open uses keep it until they end. Later calls do nothing."""
        self._handle.close()

    @property
    def tier(self) -> Tier:
        """Where the table is: "device", "pinned", "pageable" or "file". ClosedError for a closed handle."""
        tier: Tier = self._handle.tier  # type: ignore[assignment]
        return tier

    @property
    def closed(self) -> bool:
        """Whether the handle was closed."""
        return self._handle.closed

    @property
    def nbytes(self) -> int:
        """Bytes of the table in the packed form."""
        return self._handle.nbytes

    @property
    def stored_nbytes(self) -> int:
        """Bytes that the table takes where it is: fewer if it left compressed.

        ClosedError for a closed handle.
        """
        return self._handle.stored_nbytes

    @property
    def priority(self) -> int:
        """Tables with lower numbers leave the device earlier."""
        return self._handle.priority

    @property
    def context(self) -> Context:
        """The context that the handle was made with."""
        return self._handle.context

    def _repr_html_(self) -> str:
        from saeta._report.html import described

        facts = [
            ("size", human_bytes(self.nbytes)),
            ("place", self._place()),
            ("priority", str(self.priority)),
        ]
        return described("SpillHandle", f"of {self.context.device}", facts, ctx=self.context)

    def __repr__(self) -> str:
        return f"<saeta.SpillHandle of {self.context.device}: {human_bytes(self.nbytes)}, {self._place()}>"

    def _place(self) -> str:
        try:
            return "closed" if self.closed else f"on the tier {self.tier}"
        except DeviceError:
            return "of the parent of this process"
        except ClosedError:  # another thread has closed the handle
            return "closed"


def spillable(self: Context, table: Table, *, priority: int = 0, compress: bool | None = None) -> SpillHandle:
    """Implements `Context.spillable`."""
    return SpillHandle(_ipc.spillable(self, table, priority, compress))


def spill_statistics(ctx: ContextLike = None) -> dict[str, Any]:
    """Reports in which tiers the tables of `Context.spillable` are, and how many have moved.

    Args:
        ctx: a Context or the name of its device. None: the best device.

    Returns:
        `tiers`: for "device", "pinned", "pageable" and "file" a dict of `handles` and `bytes` (tables that
        are there), `charged` and `limit` (bytes of the tier's budget, tables in transit included; for the
        device, its whole budget; None: no limit), `spills` and `spilled_bytes` (tables that came from the
        device), `demotions` and `demoted_bytes` (tables that came from a faster tier, which was full),
        `returns` and `returned_bytes` (tables that went back to the device). `refusals_avoided`: requests
        that found room because tables were moved. `failures`: moves that failed and left the table where it
        was.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context("host")
        >>> trips = ctx.spillable(sa.table({"fare": [12.5]}, ctx))
        >>> sa.spill_statistics(ctx)["tiers"]["device"]["handles"]
        1
    """
    seen: dict[str, Any] = _ipc.spill_statistics(context_of(ctx).memory)
    return seen
