"""pyarrow tables are imported directly (saeta._bridge), which is faster than pyarrow's C stream. Results must
be identical."""

from __future__ import annotations

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from protocols import OnlyStream
from saeta._convert import from_pyarrow

pytest.importorskip("saeta._bridge", reason="this build has no module for pyarrow's objects")

WINDOWS = [(0, 67), (0, 0), (5, 50), (66, 1)]


def tables():
    """Returns tables by name: one with all types, and tables of various shapes."""
    everything = arrow_data.table()
    flat = everything.select(["int64", "string", "bool", "null", "fixed_size_binary"])
    noted = pa.schema(
        [
            pa.field("", pa.int64(), nullable=False, metadata={"key": "value"}),
            pa.field("a", pa.timestamp("us", "UTC"), metadata={"ARROW:extension:name": "one.unknown"}),
            pa.field("a", pa.json_(pa.string()) if hasattr(pa, "json_") else pa.string()),
        ],
        metadata={"of": "the schema", "empty": ""},
    )
    words = pa.array(["[1]", None], pa.string())
    described = [
        pa.array([1, 2]),
        pa.array([3, None], pa.timestamp("us", "UTC")),
        words.cast(noted.field(2).type),
    ]
    return {
        "all types": everything,
        "flat types": flat,
        "described": pa.Table.from_arrays(described, schema=noted),
        "chunks": pa.concat_tables([everything, everything.slice(9, 20), everything.slice(0, 0)]),
        "different chunks": pa.table(
            {
                "a": pa.chunked_array([[1, None], [], [3, 4, 5]]),
                "b": pa.chunked_array([["x"], ["y", "z", None], ["w"]]),
            }
        ),
        "a dictionary for each chunk": pa.table(
            {
                "words": pa.chunked_array(
                    [pa.array(each).dictionary_encode() for each in (["b", "a", None], ["c"])]
                )
            }
        ),
        "rows without columns": everything.select([]),
        "no rows": everything.slice(0, 0),
        "no chunks": pa.table({"a": pa.chunked_array([], pa.int32())}),
        "nothing": pa.table({}),
    }


def described(of):
    return [(field.name, field.nullable, str(field.type), field.metadata) for field in of.schema.fields]


def shapes(of):
    return [[(len(chunk), chunk.null_count) for chunk in column.chunks] for column in of.columns]


@pytest.fixture
def asked(monkeypatch):
    """Records each source offered to the direct import, and whether the import accepts it."""
    found = []
    bridge = from_pyarrow._bridge()

    class Counted:
        table = bridge.table

        @staticmethod
        def on_cpu(source):
            found.append((source, bridge.on_cpu(source)))
            return found[-1][1]

    monkeypatch.setattr(from_pyarrow, "_bridge", lambda: Counted)
    return found


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("name", tables())
def test_a_table_is_imported_as_from_its_c_stream(host, asked, name, copy):
    source = tables()[name]
    ours = sa.from_arrow(source, host, copy=copy)
    assert asked == [(source, True)]
    theirs = sa.from_arrow(OnlyStream(source), host, copy=copy)
    assert described(ours) == described(theirs)
    assert ours.schema.metadata == theirs.schema.metadata
    assert ours.num_rows == theirs.num_rows == source.num_rows
    assert [batch.num_rows for batch in ours.batches] == [batch.num_rows for batch in theirs.batches]
    assert shapes(ours) == shapes(theirs)
    assert ours.to_arrow().equals(source)
    assert ours.to_arrow().schema.equals(theirs.to_arrow().schema, check_metadata=True)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_batch_is_imported_as_from_its_c_stream(host, asked, window):
    source = arrow_data.table().combine_chunks().to_batches()[0].slice(*window)
    ours = sa.from_arrow(source, host)
    assert asked == [(source, True)]
    assert [batch.num_rows for batch in ours.batches] == [len(source)]
    assert shapes(ours) == shapes(sa.from_arrow(OnlyStream(source), host)) or not len(source)
    assert ours.to_arrow().equals(pa.table(source))


def test_a_table_as_a_column_is_a_column_of_structs(host, asked):
    source = arrow_data.table().slice(3, 11)
    column = sa.from_arrow(source, host, as_column=True)
    assert asked == []
    assert column.to_pylist() == source.to_pylist()


def test_values_are_shared_with_pyarrow(host, asked):
    source = arrow_data.table()
    table = sa.from_arrow(source, host)
    assert table["int64"].address == source["int64"].chunk(0).buffers()[1].address
    assert asked == [(source, True)]


@pytest.mark.parametrize("copy", [None, True])
def test_the_order_of_columns_in_memory_does_not_matter(host, copy):
    apart = [pa.array(range(first, first + 100), pa.int32()) for first in range(60)]
    together = pa.array(range(6400), pa.int64())
    parts = [together.slice(64 * part, 64) for part in range(100)]
    for arrays in (apart, apart[::-1], apart[::2] + apart[1::2], apart[:3] * 4, parts, parts[::-1]):
        source = pa.Table.from_arrays(arrays, [str(number) for number in range(len(arrays))])
        assert sa.from_arrow(source, host, copy=copy).to_arrow().equals(source)


def test_other_objects_and_other_devices_are_not_imported_directly(host, asked):
    for source in (pa.array([1]), pa.chunked_array([[1]]), OnlyStream(pa.table({"a": [1]}))):
        sa.from_arrow(source, host, as_column=True)
    assert asked == []


def test_a_build_without_the_bridge_uses_pyarrows_stream(host, monkeypatch):
    monkeypatch.setattr(from_pyarrow, "_bridge", lambda: None)
    source = tables()["chunks"]
    assert sa.from_arrow(source, host).to_arrow().equals(source)


def test_an_incompatible_pyarrow_is_imported_by_its_stream(host, monkeypatch):
    def load(name, purpose):
        raise sa.MissingDependency(f"{name} was built with another pyarrow")

    monkeypatch.setattr(from_pyarrow._libarrow, "load", load)
    from_pyarrow._bridge.cache_clear()
    try:
        source = tables()["chunks"]
        assert from_pyarrow.importer_of(source) is None
        assert sa.from_arrow(source, host).to_arrow().equals(source)
    finally:
        from_pyarrow._bridge.cache_clear()


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch])
def test_uninitialized_pyarrow_objects_are_refused(host, kind):
    with pytest.raises(TypeError):
        sa.from_arrow(kind.__new__(kind), host)


@pytest.mark.parametrize("copy", [None, True])
def test_tables_of_thousands_of_columns_keep_their_values(host, copy):
    kinds = [pa.array([1.5, None]), pa.array(["x", "yz"]), pa.array([True, False])]
    source = pa.table({f"c{number}": kinds[number % 3] for number in range(12_000)})
    assert sa.from_arrow(source, host, copy=copy).to_arrow().equals(source)


def test_direct_imports_validate_values(host, asked):
    offsets = pa.py_buffer(b"".join(each.to_bytes(4, "little") for each in (0, 3, 1, 4)))
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abcd")])
    with pytest.raises(sa.FormatError, match="column 'b': offsets decrease from 3 to 1 at row 1"):
        sa.from_arrow(pa.table({"a": [1, 2, 3], "b": broken}), host)
    assert asked[0][1]


def test_columns_keep_the_memory_of_their_batch_alive(host):
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()

    def chunk(first):
        return pa.array(range(first, first + 10_000), pa.int64())

    bytes_of_chunk = 80_000
    source = pa.table({name: pa.chunked_array([chunk(0), chunk(1)]) for name in "ab"})
    table = sa.from_arrow(source, host)
    del source
    assert pool.bytes_allocated() - before >= 4 * bytes_of_chunk
    kept = table["a"].chunks[1]
    del table
    assert 2 * bytes_of_chunk <= pool.bytes_allocated() - before < 3 * bytes_of_chunk
    assert kept[0] == 1
    del kept
    assert pool.bytes_allocated() == before
    copied = sa.from_arrow(pa.table({"a": chunk(0)}), host, copy=True)
    assert pool.bytes_allocated() == before
    assert copied["a"].null_count == 0
    with pytest.raises(sa.BudgetExceeded), host.memory.child("small", 1000) as small:
        sa.from_arrow(pa.table({"a": chunk(0)}), small, copy=True)
    assert pool.bytes_allocated() == before


def test_importing_a_table_does_not_import_pyarrow(run_python):
    program = """
import sys, numpy as np, saeta as sa

class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return sa.table({"a": np.arange(3)}, "host").__arrow_c_stream__()

sa.from_arrow(Stream(), "host")
print([name for name in ("pyarrow", "saeta._bridge", "saeta.cuda") if name in sys.modules])
import pyarrow as pa
sa.from_arrow(pa.table({"a": [1]}), "host")
print([name for name in ("saeta._bridge", "saeta.cuda") if name in sys.modules])
"""
    done = run_python(program)
    assert done.stdout.splitlines() == ["[]", "['saeta._bridge']"], done.stderr
