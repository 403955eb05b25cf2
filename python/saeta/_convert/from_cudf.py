"""Prepares frames and series of cuDF, and tables and columns of pylibcudf, for import."""

from __future__ import annotations

from typing import Any

from saeta.errors import ExchangeError


def is_cudf(source: Any) -> bool:
    """Whether the object is a frame or a series of cuDF."""
    return _library(source) == "cudf" and hasattr(source, "to_pylibcudf")


def is_series(source: Any) -> bool:
    """Whether the object is a series of cuDF, which has no Arrow protocol of its own."""
    return is_cudf(source) and not hasattr(source, "columns")


def exportable(source: Any, copy: bool | None) -> Any:
    """Returns `source`, or a copy of it if pylibcudf would export the wrong rows.

    pylibcudf exports a sliced column with offset 0 and a pointer to its first value, but with the validity
    and the text and list offsets of row 0. (Seen in 26.10, also when pylibcudf imports its own export.) A
    copy made by pylibcudf begins at row 0.
    """
    if _library(source) != "pylibcudf" or not _is_sliced(source):
        return source
    if copy is False:
        raise ExchangeError(
            f"a sliced {type(source).__name__} of pylibcudf can't be exported without a copy, which "
            "copy=False forbids"
        )
    return source.copy()


def host_form(source: Any, index: bool) -> Any:
    """Converts a frame or series of cuDF to pyarrow. Returns any other object unchanged."""
    return to_arrow(source, index) if is_cudf(source) else source


def to_arrow(source: Any, index: bool) -> Any:
    """Converts a frame or series of cuDF to pyarrow, a frame with its index only if `index` is true."""
    return source.to_arrow() if is_series(source) else source.to_arrow(preserve_index=index)


def _library(source: Any) -> str:
    return type(source).__module__.partition(".")[0]


def _is_sliced(source: Any) -> bool:
    """Whether a table or column of pylibcudf, or a child of it, begins after the first row of its buffers."""
    columns = source.columns() if hasattr(source, "columns") else [source]
    return any(column.offset() != 0 or any(map(_is_sliced, column.children())) for column in columns)
