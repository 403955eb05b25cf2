"""Prepares data of pyarrow on a device for `saeta.from_arrow`."""

from __future__ import annotations

import sys
from typing import Any

from saeta.errors import MissingDependency


def parts_on_device(source: Any) -> list[Any] | None:
    """Returns the arrays or record batches of pyarrow data on a device, which offer the device protocol.

    None for other objects and for data on the CPU. A table or chunked array of pyarrow offers only the host
    protocol, which it refuses for memory of a device.
    """
    pyarrow: Any = sys.modules.get("pyarrow")
    kinds = ("Array", "RecordBatch", "ChunkedArray", "Table")
    of_pyarrow = pyarrow is not None and isinstance(source, tuple(getattr(pyarrow, kind) for kind in kinds))
    if not of_pyarrow or source.is_cpu:
        return None
    if isinstance(source, pyarrow.Table):
        parts = source.to_batches()
    else:
        parts = source.chunks if isinstance(source, pyarrow.ChunkedArray) else [source]
    _count_nulls(parts)
    return list(parts)


def _count_nulls(parts: list[Any]) -> None:
    """Counts nulls on the device before the export.

    When pyarrow exports an array with an unknown null count, it counts on the host, in memory of the device.
    """
    try:
        from saeta.cuda._libarrow import bridge
    except MissingDependency:
        return
    for each in parts:
        bridge.count_nulls(each)
