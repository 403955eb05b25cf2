"""Hand-made records of an event log."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20


def record(order: int, event: str, **given: Any) -> dict[str, Any]:
    plain = {
        "time_ns": 1_000_000 + order * 1000,
        "device": "host",
        "thread": 1,
        "stream": 1,
        "bytes": 0,
        "address": 0,
        "generation": 0,
        "tag": "",
        "account": "host",
        "limit": 100 * MIB,
        "outcome": "ok",
    }
    return {"order": order, "event": event, **plain, **given}


def block(order: int, event: str, number: int, size: int, tag: str = "table") -> dict[str, Any]:
    return record(order, event, bytes=size, address=4096 * number, generation=number, tag=tag)
