"""The report of a trip: steps with their checks, and the rates of its legs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from saeta._core import Context


@dataclass(frozen=True)
class Check:
    """A condition that must hold, and the numbers that show whether it does."""

    name: str
    passed: bool
    detail: str


@dataclass
class Step:
    """One stage of the trip."""

    title: str
    facts: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def check(self, name: str, passed: bool, detail: str) -> None:
        self.checks.append(Check(name, bool(passed), detail))

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True)
class Leg:
    """A movement of bytes, measured in several rounds."""

    name: str
    bytes: int
    seconds: Sequence[float]

    @property
    def rate(self) -> float:
        """GB/s, from the median of the rounds."""
        return self.bytes / median(self.seconds) / 1e9


DIRECTIONS = ("host_to_device", "device_to_host", "device_to_device", "host_to_host")


class Traffic:
    """The actions of a context between two moments, from its counters."""

    def __init__(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.transfers = {way: after[way]["transfers"] - before[way]["transfers"] for way in DIRECTIONS}
        self.bytes = {way: after[way]["bytes"] - before[way]["bytes"] for way in DIRECTIONS}
        plain = ("allocations", "imports", "exports", "synchronizations")
        self.allocations, self.imports, self.exports, self.synchronizations = (
            after[name] - before[name] for name in plain
        )

    @property
    def copies(self) -> int:
        return sum(self.transfers.values())

    @property
    def quiet(self) -> bool:
        """Whether nothing was copied, allocated or waited for."""
        return self.copies == 0 and self.allocations == 0 and self.synchronizations == 0

    def __str__(self) -> str:
        moved = [f"{count} {way.replace('_', ' ')}" for way, count in self.transfers.items() if count]
        return (
            f"transfers: {', '.join(moved) or 'none'}; allocations {self.allocations}, imports "
            f"{self.imports}, exports {self.exports}, waits of the host {self.synchronizations}"
        )


class Watch:
    """Counts the actions of a context inside the block. `traffic` has them after the block."""

    traffic: Traffic

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __enter__(self) -> Watch:
        self._before = self._ctx.counters()
        return self

    def __exit__(self, *_: object) -> None:
        self.traffic = Traffic(self._before, self._ctx.counters())
