"""Shows tables and columns as text: device, size, types and the first rows.

Each column takes one line, so that wide tables, long names, and repeated or empty names stay readable. Only
the rows that are shown are copied. Only as much of a value is decoded as its text has room for. Names and
values from outside are made printable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from saeta._convert.to_python import text_of
from saeta._report import count_text, human_bytes
from saeta._text import shorten, shorten_printable
from saeta.errors import DownloadForbidden

if TYPE_CHECKING:
    from saeta._core import Column, CountedTable, DataType, Table

HEAD_ROWS = 5
MOST_COLUMNS = 60
LINE_WIDTH = 118
VALUE_WIDTH = 36  # fits a UUID; a time in nanoseconds with a zone has 30 characters
HEADING_WIDTH = 1000  # for the name and type of a single column
# Values inside a nested value, and bytes of a text, whose characters have up to four bytes. Anything beyond
# does not fit in VALUE_WIDTH.
MOST_INSIDE = 4 * (VALUE_WIDTH + 1)
IPYTHON = ("_ipython_key_completions_", "_repr_html_")  # methods that IPython calls
FORBIDDEN = "(not shown: strict mode forbids downloads)"


class Line(NamedTuple):
    name: str
    type: str
    values: str


def table_text(self: Table) -> str:
    """Implements `Table.__repr__`."""
    lines = _lines(self)
    name_width = max((len(line.name) for line in lines), default=0)
    type_width = max((len(line.type) for line in lines), default=0)
    texts = [f"  {line.name:<{name_width}}  {line.type:<{type_width}}  {line.values}" for line in lines]
    left_out = [_left_out(self)] if self.num_columns > MOST_COLUMNS else []
    return "\n".join(
        [f"<saeta.Table {summary(self)}>", *(shorten(line, LINE_WIDTH) for line in texts), *left_out]
    )


def counted_text(self: CountedTable) -> str:
    """Implements `CountedTable.__repr__`. Reads nothing from the device."""
    rows = "an unread number" if self.known_num_rows is None else str(self.known_num_rows)
    room = self.capacity
    return (
        f"<saeta.CountedTable of {rows} of {count_text(room.num_rows, 'row', 'rows')}, "
        f"{count_text(room.num_columns, 'column', 'columns')} on {room.device}>"
    )


def column_text(self: Column) -> str:
    """Implements `Column.__repr__`."""
    rows = len(self)
    head = self.slice(0, min(rows, HEAD_ROWS))
    try:
        values = _values_text(self.type, head._raw_values(MOST_INSIDE), more=rows > HEAD_ROWS)
    except DownloadForbidden:
        values = FORBIDDEN
    return f"<saeta.Column {heading(self)}>\n  {shorten(values, LINE_WIDTH)}"


def heading(column: Column) -> str:
    """Returns the name, type, place and size of a column."""
    chunks = f" in {column.num_chunks} chunks" if column.num_chunks != 1 else ""
    name = shorten(repr(column.name[:HEADING_WIDTH]), HEADING_WIDTH)
    return (
        f"{name}: {shorten_printable(column.type.name, HEADING_WIDTH)} on {column.device}, "
        f"{count_text(len(column), 'row', 'rows')}"
        f"{chunks}, {human_bytes(column.nbytes)}"
    )


def _lines(table: Table) -> list[Line]:
    shown = range(min(table.num_columns, MOST_COLUMNS))
    columns = [table[place] for place in shown]
    rows = min(table.num_rows, HEAD_ROWS)
    # Only the head of the shown columns is copied.
    try:
        head = _head(table, columns, rows)
    except DownloadForbidden:
        return [_line(column, FORBIDDEN) for column in columns]
    more = table.num_rows > rows
    return [
        _line(column, _values_text(column.type, values, more=more))
        for column, values in zip(columns, head, strict=True)
    ]


def _line(column: Column, values: str) -> Line:
    return Line(
        shorten_printable(column.name, LINE_WIDTH), shorten_printable(column.type.name, LINE_WIDTH), values
    )


def _head(table: Table, columns: Sequence[Column], rows: int) -> list[list[bytes | bool | None]]:
    if table.num_columns <= MOST_COLUMNS:
        return table.head(rows)._raw_values(MOST_INSIDE)
    return [column.slice(0, rows)._raw_values(MOST_INSIDE) for column in columns]


def _values_text(type: DataType, values: Sequence[bytes | bool | None], *, more: bool) -> str:  # noqa: A002
    texts = [shorten(text_of(type, value), VALUE_WIDTH) for value in values]
    return ", ".join([*texts, "…"] if more else texts)


def summary(table: Table) -> str:
    """Returns the place, shape and size of a table."""
    batches = f" in {table.num_batches:,} batches" if table.num_batches != 1 else ""
    shape = (
        f"{count_text(table.num_rows, 'row', 'rows')} x {count_text(table.num_columns, 'column', 'columns')}"
    )
    return f"on {table.device}: {shape}{batches}, {human_bytes(table.nbytes)}"


def _left_out(table: Table) -> str:
    return f"  … and {table.num_columns - MOST_COLUMNS} more columns"


def public_names(self: Column | Table) -> list[str]:
    """Implements `dir` of columns and tables, which completion shows: no name that only Saeta calls."""
    names = object.__dir__(self)
    return [name for name in names if not name.startswith("_") or name.startswith("__") or name in IPYTHON]
