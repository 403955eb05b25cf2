"""What notebooks show: rows, types, sizes and the place of the memory, bounded and escaped."""

from __future__ import annotations

import re

import numpy as np
import pytest

import saeta as sa


def trips(host):
    return sa.table({"fare": [12.5, None, 9.5], "city": ["Lyon", "Bern", None]}, host)


def rows_of(html):
    """Returns the texts of the cells of each row."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html)
    return [
        [re.sub(r"<[^>]*>", " ", cell).split() for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in rows
    ]


def test_a_table_shows_rows_as_rows(host):
    table = trips(host)
    assert rows_of(table._repr_html_()) == [
        [["fare", "double"], ["city", "string"]],
        [["12.5"], ["Lyon"]],
        [["null"], ["Bern"]],
        [["9.5"], ["null"]],
    ]
    assert "on host: 3 rows x 2 columns" in table._repr_html_()
    assert "in use on host, budget no limit" in table._repr_html_()


def test_a_large_table_is_bounded(host):
    wide = sa.table({f"c{number}": np.arange(1000) for number in range(50)}, host)
    html = wide._repr_html_()
    assert len(rows_of(html)) == 6
    assert {len(row) for row in rows_of(html)} == {20}
    assert "… and 995 rows and 30 columns more" in html
    assert len(html) < 20_000
    assert "more" not in sa.table({"a": [1] * 5}, host)._repr_html_()
    assert rows_of(sa.table({}, host)._repr_html_()) == [[]]


def test_a_column_shows_its_first_rows(host):
    column = sa.column([1, None, 3, 4, 5, 6, 7], host, name="n", type="int8")
    html = column._repr_html_()
    assert rows_of(html) == [[["1"]], [["null"]], [["3"]], [["4"]], [["5"]]]
    assert "&#x27;n&#x27;: int8 on host, 7 rows" in html
    assert "… and 2 rows more" in html


def test_a_context_and_its_memory_show_what_is_in_use(host):
    with host.memory.child("query", limit="1MiB") as query:
        held = query.allocate(512 << 10, tag="<mine>")
        for html in (query._repr_html_(), query.memory._repr_html_()):
            assert "512 KiB of 1 MiB" in html
            assert "width: 50.0%" in html
            assert "&lt;mine&gt;" in html
        assert "<b>saeta.Context</b> host" in query._repr_html_()
        assert "<b>saeta.Memory</b> of host" in query.memory._repr_html_()
        del held
    assert "closed" in query._repr_html_()


def test_a_scan_shows_its_columns_and_takes_no_batch(host):
    table = trips(host)
    content = table.to_ipc_bytes()
    with sa.scan_ipc(content, table.context) as scan:
        html = scan._repr_html_()
        assert rows_of(html) == [[["batches"], ["1"]], [["fare"], ["double"]], [["city"], ["string"]]]
        assert next(scan).num_rows == 3


def test_a_loader_shows_its_order_and_place(host):
    rows = sa.table({"x": np.arange(10)}, host)
    loader = sa.loader(rows, host, batch_size=4, shuffle="rows", seed=3, to="numpy")
    next(iter(loader))
    html = loader._repr_html_()
    for text in ("3 of 4 rows", "shuffled rows, seed 3", "epoch 0, 1 batches taken", "int64"):
        assert text in html
    changed = sa.loader(rows, host, batch_size=4, transform=lambda table: table, to="numpy")
    assert "10 before transform" in changed._repr_html_()


def test_a_token_and_a_spilled_table_show_where_the_memory_is(host, tmp_path):
    table = sa.table({"x": np.arange(1000)}, host)
    token = table.share()
    assert "the host" in token._repr_html_()
    assert "this process" in token._repr_html_()
    host.spill_dir = tmp_path
    handle = host.spillable(table)
    assert "on the tier device" in handle._repr_html_()
    del table, token
    handle.spill()
    assert "on the tier file" in handle._repr_html_()
    handle.close()
    assert "closed" in handle._repr_html_()
    host.spill_dir = None


def test_names_and_values_are_escaped_and_bounded(host):
    html = sa.table({"<b>" + "n" * 500: ["<script>" + "x" * 500]}, host)._repr_html_()
    assert "<script>" not in html
    assert "<b>n" not in html
    assert len(html) < 2000


@pytest.mark.parametrize("of", ["table", "column", "context", "memory"])
def test_light_and_dark_pages_give_the_colours(host, of):
    """Styles are inline, and name no colour but a grey with an opacity."""
    table = trips(host)
    shown = {
        "table": table,
        "column": table["fare"],
        "context": table.context,
        "memory": table.context.memory,
    }
    html = shown[of]._repr_html_()
    assert "<style" not in html
    assert set(re.findall(r"(?:#[0-9a-f]{3,6}\b|rgba?\([^)]*\))", html)) <= {"rgba(128, 128, 128, 0.4)"}
    assert not re.search(r"(?<![-\w])color:|background:\s*(?!currentColor)", html)
