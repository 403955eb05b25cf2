"""Symbols: integers that stand for names. Host consumers get dictionaries, which become symbols again on
import."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import saeta as sa
from protocols import OnlyArray, OnlyStream
from saeta import xlog
from saeta._convert.to_python import decoder_of, text_of
from threads import run_in_threads

CITIES = ["Lyon", None, "Bern", "Lyon", "", "Zürich"]
CALLED = {"xlog.symbol": "true"}
INDICES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def cities(ctx: sa.Context) -> sa.Column:
    return sa.column(CITIES, ctx, name="city", type="symbol")


def called_symbols(array: pa.Array, name: str = "x") -> pa.Table:
    return pa.table([array], schema=pa.schema([pa.field(name, array.type, metadata=CALLED)]))


# Symbol tables


def test_a_table_numbers_names_from_zero():
    table = sa.SymbolTable()
    assert [table.intern("a"), table.intern("b"), table.intern("a")] == [0, 1, 0]
    assert table.intern_all(["c", "a"]) == [2, 0]
    assert (len(table), table.name(2), table.lookup(2), table.lookup(3)) == (3, "c", "c", None)
    assert (table.find("b"), table.find("d"), "b" in table, "d" in table, 7 in table) == (
        1,
        None,
        True,
        False,
        False,
    )
    assert len(table) == 3
    assert table.nbytes > 0
    assert repr(table).startswith("<saeta.SymbolTable ")
    assert table.limit == 2**32


def test_an_empty_symbol_table_can_be_used():
    table = sa.SymbolTable()
    column = sa.column(["a"], "host", name="x", type=table.type)
    assert column.type.symbol_table == table
    assert (len(table), "a" in sa.SymbolTable()) == (1, False)


def test_unknown_symbols_and_full_tables_are_typed_errors():
    table = sa.SymbolTable(limit=1)
    table.intern("a")
    with pytest.raises(sa.OutOfRange, match="symbol 1 is not in the symbol table, which has 1 names"):
        table.name(1)
    for never in (-1, 2**32, 2**40):
        assert table.lookup(never) is None
        with pytest.raises(sa.OutOfRange, match=f"symbol {never} is not"):
            table.name(never)
    with pytest.raises(sa.SizeOverflow, match="is full: it has 1 names, which is its limit, and 'b' is new"):
        table.intern("b")
    with pytest.raises(sa.InvalidError, match="at most 4294967296"):
        sa.SymbolTable(2**32 + 1)


def test_names_must_be_text():
    table = sa.SymbolTable()
    with pytest.raises(sa.TypeMismatch, match="the name of a symbol is text, not an object of type int"):
        table.intern(7)
    with pytest.raises(sa.TypeMismatch, match="a sequence of names"):
        table.intern_all("abc")
    with pytest.raises(TypeError):
        table.intern_all(7)
    with pytest.raises(UnicodeEncodeError):
        table.intern("\ud800")
    assert table.name(table.intern("a\0b")) == "a\0b"
    assert len(table) == 1


def test_the_process_has_one_symbol_table():
    assert sa.SymbolTable.default() == sa.DataType("symbol").symbol_table == xlog.symbols
    assert hash(sa.SymbolTable.default()) == hash(sa.DataType("symbol").symbol_table)
    assert sa.SymbolTable() != sa.SymbolTable()
    assert sa.SymbolTable.default() != 7
    names = sa.SymbolTable.default()
    assert weakref.ref(names)() is names


def test_threads_intern_consistently():
    table = sa.SymbolTable()
    names = [str(i) for i in range(2000)]
    found = []

    def work(turn: int) -> None:
        order = names[turn * 100 :] + names[: turn * 100]
        found.append(dict(zip(order, table.intern_all(order), strict=True)))

    run_in_threads(8, work)
    assert all(each == found[0] for each in found)
    assert sorted(found[0].values()) == list(range(2000))


def test_a_column_keeps_its_symbol_table_alive(host):
    column = sa.column(["kept"], host, name="x", type=sa.SymbolTable().type)
    gc.collect()
    assert column.to_pylist() == ["kept"]
    assert column.type.symbol_table.find("kept") == 0


def test_a_million_names():
    table = sa.SymbolTable()
    names = [f"n{i}" for i in range(1_000_000)]
    column = sa.column(pa.array(names), "host", name="x", type=table.type)
    assert len(table) == 1_000_000
    assert column.to_arrow().chunk(0).dictionary.to_pylist()[-1] == names[-1]
    assert column[765_432] == names[765_432]


# Types and columns


def test_symbol_is_a_distinct_type():
    symbol = sa.DataType("symbol")
    assert symbol == sa.DataType("symbol") == "symbol"
    assert (symbol.is_symbol, symbol.byte_width, symbol.dtype, symbol.value_type) == (True, 4, None, None)
    assert symbol != sa.DataType("uint32")
    assert (sa.DataType("uint32").is_symbol, sa.DataType("uint32").symbol_table) == (False, None)
    other = sa.SymbolTable().type
    assert other != symbol
    assert other.name.startswith("symbol[table ")
    with pytest.raises(sa.UnsupportedError, match="symbols can't be nested"):
        sa.DataType("list<item: symbol>")


def test_python_values_are_interned_as_names(anywhere):
    column = cities(anywhere)
    assert column.type == "symbol"
    assert column.to_pylist() == CITIES
    assert list(column) == CITIES
    assert (column[0], column[1], column[-1]) == ("Lyon", None, "Zürich")
    assert column.null_count == 1
    assert "Lyon, null, Bern, Lyon" in repr(column)
    assert "Lyon" in column._repr_html_()
    assert sa.column([], anywhere, name="none", type="symbol").to_pylist() == []
    assert sa.column([None], anywhere, name="none", type="symbol").to_pylist() == [None]


def test_a_schema_can_request_symbols(anywhere):
    schema = sa.schema([("city", "symbol"), ("n", "int64")])
    table = sa.table({"city": CITIES, "n": range(6)}, anywhere, schema=schema)
    assert table.schema == schema
    assert table["city"].to_pylist() == CITIES
    assert table.to_pydict()["city"] == CITIES
    whole = sa.table(pa.table({"city": CITIES, "n": range(6)}), anywhere, schema=schema)
    assert whole["city"].to_pylist() == CITIES


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_dictionaries_become_symbols(anywhere, index, kind):
    values = pa.array(["a", None, "a name of more than 12 bytes", "a"], kind)
    source = pa.DictionaryArray.from_arrays(pa.array([3, 1, None, 2, 0, 2], index), values)
    column = sa.column(source, anywhere, name="x", type="symbol")
    assert column.type == "symbol"
    assert column.to_pylist() == source.to_pylist()
    assert column.null_count == 2
    assert sa.from_arrow(source, anywhere).slice(2, 3).as_symbols().to_pylist() == source.to_pylist()[2:5]


def test_a_dictionary_becomes_symbols_only_on_request(anywhere):
    source = pa.array(CITIES).dictionary_encode()
    column = sa.from_arrow(source, anywhere)
    assert column.type == "dictionary<values=string, indices=int32, ordered=0>"
    assert sa.column(source, anywhere, name="x", type=None).type != "symbol"
    assert column.as_symbols().type == "symbol"


def test_integers_become_symbols_without_a_copy(host):
    table = sa.SymbolTable()
    table.intern_all(["a", "b"])
    for dtype in (np.uint32, np.int32):
        numbers = np.array([1, 0, 1], dtype)
        column = sa.column(numbers, host, name="x", type=table.type)
        assert column.to_pylist() == ["b", "a", "b"]
        assert column.address == numbers.ctypes.data
    for wrong in (np.array([0, 2], np.uint32), np.array([0, -1], np.int32)):
        with pytest.raises(sa.OutOfRange, match=r"column 'x': row 1: symbol \d+ is not in the symbol table"):
            sa.column(wrong, host, name="x", type=table.type)
    with pytest.raises(sa.TypeMismatch, match="int64 can't become symbols: expected strings"):
        sa.column(np.array([0, 1]), host, name="x", type=table.type)


def test_tensors_of_two_dimensions_become_symbols_by_a_schema(host):
    table = sa.SymbolTable()
    table.intern_all(["a", "b"])
    schema = sa.schema([("x", table.type), ("n", "uint32")])
    made = sa.table(np.array([[0, 7], [1, 8]], np.uint32), host, schema=schema)
    assert made.to_pydict() == {"x": ["a", "b"], "n": [7, 8]}
    with pytest.raises(sa.OutOfRange, match="dlpack: column 'x': row 1: symbol 8"):
        sa.table(np.array([[0, 7], [8, 8]], np.uint32), host, schema=schema)
    with pytest.raises(sa.TypeMismatch, match="column 'x' of symbol"):
        sa.table(np.array([[0, 7], [8, 8]], np.int64), host, schema=schema)


def test_symbols_are_exported_as_tensors_only_on_request(anywhere):
    column = sa.column(["a", "b", "a"], anywhere, name="x", type="symbol")
    with pytest.raises(BufferError, match="codes=True for the numbers of its symbols"):
        column.__dlpack__()
    numbers = column.to_numpy(codes=True)
    assert numbers.dtype == np.uint32
    assert [sa.SymbolTable.default().name(int(each)) for each in numbers] == ["a", "b", "a"]
    assert column.to_numpy().tolist() == ["a", "b", "a"]
    with pytest.raises(BufferError):
        sa.table({"x": column}, anywhere).to_numpy()
    with pytest.raises(AttributeError):
        _ = column.__cuda_array_interface__


def test_slices_chunks_and_tables_keep_symbols(anywhere):
    column = cities(anywhere)
    assert column.slice(1, 3).to_pylist() == CITIES[1:4]
    both = sa.Column.from_chunks([column, column.slice(2)])
    assert both.to_pylist() == CITIES + CITIES[2:]
    joined = both.combine_chunks()
    assert (joined.type, joined.num_chunks, joined.to_pylist()) == ("symbol", 1, CITIES + CITIES[2:])
    table = sa.concat_tables([sa.table({"city": column}, anywhere)] * 2)
    assert table["city"].to_pylist() == CITIES * 2
    assert column == column.slice(0)
    assert "city  symbol  Lyon, null, Bern" in repr(table)
    with pytest.raises(sa.TypeMismatch):
        sa.Column.from_chunks([column, sa.column(["a"], anywhere, name="city", type=sa.SymbolTable().type)])


def test_symbols_of_another_table_keep_their_names(anywhere):
    other = sa.SymbolTable()
    other.intern("first")
    column = sa.column(CITIES, anywhere, name="x", type=other.type)
    assert column.to_pylist() == CITIES
    again = column.as_symbols()
    assert again.type == sa.DataType("symbol")
    assert again.to_pylist() == CITIES
    assert column.as_symbols(other).type == other.type
    assert column.to_arrow().to_pylist() == CITIES


def test_symbol_columns_are_charged_to_the_budget(host):
    with host.memory.window() as window:
        column = sa.column(pa.array(["a", "b"] * 50_000).dictionary_encode(), host, name="x", type="symbol")
    assert window.peak >= 400_000
    child, source = host.memory.child("small", 1000), called_symbols(column.to_arrow().combine_chunks())
    with pytest.raises(sa.BudgetExceeded):
        sa.from_arrow(source, child)


# Export and import


def test_host_exports_are_dictionaries_of_the_names_in_use(anywhere):
    sa.SymbolTable.default().intern("in no row")
    column = cities(anywhere)
    expected = pa.array(CITIES).dictionary_encode()
    shown = column.slice(2).to_arrow().chunk(0)
    assert shown.type == pa.dictionary(pa.uint32(), pa.string())
    assert shown.dictionary.to_pylist() == ["Bern", "Lyon", "", "Zürich"]
    assert column.to_arrow().to_pylist() == expected.to_pylist()
    assert pa.field(column.field).metadata == {b"xlog.symbol": b"true"}
    table = sa.table({"city": column}, anywhere)
    assert pa.schema(table.schema).field("city").metadata == {b"xlog.symbol": b"true"}
    assert pa.table(table).to_pydict() == {"city": CITIES}


def test_device_exports_are_integers(anywhere):
    column = cities(anywhere)
    described, _ = column.__arrow_c_device_array__()
    field = pa.Field._import_from_c_capsule(described)
    assert field.type == pa.uint32()
    assert field.metadata[b"xlog.symbol"] == b"true"
    assert field.metadata[b"xlog.symbol_encoding"] == b"u32"
    again = sa.from_arrow(column.__arrow_c_device_array__(), anywhere)
    assert (again.type, again.address, again.field) == ("symbol", column.address, column.field)
    tables = [sa.table({"city": column}, anywhere)]
    tables.append(sa.from_arrow(tables[0].__arrow_c_device_stream__(), anywhere))
    tables.append(sa.from_arrow(xlog.export_arrow_device(tables[0], anywhere.device), anywhere))
    for each in tables:
        assert each.schema == tables[0].schema
        assert each["city"].to_pylist() == CITIES


def test_xlogs_helpers_import_and_export_symbols():
    table = sa.table({"x": sa.column(["a", "b"], "host", name="x", type="symbol")}, "host")
    tensors, names, rows = xlog.import_arrow_device(xlog.export_arrow_device(table, "host"), "host")
    assert (names, rows) == (["x"], 2)
    numbers = sa.from_dlpack(tensors[0], "host")
    assert numbers.type == "uint32"
    assert numbers.as_symbols().to_pylist() == ["a", "b"]


@pytest.mark.parametrize("only", [OnlyArray, OnlyStream])
def test_exported_symbols_are_imported_as_symbols(anywhere, only):
    column = cities(anywhere)
    again = sa.from_arrow(only(column), anywhere)
    assert again.field == column.field
    assert again.to_pylist() == CITIES


def test_fields_keep_their_other_metadata(anywhere):
    field = sa.field("city", "symbol", metadata={"unit": "none", "xlog.symbol": "twice"})
    column = sa.column(CITIES, anywhere, name=field)
    table = sa.table([(field, column)], anywhere)
    assert pa.field(field).metadata == {b"unit": b"none", b"xlog.symbol": b"true"}
    again = sa.from_arrow(table.to_arrow(), anywhere)
    assert again.schema.fields[0] == field.with_metadata({"unit": "none"})
    assert sa.Schema(table.to_arrow().schema) == again.schema
    assert sa.field("x", table.to_arrow().schema.field(0).type).type != "symbol"


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_files_have_one_dictionary_and_are_read_as_symbols(anywhere, tmp_path, container, compression):
    parts = [CITIES, [], ["new", None, "Lyon"], [None], ["Bern"] * 100]
    tables = [
        sa.table(
            {"city": sa.column(part, anywhere, name="city", type="symbol"), "n": np.arange(len(part))},
            anywhere,
        )
        for part in parts
    ]
    path = tmp_path / "cities.arrow"
    source = sa.concat_tables([tables[0][1:5], *tables])
    source.write_ipc(path, format=container, compression=compression)
    expected = CITIES[1:5] + list(itertools.chain(*parts))
    opened = (pa.ipc.open_file if container == "file" else pa.ipc.open_stream)(path)
    seen = opened.read_all()["city"]
    assert seen.to_pylist() == expected
    assert {str(chunk.dictionary.to_pylist()) for chunk in seen.chunks} == {
        str(["Bern", "Lyon", "", "Zürich", "new"])
    }
    again = sa.read_ipc(path, anywhere)
    assert again.schema == source.schema
    assert again["city"].to_pylist() == expected
    assert sa.read_ipc(path, anywhere, columns="city")["city"].to_pylist() == expected
    assert sa.read_ipc(path, anywhere, batches=2)["city"].type == "symbol"


def test_foreign_files_are_read_as_symbols_if_their_metadata_say_so(anywhere, tmp_path):
    path = tmp_path / "others.arrow"
    table = called_symbols(pa.array(CITIES).dictionary_encode())
    with pa.ipc.new_file(path, table.schema) as writer:
        for batch in table.to_batches(2):
            writer.write(batch)
    assert sa.read_ipc(path, anywhere)["x"].to_pylist() == CITIES
    assert sa.read_ipc(path, anywhere)["x"].type == "symbol"
    plain = table.replace_schema_metadata(None).cast(pa.schema([("x", table.schema.field(0).type)]))
    with pa.ipc.new_file(path, plain.schema) as writer:
        writer.write(plain)
    assert sa.read_ipc(path, anywhere)["x"].type != "symbol"


@pytest.mark.parametrize("container", ["file", "stream"])
@pytest.mark.parametrize(
    "options", [{}, {"copy": True}, {"combine_chunks": True}, {"combine_chunks": False}], ids=str
)
def test_integers_with_our_tables_metadata_are_symbols_and_validated(anywhere, tmp_path, container, options):
    own = sa.column(CITIES, "host", name="city", type="symbol")
    described = pa.Field._import_from_c_capsule(own.__arrow_c_device_array__()[0])
    known = [None if each is None else sa.SymbolTable.default().find(each) for each in CITIES]
    new = pa.ipc.new_file if container == "file" else pa.ipc.new_stream
    for numbers, names in ((known, CITIES), ([*known[:4], 2**32 - 1], None)):
        path = tmp_path / f"{len(numbers)}.arrow"
        table = pa.table([pa.array(numbers, pa.uint32())], schema=pa.schema([described]))
        with new(path, table.schema) as writer:
            writer.write_table(table, 2)
        if names is not None:
            made = sa.read_ipc(path, anywhere, **options)
            assert (made["city"].type, made["city"].to_pylist()) == ("symbol", names)
            assert sa.concat_tables(list(sa.scan_ipc(path, anywhere)))["city"].to_pylist() == names
        else:
            for read in (sa.read_ipc, lambda *to, **how: list(sa.scan_ipc(*to))):
                with pytest.raises(
                    sa.FormatError, match=r"batch 2: column 'city': symbol 4294967295 at row 0 is not in"
                ):
                    read(path, anywhere, **options)


def test_unknown_symbols_of_a_device_array_are_refused(host):
    numbers = sa.table({"x": np.array([0, 4_000_000_000], np.uint32)}, host)
    sa.SymbolTable.default().intern("a")
    field = sa.field("x", "symbol")
    _, array = numbers["x"].__arrow_c_device_array__()
    described = sa.column(["a"], host, name=field).__arrow_c_device_array__()[0]
    with pytest.raises(
        sa.FormatError, match="column 'x': symbol 4000000000 at row 1 is not in the symbol table"
    ):
        sa.from_arrow((described, array), host)


def test_an_unknown_symbol_can_be_displayed_but_not_converted():
    """A producer may change its memory after the import has checked the numbers."""
    assert text_of(sa.DataType("symbol"), 4_000_000_000) == "symbol 4000000000, unknown"
    with pytest.raises(sa.OutOfRange, match="symbol 4000000000 is not in the symbol table"):
        decoder_of(sa.DataType("symbol"))(4_000_000_000)


def test_integers_can_be_requested_as_the_export_type(anywhere):
    column = sa.column(["a", "b", "a"], anywhere, name="x", type="symbol")
    assert pa.chunked_array(column, type=pa.uint32()).type == pa.uint32()
    table = sa.table({"x": column}, anywhere)
    numbers = pa.table(table, schema=pa.schema([("x", pa.uint32())]))["x"].to_pylist()
    assert [sa.SymbolTable.default().name(each) for each in numbers] == ["a", "b", "a"]
    assert pa.table(table, schema=pa.schema([("x", pa.string())]))["x"].to_pylist() == ["a", "b", "a"]


def test_a_stream_of_thousands_of_batches_looks_names_up_once(anywhere):
    names = [f"b{i}" for i in range(1000)]
    encoded = pa.array(names).dictionary_encode()
    table = pa.table([pa.chunked_array([encoded.slice(i % 990, 10) for i in range(3000)])], names=["x"])
    table = table.cast(pa.schema([pa.field("x", encoded.type, metadata=CALLED)]))
    made = sa.from_arrow(table, anywhere)
    assert made["x"].num_chunks == 3000
    assert made["x"].combine_chunks().to_pylist() == table["x"].to_pylist()
    shown = made.to_arrow()["x"]
    assert shown.to_pylist() == table["x"].to_pylist()
    assert shown.chunk(2999).dictionary.to_pylist()[:10] == names[:10]


@given(
    rows=st.lists(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30), min_size=1, max_size=5),
    index=st.sampled_from(INDICES),
    data=st.data(),
)
def test_dictionaries_make_the_round_trip(rows, index, data):
    ctx = sa.context("host")
    rows = [
        [None if each is None else each.encode("utf-8", "ignore").decode() for each in part] for part in rows
    ]
    chunks = []
    for part in rows:
        values = list(dict.fromkeys(part)) or ["x"]
        if data.draw(st.booleans()):
            values = values + values  # every value is duplicated
        places = [data.draw(st.sampled_from([i for i, v in enumerate(values) if v == each])) for each in part]
        chunk = pa.DictionaryArray.from_arrays(pa.array(places, index), pa.array(values, pa.string()))
        start = data.draw(st.integers(0, len(part)))
        chunks.append(chunk.slice(start))
    table = pa.table(
        [pa.chunked_array(chunks)], schema=pa.schema([pa.field("x", chunks[0].type, metadata=CALLED)])
    )
    made = sa.from_arrow(table, ctx)
    assert made["x"].type == "symbol"
    expected = table["x"].to_pylist()
    assert made["x"].to_pylist() == expected
    assert made["x"].null_count == sum(each is None for each in expected)
    assert made.to_arrow()["x"].to_pylist() == expected
    assert made.combine_chunks().to_arrow()["x"].to_pylist() == expected
    assert sa.from_arrow(made.to_arrow(), ctx)["x"].to_pylist() == expected


# Other libraries


def test_polars_imports_categories_and_exports_a_dictionary(host):
    polars = pytest.importorskip("polars")
    column = cities(host)
    series = column.to_polars()
    assert series.dtype == polars.Categorical
    assert series.to_list() == CITIES
    again = sa.from_arrow(series, host)
    assert again.type != "symbol", "polars drops field metadata"
    assert again.as_symbols().to_pylist() == CITIES
    frame = polars.DataFrame(sa.table({"city": column}, host))
    assert sa.table(frame, host, schema=sa.schema([("city", "symbol")]))["city"].to_pylist() == CITIES
    enum = polars.Series("e", ["x", "y", None], dtype=polars.Enum(["y", "x"]))
    assert sa.from_arrow(enum, host).as_symbols().to_pylist() == ["x", "y", None]


def test_pandas_imports_categories_and_exports_a_dictionary(host):
    pandas = pytest.importorskip("pandas")
    series = cities(host).to_pandas()
    assert isinstance(series.dtype, pandas.CategoricalDtype)
    assert [None if pandas.isna(each) else each for each in series] == CITIES
    again = sa.column(pa.array(series), host, name="city", type="symbol")
    assert again.to_pylist() == CITIES


def test_duckdb_imports_symbols_and_exports_enums(host):
    duckdb = pytest.importorskip("duckdb")
    cities_table = sa.table({"city": cities(host)}, host)
    counted = duckdb.sql("select city, count(*) from cities_table group by 1 order by 2 desc, 1").fetchall()
    assert counted[0] == ("Lyon", 2)
    assert len(counted) == 5
    many = sa.concat_tables([cities_table, cities_table[2:4]])  # noqa: F841 - DuckDB finds it
    assert duckdb.sql("select count(distinct city) from many").fetchall() == [(4,)]
    made = duckdb.sql("select unnest(['a', 'b', NULL, 'a'])::enum('b', 'a') as e").arrow()
    made = made.read_all() if hasattr(made, "read_all") else made
    assert sa.from_arrow(made, host)["e"].as_symbols().to_pylist() == ["a", "b", None, "a"]


# Processes


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_a_forked_child_has_the_names_and_can_add_more():
    run("""
        import os, threading, warnings
        import saeta as sa
        warnings.simplefilter("ignore", DeprecationWarning)
        column = sa.column(["a", "b", None], "host", name="x", type="symbol")
        stop = threading.Event()
        def add():
            number = 0
            while not stop.is_set():
                sa.SymbolTable.default().intern(f"other {number}")
                number += 1
        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads: thread.start()
        codes = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                import signal
                signal.alarm(30)
                try:
                    assert column.to_pylist() == ["a", "b", None]
                    assert sa.SymbolTable.default().name(sa.SymbolTable.default().intern("child")) == "child"
                    assert column.to_arrow().to_pylist() == ["a", "b", None]
                    os._exit(0)
                except BaseException:
                    import traceback; traceback.print_exc(); os._exit(1)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        stop.set()
        for thread in threads: thread.join()
        assert codes == [0] * 20, codes
    """)


def test_symbols_of_another_process_stay_integers():
    from multiprocessing import get_context

    described = sa.column(["a"], "host", name="x", type="symbol").__arrow_c_device_array__()[0]
    metadata = dict(pa.Field._import_from_c_capsule(described).metadata)
    with get_context("spawn").Pool(1) as pool:
        seen = pool.apply(_type_of_numbers, (metadata,))
    assert seen == ("uint32", True, "ExchangeError")
    here = sa.from_arrow(pa.table([pa.array([0], pa.uint32())], schema=_numbers_schema(metadata)), "host")
    assert here["x"].type == "symbol"


def _numbers_schema(metadata):
    return pa.schema([pa.field("x", pa.uint32(), metadata=metadata)])


def _type_of_numbers(metadata):
    table = sa.from_arrow(pa.table([pa.array([0], pa.uint32())], schema=_numbers_schema(metadata)), "host")
    kept = dict(pa.schema(table.schema).field(0).metadata) == metadata
    try:
        table["x"].as_symbols()
    except sa.Error as refused:
        return table["x"].type.name, kept, type(refused).__name__
    return table["x"].type.name, kept, "no error"


def test_the_interpreter_exits_with_live_symbols():
    run("""
        import threading
        import saeta as sa
        column = sa.column(["a", "b"], "host", name="x", type="symbol")
        other = sa.column(["a"], "host", name="x", type=sa.SymbolTable().type)
        shown = column.to_arrow()
        stream = column.__arrow_c_stream__()
        names = sa.SymbolTable.default()
        threading.Thread(target=lambda: names.intern_all(map(str, range(200_000))), daemon=True).start()
    """)
