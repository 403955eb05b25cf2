"""Shows objects as HTML, for notebooks: what they hold, of which types and sizes, and where the memory is.

Colours are those of the page, so that light and dark schemes both work, and every style is inline, because
notebooks of some programs remove style sheets. As in `display`, only what is shown is copied and decoded, the
length is bounded, and names and values from outside are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from saeta._convert.to_python import text_of
from saeta._report import count_text, human_bytes
from saeta._report.display import FORBIDDEN, HEAD_ROWS, MOST_INSIDE, VALUE_WIDTH, heading, summary
from saeta._text import shorten, shorten_printable
from saeta.errors import DownloadForbidden

if TYPE_CHECKING:
    from saeta._core import Column, Context, Memory, Schema, Table

MOST_COLUMNS = 20  # of a table: more are wider than a page
MOST_LINES = 20  # of a list of names
NAME_WIDTH = 60
LINE = "1px solid rgba(128, 128, 128, 0.4)"
CELL = "text-align: left; vertical-align: top; padding: 0.2em 0.8em 0.2em 0"
FAINT = "opacity: 0.7; font-weight: normal"

Fact = tuple[str, str]


def table_html(self: Table) -> str:
    """Implements `Table._repr_html_`."""
    shown = self.select(list(range(min(self.num_columns, MOST_COLUMNS))))
    names = [_heading_cell(field.name, field.type.name) for field in shown.schema.fields]
    rows = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in _rows(shown)]
    left_out = []
    if self.num_rows > HEAD_ROWS:
        left_out.append(f"{count_text(self.num_rows - HEAD_ROWS, 'row', 'rows')}")
    if self.num_columns > MOST_COLUMNS:
        left_out.append(f"{count_text(self.num_columns - MOST_COLUMNS, 'column', 'columns')}")
    more = f"<p style='{FAINT}'>… and {' and '.join(left_out)} more</p>" if left_out else ""
    return (
        f"{_title('Table', summary(self))}<table style='border-collapse: collapse'>"
        f"<thead><tr style='border-bottom: {LINE}'>{''.join(names)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{more}{_place(self.context)}"
    )


def column_html(self: Column) -> str:
    """Implements `Column._repr_html_`."""
    head = self.slice(0, min(len(self), HEAD_ROWS))
    rows = "".join(f"<tr>{_cell(value)}</tr>" for value in _values(head))
    more = len(self) - len(head)
    return (
        f"{_title('Column', heading(self))}"
        f"<table style='border-collapse: collapse'><tbody>{rows}</tbody></table>"
        + (f"<p style='{FAINT}'>… and {count_text(more, 'row', 'rows')} more</p>" if more else "")
        + _place(self.context)
    )


def context_html(self: Context) -> str:
    """Implements `Context._repr_html_`."""
    closed = ", closed" if self.closed else ""
    return _title("Context", f"{self.device}{closed}") + _memory_facts(self.memory)


def memory_html(self: Memory) -> str:
    """Implements `Memory._repr_html_`."""
    return _title("Memory", f"of {self.device}") + _memory_facts(self)


def described(
    kind: str,
    text: str,
    facts: Iterable[Fact] = (),
    *,
    schema: Schema | None = None,
    ctx: Context | None = None,
) -> str:
    """Shows an object that nothing is read of: facts, columns of a schema, and the memory of a context."""
    told = list(facts)
    return (
        _title(kind, text)
        + (_facts(told) if told else "")
        + ("" if schema is None else _schema(schema))
        + ("" if ctx is None else _place(ctx))
    )


def _rows(table: Table) -> Sequence[Sequence[str]]:
    rows = min(table.num_rows, HEAD_ROWS)
    try:
        raw = table.head(rows)._raw_values(MOST_INSIDE)
    except DownloadForbidden:
        return [[FORBIDDEN]] if rows and table.num_columns else []
    columns = [
        [shorten(text_of(field.type, value), VALUE_WIDTH) for value in values]
        for field, values in zip(table.schema.fields, raw, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _values(head: Column) -> list[str]:
    try:
        raw = head._raw_values(MOST_INSIDE)
    except DownloadForbidden:
        return [FORBIDDEN]
    return [shorten(text_of(head.type, value), VALUE_WIDTH) for value in raw]


def _memory_facts(memory: Memory) -> str:
    now = memory.statistics()
    limit = now["limit"]
    used = f"{human_bytes(now['current'] or 0)}" + ("" if limit is None else f" of {human_bytes(limit)}")
    facts = [
        ("in use", used),
        ("peak", human_bytes(now["peak"] or 0)),
        ("refused", f"{now['refused']:,} of {(now['requests'] or 0) + (now['refused'] or 0):,} requests"),
    ]
    share = _share(now["current"] or 0, limit) if limit else ""
    owners = sorted(memory.by_tag().items(), key=lambda each: -each[1])
    held = [(shorten_printable(tag, NAME_WIDTH) or "(untagged)", human_bytes(size)) for tag, size in owners]
    tags = f"<p style='{FAINT}'>live bytes by tag</p>{_facts(_bounded(held))}" if held else ""
    return share + _facts(facts) + tags


def _share(used: int, limit: int) -> str:
    """Draws how much of a limit is in use."""
    percent = min(100.0, 100 * used / limit)
    return (
        f"<div style='width: 20em; border: {LINE}; height: 0.6em' title='{percent:.0f}% in use'>"
        f"<div style='width: {percent:.1f}%; height: 100%; background: currentColor; opacity: 0.6'></div>"
        "</div>"
    )


def _schema(schema: Schema) -> str:
    columns = [
        (shorten_printable(field.name, NAME_WIDTH), shorten_printable(field.type.name, NAME_WIDTH))
        for field in schema.fields
    ]
    number = count_text(len(columns), "column", "columns")
    return f"<p style='{FAINT}'>{number}</p>{_facts(_bounded(columns))}"


def _bounded(facts: list[Fact]) -> list[Fact]:
    left = len(facts) - MOST_LINES
    return facts if left <= 0 else [*facts[:MOST_LINES], (f"… and {left:,} more", "")]


def _place(ctx: Context) -> str:
    """Says how much of the budget of the memory is in use."""
    now = ctx.memory.statistics()
    limit = "no limit" if now["limit"] is None else human_bytes(now["limit"])
    used = f"{human_bytes(now['current'] or 0)} in use on {ctx.device}, budget {limit}"
    return f"<p style='{FAINT}'>{escape(used)}</p>"


def _title(kind: str, text: str) -> str:
    return f"<p><b>saeta.{kind}</b> {escape(text)}</p>"


def _facts(facts: Iterable[Fact]) -> str:
    lines = "".join(
        f"<tr><th style='{CELL}; {FAINT}'>{escape(name)}</th>{_cell(value)}</tr>" for name, value in facts
    )
    return f"<table style='border-collapse: collapse'><tbody>{lines}</tbody></table>"


def _heading_cell(name: str, kind: str) -> str:
    return (
        f"<th style='{CELL}'>{escape(shorten_printable(name, NAME_WIDTH))}<br>"
        f"<span style='{FAINT}'>{escape(shorten_printable(kind, NAME_WIDTH))}</span></th>"
    )


def _cell(value: str) -> str:
    return f"<td style='{CELL}'>{escape(value)}</td>"
