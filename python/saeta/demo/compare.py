"""Compares the values that pyarrow reads from two files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

AS_INTEGERS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def read(path: Path, container: str) -> Any:
    """Reads a file with pyarrow. The values are views of the mapped file if it is not compressed."""
    source = pa.memory_map(str(path))
    opened = pa.ipc.open_file(source) if container == "file" else pa.ipc.open_stream(source)
    return opened.read_all()


def same_values(left: Any, right: Any) -> bool:
    """Whether two ChunkedArrays hold the same values and nulls, whatever their chunks.

    Floats are compared by their bits, so that NaN equals itself and -0.0 does not equal 0.0.
    """
    if left.type != right.type or len(left) != len(right):
        return False
    if left.type in AS_INTEGERS:
        left, right = (_as_integers(values, AS_INTEGERS[left.type]) for values in (left, right))
    return bool(left.equals(right))


def _as_integers(values: Any, integers: Any) -> Any:
    return pa.chunked_array([chunk.view(integers) for chunk in values.chunks], integers)
