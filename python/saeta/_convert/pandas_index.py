"""The index of pandas: row labels, which become columns only on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from saeta._optional import load


def is_frame(source: Any) -> bool:
    """Whether the object is a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def frame_to_arrow(frame: Any, index: bool) -> Any:
    """Returns a DataFrame as a table of pyarrow, with or without a column for each level of its index."""
    pandas = sys.modules["pandas"]
    # A RangeIndex is kept in metadata, from which `to_pandas` makes it again.
    kept = True if index else None if isinstance(frame.index, pandas.RangeIndex) else False
    return load("pyarrow", "a DataFrame of pandas").Table.from_pandas(frame, preserve_index=kept)


def index_columns(metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """Returns the names of index columns, from the metadata that pandas writes into files."""
    try:
        described = json.loads((metadata or {})[b"pandas"])["index_columns"]
        return [name for name in described if isinstance(name, str)]  # a RangeIndex has no column
    except (KeyError, TypeError, ValueError):
        return []


def without_index(
    names: Sequence[str], metadata: Mapping[bytes, bytes] | None, wanted: Collection[str] = ()
) -> list[str] | None:
    """Returns the names of the columns that are not an index, or None if no column is one.

    Args:
        wanted: columns that are kept even if they are an index.
    """
    left_out = {name for name in index_columns(metadata) if name not in wanted}
    kept = [name for name in names if name not in left_out]
    return kept if len(kept) < len(names) and len(set(kept)) == len(kept) else None
