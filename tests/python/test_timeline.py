"""The timeline page: its contents, thinning of long recordings, and escaping of texts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import saeta as sa
from saeta._report import timeline
from timeline_records import MIB, block, record


class Reader(HTMLParser):
    """Parses a page: texts by element, elements by name, and all URLs that a browser would fetch."""

    def __init__(self, page):
        super().__init__()
        self.open, self.text, self.names, self.fetched = [], {}, [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names.append(tag)
        self.open.append((tag, attributes.get("id")))
        self.fetched += [value for key, value in attrs if key in ("src", "href")]

    def handle_data(self, data):
        for place in self.open:
            self.text[place] = self.text.get(place, "") + data

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass


def written(path, records, **options):
    timeline.write(path, records, title=options.pop("title", "a test"), **options)
    page = path.read_text(encoding="utf-8")
    reader = Reader(page)
    return page, reader, json.loads(reader.text["script", "data"])


def test_bytes_by_tag_peak_and_end(tmp_path):
    _, reader, data = written(
        tmp_path / "page.html",
        [
            block(1, "allocate", 1, 30 * MIB, "left"),
            block(2, "allocate", 2, 20 * MIB, "right"),
            block(3, "free", 1, 30 * MIB, "left"),
            block(4, "allocate", 3, 5 * MIB, "left"),
        ],
    )
    assert data["names"] == ["left", "right"]
    assert data["rows"][-1] == [5 * MIB, 20 * MIB]
    assert data["peak"] == [1000, 50 * MIB]
    summary = reader.text["p", "summary"]
    assert "The most was 50 MiB" in summary
    assert "of a budget of 100 MiB" in summary
    assert "At the end 25 MiB was in use" in summary


def test_order_of_the_list_does_not_matter(tmp_path):
    records = [block(1, "allocate", 1, MIB), block(2, "allocate", 2, MIB), block(3, "free", 1, MIB)]
    straight = written(tmp_path / "a.html", records)[2]
    assert written(tmp_path / "b.html", records[::-1])[2] == straight


def test_a_reused_address_is_another_block():
    again = record(3, "allocate", bytes=7, address=4096, generation=2, tag="b")
    late = [block(1, "allocate", 1, 5, "a"), again, block(4, "free", 1, 5, "a")]
    life = timeline.read(late)
    assert (life.final["a"], life.final["b"]) == (0, 7)


def test_frees_of_unknown_blocks_are_ignored_and_reported(tmp_path):
    _, reader, data = written(
        tmp_path / "page.html", [block(1, "free", 9, 50 * MIB), block(2, "allocate", 1, MIB)]
    )
    assert min(sum(row) for row in data["rows"]) == 0
    assert "Left out: 1 block from before the recording" in reader.text["p", "summary"]


def test_refusals_and_trims_are_marked_with_the_requested_bytes(tmp_path):
    _, reader, data = written(
        tmp_path / "page.html",
        [
            block(1, "allocate", 1, 60 * MIB),
            record(2, "refuse", bytes=50 * MIB, tag="join", outcome="no room"),
            record(3, "trim", bytes=3 * MIB),
            record(4, "relief", bytes=2 * MIB, tag="torch cache", account="", limit=0),
            record(5, "drain", bytes=1, account="", limit=0),
        ],
    )
    assert [mark[1:5] for mark in data["marks"]] == [
        ["refuse", 50 * MIB, "join", 60 * MIB],
        ["trim", 3 * MIB, "(untagged)", 60 * MIB],
        ["relief", 2 * MIB, "torch cache", 60 * MIB],
    ]
    summary = reader.text["p", "summary"]
    assert "Marked: 1 request was refused, 1 trim, 1 call of a pressure hook." in summary
    assert data["limits"] == [[0, 100 * MIB]]


def test_the_budget_is_a_line_that_follows_its_limit_and_not_that_of_a_child():
    life = timeline.read(
        [
            record(1, "allocate", limit=10),
            record(2, "allocate", account="query", limit=3),
            record(3, "allocate", limit=20),
            record(4, "allocate", limit=timeline.UNLIMITED),
        ],
        limit=99,
    )
    assert life.limits == [(0, 10), (2000, 20), (3000, None)]


def test_records_without_a_limit_use_the_given_one():
    assert timeline.read([record(1, "allocate", limit=None)], limit=99).limits == [(0, 99)]
    assert timeline.read([record(1, "allocate", limit=None)]).limits == [(0, None)]


def test_many_tags_are_named_by_size_and_the_rest_is_other(tmp_path):
    tags = 12
    records = [block(n, "allocate", n, n * MIB, f"tag{n}") for n in range(1, tags + 1)]
    _, reader, data = written(tmp_path / "page.html", records)
    assert data["names"] == [f"tag{n}" for n in range(12, 4, -1)] + ["other (4 tags)"]
    assert data["rows"][-1][-1] == (1 + 2 + 3 + 4) * MIB
    assert "other (4 tags)" in reader.text["tbody", None]


def test_a_long_recording_is_thinned_without_losing_peaks_or_marks(tmp_path):
    records, order = [], 0
    for number in range(40_000):
        size = 90 * MIB if number == 23_456 else MIB
        records += [block(order + 1, "allocate", number, size), block(order + 2, "free", number, size)]
        order += 2
        if number % 1000 == 0:
            order += 1
            records.append(record(order, "refuse", bytes=number))
    _, _, data = written(tmp_path / "page.html", records)
    assert len(data["times"]) <= 3 * timeline.CHUNKS + 1
    assert data["times"] == sorted(data["times"])
    assert max(sum(row) for row in data["rows"]) == data["peak"][1] == 90 * MIB
    assert data["rows"][-1] == [0]
    assert len(data["marks"]) == 40
    assert {mark[8] for mark in data["marks"]} == {1}
    assert (tmp_path / "page.html").stat().st_size < 1_000_000


def test_too_many_marks_are_combined_and_the_page_says_so(tmp_path):
    records = [record(1, "trim", bytes=7)]
    sizes = {order: 90_000 if order == 34_567 else order for order in range(2, 60_002)}
    records += [record(order, "refuse", bytes=size, tag="greedy") for order, size in sizes.items()]
    _, reader, data = written(tmp_path / "page.html", records)
    refused = [mark for mark in data["marks"] if mark[1] == "refuse"]
    assert len(data["marks"]) <= len(timeline.MARKS) * timeline.MARK_WINDOWS
    assert sum(mark[8] for mark in refused) == 60_000, "combined marks must keep the total count"
    assert max(refused, key=lambda mark: mark[2])[:3] == [34_566 * 1000, "refuse", 90_000]
    assert [mark[8] for mark in data["marks"] if mark[1] == "trim"] == [1], "kinds are not mixed"
    assert [mark[0] for mark in data["marks"]] == sorted(mark[0] for mark in data["marks"])
    summary = reader.text["p", "summary"]
    assert "60,000 requests were refused" in summary
    assert "one mark stands for all of its kind within 120 µs" in summary
    assert (tmp_path / "page.html").stat().st_size < 200_000


def test_marks_up_to_the_maximum_are_drawn_individually(tmp_path):
    records = [record(order, "refuse", bytes=order) for order in range(1, timeline.DRAWN_MARKS + 1)]
    _, reader, data = written(tmp_path / "page.html", records)
    assert len(data["marks"]) == timeline.DRAWN_MARKS
    assert "too many" not in reader.text["p", "summary"]


HOSTILE = '</script><img src=x onerror="alert(1)"><!-- & {{data}} \u2028 \\'


def test_texts_are_escaped_in_the_page(tmp_path):
    harmless = [block(1, "allocate", 1, 1), record(2, "refuse", tag="a", account="child", outcome="no room")]
    _, plain, _ = written(tmp_path / "plain.html", harmless, phases=[("a phase", 2)])
    page, reader, data = written(
        tmp_path / "hostile.html",
        [
            block(1, "allocate", 1, 1, HOSTILE),
            record(2, "refuse", tag=HOSTILE, outcome=HOSTILE, account=HOSTILE),
        ],
        title=HOSTILE,
        phases=[(HOSTILE, 2)],
    )
    assert reader.names == plain.names
    assert reader.text["h1", None] == HOSTILE
    assert data["names"] == [HOSTILE]
    assert data["spans"][0][0] == HOSTILE
    assert "<img" not in page


def test_the_page_loads_no_other_file(tmp_path):
    page, reader, _ = written(tmp_path / "page.html", [block(1, "allocate", 1, 1)])
    assert reader.fetched == []
    assert not re.search(r"@import|url\(|fetch\(|import\(", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\{\{\w+\}\}", page)


def test_empty_phases_are_omitted(tmp_path):
    records = [block(1, "allocate", 1, 1), block(2, "allocate", 2, 1), block(3, "free", 2, 1)]
    data = written(tmp_path / "page.html", records, phases=[("look", 0), ("read", 2), ("nap", 2), ("go", 3)])[
        2
    ]
    assert data["spans"] == [["read", 0, 1000], ["go", 2000, 2000]]


def test_limits_of_children_are_separate_lines(tmp_path):
    _, reader, data = written(
        tmp_path / "page.html",
        [
            record(1, "allocate", account="query", limit=3 * MIB),
            record(2, "allocate", account="other", limit=timeline.UNLIMITED),
            record(3, "allocate", account="query", limit=5 * MIB),
        ],
    )
    assert data["children"] == [["other", [[0, None]]], ["query", [[0, 3 * MIB], [2000, 5 * MIB]]]]
    assert "limit of the child budget query" in reader.text["tbody", None]
    assert "child budget other" not in reader.text["tbody", None]


def test_reserved_held_and_external_bytes_are_lines(tmp_path):
    view = {"address": 9, "generation": 5, "account": "", "limit": 0}
    _, reader, data = written(
        tmp_path / "page.html",
        [
            record(1, "allocate", bytes=MIB, generation=1, reserved=2 * MIB, held=4 * MIB),
            record(2, "adopt", bytes=3 * MIB, **view),
            record(3, "drain", account="", limit=0),
            record(4, "trim", reserved=2 * MIB, held=MIB),
            record(5, "release", bytes=3 * MIB, **view),
            record(6, "release", bytes=7 * MIB, address=1, generation=2, account="", limit=0),
        ],
    )
    assert dict(data["levels"]) == {
        "held": [[0, 4 * MIB], [3000, MIB]],
        "reserved": [[0, 2 * MIB]],
        "external": [[1000, 3 * MIB], [4000, 0]],
    }
    assert data["rows"][-1] == [MIB], "a view of foreign memory is not in use"
    assert "external: views of the memory of others3 MiB0 B" in reader.text["tbody", None]


def test_a_long_line_is_thinned_without_losing_its_peak():
    changes = [(time, 90 if time == 12_345 else time % 7) for time in range(40_000)]
    kept = timeline.thin_level(changes)
    assert len(kept) <= 2 * timeline.CHUNKS
    assert (12_345, 90) in kept
    assert kept[-1] == changes[-1]
    assert kept == sorted(kept)


def test_every_phase_is_listed_with_its_name(tmp_path):
    records = [block(n, "allocate", n, 1) for n in range(1, 30)]
    phases = [(f"phase {n}", n) for n in range(1, 30)]
    _, reader, _ = written(tmp_path / "page.html", records, phases=phases)
    assert all(f"phase {n}" in reader.text["tbody", None] for n in range(1, 30))


STUB_OF_A_BROWSER = """
class Element {
  constructor(name) {
    this.name = name; this.attributes = {}; this.children = []; this.style = {};
    this.clientWidth = 1000; this.textContent = "";
  }
  setAttribute(key, value) { this.attributes[key] = value; }
  append(...parts) { this.children.push(...parts); }
  replaceChildren(...parts) { this.children = parts.flatMap(part => part.fragment ? part.children : [part]); }
  addEventListener() {}
}
const places = {
  data: new Element("script"), picture: new Element("svg"), tip: new Element("div"),
  reset: new Element("button"), over: new Element("g"),
};
globalThis.document = {
  getElementById: id => places[id], querySelectorAll: () => [], createElement: name => new Element(name),
  createElementNS: (_, name) => new Element(name),
  createDocumentFragment: () => Object.assign(new Element("#"), { fragment: true }),
};
globalThis.ResizeObserver = class { observe() {} };
places.data.textContent = process.argv[2];
"""


def drawn(page, data, tmp_path):
    """Runs the page's script in Node.js. Returns the elements that it draws, as (name, attributes, text)."""
    script = re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    end = (
        "console.log(JSON.stringify(places.picture.children.map("
        "e => [e.name, e.attributes, e.textContent])));"
    )
    program = tmp_path / "page.mjs"
    program.write_text(STUB_OF_A_BROWSER + script + end, encoding="utf-8")
    done = subprocess.run(
        ["node", program, json.dumps(data)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run the script of the page")
def test_the_script_draws_lines_and_the_labels_of_narrow_phases(tmp_path):
    records = [record(1, "allocate", bytes=MIB, generation=1, held=2 * MIB, account="query", limit=3 * MIB)]
    records += [
        record(order, "allocate", bytes=1, generation=order, held=2 * MIB) for order in range(2, 1000)
    ]
    phases = [("a short beginning", 3), ("another short one", 6), ("the rest", 999)]
    page, _, data = written(tmp_path / "page.html", records, phases=phases)
    elements = drawn(page, data, tmp_path)
    texts = [text for name, _, text in elements if name == "text"]
    assert {"a short beginning", "another short one", "the rest", "query: 3 MiB"} <= set(texts)
    rows = [
        attributes["y"]
        for name, attributes, text in elements
        if text in {"a short beginning", "another short one"}
    ]
    assert len(set(rows)) == 2, "labels must not overlap"
    levels = {
        attributes["class"]: attributes["d"]
        for name, attributes, _ in elements
        if name == "path" and "level" in attributes["class"]
    }
    assert levels["level held"].startswith("M")
    assert levels["level child"].startswith("M")


def test_an_empty_recording_makes_a_page(tmp_path):
    _, reader, data = written(tmp_path / "page.html", [])
    assert reader.text["p", "summary"] == "Nothing was recorded."
    assert data["times"] == [0]


def test_durations_have_a_unit():
    shown = {
        999: "999 ns",
        1500: "1.50 µs",
        12_345_678: "12.3 ms",
        999_900_000: "1,000 ms",
        75 * 10**9: "75.0 s",
    }
    assert {time: timeline._duration(time) for time in shown} == shown


def test_a_timeline_accepts_only_a_recording(host, tmp_path):
    with pytest.raises(sa.TypeMismatch, match="recording is of type list, expected a MemoryRecording"):
        host.memory.timeline(tmp_path / "page.html", [])
    assert list(tmp_path.iterdir()) == []


def test_a_real_recording_shows_its_tags_and_its_refusal(host, tmp_path):
    with host.memory.record() as recording:
        kept = host.allocate(MIB, tag="kept")
        host.memory.limit = 4 * MIB
        with pytest.raises(sa.BudgetExceeded):
            host.allocate(8 * MIB, tag="too much")
        dropped = host.allocate(2 * MIB, tag="dropped")
        del dropped
        host.synchronize()
    phases = [("all of it", len(recording.records()))]
    host.memory.timeline(tmp_path / "page.html", recording, phases=phases)
    data = json.loads(Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text["script", "data"])
    assert data["names"] == ["dropped", "kept"]
    assert data["rows"][-1] == [0, MIB]
    assert [mark[1:4] for mark in data["marks"] if mark[1] == "refuse"] == [["refuse", 8 * MIB, "too much"]]
    assert data["limits"][-1][1] == 4 * MIB
    assert [name for name, _, _ in data["spans"]] == ["all of it"]
    del kept


def test_a_real_recording_shows_reservations_views_and_the_limit_of_a_child(host, tmp_path):
    with host.memory.record() as recording:
        with host.memory.reserve(2 * MIB) as reserved, host.memory.child("query", 3 * MIB) as child:
            drawn_from = reserved.allocate(MIB // 2)
            kept = child.allocate(MIB)
        view = sa.from_dlpack(np.arange(100), host)
        del view
    life = timeline.read(recording.records())
    assert life.children["query"] == [(0, 3 * MIB)]
    assert life.levels["reserved"][0][1] == 2 * MIB - MIB // 2
    assert max(value for _, value in life.levels["held"]) >= MIB + MIB // 2
    assert [value for _, value in life.levels["external"]] == [800, 0]
    del drawn_from, kept


def test_the_demo_draws_its_reads_and_its_refusal(tmp_path):
    for needed in ("typer", "rich", "numpy", "pyarrow", "saeta._ipc"):
        pytest.importorskip(needed)
    page = tmp_path / "demo.html"
    demo = [
        sys.executable,
        "-m",
        "saeta",
        "demo",
        "--device",
        "host",
        "--rows",
        "2000",
        "--timeline",
        str(page),
    ]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    data = json.loads(Reader(page.read_text(encoding="utf-8")).text["script", "data"])
    assert [mark[1] for mark in data["marks"]].count("refuse") == 1
    assert "read under a budget" in [name for name, _, _ in data["spans"]]
    assert data["peak"][1] > 0
    assert sum(data["rows"][-1]) == 0
