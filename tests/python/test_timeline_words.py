"""The exact text and drawing data of the timeline page for a recording with every kind of record."""

from __future__ import annotations

import re

from saeta._report import timeline
from timeline_records import MIB, block, record

KIB = 1 << 10

# Every kind of record, with its effect on the bytes in use.
EVERYTHING = [
    record(1, "free", address=1, generation=9, bytes=5),
    record(2, "allocate", address=1, generation=1, bytes=3 * KIB, tag="a", reserved=KIB, held=4 * KIB),
    record(3, "allocate", address=2, generation=2, bytes=KIB, tag="", reserved=KIB, held=8 * KIB),
    record(4, "adopt", address=3, generation=3, bytes=2 * KIB, account="", limit=0),
    record(5, "refuse", bytes=7 * KIB, tag="join", outcome="no room", reserved=KIB, held=8 * KIB),
    record(6, "allocate", generation=4, bytes=5 * KIB, tag="b", account="query", limit=6 * KIB, held=8 * KIB),
    record(7, "free", address=2, generation=2, bytes=KIB, tag="", limit=50 * MIB, held=8 * KIB),
    record(8, "trim", bytes=2 * KIB, limit=50 * MIB, held=6 * KIB),
    record(9, "allocate", address=5, generation=5, bytes=KIB // 2, tag="c", limit=50 * MIB, held=6 * KIB),
    record(10, "relief", bytes=9 * KIB, tag="hook", account="", limit=0, outcome="gave 3"),
    record(11, "fail", bytes=11 * KIB, tag="", limit=50 * MIB, held=6 * KIB, outcome="no memory"),
    record(12, "free_failed", bytes=12 * KIB, tag="b", limit=50 * MIB, held=6 * KIB),
    record(
        13, "allocate", generation=6, bytes=KIB // 4, tag="d", account="query", limit=2**64 - 1, held=6144
    ),
    record(14, "release", address=3, generation=3, bytes=2 * KIB, account="", limit=0),
    record(15, "release", address=7, generation=7, bytes=2 * KIB, account="", limit=0),
    record(
        16,
        "free",
        address=5,
        generation=5,
        bytes=KIB // 2,
        tag="c",
        limit=50 * MIB,
        held=6144,
        time_ns=9_000_000,
    ),
    record(17, "drain", account="", limit=0),
]
PHASES = [("x", 2), ("y", 17)]


def test_the_drawing_data_of_every_kind_of_record(monkeypatch):
    monkeypatch.setattr(timeline, "NAMED_TAGS", 2)
    life = timeline.read(EVERYTHING)
    assert timeline._data(life, timeline._spans(life, EVERYTHING, PHASES)) == {
        "names": ["b", "a", "other (3 tags)"],
        "times": [0, 1000, 2000, 5000, 6000, 8000, 12000, 7999000],
        "rows": [
            [0, 0, 0],
            [0, 3072, 0],
            [0, 3072, 1024],
            [5120, 3072, 1024],
            [5120, 3072, 0],
            [5120, 3072, 512],
            [5120, 3072, 768],
            [5120, 3072, 256],
        ],
        "end": 7999000,
        "limits": [(0, 100 * MIB), (6000, 50 * MIB)],
        "peak": [5000, 9216],
        "marks": [
            [4000, "refuse", 7168, "join", 4096, "no room", "host", 100 * MIB, 1],
            [7000, "trim", 2048, "(untagged)", 8192, "ok", "host", 50 * MIB, 1],
            [9000, "relief", 9216, "hook", 8704, "gave 3", "", 0, 1],
            [10000, "fail", 11264, "(untagged)", 8704, "no memory", "host", 50 * MIB, 1],
            [11000, "free_failed", 12288, "b", 8704, "ok", "host", 50 * MIB, 1],
        ],
        "words": timeline.MARKS,
        "spans": [("x", 0, 1000), ("y", 2000, 16000)],
        "children": [("query", [(0, 6144), (12000, None)])],
        "levels": [
            ("held", [(1000, 4096), (2000, 8192), (7000, 6144)]),
            ("reserved", [(1000, 1024), (5000, 0)]),
            ("external", [(3000, 2048), (13000, 0)]),
        ],
    }


def test_the_text_of_every_kind_of_record(monkeypatch):
    monkeypatch.setattr(timeline, "NAMED_TAGS", 2)
    monkeypatch.setattr(timeline, "LISTED_MARKS", 4)
    life = timeline.read(EVERYTHING)
    begin = (
        "Memory on host over 8.00 ms: the height is the number of bytes in use at that moment, and the "
        "colours say what they were in use for (their tags). The most was 9 KiB, after 5.00 µs, of a budget "
        "of 100 MiB. Marked: 1 request was refused, 1 request failed, 1 free failed, 1 trim, 1 call of a "
        "pressure hook. "
    )
    end = "At the end 8.25 KiB was in use. Left out: 1 block from before the recording, freed during it."
    assert timeline.summary(life) == begin + end
    assert cells("".join(timeline._legend(life))) == [
        ["c0", "b", "", "5 KiB", "5 KiB"],
        ["c1", "a", "", "3 KiB", "3 KiB"],
        ["other", "other (3 tags)", "", "1 KiB", "256 B"],
        ["", "together", "", "9 KiB", "8.25 KiB"],
    ]
    assert re.findall('data-now="(\\w+)"', "".join(timeline._legend(life))) == ["0", "1", "2", "sum"]
    assert cells(timeline._level_list(life))[1:] == [
        ["level held", timeline.LEVELS["held"], "8 KiB", "6 KiB"],
        ["level reserved", timeline.LEVELS["reserved"], "1 KiB", "0 B"],
        ["level external", timeline.LEVELS["external"], "2 KiB", "0 B"],
        ["level child", "limit of the child budget query", "6 KiB", "0 B"],
    ]
    assert cells(timeline._phase_list(timeline._spans(life, EVERYTHING, PHASES)))[1:] == [
        ["1", "x", "0 ns", "1.00 µs"],
        ["2", "y", "2.00 µs", "14.0 µs"],
    ]
    assert timeline._phase_list([]) == ""
    marks = timeline._mark_list(life)
    assert cells(marks)[1:] == [
        ["4.00 µs", "mark refuse", timeline.MARKS["refuse"], "7 KiB", "join", "no room"],
        ["7.00 µs", "mark trim", timeline.MARKS["trim"], "2 KiB", "", ""],
        ["9.00 µs", "mark relief", timeline.MARKS["relief"], "9 KiB", "hook", "gave 3"],
        ["10.0 µs", "mark fail", timeline.MARKS["fail"], "11 KiB", "(untagged)", "no memory"],
    ]
    assert marks.endswith("</table><p>And 1 more, all of them in the picture.</p>")
    monkeypatch.setattr(timeline, "LISTED_MARKS", 5)
    assert timeline._mark_list(life).endswith("</table>")
    monkeypatch.setattr(timeline, "DRAWN_MARKS", 4)
    monkeypatch.setattr(timeline, "LISTED_MARKS", 1)
    assert timeline._mark_list(life).endswith("<p>And 4 more, drawn together in the picture.</p>")
    many = (
        "They are too many to draw: one mark stands for all of its kind within 16.0 µs and shows the largest "
        "of them. "
    )
    assert timeline.summary(life) == begin + many + end


def cells(html):
    """Returns the cell texts of each row of a table. The class of a cell's marker precedes its text."""
    rows = re.findall("<tr.*?</tr>", html)
    signs = [re.sub('<i(?: class="([^"]*)")?></i>', r"\1</td><td>", row) for row in rows]
    return [re.findall("(?<=>)([^<>]*)</t[hd]>", row) for row in signs]


def test_thinning_keeps_the_maximum_minimum_and_last_value_of_each_part(monkeypatch):
    monkeypatch.setattr(timeline, "NAMED_TAGS", 2)
    monkeypatch.setattr(timeline, "CHUNKS", 2)
    times, rows = timeline.thin(timeline.read(EVERYTHING))
    assert times == [0, 1000, 5000, 6000, 12000, 7999000]
    assert [sum(row) for row in rows] == [0, 3072, 9216, 8192, 8960, 8448]
    level = [(1, 5), (2, 9), (3, 1), (4, 4), (5, 2)]
    assert timeline.thin_level(level) == [(2, 9), (3, 1), (4, 4), (5, 2)]
    assert timeline.thin_level(level[:2]) == level[:2]
    monkeypatch.setattr(timeline, "CHUNKS", 1)
    assert timeline.thin_level(level) == [(2, 9), (5, 2)]


def test_combined_marks_show_the_largest(monkeypatch):
    monkeypatch.setattr(timeline, "DRAWN_MARKS", 4)
    monkeypatch.setattr(timeline, "MARK_WINDOWS", 4)
    sizes = [("refuse", 3), ("refuse", 8), ("trim", 1), ("refuse", 5), ("trim", 2)]
    life = timeline.read([record(order, event, bytes=size) for order, (event, size) in enumerate(sizes, 1)])
    assert timeline._window(life) == 1001
    assert [(mark.time, mark.event, mark.bytes, count) for mark, count in timeline.select_marks(life)] == [
        (1000, "refuse", 8, 2),
        (2000, "trim", 1, 1),
        (3000, "refuse", 5, 1),
        (4000, "trim", 2, 1),
    ]


def test_the_summary_omits_empty_parts():
    assert timeline.summary(timeline.Life()) == "Nothing was recorded."
    only_marks = timeline.summary(timeline.read([record(1, "trim", limit=None)]))
    assert only_marks.endswith("(their tags). Marked: 1 trim. At the end nothing was in use.")
    without_budget = timeline.summary(timeline.read([block(1, "allocate", 1, 5)][:1], None))
    assert "The most was 5 B, after 0 ns, of a budget of 100 MiB." in without_budget
    life = timeline.read([record(1, "allocate", bytes=5, limit=None)])
    assert "The most was 5 B, after 0 ns. At the end 5 B was in use." in timeline.summary(life)
    assert timeline._level_list(timeline.Life()) == ""
    assert timeline._level_list(timeline.Life(levels={"held": [(0, 5)]})) != ""
    assert timeline._mark_list(life) == (
        "<p>No request was refused, nothing failed and nothing was trimmed.</p>"
    )
    assert (timeline.NAMED_TAGS, timeline.LISTED_MARKS) == (8, 200)
    assert (timeline.CHUNKS, timeline.DRAWN_MARKS, timeline.MARK_WINDOWS) == (2000, 3000, 500)
