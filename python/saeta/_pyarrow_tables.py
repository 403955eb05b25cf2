"""Tables of pyarrow in host memory, as `saeta.from_arrow` takes them."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

from saeta import _libarrow
from saeta.errors import MissingDependency


def stream_of(source: Any) -> Any:
    """A capsule of a stream of the batches. None for other objects, for data on a device, and without the compiled module.

    `__arrow_c_stream__` of a table makes several objects a column, which takes longer than the import of small ones.
    """
    pyarrow: Any = sys.modules.get("pyarrow")
    if pyarrow is None or type(source) not in (pyarrow.Table, pyarrow.RecordBatch):
        return None
    bridge = _bridge()
    return None if bridge is None else bridge.stream(source)


@cache
def _bridge() -> ModuleType | None:
    """Without a module for the installed pyarrow its own stream is as good."""
    try:
        return _libarrow.load("_bridge", "a fast import")
    except MissingDependency:
        return None
