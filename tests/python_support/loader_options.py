"""Arguments of `saeta.loader`, written flat: what belongs into a record is put there."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

RECORDS = {"tensor_options": "TensorOptions", "read_options": "ReadOptions"}


def grouped(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments of a loader, with options of its records in the records."""
    import saeta as sa

    left = dict(options)
    for argument, name in RECORDS.items():
        record = getattr(sa, name)
        inside = {field.name: left.pop(field.name) for field in fields(record) if field.name in left}
        if inside:
            left[argument] = record(**inside)
    return left
