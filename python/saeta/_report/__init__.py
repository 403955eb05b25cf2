"""Texts for people: reports of memory, timelines, and how tables, failures and the build are shown."""

from __future__ import annotations

from saeta import _core

human_bytes = _core._human_bytes


def count_text(number: int, one: str, many: str) -> str:
    """Formats a number with its noun: "1 batch", "2,000 batches"."""
    return f"{number:,} {one if number == 1 else many}"
