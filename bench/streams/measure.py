"""Runs the contenders of a group in turns and compares their results with bars (targets)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import saeta as sa

LINK = "P: plain copy"


@dataclass(frozen=True)
class Contender:
    """A row of the table: a job of Saeta, a peer or a limit."""

    name: str
    run: Callable[[], Any]
    bytes: int
    """Bytes of values that one run moves."""
    rows: int = 0
    check: Callable[[], bool] | None = None
    """Runs the job once and compares its values with the source."""
    bars: tuple[Bar, ...] = ()
    ours: bool = True
    repeat: int = 1
    """Runs in one sample, for jobs that take microseconds."""
    before: Callable[[], Any] | None = None
    """Runs before each sample and is not timed."""


@dataclass
class Result:
    contender: Contender
    samples: list[float] = field(default_factory=list)
    """Seconds of one run."""
    peak: int | None = None
    """The largest number of bytes that the first run added to the budget."""
    failed: str | None = None

    @property
    def seconds(self) -> float:
        return median(self.samples)

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.contender.bytes / self.seconds


Results = Mapping[str, Result]


class Bar(Protocol):
    """A target that a job must reach."""

    @property
    def text(self) -> str: ...

    def measure(self, own: Result, others: Results) -> float | None:
        """Returns the value to compare, or None if a contender that it is relative to has no result."""

    def is_met(self, value: float) -> bool: ...

    def show(self, value: float) -> str: ...


@dataclass(frozen=True)
class Rate:
    """A target rate: at least `factor` times the rate of other contenders, of which `choose` picks one."""

    factor: float
    others: tuple[str, ...]
    choose: Callable[[list[float]], float] = min

    @property
    def text(self) -> str:
        names = ", ".join(name.removeprefix("peer: ").partition(":")[0] for name in self.others)
        if len(self.others) > 1:
            names = f"the {'slowest' if self.choose is min else 'fastest'} of ({names})"
        return f"{self.show(self.factor)}{' of' if self.factor <= 1 else ''} {names}"

    def measure(self, own: Result, others: Results) -> float | None:
        rates = [others[name].rate for name in self.others if others[name].samples]
        return own.rate / self.choose(rates) if rates else None

    def is_met(self, value: float) -> bool:
        return value >= self.factor

    def show(self, value: float) -> str:
        return f"{value:.0%}" if self.factor <= 1 else f"{value:.1f} x"


@dataclass(frozen=True)
class Seconds:
    """The longest time that a run may take, in seconds."""

    most: float

    @property
    def text(self) -> str:
        return f"{self.show(self.most)} at most"

    def measure(self, own: Result, others: Results) -> float | None:
        return own.seconds

    def is_met(self, value: float) -> bool:
        return value <= self.most

    def show(self, value: float) -> str:
        return f"{value * 1e6:,.0f} us"


@dataclass(frozen=True)
class Peak:
    """A target for the peak of the budget, as a number of windows."""

    windows: int
    window: int

    @property
    def text(self) -> str:
        return f"{self.windows} windows of memory at most"

    def measure(self, own: Result, others: Results) -> float | None:
        return None if own.peak is None else own.peak / self.window

    def is_met(self, value: float) -> bool:
        return value <= self.windows

    def show(self, value: float) -> str:
        return f"{value:.2f} windows"


def measure(
    contenders: Sequence[Contender], rounds: int, ctx: sa.Context, synchronize: Callable[[], Any]
) -> dict[str, Result]:
    """Runs all contenders in each round, in reverse order every second time. The first round is a warm-up.

    The result of a contender that fails, or whose values are wrong, has the reason instead of samples.
    """
    results = {each.name: Result(each) for each in contenders}
    for turn in range(rounds + 1):
        gc.collect()
        for contender in contenders if turn % 2 else reversed(contenders):
            result = results[contender.name]
            if result.failed is not None:
                continue
            try:
                if turn == 0:
                    _check(contender)
                seconds, peak = _sample(contender, ctx, synchronize)
            except Exception as failure:
                result.failed = f"{type(failure).__name__}: {failure}"
                result.samples.clear()
                continue
            if turn == 0:
                result.peak = peak if contender.ours else None
            else:
                result.samples.append(seconds)
    return results


def _check(contender: Contender) -> None:
    if contender.check is not None and not contender.check():
        raise ValueError("the values are not those of the source")
    gc.collect()


def _sample(contender: Contender, ctx: sa.Context, synchronize: Callable[[], Any]) -> tuple[float, int]:
    """Returns the seconds of one run, and the largest number of bytes that it added to the budget."""
    if contender.before is not None:
        contender.before()
    synchronize()
    ctx.memory.reset_peak()
    held = ctx.memory.statistics()["current"] or 0
    start = time.perf_counter()
    for _ in range(contender.repeat):
        made = contender.run()
    synchronize()
    seconds = (time.perf_counter() - start) / contender.repeat
    peak = ctx.memory.statistics()["peak"] or 0
    del made
    return seconds, peak - held
