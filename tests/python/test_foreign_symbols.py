"""Symbol ids whose metadata names no symbol table, as in XLOG's arrays: they stay ids until a table is
given."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from protocols import OnlyArray, OnlyStream
from saeta import xlog

IDS = [3, 0, None, 2**32 - 1, 2**31, 1]
FIELD = pa.field("city", pa.uint32(), metadata={"xlog.symbol": "true", "xlog.symbol_encoding": "u32"})
FOREIGN = pa.table([pa.array(IDS, pa.uint32())], schema=pa.schema([FIELD]))


@pytest.fixture(autouse=True)
def _names_of_something_else():
    """Adds names to the process's symbol table, so that small ids would have wrong names."""
    sa.SymbolTable.default().intern_all([f"something else {i}" for i in range(6)])


def names_of_xlog():
    table = sa.SymbolTable()
    table.intern_all(["Lyon", "Bern", "Rome", "Oslo"])
    return table


def assert_as_it_came(table):
    assert table["city"].type == "uint32"
    assert table["city"].to_pylist() == IDS
    shown = table.to_arrow()
    assert shown.schema.equals(FOREIGN.schema, check_metadata=True)
    assert shown["city"].to_pylist() == IDS


def through_device_array(table, ctx):
    return sa.from_arrow(xlog.export_arrow_device(table, ctx.device), ctx)


def through_device_stream(table, ctx):
    return sa.from_arrow(table.__arrow_c_device_stream__(), ctx)


def through_pickle(table, ctx):
    return pickle.loads(pickle.dumps(table)).to(ctx)


def through_pack(table, ctx):
    return sa.unpack(*table.pack()).to(ctx)


def through_sharing(table, ctx):
    return sa.open_shared(table.to("host").share()).to(ctx)


def through_copy(table, ctx):
    return copy.deepcopy(table).combine_chunks().to(ctx)


def through_concat(table, ctx):
    return sa.concat_tables([table.slice(0, 2), table.slice(2)]).combine_chunks()


def through_columns(table, ctx):
    return sa.table([sa.column(table["city"], name=table["city"].field)], ctx)


def through_schema(table, ctx):
    return sa.table({"city": pa.array(IDS, pa.uint32())}, ctx, schema=FOREIGN.schema)


WAYS = [
    through_device_array,
    through_device_stream,
    through_pickle,
    through_pack,
    through_sharing,
    through_copy,
    through_concat,
    through_columns,
    through_schema,
]


@pytest.mark.parametrize("only", [OnlyArray, OnlyStream, lambda whole: whole])
def test_ids_are_imported_and_exported_unchanged(anywhere, only):
    batch = FOREIGN.to_batches()[0]
    assert_as_it_came(sa.from_arrow(only(batch), anywhere))
    assert_as_it_came(sa.table(only(batch), anywhere))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_operation_keeps_the_ids_and_metadata(anywhere, way):
    assert_as_it_came(way(sa.from_arrow(FOREIGN, anywhere), anywhere))


def test_device_exports_keep_the_metadata_of_ids(anywhere):
    table = sa.from_arrow(FOREIGN, anywhere)
    described, _ = table["city"].__arrow_c_device_array__()
    assert pa.Field._import_from_c_capsule(described).equals(FIELD, check_metadata=True)


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize("copied", [None, True])
def test_files_keep_ids(anywhere, tmp_path, container, copied):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with (pa.ipc.new_file if container == "file" else pa.ipc.new_stream)(theirs, FOREIGN.schema) as writer:
        writer.write_table(FOREIGN, 2)
    table = sa.read_ipc(theirs, anywhere, copy=copied)
    assert_as_it_came(table)
    table.write_ipc(ours, format=container)
    assert_as_it_came(sa.concat_tables(list(sa.scan_ipc(ours, anywhere))))
    read = (pa.ipc.open_file if container == "file" else pa.ipc.open_stream)(ours).read_all()
    assert read.equals(FOREIGN)
    assert read.schema.equals(FOREIGN.schema, check_metadata=True)


def test_parquet_keeps_ids(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(FOREIGN, tmp_path / "a.parquet")
    assert sa.read_parquet(tmp_path / "a.parquet", "host")["city"].to_pylist() == IDS


def test_tensors_of_ids_need_no_symbol_table(anywhere):
    ids = sa.from_arrow(FOREIGN.slice(3), anywhere)
    tensors, names, rows = xlog.import_arrow_device(
        xlog.export_arrow_device(ids, anywhere.device), anywhere.device
    )
    assert (names, rows) == (["city"], 3)
    assert sa.from_dlpack(tensors[0], anywhere).to_pylist() == IDS[3:]
    assert ids["city"].to_numpy().tolist() == IDS[3:]


def test_tensors_get_the_metadata_of_a_schema(host):
    numbers = np.array([7, 4_000_000_000], np.uint32)
    table = sa.table([numbers], host, schema=pa.schema([FIELD]))
    assert pa.schema(table.schema).field(0).equals(FIELD, check_metadata=True)
    matrix = sa.table(numbers.reshape(2, 1), host, schema=pa.schema([FIELD]))
    assert matrix.equals(table, check_metadata=True)


def test_ids_get_the_names_of_a_given_table(anywhere):
    names = names_of_xlog()
    few = FOREIGN.filter(pa.array([True, True, True, False, False, True]))
    expected = ["Oslo", "Lyon", None, "Bern"]
    table = sa.from_arrow(few, anywhere)
    assert table["city"].as_symbols(names).to_pylist() == expected
    assert sa.from_arrow(few, anywhere, symbols=names)["city"].to_pylist() == expected
    assert sa.from_arrow(few["city"], anywhere, symbols=names).to_pylist() == table["city"].to_pylist()
    typed = sa.table(few, anywhere, schema={"city": names.type})
    assert typed["city"].to_pylist() == expected
    assert sa.column(table["city"], name="city", type=names.type).to_pylist() == expected
    named = sa.from_arrow(few, anywhere, symbols=names)
    assert named.to_arrow()["city"].to_pylist() == expected


def test_ids_get_names_of_the_process_only_on_request(anywhere):
    ids = sa.from_arrow(FOREIGN, anywhere)["city"].slice(0, 3)
    refusal = "its numbers are symbols of a table that its metadata do not name"
    with pytest.raises(sa.ExchangeError, match=f"column 'city': {refusal}: give that table"):
        ids.as_symbols()
    for schema in (sa.schema([("city", "symbol")]), {"city": "symbol"}):
        with pytest.raises(sa.ExchangeError, match=refusal):
            sa.table([ids], anywhere, schema=schema)
        with pytest.raises(sa.ExchangeError, match=refusal):
            sa.table(FOREIGN, anywhere, schema=schema)
    with pytest.raises(sa.ExchangeError, match=refusal):
        sa.column(ids, name="city", type="symbol")
    assert ids.as_symbols(sa.SymbolTable.default()).to_pylist()[:2] == [
        sa.SymbolTable.default().name(3),
        sa.SymbolTable.default().name(0),
    ]


def test_the_error_for_an_id_missing_in_the_given_table_has_the_row(anywhere):
    with pytest.raises(sa.OutOfRange, match="column 'city': row 3: symbol 4294967295 is not in the symbol"):
        sa.from_arrow(FOREIGN, anywhere, symbols=names_of_xlog())


def test_the_symbols_argument_is_ids_or_a_table(host):
    assert_as_it_came(sa.from_arrow(FOREIGN, host, symbols="ids"))
    stream = FOREIGN.to_reader()
    with pytest.raises(sa.InvalidError, match="symbols='names': expected 'ids' or a SymbolTable"):
        sa.from_arrow(stream, host, symbols="names")
    with pytest.raises(sa.TypeMismatch, match="symbols is of type dict, expected 'ids' or a SymbolTable"):
        sa.from_arrow(stream, host, symbols={})
    assert_as_it_came(sa.from_arrow(stream, host))


def test_symbols_of_the_process_ignore_a_given_table(anywhere):
    own = sa.column(["a", "b"], anywhere, name="city", type="symbol")
    back = sa.from_arrow(own.__arrow_c_device_array__(), anywhere, symbols=names_of_xlog())
    assert back.field == own.field
    assert back.to_pylist() == ["a", "b"]


def test_schemas_of_ids_are_schemas_of_integers():
    assert sa.Schema(FOREIGN.schema).fields[0].type == "uint32"
    assert pa.schema(sa.Schema(FOREIGN.schema)).equals(FOREIGN.schema, check_metadata=True)
    assert sa.field("city", FIELD).type == "uint32"
