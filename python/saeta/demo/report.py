"""Reports the end of a trip as data: the rates of its legs beside plain copies on the same machine."""

from __future__ import annotations

from statistics import median
from typing import Any

from saeta.demo.steps import Leg, Step
from saeta.demo.trip import Trip


def rows(trip: Trip) -> list[dict[str, Any]]:
    """Returns one row for each leg and each plain copy.

    A row has the bytes, median seconds, GB/s and, for a leg, its share of the plain copy's rate.
    """
    limit = yardstick(trip)
    legs = [_row(leg, leg.rate / limit.rate if limit else None) for leg in trip.legs]
    return legs + [_row(leg, None) for leg in trip.yardsticks]


def yardstick(trip: Trip) -> Leg | None:
    """Returns the plain copy to compare with: pinned copies to the device, or memcpy on the host."""
    pinned = [leg for leg in trip.yardsticks if leg.name.startswith("pinned")]
    return next(iter(pinned or trip.yardsticks), None)


def as_dict(trip: Trip, steps: list[Step]) -> dict[str, Any]:
    return {
        "file": str(trip.source),
        "device": trip.ctx.device,
        "frameworks": [framework.name for framework in trip.frameworks],
        "passed": all(step.passed for step in steps),
        "steps": [
            {
                "title": step.title,
                "facts": step.facts,
                "checks": [vars(check) for check in step.checks],
                "data": step.data,
            }
            for step in steps
        ],
        "memory": trip.memory,
        "rates": rows(trip),
    }


def _row(leg: Leg, share: float | None) -> dict[str, Any]:
    return {
        "name": leg.name,
        "bytes": leg.bytes,
        "seconds": median(leg.seconds),
        "rounds": len(leg.seconds),
        "gb_per_s": leg.rate,
        "share": share,
    }
