"""Joining columns of many chunks: Saeta joins what pyarrow joins, and tensor exports join chunks first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from arrow_data import arrays, nested, nested_twice


def chunked(*values, type=None):  # noqa: A002
    return pa.chunked_array([pa.array(each, type) for each in values], type)


def in_pieces(table, rows):
    return pa.Table.from_batches(table.to_batches(max_chunksize=rows))


@pytest.fixture
def people():
    return pa.table(
        {
            "n": pa.array([1, None, 3, 4, None, 6, 7], pa.int32()),
            "name": ["a", None, "", "d" * 50, "e", "f", "g"],
            "tags": [["x"], None, [], ["y", None], ["z"], [], ["w"]],
            "ok": [True, None, False, True, True, False, None],
            "kind": pa.array(["p", "q", "p", None, "q", "p", "r"]).dictionary_encode(),
            "at": pa.array([{"x": 1.5, "y": None}, None, {"x": 2.0, "y": "s"}] * 2 + [None]),
        }
    )


def test_a_table_becomes_one_batch(anywhere, people):
    table = sa.table(in_pieces(people, 2), anywhere)
    assert table["n"].num_chunks == 4
    whole = table.combine_chunks()
    assert [column.num_chunks for column in whole.columns] == [1] * 6
    assert whole.to_arrow().combine_chunks().equals(people.combine_chunks())
    assert whole["n"].null_count == 2


def test_a_column_becomes_one_chunk(anywhere):
    column = sa.from_arrow(chunked([1, 2], [], [None, 4], type=pa.int64()), anywhere)
    whole = column.combine_chunks()
    assert whole.num_chunks == 1
    assert whole.to_pylist() == [1, 2, None, 4]
    assert whole.field == column.field


def test_one_chunk_is_not_copied(anywhere):
    column = sa.from_arrow(pa.array([1, 2, 3]), anywhere)
    assert column.combine_chunks().address == column.address
    table = sa.table({"a": column}, anywhere)
    assert table.combine_chunks()["a"].address == column.address


def test_columns_without_chunks_and_tables_without_columns_or_rows(anywhere):
    empty = sa.from_arrow(pa.chunked_array([], pa.string()), anywhere)
    assert empty.combine_chunks().to_pylist() == []
    no_rows = sa.table(pa.table({"a": pa.array([], pa.int8())}), anywhere)
    assert no_rows.combine_chunks().num_rows == 0
    no_columns = sa.table(pa.table({"a": [1, 2]}).select([]), anywhere)
    assert no_columns.combine_chunks().num_rows == 2


def test_different_dictionaries_are_united(anywhere):
    chunks = [pa.array(["b", "a", None]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    whole = sa.from_arrow(pa.chunked_array(chunks), anywhere).combine_chunks()
    assert whole.num_chunks == 1
    assert whole.to_pylist() == ["b", "a", None, "c", "a"]
    assert pa.array(whole.to_arrow().chunk(0).dictionary).to_pylist() == ["b", "a", "c"]


def test_chunks_are_joined_until_dictionary_indices_overflow(anywhere):
    def encoded(first, last):
        values = pa.array(range(first, last), pa.int64())
        return pa.DictionaryArray.from_arrays(pa.array(range(last - first), pa.int8()), values)

    source = pa.chunked_array([encoded(0, 100), encoded(50, 120), encoded(200, 210)])
    whole = sa.from_arrow(source, anywhere).combine_chunks()
    assert [len(chunk) for chunk in whole.chunks] == [170, 10]
    assert whole.to_pylist() == [*range(100), *range(50, 120), *range(200, 210)]


def test_the_result_is_charged_to_the_budget(anywhere):
    small = anywhere.memory.child("small", 40_000)
    held = sa.from_arrow(pa.chunked_array([np.zeros(2000), np.zeros(2000)]), small, copy=True)
    with pytest.raises(sa.BudgetExceeded):
        held.combine_chunks()
    assert held.num_chunks == 2
    before = small.memory.statistics()["current"]
    half = held.slice(1900, 200).combine_chunks()
    assert half.num_chunks == 1
    assert small.memory.statistics()["current"] - before == 1600


def test_columns_of_other_libraries_are_joined(anywhere):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"s": ["a", None, "c" * 20], "c": ["x", "y", None]}, schema_overrides={"c": polars.Categorical}
    )
    table = sa.concat_tables(
        [sa.table(frame, anywhere), sa.table(frame[1:], anywhere), sa.table(frame, anywhere)]
    )
    assert table["s"].num_chunks == 3
    whole = table.combine_chunks()
    assert whole["s"].to_pylist() == ["a", None, "c" * 20, None, "c" * 20, "a", None, "c" * 20]
    assert whole["c"].to_pylist() == ["x", "y", None, "y", None, "x", "y", None]


def test_ten_thousand_small_batches(anywhere):
    batches = [pa.record_batch({"i": [i, None], "s": [str(i), ""]}) for i in range(10_000)]
    table = sa.table(pa.Table.from_batches(batches), anywhere)
    whole = table.combine_chunks()
    assert (
        whole["i"].to_arrow().combine_chunks().equals(pa.array([v for i in range(10_000) for v in (i, None)]))
    )
    assert whole["s"].num_chunks == 1


def test_several_chunks_are_exported_as_one_tensor(anywhere):
    column = sa.from_arrow(chunked([1, 2], [], [3], type=pa.int32()), anywhere)
    whole = np.from_dlpack(column) if anywhere.device == "host" else column.to_numpy()
    assert whole.tolist() == [1, 2, 3]
    assert column.to_numpy().tolist() == [1, 2, 3]
    table = sa.table(in_pieces(pa.table({"fare": pa.array(range(5000), pa.float32())}), 2500), anywhere)
    across = table[2495:2505]["fare"]
    assert across.num_chunks == 2
    assert across.to_numpy().tolist() == list(range(2495, 2505))


def test_a_joined_tensor_is_writable_by_its_consumer(host):
    column = sa.from_arrow(chunked([1, 2], [3], type=pa.int32()), host)
    owned = np.from_dlpack(column)
    assert owned.flags.writeable
    owned[:] = 7
    assert column.to_pylist() == [1, 2, 3]
    lone = sa.from_arrow(chunked([], [1, 2], type=pa.int32()), host)
    assert not np.from_dlpack(lone).flags.writeable


def test_chunks_are_not_joined_where_a_copy_is_forbidden(anywhere):
    column = sa.from_arrow(chunked([1, 2], [3], type=pa.int32()), anywhere)
    with pytest.raises(BufferError, match="2 chunks, which one array can't view, and a copy was forbidden"):
        column.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="combine_chunks"):
        column.__arrow_c_array__()


def test_masks_and_offsets_of_several_chunks(anywhere):
    column = sa.from_arrow(chunked([1, None], [3], type=pa.int32()), anywhere)
    values, mask = column.to_numpy(nulls="mask")
    assert mask.tolist() == [True, False, True]
    assert values[mask].tolist() == [1, 3]
    offsets, letters = sa.from_arrow(
        chunked(["ab"], ["", "c"], type=pa.string()), anywhere
    ).offsets_and_values()
    assert offsets.to_pylist() == [0, 2, 2, 3]
    assert bytes(letters.to_pylist()) == b"abc"


@pytest.mark.parametrize("long", [False, True], ids=["one_thread", "threads"])
def test_hundreds_of_pieces_of_every_type(anywhere, long):
    """The host takes a part of the steps at a time, and threads share those of a join of many bytes."""
    rows = 700
    columns = {**arrays(rows), **nested(rows), **nested_twice(rows)}
    if long:
        columns["text"] = pa.array([chr(97 + number % 26) * 8000 for number in range(rows)])
    source = pa.table(columns)
    table = sa.table(source, anywhere)
    pieces = sa.concat_tables([table[first : first + 2] for first in range(1, rows, 2)])
    assert len(pieces.to_batches()) > 256
    assert pieces.combine_chunks().equals(table[1:])
