"""Pickling and copying of all public objects."""

from __future__ import annotations

import contextvars
import copy
import io
import multiprocessing
import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import pickled_work
import saeta as sa
from contexts import copies
from sim_devices import DEVICES, contexts_of

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def again(thing, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(thing, protocol))


def types():
    found = [field.type for field in sa.from_arrow(arrow_data.table(3), "host").schema]
    metadata = {"k": "v"}
    inside = sa.field("x", sa.DataType("int8"), nullable=False, metadata=metadata)
    found += [
        sa.DataType(each)
        for each in (
            "bool8",
            "extension<arrow.bool8>",
            "symbol",
            "timestamp[us, tz=Europe/Madrid]",
            "decimal256(70, -3)",
            "dictionary<values=string, indices=uint16, ordered=1>",
            pa.map_(pa.int8(), pa.utf8(), keys_sorted=True),
            pa.struct([]),
            pa.dictionary(pa.int8(), pa.list_(pa.utf8())),
            pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.utf8())], [7, 5]),
            pa.list_(pa.field("item", pa.uuid(), nullable=False, metadata=metadata)),
            pa.fixed_shape_tensor(pa.float32(), [2, 3], dim_names=["r", "c"]),
            sa.schema([inside]),
        )
    ]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_types_fields_and_schemas_make_the_round_trip(protocol):
    for type_ in types():
        restored = again(type_, protocol)
        assert restored == type_, type_
        assert pa.field(sa.field("x", restored)).equals(pa.field(sa.field("x", type_)), check_metadata=True)
        field = sa.field("ñ", type_, nullable=False, metadata={"a": b"\xff", "": ""})
        assert again(field, protocol) == field
    schema = sa.schema([sa.field("", each) for each in types()], metadata={"a": "b"})
    assert again(schema, protocol) == schema
    assert again(schema, protocol).metadata.pairs == [(b"a", b"b")]
    assert again(sa.schema([]), protocol) == sa.schema([])


def test_metadata_keeps_keys_that_repeat():
    pairs = [(b"k", b"1"), (b"k", b"2")]
    schema = sa.schema([sa.field("a", "int8", metadata=pairs)], metadata=pairs)
    assert again(schema).metadata.pairs == pairs
    assert again(schema)[0].metadata.pairs == pairs
    for protocol in PROTOCOLS:
        assert again(schema.metadata, protocol).pairs == pairs


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tables_and_columns_of_every_type_make_the_round_trip(ctx, protocol):
    source = arrow_data.table().replace_schema_metadata({"key": "value"})
    table = sa.from_arrow(source, ctx)
    restored = again(table, protocol)
    assert restored.device == "host"
    assert restored.to_arrow().equals(source)
    assert restored.to_arrow().schema.equals(source.schema, check_metadata=True)
    for column in table.columns:
        back = again(column, protocol)
        assert back.field == column.field
        assert pa.chunked_array(back).equals(source[column.name])


def test_batches_slices_and_empty_tables_make_the_round_trip(host):
    source = sa.from_arrow(arrow_data.table(60), host)
    parts = sa.concat_tables([source[3:20], source[20:21], source[50:]])
    restored = again(parts)
    assert [batch.num_rows for batch in restored.batches] == [17, 1, 10]
    assert restored.to_arrow().equals(parts.to_arrow())
    assert again(parts.columns[0]).num_chunks == 3
    for empty in (source[:0], source.select([]), source.select([])[:0], sa.table({}, host)):
        restored = again(empty)
        assert (restored.schema, restored.num_rows) == (empty.schema, empty.num_rows)
    assert (again(source[:0].columns[0]).field, len(again(source[:0].columns[0]))) == (source.schema[0], 0)
    renamed = source.columns[0].with_name("")
    assert again(renamed).name == ""
    twice = sa.table([("a", [1]), ("a", ["x"])], host)
    assert again(twice).column_names == ["a", "a"]
    required = sa.table({"a": [1]}, host, schema=sa.schema([sa.field("a", "int64", False, {"k": "v"})]))
    assert again(required).schema == required.schema
    assert again(required["a"]).field == required.schema[0]


def test_a_slice_is_pickled_without_the_rest(host):
    wide = sa.table({"n": np.arange(100_000), "s": ["text" * 10] * 100_000}, host)
    assert len(pickle.dumps(wide)) > 5_000_000
    assert len(pickle.dumps(wide[500:510])) < 10_000
    assert again(wide[500:510]).to_pydict() == wide[500:510].to_pydict()


def test_bool8_makes_the_round_trip(ctx):
    column = sa.from_dlpack(np.array([True, False, True]), ctx).with_name("flag")
    assert column.type == "bool8"
    restored = again(column)
    assert (restored.type, restored.to_pylist(), restored.name) == ("bool8", [True, False, True], "flag")
    extension = column.as_bool8()
    assert again(extension).type == extension.type
    table = sa.table([("a", column), ("a", [1, 2, 3])], ctx).replace_schema_metadata({"k": "v"})
    restored = again(table)
    assert restored.schema == table.schema
    assert [each.to_pylist() for each in restored.columns] == [[True, False, True], [1, 2, 3]]


def test_unpickled_symbols_belong_to_the_process(ctx):
    words = ["Lyon", None, "Brno", "Lyon"]
    for own in (None, sa.SymbolTable()):
        column = sa.column(words, ctx, name="city", type="symbol" if own is None else own.type)
        for found in (again(column), again(sa.table({"city": column}))["city"]):
            assert found.type == sa.DataType("symbol")
            assert found.to_pylist() == words
    assert again(sa.SymbolTable().type) == sa.DataType("symbol")


def test_symbols_are_renumbered_by_the_unpickling_process(run_python):
    words = ["new in that process", "and this"]
    content = pickle.dumps(sa.column(words, "host", name="w", type="symbol"))
    program = """if True:
        import pickle, sys, saeta as sa
        sa.SymbolTable.default().intern_all(str(i) for i in range(1000))
        found = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(found.type, found.to_pylist(), sa.SymbolTable.default().find("and this") >= 1000)
    """
    done = run_python(program, content.hex())
    assert done.stdout.split("\n")[0] == f"symbol {words} True", done.stderr


def test_each_batch_keeps_its_own_dictionary(host):
    first, second = (
        sa.table({"w": pa.array(words).dictionary_encode()}, host) for words in (["a"], ["b", "a"])
    )
    table = sa.concat_tables([first, second])
    restored = again(table)
    assert restored["w"].to_pylist() == ["a", "b", "a"]
    assert restored.schema == table.schema


def test_out_of_band_buffers_of_protocol_5_are_viewed(host):
    table = sa.table({"a": np.arange(100_000), "s": ["x"] * 100_000}, host)
    buffers = []
    content = pickle.dumps([table, table["a"]], 5, buffer_callback=buffers.append)
    assert len(content) < 1000
    assert [memoryview(each).nbytes >= 800_000 for each in buffers] == [True, True]
    received = [bytearray(memoryview(each)) for each in buffers]
    host.reset_counters()
    found, column = pickle.loads(content, buffers=received)
    assert copies(host) == 0
    assert found.to_arrow().equals(table.to_arrow())
    inside = range(
        *(lambda at: (at, at + len(received[1])))(np.frombuffer(received[1], np.uint8).ctypes.data)
    )
    assert column.address in inside
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(content, buffers=[])
    for wrong in (b"", b"nothing of Arrow", bytes(received[0])[:1000]):
        with pytest.raises(sa.FormatError):
            pickle.loads(content, buffers=[wrong, received[1]])


def large_table():
    """Returns a table of pyarrow with columns that are packed by themselves, among others that are not."""
    rows = 200_000
    numbers = np.arange(rows)
    words = pa.array([f"word {number}" for number in range(100)]).take(pa.array(numbers % 100))
    columns = {
        "word": words,
        "a": numbers,
        "code": words.dictionary_encode(),
        "b": numbers / 7,
        "null": pa.array(numbers, mask=numbers % 3 == 0),
        "few": numbers.astype(np.int8),
    }
    fields = [pa.field(name, pa.array(values).type, name != "b") for name, values in columns.items()]
    table = pa.table(list(columns.values()), pa.schema(fields, {"key": "value"}))
    return table.rename_columns(["word", "a", "code", "b", "a", "few"])


def test_columns_of_a_large_table_are_pickled_from_where_they_are(host):
    source = large_table()
    table = sa.from_arrow(source, host)
    buffers = []
    host.reset_counters()
    content = pickle.dumps(table, 5, buffer_callback=buffers.append)
    at = [np.frombuffer(each, np.uint8).ctypes.data for each in buffers]
    assert at[:2] == [table[1].address, table[3].address]  # nothing of them was copied
    assert len(buffers) == 3  # and one for the others together
    assert sum(memoryview(each).nbytes for each in buffers) < source.nbytes + 4096
    for restored in (pickle.loads(content, buffers=buffers), again(table), again(table, 4)):
        assert restored.schema == table.schema
        made = restored.to_arrow()
        assert made.schema.equals(source.schema, check_metadata=True)
        assert made.equals(source)
    with pytest.raises(sa.FormatError):
        pickle.loads(content, buffers=[buffers[0], b"", buffers[2]])


def test_a_large_table_is_unpickled_into_every_context(ctx):
    source = large_table()
    content = pickle.dumps(sa.from_arrow(source, "host"), 5)
    with sa.unpickling(ctx):
        restored = pickle.loads(content)
    assert restored.context == ctx
    assert restored.to_arrow().equals(source)
    alone = source.select([1, 3])
    assert again(sa.from_arrow(alone, ctx)).to_arrow().equals(alone)
    assert again(sa.from_arrow(source, ctx)[5:]).to_arrow().equals(source[5:])
    parts = sa.concat_tables([sa.from_arrow(source, ctx)] * 2)
    assert [batch.num_rows for batch in again(parts).batches] == [200_000, 200_000]


def test_a_table_in_a_pickle_twice_is_one_table(host):
    table = sa.table({"a": [1]}, host)
    first, second = again([table, table])
    assert first is second


def test_sa_unpickling_chooses_the_context(ctx):
    table = sa.table({"a": [1, 2]}, "host")
    content = pickle.dumps([table, table["a"], sa.concat_tables([table, table])])
    with sa.unpickling(ctx) as where:
        assert where == ctx
        whole, column, several = pickle.loads(content)
    assert whole.context == column.context == several.context == ctx
    assert several.num_batches == 2
    assert several["a"].to_pylist() == [1, 2, 1, 2]
    assert pickle.loads(content)[0].context == sa.context("host")


def test_sa_unpickling_can_be_nested_and_ends_with_an_error():
    host = sa.context("host")
    outer, inner = (host.memory.child("1MiB") for _ in range(2))
    content = pickle.dumps(sa.table({"a": [1]}, "host"))

    def place():
        return pickle.loads(content).context

    def fail_in(where):
        assert place() == where
        raise LookupError

    with sa.unpickling(outer):
        with pytest.raises(LookupError), sa.unpickling(inner):
            fail_in(inner)
        assert place() == outer
        with sa.unpickling("host"):
            assert place() == host
    assert place() == host
    for each in (outer, inner):
        each.close()
    with pytest.raises(sa.TypeMismatch), sa.unpickling(7):
        pass


def test_sa_unpickling_affects_only_its_thread():
    child = sa.context("host").memory.child("1MiB")
    content = pickle.dumps(sa.table({"a": [1]}, "host"))
    seen = []
    with sa.unpickling(child):
        thread = threading.Thread(target=lambda: seen.append(pickle.loads(content).context))
        thread.start()
        thread.join()
        seen.append(contextvars.Context().run(lambda: pickle.loads(content).context))
        seen.append(contextvars.copy_context().run(lambda: pickle.loads(content).context))
    assert seen == [sa.context("host"), sa.context("host"), child]
    child.close()


def test_pickling_a_device_table_is_a_download(ctx):
    table = sa.table({"a": [1, 2]}, ctx)
    with ctx.forbid_downloads():
        if ctx.device == "host":
            pickle.dumps(table)
        else:
            with pytest.raises(sa.DownloadForbidden):
                pickle.dumps(table)


def belongings(host, tmp_path):
    """Returns objects that can't be pickled, each with the advice in its error message."""
    path = tmp_path / "a.arrow"
    table = sa.table({"a": [1]}, host)
    table.write_ipc(path)
    buffer = host.allocate(8)
    return [
        (host, r"saeta\.context\(name\) there.*saeta\.unpickling"),
        (host.memory.child("1MiB"), r"saeta\.context\(name\) there"),
        (host.memory, r"statistics\(\)"),
        (host.memory.window(), "make one"),
        (host.capturing(), "make one"),
        (host.forbid_downloads(), "make one"),
        (sa.devices()[-1], "pass its name"),
        (buffer, r"numpy\.array\(token\.array\(buffer\)\)"),
        (sa.use(reads=[buffer]), "make one"),
        (sa.counted_table(table, np.array([1], np.uint32)), r"to_table\(\)"),
        (sa.SymbolTable.default(), "with their names"),
        (sa.scan_ipc(path, host), "pass the source"),
        (sa._ipc.open_file(path), "pass the source"),
        (sa._ipc.create_file(tmp_path / "never.arrow"), "a file of its own"),
    ]


def test_errors_for_unpicklable_objects_give_advice(host, tmp_path):
    for thing, words in belongings(host, tmp_path):
        for protocol in PROTOCOLS:
            with pytest.raises(
                sa.TypeMismatch, match=f"{type(thing).__name__} .*can't be pickled: .*{words}"
            ):
                pickle.dumps(thing, protocol)


def test_copying_returns_the_same_object_where_possible(host, tmp_path):
    table = sa.table({"a": [1]}, host)
    schema = table.schema
    same = [
        table,
        table["a"],
        schema,
        schema[0],
        schema[0].type,
        host,
        host.memory,
        sa.SymbolTable.default(),
        host.allocate(8),
    ]
    for thing in same:
        assert copy.copy(thing) is thing
        assert copy.deepcopy({"held": [thing]})["held"][0] is thing
    scan = sa.scan_ipc(io.BytesIO(table.to_ipc_bytes()), host)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(sa.TypeMismatch, match="scan it there"):
            copied(scan)


def source_and_expected(ctx):
    words = [None, "x", "y"] * 10
    table = sa.table(
        {"a": np.arange(30), "w": words, "c": sa.column(words, ctx, name="c", type="symbol")}, ctx
    )
    return table, [*range(1, 30), 0]


def check(outcome, table, expected):
    turned, seen = outcome
    assert turned["a"].to_pylist() == expected
    assert turned.schema == seen["schema"] == table.schema
    assert seen["device"] == "host"
    assert seen["values"] == [None, "x", "y"] * 10


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_passes_tables_to_processes_and_back(ctx, method):
    table, expected = source_and_expected(ctx)
    with multiprocessing.get_context(method).Pool(1) as pool:
        check(pool.apply(pickled_work.turned, (table, table["w"])), table, expected)


def test_joblib_passes_tables_to_processes_and_back(host):
    joblib = pytest.importorskip("joblib")
    table, expected = source_and_expected(host)
    work = [joblib.delayed(pickled_work.turned)(table, table["c"])] * 2
    for outcome in joblib.Parallel(n_jobs=2)(work):
        check(outcome, table, expected)


def test_joblib_stores_tables(host, tmp_path):
    joblib = pytest.importorskip("joblib")
    table, _ = source_and_expected(host)
    joblib.dump({"table": table}, tmp_path / "stored", compress=3)
    assert joblib.load(tmp_path / "stored")["table"].to_pylist() == table.to_pylist()


def test_cloudpickle_pickles_tables_in_closures(host, run_python):
    cloudpickle = pytest.importorskip("cloudpickle")
    table, _ = source_and_expected(host)

    def total():
        return sum(table["a"].to_pylist())

    program = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1]))())"
    assert run_python(program, cloudpickle.dumps(total).hex()).stdout == "435\n"


def test_torch_saves_and_loads_tables(host, tmp_path):
    torch = pytest.importorskip("torch")
    table, _ = source_and_expected(host)
    torch.save({"table": table}, tmp_path / "saved.pt")
    found = torch.load(tmp_path / "saved.pt", weights_only=False)["table"]
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_torch_data_loader_return_tables(host, method):
    data = pytest.importorskip("torch.utils.data")
    table, _ = source_and_expected(host)
    loader = data.DataLoader(
        pickled_work.Rows(table),
        batch_size=10,
        num_workers=1,
        collate_fn=sa.concat_tables,
        multiprocessing_context=method,
    )
    assert [part["a"].to_pylist() for part in loader] == [[*range(at, at + 10)] for at in (0, 10, 20)]
