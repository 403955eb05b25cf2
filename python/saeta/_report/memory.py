"""Shows the memory of a context as text."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from saeta import _core
from saeta._report import human_bytes
from saeta._text import printable
from saeta.errors import InvalidError, TypeMismatch

if TYPE_CHECKING:
    from saeta._core import Memory, MemoryRecording


def memory_report(self: Memory) -> str:
    """Implements `Memory.report`."""
    now = self.statistics()
    limit = now["limit"]
    lines = [
        f"memory of {self.device}",
        f"  budget    {'no limit' if limit is None else human_bytes(limit)}",
        f"  in use    {_bytes(now['current'])}",
        f"  reserved  {_bytes(now['reserved'])} (promised and not drawn yet)",
        f"  peak      {_bytes(now['peak'])}",
        f"  external  {_bytes(now['external'])} (views of the memory of others)",
        f"  pinned    {_bytes(now['pinned'])} (page-locked host memory)",
        f"  held      {_bytes(now['held'])} (taken from the device, in use or cached)",
        f"  downloads {_bytes(now['host_held'])} (host memory, in use or kept for the next)",
        f"  foreign   {_bytes(now['foreign'])} (used on the device by others)",
        f"  requests  {now['requests']:,} accepted, {now['refused']:,} refused",
        f"  buffers   {now['buffers']:,} live, {now['pending_releases']:,} waiting to be released",
    ]
    lines += _spilled(self)
    lines += _owners("tag", self.by_tag())
    budgets = self.by_budget()
    if len(budgets) > 1:
        lines += _owners("budget", budgets)
    return "\n".join(lines)


def memory_timeline(
    self: Memory,
    path: str | os.PathLike[str],
    recording: MemoryRecording | None = None,
    *,
    phases: Sequence[tuple[str, int]] = (),
) -> None:
    """Implements `Memory.timeline`."""
    from saeta._report import timeline

    recording = self.recording if recording is None else recording
    if recording is None:
        raise InvalidError(
            "nothing was recorded: record with memory.record(), or from the start with SAETA_RECORD=100000 "
            "in the environment"
        )
    if not isinstance(recording, _core.MemoryRecording):
        raise TypeMismatch(f"recording is of type {type(recording).__name__}, expected a MemoryRecording")
    timeline.write(
        path,
        recording.records(),
        title=f"Memory of {self.device}",
        limit=self.statistics()["limit"],
        phases=phases,
    )


def _spilled(of: Memory) -> list[str]:
    """Describes the tables of `Context.spillable`. Its module is imported only once one exists."""
    module = sys.modules.get("saeta._ipc")
    if module is None:
        return []
    tiers = module.spill_statistics(of)["tiers"]
    return [
        f"  {name:<9} {_bytes(seen['bytes'])} ({seen['handles']:,} spillable tables, "
        f"{seen['spills'] + seen['demotions']:,} came here, {seen['returns']:,} went back)"
        for name, seen in tiers.items()
        if seen["handles"] or seen["spills"] or seen["demotions"]
    ]


def _owners(kind: str, owners: dict[str, int]) -> list[str]:
    if not owners:
        return []
    names = [printable(name) for name in owners]
    width = max(map(len, names))
    lines = [
        f"    {name or '(untagged)':<{width}}  {_bytes(count)}"
        for name, count in zip(names, owners.values(), strict=True)
    ]
    return [f"  live bytes by {kind}", *lines]


def _bytes(count: int | None) -> str:
    return f"{human_bytes(count or 0)} ({count or 0:,} B)"
