"""Conversion to symbols of columns whose chunks have different dictionaries: each chunk uses its own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import saeta as sa
from protocols import OnlyStream
from sim_devices import DEVICES, contexts_of

# Chunks with equal indices but different dictionaries, of equal and of different lengths.
CHUNKS = [
    (["a", "b"], [0, 1, None, 1]),
    (["c", "a"], [1, 0, 0]),
    (["d", "c", "b"], [2, 0, 1]),
    (["a", "b"], [1]),
]
NAMES = [None if row is None else names[row] for names, rows in CHUNKS for row in rows]


@pytest.fixture(params=DEVICES)
def ctx(request: pytest.FixtureRequest) -> Iterator[sa.Context]:
    yield from contexts_of(request.param)


def chunked(index: str = "int32", kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(pa.array(rows, index), pa.array(names, kind or pa.string()))
            for names, rows in CHUNKS
        ]
    )


@pytest.mark.parametrize("index", ["int8", "uint32", "int64"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_each_chunk_of_a_column_is_mapped_by_its_own_dictionary(ctx, index, kind):
    source = chunked(index, kind)
    asked = sa.from_arrow(OnlyStream(source), ctx).as_symbols()
    assert (asked.type, asked.num_chunks) == ("symbol", len(CHUNKS))
    assert asked.to_pylist() == NAMES
    assert asked.slice(2, 7).to_pylist() == NAMES[2:9]
    assert sa.column(source, ctx, name="x", type="symbol").to_pylist() == NAMES
    assert sa.column(source, ctx, name="x", type=sa.SymbolTable().type).to_pylist() == NAMES


def test_each_batch_of_a_stream_is_mapped_by_its_own_dictionary(ctx):
    field = pa.field("x", chunked().type, metadata={"xlog.symbol": "true"})
    table = pa.table([chunked()], schema=pa.schema([field]))
    for given in (table, OnlyStream(table)):
        seen = sa.from_arrow(given, ctx)["x"]
        assert (seen.type, seen.to_pylist()) == ("symbol", NAMES)


def test_each_batch_of_a_file_is_mapped_by_its_own_dictionary(ctx, tmp_path):
    field = pa.field("x", chunked().type, metadata={"xlog.symbol": "true"})
    schema = pa.schema([field])
    with pa.ipc.new_stream(tmp_path / "x.arrows", schema) as writer:  # may replace dictionaries
        for chunk in chunked().chunks:
            writer.write_batch(pa.record_batch([chunk], schema=schema))
    assert sa.read_ipc(tmp_path / "x.arrows", ctx)["x"].to_pylist() == NAMES
