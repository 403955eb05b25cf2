"""Exported slices and selections carry only the bytes and child rows that their rows refer to."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import DEVICES, contexts_of, simulator

ROWS = 4000
TEXTS = [f"letter {row:08d}, longer than twelve bytes" for row in range(ROWS)]


def made(name):
    """Returns a column of a layout whose rows refer to values by offset (views, list views, unions), nested
    or not."""
    texts = pa.array(TEXTS)
    views = texts.cast(pa.string_view())
    lists = pa.array([[row] * 5 for row in range(ROWS)], pa.list_view(pa.int64()))
    starts = pa.array(range(ROWS + 1), pa.int32())
    numbers = pa.array(range(ROWS))
    return {
        "string_view": lambda: views,
        "binary_view": lambda: texts.cast(pa.binary()).cast(pa.binary_view()),
        "list_view": lambda: lists,
        "large_list_view": lambda: pa.array(
            [[row] * 5 for row in range(ROWS)], pa.large_list_view(pa.int64())
        ),
        "list_view of views": lambda: pa.ListViewArray.from_arrays(
            pa.array(range(ROWS), pa.int32()), pa.array([1] * ROWS, pa.int32()), views
        ),
        "list of views": lambda: pa.ListArray.from_arrays(starts, views),
        "struct": lambda: pa.StructArray.from_arrays([numbers, views], ["n", "t"]),
        "map": lambda: pa.MapArray.from_arrays(starts, numbers, views),
        "fixed_size_list": lambda: pa.FixedSizeListArray.from_arrays(views, 1),
        "dense_union": lambda: pa.UnionArray.from_dense(
            pa.array([row % 2 for row in range(ROWS)], pa.int8()),
            pa.array([row // 2 for row in range(ROWS)], pa.int32()),
            [texts, views],
        ),
        "with nulls": lambda: pa.array(
            [None if row % 3 == 1 else TEXTS[row] for row in range(ROWS)], pa.string_view()
        ),
    }[name]()


NAMES = [
    "string_view",
    "binary_view",
    "list_view",
    "large_list_view",
    "list_view of views",
    "list of views",
    "struct",
    "map",
    "fixed_size_list",
    "dense_union",
    "with nulls",
]
CHOICES = {
    "slice": lambda table: table[1000:1007],
    "take": lambda table: table.take([3999, 5, 5, 1000, 0]),
    "filter": lambda table: table.filter(np.arange(ROWS) % 1000 == 7),
    "two parts": lambda table: sa.concat_tables([table[3:5], table[3990:3991]]),
}


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


@pytest.fixture(params=NAMES)
def whole(request, ctx):
    return sa.from_arrow(pa.table({"a": made(request.param)}), ctx)


def written(table):
    target = io.BytesIO()
    with sa.ipc_writer(target) as to:
        to.write(table)
    return target.getvalue()


# Functions that export a table. Each returns the number of bytes and the table read from them.
WAYS = {
    "pickle": lambda table: (len(pickle.dumps(table)), pickle.loads(pickle.dumps(table))),
    "pack": lambda table: (len(table.pack().body), sa.unpack(*table.pack())),
    "to_ipc_bytes": lambda table: (len(table.to_ipc_bytes()), sa.read_ipc(table.to_ipc_bytes(), "host")),
    "ipc_writer": lambda table: (len(written(table)), sa.read_ipc(written(table), "host")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("choice", CHOICES)
def test_few_rows_are_exported_without_unreferenced_bytes(whole, choice, way):
    few = CHOICES[choice](whole)
    size, arrived = WAYS[way](few)
    assert size < whole.nbytes / 20
    assert arrived.to_pylist() == few.to_pylist()
    assert arrived.schema.field("a").type == few.schema.field("a").type


def held(ctx):
    statistics = ctx.memory.statistics()
    return statistics["current"] + statistics["external"]


def test_few_rows_are_moved_to_another_device_without_unreferenced_bytes(whole):
    few = whole.take([3999, 5, 1000])
    other = simulator().Device(1)
    for target in {sa.context("host"), other.context} - {whole.context}:
        before = held(target)
        there = few.to(target)
        assert held(target) - before < whole.nbytes / 20
        assert there.to_pylist() == few.to_pylist()
    assert other.races == []


def test_few_rows_are_shared_and_spilled_without_unreferenced_bytes(whole):
    few = whole.take([3999, 5, 1000])
    if whole.context == sa.context("host"):  # the simulated device can't share its memory
        assert few.share().nbytes < whole.nbytes / 20
    assert few.context.spillable(few).nbytes < whole.nbytes / 20


def test_few_rows_are_downloaded_without_unreferenced_bytes():
    for ctx in contexts_of("sim"):
        table = sa.from_arrow(pa.table({"a": made("string_view")}), ctx)
        downloaded = table.take([3999, 5]).to_arrow()
        assert downloaded.get_total_buffer_size() < table.nbytes / 20
        assert downloaded.to_pylist() == [{"a": TEXTS[3999]}, {"a": TEXTS[5]}]


def test_dictionary_values_are_exported_without_unreferenced_bytes(ctx):
    values = sa.from_arrow(pa.table({"v": made("string_view")}), ctx).take([7, 3000])["v"]
    codes = pa.array([1, 0, 1, None], pa.int8())
    source = pa.DictionaryArray.from_arrays(codes, values.to_arrow().combine_chunks())
    few = sa.from_arrow(pa.table({"a": source, "b": source}), ctx)
    assert len(pickle.dumps(few)) < 8_000
    assert len(few.to_ipc_bytes()) < 8_000
    for arrived in (pickle.loads(pickle.dumps(few)), sa.read_ipc(few.to_ipc_bytes(), "host")):
        assert arrived.to_pylist() == few.to_pylist()


def test_a_dictionary_keeps_all_its_values(ctx):
    words = pa.array(TEXTS)
    source = pa.DictionaryArray.from_arrays(pa.array(range(ROWS), pa.int16()), words)
    few = sa.from_arrow(pa.table({"a": source}), ctx)[5:7]
    arrived = pickle.loads(pickle.dumps(few))
    assert arrived["a"].to_arrow().chunk(0).dictionary.equals(words)


def test_rows_that_refer_to_most_bytes_are_packed_without_a_copy(ctx):
    table = sa.unpack(*sa.from_arrow(pa.table({"a": made("string_view")}), ctx).pack())
    address = table["a"].address
    again = sa.unpack(*table.pack())
    assert again["a"].address == address


def test_bytes_shared_by_several_batches_are_packed_once(ctx):
    whole = sa.from_arrow(pa.table({"a": made("string_view")}), ctx)
    parts = sa.concat_tables([whole.take(np.arange(0, ROWS, 3)) for _ in range(9)])
    assert len(parts.pack().body) < 2 * whole.nbytes + 9 * 16 * ROWS // 3


def test_without_room_for_a_compact_copy_all_bytes_are_exported():
    for ctx in contexts_of("sim"):
        table = sa.unpack(*sa.from_arrow(pa.table({"a": made("string_view")}), ctx).pack())
        few = table[:1900]
        ctx.synchronize()
        ctx.memory.trim()
        ctx.memory.limit = ctx.memory.statistics()["current"] + 1000
        assert sa.read_ipc(few.to_ipc_bytes(), "host").to_pylist() == few.to_pylist()
        ctx.memory.limit = None
