"""Prepares data of pyarrow for `saeta.from_arrow`: tables, datasets, and arrays on a device."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

from saeta import _libarrow
from saeta.errors import MissingDependency


def importer_of(source: Any) -> ModuleType | None:
    """Returns the compiled module whose `table` function imports the source.

    None for other objects, for data on a device, and if the module is missing. It is faster than
    `__arrow_c_stream__`, which makes several objects per column.
    """
    pyarrow: Any = sys.modules.get("pyarrow")
    if pyarrow is None or type(source) not in (pyarrow.Table, pyarrow.RecordBatch):
        return None
    bridge = _bridge()
    return bridge if bridge is not None and bridge.on_cpu(source) else None


def with_stream(source: Any) -> Any:
    """Returns a reader for a pyarrow Dataset or Scanner, which lack `__arrow_c_stream__`.

    Returns other objects unchanged.
    """
    dataset: Any = sys.modules.get("pyarrow._dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        source = source.scanner()
    if dataset is not None and isinstance(source, dataset.Scanner):
        return source.to_reader()
    return source


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


@cache
def _bridge() -> ModuleType | None:
    """Returns the module for the installed pyarrow.

    None if it is missing: pyarrow's own stream works as well.
    """
    try:
        return _libarrow.load("_bridge", "a fast import")
    except MissingDependency:
        return None


def _count_nulls(parts: list[Any]) -> None:
    """Counts nulls on the device before the export.

    When pyarrow exports an array with an unknown null count, it counts on the CPU, even in device memory.
    """
    try:
        from saeta.cuda._libarrow import bridge
    except MissingDependency:
        return
    for part in parts:
        bridge.count_nulls(part)
