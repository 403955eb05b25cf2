"""The types of the arguments of `saeta.loader`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from saeta.exchange import ArrowStream

Files: TypeAlias = (
    str
    | os.PathLike[str]
    | Mapping[str | os.PathLike[str], float]
    | Iterable[str | os.PathLike[str]]
    | ArrowStream
)
"""What a loader reads: files, files with weights, or a table."""
Names: TypeAlias = str | Iterable[str]
"""One name or several."""
Shuffle: TypeAlias = Literal["rows", "batches"] | bool
"""What a loader permutes. True is "rows"."""
Library: TypeAlias = Literal["torch", "cupy", "jax", "numpy"]
"""Whose tensors a loader yields."""
Nulls: TypeAlias = Literal["error", "nan", "fill", "mask"]
"""What becomes of nulls."""
Lists: TypeAlias = Literal["jagged", "padded"]
"""What becomes of lists and strings."""
