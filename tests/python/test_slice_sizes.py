"""nbytes counts the bytes that rows refer to: the sizes of a table's slices add up to the size of the
table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of

ROWS = 2400
PART = 24
TYPES = [*arrow_data.arrays(1), *arrow_data.nested_twice(1)]
LETTER = "letter %08d, longer than twelve bytes"


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


@pytest.fixture(scope="module")
def arrays():
    return arrow_data.arrays(ROWS) | arrow_data.nested_twice(ROWS)


def parts_of(table):
    return [table[row : row + PART] for row in range(0, table.num_rows, PART)]


@pytest.mark.parametrize("name", TYPES)
def test_the_slices_of_a_table_sum_to_its_size(ctx, arrays, name):
    whole = sa.from_arrow(pa.table({"a": arrays[name]}), ctx)
    padding = 40 * ROWS // PART  # bitmaps round up to bytes, and each slice has one more offset per level
    assert abs(sum(part.nbytes for part in parts_of(whole)) - whole.nbytes) <= whole.nbytes // 8 + padding
    assert abs(sum(part["a"].nbytes for part in parts_of(whole)) - whole["a"].nbytes) <= (
        whole.nbytes // 8 + padding
    )


@pytest.mark.parametrize(
    "name",
    [
        "string",
        "large_binary",
        "list",
        "large_list",
        "struct",
        "map",
        "sparse_union",
        "run_end_encoded",
        "deep",
    ],
)
def test_a_slice_has_the_size_that_pyarrow_computes(ctx, arrays, name):
    source = pa.table({"a": arrays[name]})
    whole = sa.from_arrow(source, ctx)
    for first, rows in ((0, 1), (700, 1), (700, 90), (2000, 400)):
        expected = source.slice(first, rows).nbytes
        assert abs(whole[first : first + rows].nbytes - expected) <= expected // 4 + 32, (first, rows)


def skewed(type):  # noqa: A002
    """Returns short rows and one row of a million values or bytes."""
    large = ["x" * 1_000_000] if "str" in str(type) or "bin" in str(type) else [[7] * 1_000_000]
    small = [value[:20] for value in large]
    return pa.array(small * 50 + large + small * 49, type)


@pytest.mark.parametrize(
    "type",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.list_(pa.int8()),
        pa.list_view(pa.int8()),
        pa.large_list_view(pa.int8()),
    ],
    ids=str,
)
def test_a_large_row_counts_only_in_its_slice(ctx, type):  # noqa: A002
    table = sa.from_arrow(pa.table({"a": skewed(type)}), ctx)
    assert table[:50].nbytes < 5_000
    assert table[51:].nbytes < 5_000
    assert 1_000_000 <= table[50:51].nbytes < 1_000_100


@pytest.mark.parametrize("type", [pa.string_view(), pa.binary_view(), pa.list_(pa.string_view())], ids=str)
def test_taken_rows_count_only_their_own_text(ctx, type):  # noqa: A002
    text = [LETTER % row for row in range(ROWS)]
    whole = sa.from_arrow(
        pa.table({"a": pa.array([[t] for t in text] if "list" in str(type) else text, type)}), ctx
    )
    order = np.random.default_rng(7).permutation(ROWS)
    parts = [whole.take(order[row : row + PART]) for row in range(0, ROWS, PART)]
    assert abs(sum(part.nbytes for part in parts) - whole.nbytes) <= whole.nbytes // 4
    together = sa.concat_tables(parts)
    assert abs(together.nbytes - whole.nbytes) <= whole.nbytes // 4


def test_a_foreign_slice_counts_only_its_rows():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"a": [LETTER % row for row in range(ROWS)], "b": [[row] * 9 for row in range(ROWS)]}
    )
    whole = sa.from_arrow(frame, "host").nbytes
    part = sa.from_arrow(frame[900:924], "host").nbytes
    assert part <= 2 * whole * 24 // ROWS
    source = pa.table({"a": [LETTER % row for row in range(ROWS)]})
    assert sa.from_arrow(source.slice(2000, 24), "host").nbytes <= 2 * source.nbytes * 24 // ROWS


def test_the_slices_share_a_dictionary(ctx):
    words = pa.array([LETTER % row for row in range(1000)])
    codes = pa.array(np.arange(ROWS) % 1000, pa.int16())
    table = sa.from_arrow(pa.table({"a": pa.DictionaryArray.from_arrays(codes, words)}), ctx)
    parts = parts_of(table)
    assert abs(sum(part.nbytes for part in parts) - table.nbytes) <= table.nbytes // 100
    assert sa.concat_tables([table[:1200], table[1200:]]).nbytes == table.nbytes
    assert sa.table({"a": table["a"], "b": table["a"]}).nbytes == table.nbytes


def test_views_of_null_rows_are_not_counted(ctx):
    views = np.zeros((3, 4), np.int32)
    views[1] = [2**30, 0, 5, -7]  # a null row's view may have arbitrary bytes
    array = pa.Array.from_buffers(
        pa.string_view(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(views.tobytes()), pa.py_buffer(b"z" * 999)]
    )
    column = sa.from_arrow(pa.table({"a": array}), ctx)["a"]
    assert column.nbytes == 3 * 16 + 1
    assert column.to_pylist() == ["", None, ""]


def test_only_the_first_nbytes_of_a_slice_reads_from_the_device():
    for ctx in contexts_of("sim"):
        table = sa.from_arrow(pa.table({"a": [LETTER % row for row in range(ROWS)]}), ctx)
        ctx.synchronize()
        ctx.reset_counters()
        assert table.nbytes > 0
        assert ctx.counters()["synchronizations"] == 0
        part = table[5:90]
        size = part.nbytes
        assert [part.nbytes for _ in range(3)] == [size] * 3
        assert ctx.counters()["synchronizations"] == 1


def test_without_device_memory_the_size_of_a_slice_is_estimated():
    for ctx in contexts_of("sim"):
        table = sa.from_arrow(pa.table({"a": [LETTER % row for row in range(ROWS)]}), ctx)
        exact = table[240:480].nbytes
        ctx.synchronize()
        ctx.memory.trim()
        ctx.memory.limit = ctx.memory.statistics()["current"]
        assert abs(table[240:480].nbytes - exact) <= exact // 10
        ctx.memory.limit = None


def test_the_size_for_dask_is_that_of_the_rows(ctx):
    pytest.importorskip("dask")
    from dask.sizeof import sizeof

    import saeta.dask  # noqa: F401

    table = sa.from_arrow(pa.table({"a": [LETTER % row for row in range(ROWS)]}), ctx)
    assert abs(sum(map(sizeof, parts_of(table))) - sizeof(table)) <= sizeof(table) // 5
