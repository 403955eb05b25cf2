"""Writes the timeline page: the live bytes of a recording by tag and time, as one self-contained HTML file.

The records are reduced here; the page (`timeline.html`) only draws. Blocks that were alive before the
recording began are not in the records: they and their frees are left out.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any

from saeta._report import count_text, human_bytes

NAMED_TAGS = 8
CHUNKS = 2000  # parts of the drawn line; of each, the highest, lowest and last values are drawn
LISTED_MARKS = 200
DRAWN_MARKS = 3000  # beyond this number, nearby marks of one kind are combined
MARK_WINDOWS = 500  # equal parts of the recording; marks in the same part are combined
UNLIMITED = 2**64 - 1

MARKS = {
    "refuse": "refused: the budget had no room",
    "fail": "failed: the device had no memory, or an error",
    "free_failed": "a free failed: the block stays alive",
    "trim": "trimmed: cached memory went back to the device",
    "relief": "a pressure hook was asked to make room",
    "spill": "spilled: a table that nobody used left the device",
    "unspill": "returned: a spilled table came back to the device",
    "demote": "moved on: a spilled table left a full tier for a slower one",
}
LEVELS = {
    "held": "held: taken from the device, in use or cached",
    "reserved": "reserved: promised and not drawn yet",
    "external": "external: views of the memory of others",
}
# Kinds of records that have the device's reserved and held bytes.
MEASURED = frozenset({"allocate", "free", "free_failed", "refuse", "fail", "trim"})
COUNTED = {
    "refuse": ("request was refused", "requests were refused"),
    "fail": ("request failed", "requests failed"),
    "free_failed": ("free failed", "frees failed"),
    "trim": ("trim", "trims"),
    "relief": ("call of a pressure hook", "calls of pressure hooks"),
    "spill": ("table was spilled", "tables were spilled"),
    "unspill": ("spilled table came back", "spilled tables came back"),
    "demote": ("spilled table moved on", "spilled tables moved on"),
}


@dataclass(frozen=True)
class Mark:
    """An event other than an allocation or a free. `total` is the number of live bytes at that time."""

    time: int
    event: str
    bytes: int
    tag: str
    total: int
    account: str
    limit: int | None
    outcome: str


@dataclass
class Life:
    """The content of the records.

    Times are nanoseconds since the first record. `changes` are tuples (time, tag, bytes added).
    """

    changes: list[tuple[int, str, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    limits: list[tuple[int, int | None]] = field(default_factory=list)  # changes of the budget's limit
    # The same for child budgets.
    children: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    levels: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # changes, by the keys of LEVELS
    peaks: Counter[str] = field(default_factory=Counter)
    final: Counter[str] = field(default_factory=Counter)
    device: str = ""
    begin: int = 0
    end: int = 0
    total: int = 0
    peak: int = 0
    peak_time: int = 0
    unknown_frees: int = 0
    viewed: int = 0  # bytes in views of external memory

    def change(self, time: int, tag: str, more: int) -> None:
        self.changes.append((time, tag, more))
        self.final[tag] += more
        self.peaks[tag] = max(self.peaks[tag], self.final[tag])
        self.total += more
        if self.total > self.peak:
            self.peak, self.peak_time = self.total, time


def write(
    path: str | os.PathLike[str],
    records: Iterable[Mapping[str, Any]],
    *,
    title: str,
    limit: int | None = None,
    phases: Sequence[tuple[str, int]] = (),
) -> None:
    """Writes the page.

    `records` are those of `Context.memory.record()`. `limit` is the budget in bytes (None: no limit), used if
    no record carries one. `phases` names parts of the recording: (name, number of records at its end), in
    order.
    """
    ordered = sorted(records, key=lambda record: int(record["order"]))
    life = read(ordered, limit)
    spans = _spans(life, ordered, phases)
    page = (files("saeta._report") / "timeline.html").read_text(encoding="utf-8")
    parts = {
        "title": escape(title),
        "summary": escape(summary(life)),
        "legend": "".join(_legend(life)),
        "levels": _level_list(life),
        "phases": _phase_list(spans),
        "marks": _mark_list(life),
        "data": _as_script(_data(life, spans)),
    }
    # All placeholders are replaced in one pass, because a tag may contain the text of a placeholder.
    filled = re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page)
    Path(path).write_text(filled, encoding="utf-8")


def read(ordered: Sequence[Mapping[str, Any]], limit: int | None = None) -> Life:
    """Summarises ordered records. `limit` is used if no record carries the budget's limit."""
    life = Life()
    if not ordered:
        return life
    life.device = str(ordered[0]["device"])
    life.begin = int(ordered[0]["time_ns"])
    alive: dict[tuple[Any, Any], tuple[str, int]] = {}
    views: dict[tuple[Any, Any], int] = {}
    for record in ordered:
        time = life.end = max(life.end, int(record["time_ns"]) - life.begin)
        event, block = record["event"], (record["address"], record["generation"])
        if event == "allocate":
            alive[block] = record["tag"], int(record["bytes"])
            life.change(time, *alive[block])
        elif event == "free":
            tag, size = alive.pop(block, ("", -1))
            if size < 0:
                life.unknown_frees += 1
            else:
                life.change(time, tag, -size)
        elif event in MARKS:
            life.marks.append(_mark(record, time, life.total))
        if event not in ("drain", "relief") and record["limit"] != 0:
            own = life.limits if _is_root(record) else life.children.setdefault(str(record["account"]), [])
            _note_limit(own, time, _limit(record))
        _note_levels(life, time, record, views)
    if not any(value is not None for _, value in life.limits) and limit is not None:
        life.limits = [(0, limit)]
    return life


def _mark(record: Mapping[str, Any], time: int, total: int) -> Mark:
    text = {name: str(record[name]) for name in ("event", "tag", "account", "outcome")}
    return Mark(time, bytes=int(record["bytes"]), total=total, limit=_limit(record), **text)


def _limit(record: Mapping[str, Any]) -> int | None:
    return None if record["limit"] in (None, UNLIMITED) else int(record["limit"])


def _is_root(record: Mapping[str, Any]) -> bool:
    """Whether the limit is that of the device's own budget, not that of a child budget."""
    return record["account"] in ("", str(record["device"]))


def _note_limit(limits: list[tuple[int, int | None]], time: int, limit: int | None) -> None:
    if not limits:
        limits.append((0, limit))
    elif limits[-1][1] != limit:
        limits.append((time, limit))


def _note_levels(life: Life, time: int, record: Mapping[str, Any], views: dict[tuple[Any, Any], int]) -> None:
    """Notes the reserved, held and viewed bytes after a record.

    Only views that began during the recording are counted.
    """
    if record["event"] in MEASURED:
        for name in ("reserved", "held"):
            _note_level(life, name, time, int(record.get(name, 0)))
    elif record["event"] in ("adopt", "release"):
        block = record["address"], record["generation"]
        if record["event"] == "adopt":
            views[block] = int(record["bytes"])
            life.viewed += views[block]
        else:
            life.viewed -= views.pop(block, 0)
        _note_level(life, "external", time, life.viewed)


def _note_level(life: Life, name: str, time: int, value: int) -> None:
    known = life.levels.setdefault(name, [])
    if (known[-1][1] if known else 0) != value:
        known.append((time, value))


def thin_level(changes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Reduces a long list of times and values to the highest and the last value of each chunk."""
    size = max(1, -(-len(changes) // CHUNKS))
    kept = []
    for start in range(0, len(changes), size):
        chunk = changes[start : start + size]
        kept += sorted({max(chunk, key=lambda change: change[1]), chunk[-1]})
    return kept


def summary(life: Life) -> str:
    """Describes the page in words."""
    if not life.end and not life.changes and not life.marks:
        return "Nothing was recorded."
    parts = [
        f"Memory on {life.device} over {_duration(life.end)}: the height is the number of bytes in use at "
        "that moment, and the colours say what they were in use for (their tags)."
    ]
    if life.peak:
        of = _limit_at(life, life.peak_time)
        budget = f", of a budget of {human_bytes(of)}" if of is not None else ""
        parts.append(f"The most was {human_bytes(life.peak)}, after {_duration(life.peak_time)}{budget}.")
    happened = Counter(mark.event for mark in life.marks)
    told = [count_text(happened[event], *words) for event, words in COUNTED.items() if happened[event]]
    if told:
        parts.append(f"Marked: {', '.join(told)}.")
    if len(life.marks) > DRAWN_MARKS:
        parts.append(
            "They are too many to draw: one mark stands for all of its kind within "
            f"{_duration(_window(life))} and shows the largest of them."
        )
    ended = human_bytes(life.total) if life.total else "nothing"
    parts.append(f"At the end {ended} was in use.")
    if life.unknown_frees:
        blocks = count_text(life.unknown_frees, "block", "blocks")
        parts.append(f"Left out: {blocks} from before the recording, freed during it.")
    return " ".join(parts)


def _limit_at(life: Life, time: int) -> int | None:
    return next((value for since, value in reversed(life.limits) if since <= time), None)


def _duration(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{nanoseconds} ns"


def _bands(life: Life) -> list[str]:
    """Returns the tags that have a colour of their own, largest first."""
    return [tag for tag, _ in sorted(life.peaks.items(), key=lambda item: (-item[1], item[0]))[:NAMED_TAGS]]


def thin(life: Life) -> tuple[list[int], list[list[int]]]:
    """Returns times, and the bytes of every band from each time on.

    The bands are the named tags, then the others. A long recording is reduced to the highest, the lowest and
    the last value of each chunk, so that no peak is lost.
    """
    bands = _bands(life)
    place = {tag: index for index, tag in enumerate(bands)}
    now = [0] * (len(bands) + (len(life.peaks) > len(bands)))
    size = max(1, -(-len(life.changes) // CHUNKS))
    times, rows = [0], [list(now)]
    kept: dict[str, tuple[int, int, list[int]]] = {}
    total = 0
    for count, (time, tag, more) in enumerate(life.changes, 1):
        now[place.get(tag, len(bands))] += more
        total += more
        if "high" not in kept or total > sum(kept["high"][2]):
            kept["high"] = count, time, list(now)
        if "low" not in kept or total < sum(kept["low"][2]):
            kept["low"] = count, time, list(now)
        if count % size == 0 or count == len(life.changes):
            kept["last"] = count, time, list(now)
            for _, moment, row in sorted({each[0]: each for each in kept.values()}.values()):
                times.append(moment)
                rows.append(row)
            kept.clear()
    return times, rows


def _spans(
    life: Life, ordered: Sequence[Mapping[str, Any]], phases: Sequence[tuple[str, int]]
) -> list[tuple[str, int, int]]:
    """Returns name, begin and end of each phase that has records."""
    spans, first = [], 0
    for name, end in phases:
        if end > first:
            begin, last = (int(ordered[place]["time_ns"]) - life.begin for place in (first, end - 1))
            spans.append((name, begin, last))
        first = max(first, end)
    return spans


def _data(life: Life, spans: list[tuple[str, int, int]]) -> dict[str, Any]:
    times, rows = thin(life)
    others = len(life.peaks) - NAMED_TAGS
    names = [_name(tag) for tag in _bands(life)] + ([_others(others)] if others > 0 else [])
    return {
        "names": names,
        "times": times,
        "rows": rows,
        "end": life.end,
        "limits": life.limits,
        "peak": [life.peak_time, life.peak],
        "marks": [
            [
                mark.time,
                mark.event,
                mark.bytes,
                _name(mark.tag),
                mark.total,
                mark.outcome,
                mark.account,
                mark.limit,
                count,
            ]
            for mark, count in select_marks(life)
        ],
        "words": MARKS,
        "spans": spans,
        "children": sorted(life.children.items()),
        "levels": [(name, thin_level(life.levels[name])) for name in LEVELS if life.levels.get(name)],
    }


def select_marks(life: Life) -> list[tuple[Mark, int]]:
    """Returns the marks to draw, each with the number of marks that it combines."""
    if len(life.marks) <= DRAWN_MARKS:
        return [(mark, 1) for mark in life.marks]
    window = _window(life)
    groups: dict[tuple[int, str], list[Mark]] = {}
    for mark in life.marks:
        groups.setdefault((mark.time // window, mark.event), []).append(mark)
    largest = [(max(group, key=lambda mark: mark.bytes), len(group)) for group in groups.values()]
    return sorted(largest, key=lambda each: each[0].time)


def _window(life: Life) -> int:
    return life.end // MARK_WINDOWS + 1


def _name(tag: str) -> str:
    return tag or "(untagged)"


def _others(count: int) -> str:
    return f"other ({count_text(count, 'tag', 'tags')})"


def _legend(life: Life) -> Iterator[str]:
    bands = _bands(life)
    rows = [(_name(tag), life.peaks[tag], life.final[tag]) for tag in bands]
    others = [tag for tag in life.peaks if tag not in bands]
    if others:
        final = sum(life.final[tag] for tag in others)
        rows.append((_others(len(others)), _peak_together(life, frozenset(others)), final))
    for index, (name, peak, final) in enumerate(rows):
        colour = f"c{index}" if index < len(bands) else "other"
        yield (
            f'<tr><th scope="row"><i class="{colour}"></i>{escape(name)}</th><td data-now="{index}"></td>'
            f"<td>{human_bytes(peak)}</td><td>{human_bytes(final)}</td></tr>"
        )
    yield (
        '<tr class="sum"><th scope="row"><i></i>together</th><td data-now="sum"></td>'
        f"<td>{human_bytes(life.peak)}</td><td>{human_bytes(life.total)}</td></tr>"
    )


def _peak_together(life: Life, tags: frozenset[str]) -> int:
    return max(accumulate(more for _, tag, more in life.changes if tag in tags))


def _level_list(life: Life) -> str:
    """Lists the lines drawn beside the bytes in use: levels of the device and limits of child budgets."""
    rows = [
        (f"level {name}", text, max(value for _, value in life.levels[name]), life.levels[name][-1][1])
        for name, text in LEVELS.items()
        if life.levels.get(name)
    ]
    for name, limits in sorted(life.children.items()):
        known = [value for _, value in limits if value is not None]
        if known:
            rows.append(("level child", f"limit of the child budget {name}", max(known), limits[-1][1] or 0))
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row"><i class="{style}"></i>{escape(text)}</th><td>{human_bytes(most)}</td>'
        f"<td>{human_bytes(last)}</td></tr>"
        for style, text, most, last in rows
    )
    head = '<tr><th scope="row">line</th><th>most</th><th>at the end</th></tr>'
    return (
        '<h2>Beside them</h2><div class="scroll"><table>'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _phase_list(spans: Sequence[tuple[str, int, int]]) -> str:
    """Lists all phases with their names. The picture shows only the number of a narrow phase."""
    if not spans:
        return ""
    body = "".join(
        f"<tr><td>{number}</td><td>{escape(name)}</td>"
        f"<td>{_duration(begin)}</td><td>{_duration(end - begin)}</td></tr>"
        for number, (name, begin, end) in enumerate(spans, 1)
    )
    head = "<tr><th></th><th>phase</th><th>after</th><th>for</th></tr>"
    return (
        '<h2>Phases</h2><div class="scroll"><table class="phases">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _mark_list(life: Life) -> str:
    if not life.marks:
        return "<p>No request was refused, nothing failed and nothing was trimmed.</p>"
    rows = [
        f"<tr><td>{_duration(mark.time)}</td>"
        f'<td><i class="mark {mark.event}"></i>{escape(MARKS[mark.event])}</td>'
        f"<td>{human_bytes(mark.bytes)}</td><td>{escape(_subject(mark))}</td>"
        f"<td>{'' if mark.outcome == 'ok' else escape(mark.outcome)}</td></tr>"
        for mark in life.marks[:LISTED_MARKS]
    ]
    more = len(life.marks) - LISTED_MARKS
    where = (
        "all of them in the picture" if len(life.marks) <= DRAWN_MARKS else "drawn together in the picture"
    )
    rest = f"<p>And {more:,} more, {where}.</p>" if more > 0 else ""
    head = "<tr><th>after</th><th>what</th><th>bytes</th><th>tag or hook</th><th>why</th></tr>"
    return f'<table class="marks"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>{rest}'


def _subject(mark: Mark) -> str:
    return "" if mark.event == "trim" else _name(mark.tag)


def _as_script(data: Any) -> str:
    """Returns JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
