"""The exact text of displayed tables, memory reports and progress."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

import saeta as sa
from saeta import _text
from saeta._files import progress
from saeta._report import count_text, display, memory


def test_the_display_of_a_table(host):
    table = sa.table({"n": [1, None, 3, 4, 5, 6], "longer": ["a", "b" * 40, "c", "d", "e", "f"]}, host)
    size = table.nbytes
    assert repr(table) == (
        f"<saeta.Table on host: 6 rows x 2 columns, {size} B>\n"
        "  n       int64   1, null, 3, 4, 5, …\n"
        f"  longer  string  a, {'b' * 35}…, c, d, e, …"
    )
    five = table.slice(0, 5)
    assert repr(five).split("\n")[1] == "  n       int64   1, null, 3, 4, 5"
    two = sa.concat_tables([five, five])
    assert repr(two).split("\n")[0].startswith("<saeta.Table on host: 10 rows x 2 columns in 2 batches, ")


def test_the_display_of_a_wide_table_is_truncated(host):
    most = display.MOST_COLUMNS
    table = sa.table({f"c{number}": [number] for number in range(most + 2)}, host)
    lines = repr(table).split("\n")
    assert len(lines) == most + 2
    assert lines[most].split() == [f"c{most - 1}", "int64", str(most - 1)]
    assert lines[-1] == "  … and 2 more columns"
    full = table.select(table.column_names[:most])
    assert len(repr(full).split("\n")) == most + 1
    long = repr(sa.table({"x": ["y" * 36] * 5}, host)).split("\n")[1]
    assert len(long) == display.LINE_WIDTH == 118
    assert long.endswith("…")
    assert repr(sa.table({}, host)).startswith("<saeta.Table on host: 0 rows x 0 columns")


def test_the_display_of_a_column(host):
    column = sa.column([1, 2, 3, 4, 5, 6], host, name="a" * 5, type="int8")
    assert repr(column) == "<saeta.Column 'aaaaa': int8 on host, 6 rows, 6 B>\n  1, 2, 3, 4, 5, …"
    assert repr(column[:5]).endswith("\n  1, 2, 3, 4, 5")
    long = sa.column([1], host, name="x" * 2000, type="int8")
    assert repr(long).split(": int8")[0] == "<saeta.Column '" + "x" * 998 + "…"
    assert repr(column[:1]) == "<saeta.Column 'aaaaa': int8 on host, 1 row, 1 B>\n  1"


def test_the_display_of_a_counted_table(host):
    room = sa.table({"x": [1, 2, 3]}, host)
    count = sa.column([2], host, name="c", type="int64")
    assert repr(sa.counted_table(room, count)) == (
        "<saeta.CountedTable of an unread number of 3 rows, 1 column on host>"
    )
    assert repr(sa.counted_table(room, count, num_rows=2)) == (
        "<saeta.CountedTable of 2 of 3 rows, 1 column on host>"
    )


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("", 3, ""), ("a\nb", 4, "a\\nb"), ("a\nbc", 4, "a\\n…")],
)
def test_texts_are_truncated_to_a_width(text, width, shown):
    assert _text.shorten_printable(text, width) == shown


def test_unprintable_characters_of_foreign_texts_are_escaped():
    assert _text.printable("plain é") == "plain é"
    assert _text.printable("a\x1b\u202e\ud800'\"") == "a\\x1b\\u202e\\ud800'\""
    assert _text.shorten("abcd", 4) == "abcd"
    assert _text.shorten("abcde", 4) == "abc…"
    assert _text.number_text(2**128 - 1) == str(2**128 - 1)
    assert _text.number_text(2**128) == "a number of 129 bits"
    assert _text.number_text(10**5000) == "a number of 16,610 bits"
    assert _text.number_text("x") == "'x'"


def test_counts_have_singular_and_plural_nouns():
    assert [count_text(number, "row", "rows") for number in (0, 1, 2, 2000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "2,000 rows",
    ]


def test_the_text_of_a_memory_report(monkeypatch):
    monkeypatch.delitem(sys.modules, "saeta._ipc", raising=False)  # otherwise the report has spillable tables
    numbers = ("current", "reserved", "peak", "external", "pinned", "held", "host_held", "foreign")
    now = {name: 1024 * (place + 1) for place, name in enumerate(numbers)}
    counts = {"limit": 1 << 20, "requests": 1000, "refused": 2000, "buffers": 3000, "pending_releases": 4000}
    budgets = {"cuda:0": 5}
    of = SimpleNamespace(
        device="cuda:0",
        statistics=lambda: {**now, **counts},
        by_tag=lambda: {"table": 2048, "": 1, "odd\n": 3},
        by_budget=lambda: budgets,
    )
    text = (
        "memory of cuda:0\n"
        "  budget    1 MiB\n"
        "  in use    1 KiB (1,024 B)\n"
        "  reserved  2 KiB (2,048 B) (promised and not drawn yet)\n"
        "  peak      3 KiB (3,072 B)\n"
        "  external  4 KiB (4,096 B) (views of the memory of others)\n"
        "  pinned    5 KiB (5,120 B) (page-locked host memory)\n"
        "  held      6 KiB (6,144 B) (taken from the device, in use or cached)\n"
        "  downloads 7 KiB (7,168 B) (host memory, in use or kept for the next)\n"
        "  foreign   8 KiB (8,192 B) (used on the device by others)\n"
        "  requests  1,000 accepted, 2,000 refused\n"
        "  buffers   3,000 live, 4,000 waiting to be released\n"
        "  live bytes by tag\n"
        "    table  2 KiB (2,048 B)\n"
        "    (untagged)  1 B (1 B)\n"
        "    odd\\n  3 B (3 B)"
    )
    assert memory.memory_report(of) == text
    budgets["query"] = 7
    assert memory.memory_report(of) == (
        f"{text}\n  live bytes by budget\n    cuda:0  5 B (5 B)\n    query   7 B (7 B)"
    )
    counts["limit"], now["foreign"] = None, None
    of.by_tag, of.by_budget = dict, dict
    lines = memory.memory_report(of).split("\n")
    assert lines[1] == "  budget    no limit"
    assert lines[9].startswith("  foreign   0 B (0 B)")
    assert lines[-1].startswith("  buffers")


def test_progress_is_a_callable_a_bar_or_nothing(monkeypatch):
    for nothing in (None, False):
        with progress.hook(nothing, "reading") as hook:
            assert hook is None
    with progress.hook(print, "reading") as hook:
        assert hook is print
    updates, made = [], []

    class Bar:
        def __init__(self, *columns, console, transient):
            made.append((columns, console, transient))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            made.append("left")

        def add_task(self, description, *, total, rows):
            updates.append((description, total, rows))
            return 7

        def update(self, task, **given):
            updates.append((task, given))

    names = ("TextColumn", "BarColumn", "DownloadColumn", "TransferSpeedColumn")
    bars = {name: lambda *given, name=name, **more: (name, *given, more) for name in names}
    monkeypatch.setitem(sys.modules, "rich", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "rich.progress", SimpleNamespace(Progress=Bar, **bars))
    console = SimpleNamespace(Console=lambda **given: ("console", given))
    monkeypatch.setitem(sys.modules, "rich.console", console)

    def so_far(size, rows, batches, total):
        return SimpleNamespace(bytes=size, rows=rows, batches=batches, total_batches=total, total_rows=-1)

    with progress.hook(True, "reading") as hook:
        hook(so_far(100, 10, 2, 5))
        hook(so_far(100, 10, 0, 5))
        hook(so_far(100, 10, 2, -1))
        hook(so_far(100, 10, 1, 1))
    assert updates == [
        ("reading", None, 0),
        (7, {"completed": 100, "total": 250, "rows": 10}),
        (7, {"completed": 100, "total": None, "rows": 10}),
        (7, {"completed": 100, "total": None, "rows": 10}),
        (7, {"completed": 100, "total": 100, "rows": 10}),
    ]
    columns = (
        ("TextColumn", "{task.description}", {}),
        ("BarColumn", {}),
        ("TextColumn", "{task.fields[rows]:,} rows", {}),
        ("DownloadColumn", {"binary_units": True}),
        ("TransferSpeedColumn", {}),
    )
    assert made == [(columns, ("console", {"stderr": True}), True), "left"]


def test_rows_are_taken_filtered_and_dropped(host):
    table = sa.table({"a": [1, None, 3], "b": ["x", "y", None]}, host)
    assert table.take([]).num_rows == 0
    assert table.take([None, 2])["a"].to_pylist() == [None, 3]
    assert table.take([None])["a"].to_pylist() == [None]
    assert table.filter([None, None, True])["a"].to_pylist() == [3]
    assert table.filter([None, None, None]).num_rows == 0
    assert table.drop_null().to_pydict() == {"a": [1], "b": ["x"]}
    assert table.drop_null("b")["a"].to_pylist() == [1, None]
    assert table.drop_null(0)["b"].to_pylist() == ["x", None]
    assert table.drop_null(-1)["a"].to_pylist() == [1, None]
    assert table.drop_null(["a", 1]).num_rows == 1
    assert table.fill_null({"a": 7}).to_pydict() == {"a": [1, 7, 3], "b": ["x", "y", None]}
    assert table.cast({"a": "int8"})["a"].type == "int8"
    halves = sa.table({"f": [2.5, 3.5]}, host)
    assert halves.cast({"f": "float32"})["f"].to_pylist() == [2.5, 3.5]
    with pytest.raises(sa.InvalidError, match="column 'a': nulls can't be filled with None"):
        table["a"].fill_null(None)
    with pytest.raises(sa.TypeMismatch, match="types is of type list, expected a mapping from names"):
        table.cast(["int8"])
    with pytest.raises(sa.TypeMismatch, match="values is of type int, expected a mapping from names"):
        table.fill_null(3)
    with pytest.raises(sa.ColumnNameError, match="no column 'q': the columns are 'a', 'b'"):
        table.fill_null({"q": 3})
    with pytest.raises(sa.ColumnNameError):
        table.drop_null("q")
    with pytest.raises(sa.OutOfRange):
        table.drop_null(2)
    assert table["a"].fill_null(sa.column([9], host, name="v")).to_pylist() == [1, 9, 3]
    assert pa.table(table.to("host")).num_rows == 3
