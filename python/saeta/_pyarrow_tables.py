"""Tables and datasets of pyarrow, as `saeta.from_arrow` takes them."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

from saeta import _libarrow
from saeta.errors import MissingDependency


def importer_of(source: Any) -> ModuleType | None:
    """The compiled module whose `table` imports the source. None for other objects, for data on a device, and without the module.

    `__arrow_c_stream__` of a table makes several objects a column, which takes longer than the import of small ones.
    """
    pyarrow: Any = sys.modules.get("pyarrow")
    if pyarrow is None or type(source) not in (pyarrow.Table, pyarrow.RecordBatch):
        return None
    bridge = _bridge()
    return bridge if bridge is not None and bridge.on_cpu(source) else None


def with_stream(source: Any) -> Any:
    """A reader of a pyarrow Dataset or Scanner, which have no `__arrow_c_stream__`; other objects as they are."""
    dataset: Any = sys.modules.get("pyarrow._dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        source = source.scanner()
    if dataset is not None and isinstance(source, dataset.Scanner):
        return source.to_reader()
    return source


@cache
def _bridge() -> ModuleType | None:
    """Without a module for the installed pyarrow its own stream is as good."""
    try:
        return _libarrow.load("_bridge", "a fast import")
    except MissingDependency:
        return None
