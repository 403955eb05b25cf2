"""Arrow PyCapsule Interface in both directions, against pyarrow."""

from __future__ import annotations

import ctypes
import errno

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import copies
from protocols import OnlyArray, OnlySchema, OnlyStream, capsule_name, new_capsule, stream_in

NAMES = sorted(arrow_data.arrays(0))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.list_(pa.string_view())], ids=str)
def test_views_of_up_to_twelve_bytes_are_inline(anywhere, kind):
    texts = ["x" * size for size in (0, 4, 11, 12, 13, 12, 5000)] + [None, "é" * 6, "é" * 7]
    values = [text if text is None else text.encode() for text in texts] if "binary" in str(kind) else texts
    values = [[value] for value in values] if pa.types.is_list(kind) else values
    source = pa.array(values, kind)
    for column in (
        sa.from_arrow(source, anywhere),
        sa.from_arrow(source, anywhere, copy=True),
        sa.from_arrow(pa.chunked_array([source[:3], source[3:]]), anywhere).combine_chunks(),
    ):
        assert column.to_pylist() == values
        assert [column[row] for row in range(len(values))] == values
        assert column[3:5].to_pylist() == values[3:5]
        assert column.equals(sa.from_arrow(source, anywhere))
    only = pa.array(values[3:4], kind)  # has no variadic data buffer
    assert sa.from_arrow(only, anywhere).to_pylist() == values[3:4]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("window", [(0, 67), (0, 0), (1, 65), (9, 8), (7, 1)], ids=str)
def test_every_type_makes_the_round_trip(host, name, window):
    source = arrow_data.arrays()[name].slice(*window)
    column = sa.from_arrow(source, host, as_column=True)
    assert len(column) == len(source)
    assert column.physical_null_count == source.null_count
    assert pa.array(column).equals(source)
    assert pa.chunked_array(column).combine_chunks().equals(source) or len(source) == 0
    assert column.to_arrow().type == source.type


@pytest.mark.parametrize("name", NAMES)
def test_every_type_survives_a_copy_into_the_context(anywhere, name):
    source = arrow_data.arrays()[name].slice(5, 50)
    column = sa.from_arrow(source, anywhere, copy=True, as_column=True)
    assert anywhere.memory.statistics()["external"] == 0
    assert column.physical_null_count == source.null_count
    assert column.to_arrow().combine_chunks().equals(source)
    assert column.slice(3, 9).to_arrow().combine_chunks().equals(source.slice(3, 9))


@pytest.mark.parametrize("name", NAMES)
def test_types_have_the_names_of_arrow(host, name):
    source = arrow_data.arrays()[name]
    column = sa.from_arrow(source, host, as_column=True)
    assert pa.field(column.field) == pa.field("", source.type)
    if not pa.types.is_dictionary(source.type):
        assert column.type == str(source.type)


def test_a_table_makes_the_round_trip_without_a_copy(host):
    source = arrow_data.table().replace_schema_metadata({"key": "value"})
    table = sa.from_arrow(source, host)
    assert copies(host) == 0
    again = pa.table(table)
    assert again.equals(source)
    assert again.schema.equals(source.schema, check_metadata=True)
    for name in ("int64", "float32", "date32[day]"):
        assert table[name].address == source[name].chunk(0).buffers()[1].address
        assert again[name].chunk(0).buffers()[1].address == table[name].address
    assert copies(host) == 0


def test_slices_are_free_and_keep_their_offset(host):
    source = arrow_data.table()
    part = sa.from_arrow(source, host)[9:40].slice(3, 20)
    assert copies(host) == 0
    assert pa.table(part).equals(source.slice(12, 20))
    assert part["int64"].address == source["int64"].chunk(0).buffers()[1].address + 12 * 8


@pytest.mark.parametrize("wrapped", [OnlyStream, OnlyArray])
def test_objects_with_a_single_protocol_are_imported(host, wrapped):
    batch = pa.record_batch({"a": [1, 2, None], "b": ["x", None, "z"]})
    table = sa.from_arrow(wrapped(batch), host)
    assert isinstance(table, sa.Table)
    assert table.to_arrow().to_batches() == [batch]
    column = sa.from_arrow(OnlyArray(pa.array([1, None])), host)
    assert isinstance(column, sa.Column)
    assert column.to_pylist() == [1, None]


def test_batches_and_chunks_are_kept(host):
    source = pa.table({"a": pa.chunked_array([[1, 2], [3], []], pa.int64())})
    table = sa.from_arrow(source, host)
    assert [batch.num_rows for batch in table.batches] == [2, 1]
    column = sa.from_arrow(OnlyStream(pa.chunked_array([[1, 2], [3], []], pa.int64())), host)
    assert [len(chunk) for chunk in column.chunks] == [2, 1, 0]
    assert column.to_arrow().equals(pa.chunked_array([[1, 2], [3], []], pa.int64()))


def test_schemas_pass_in_both_directions(host):
    schema = pa.schema(
        [pa.field("a", pa.int32(), nullable=False, metadata={"k": "v"}), ("a", pa.string()), ("", pa.null())]
    )
    ours = sa.from_arrow(OnlySchema(schema))
    assert isinstance(ours, sa.Schema)
    assert ours.names == ["a", "a", ""]
    assert pa.schema(ours).equals(schema, check_metadata=True)
    assert ours.fields[0].metadata == {b"k": b"v"}
    assert not ours[0].nullable
    with pytest.raises(sa.InvalidError):
        ours.field("a")
    assert ours.field(-1).type == "null"
    field = sa.from_arrow(OnlySchema(pa.timestamp("us", "UTC")))
    assert isinstance(field, sa.Field)
    assert pa.field(field).type == pa.timestamp("us", "UTC")


def test_empty_tables_and_columns_keep_their_schema(host):
    no_rows = arrow_data.table().slice(0, 0)
    assert pa.table(sa.from_arrow(no_rows, host)).equals(no_rows)
    no_batches = pa.schema([("a", pa.int32()), ("s", pa.string())]).empty_table()
    table = sa.from_arrow(no_batches, host)
    assert (table.num_rows, table.column_names) == (0, ["a", "s"])
    no_columns = sa.from_arrow(pa.record_batch({"a": [1, 2, 3]}).select([]), host)
    assert (no_columns.num_rows, no_columns.num_columns) == (3, 0)
    assert no_columns.to_arrow().num_rows == 3


def test_a_column_of_several_chunks_has_no_arrow_array(host):
    column = sa.from_arrow(pa.chunked_array([[1], [2]]), host)
    with pytest.raises(BufferError, match=r"\.chunks"):
        column.__arrow_c_array__()
    with pytest.raises(sa.ExchangeError, match=r"\.chunks"):
        _ = column.address
    assert [pa.array(chunk).to_pylist() for chunk in column.chunks] == [[1], [2]]


def test_requested_schema_is_best_effort(host):
    table = sa.from_arrow(pa.table({"a": pa.array([1], pa.int32())}), host)
    wanted = pa.schema([("a", pa.int64())]).__arrow_c_schema__()
    got = pa.RecordBatchReader._import_from_c_capsule(table.__arrow_c_stream__(wanted))
    assert got.schema.field("a").type == pa.int32()
    other_shape = pa.schema([("a", pa.int64()), ("b", pa.int64())]).__arrow_c_schema__()
    with pytest.raises(sa.InvalidError, match="2 fields"):
        table.__arrow_c_stream__(requested_schema=other_shape)
    with pytest.raises(sa.InvalidError, match="arrow_schema"):
        table["a"].__arrow_c_array__(object())


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c"]], ids=len)
def test_a_requested_schema_of_another_width_is_refused(host, names):
    table = sa.from_arrow(pa.table({"a": [1], "b": [2]}), host)
    wanted = pa.schema([(name, pa.int64()) for name in names]).__arrow_c_schema__()
    with pytest.raises(sa.InvalidError, match=f"requested_schema has {len(names)} fields, the data 2"):
        table.__arrow_c_stream__(wanted)


def test_a_requested_schema_does_not_match_columns_by_position(host):
    """Requested types are matched by column name. A schema with other names or in another order has no
    effect."""
    source = pa.table({"a": pa.array(["x"]), "b": pa.array(["y"])})
    table = sa.from_arrow(source, host)
    for names, shown in (
        (["a", "b"], [pa.binary(), pa.binary()]),
        (["a", "c"], [pa.binary(), pa.string()]),
        (["c", "d"], [pa.string(), pa.string()]),
        (["b", "a"], [pa.string(), pa.string()]),
    ):
        wanted = pa.schema([(name, pa.binary()) for name in names])
        got = pa.RecordBatchReader._import_from_c_capsule(
            table.__arrow_c_stream__(wanted.__arrow_c_schema__())
        )
        assert got.schema.names == ["a", "b"], names
        assert got.schema.types == shown, names
        _, array = table.__arrow_c_device_array__(wanted.__arrow_c_schema__())
        assert capsule_name(array) == "arrow_device_array"


VIEWS = [
    (pa.array(["a", None, "é"]), pa.binary()),
    (pa.array(["a", "b"], pa.large_string()), pa.large_binary()),
    (pa.array(["a" * 20, None], pa.string_view()), pa.binary_view()),
    (pa.array([1, None, 3], pa.timestamp("us")), pa.int64()),
    (pa.array([1, None, 3]), pa.timestamp("ns")),
    (pa.array([1, 2], pa.date32()), pa.int32()),
    (pa.array([1, 2], pa.duration("s")), pa.int64()),
    (pa.array([1, 2], pa.timestamp("us", "UTC")), pa.timestamp("us", "Europe/Paris")),
    (pa.array([["a"], None]), pa.list_(pa.binary())),
    (pa.array([{"x": "a"}, None]), pa.struct([("x", pa.binary())])),
    (pa.array(["a", "b", "a"]).dictionary_encode(), pa.dictionary(pa.int32(), pa.binary())),
]


@pytest.mark.parametrize(
    ("source", "wanted"), VIEWS, ids=lambda value: str(value.type if hasattr(value, "type") else value)
)
def test_a_requested_type_with_the_same_bytes_is_exported(host, source, wanted):
    column = sa.from_arrow(source, host, as_column=True)
    named = pa.field("x", wanted)
    for export in (column.__arrow_c_array__, column.__arrow_c_device_array__):
        assert sa.from_arrow(export(named.__arrow_c_schema__()), host, as_column=True).type == sa.DataType(
            wanted
        )
    shown = pa.Array._import_from_c_capsule(*column[1:].__arrow_c_array__(wanted.__arrow_c_schema__()))
    shown.validate(full=True)
    assert shown.type == wanted
    assert shown.null_count == source[1:].null_count
    assert shown.buffers()[-1].address == pa.array(column).buffers()[-1].address
    table = sa.table({"x": column})
    seen = pa.RecordBatchReader._import_from_c_capsule(
        table.__arrow_c_stream__(pa.schema([named]).__arrow_c_schema__())
    ).read_all()
    assert seen.schema.field("x").type == wanted
    assert seen["x"].combine_chunks().equals(pa.array(sa.from_arrow(seen["x"], host, as_column=True)))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (pa.array([1], pa.int32()), pa.int64()),
        (pa.array([1], pa.int32()), pa.uint32()),
        (pa.array([b"a"]), pa.string()),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us")), pa.duration("us")),
        (pa.array([1.5], pa.float32()), pa.int32()),
        (pa.array([["a"]]), pa.large_list(pa.string())),
        (pa.array([1], pa.decimal128(9, 2)), pa.decimal128(10, 2)),
    ],
    ids=str,
)
def test_a_requested_type_with_other_bytes_is_ignored(host, source, wanted):
    column = sa.from_arrow(source, host, as_column=True)
    shown = pa.Array._import_from_c_capsule(*column.__arrow_c_array__(wanted.__arrow_c_schema__()))
    assert shown.equals(source)


def test_pyarrow_gets_the_schema_that_it_requests(host):
    table = sa.table({"t": pa.array([1, None], pa.timestamp("us")), "n": pa.array([1, 2], pa.int32())}, host)
    schema = pa.schema([("t", pa.int64()), ("n", pa.int64())])
    assert pa.table(table, schema=schema).schema == schema


def test_unknown_keywords_of_later_standards_are_accepted(host):
    table = sa.from_arrow(pa.table({"a": [1]}), host)
    assert capsule_name(table.__arrow_c_stream__(None, later=1)) == "arrow_array_stream"
    schema, array = table["a"].__arrow_c_array__(later=2)
    assert (capsule_name(schema), capsule_name(array)) == ("arrow_schema", "arrow_array")


def test_structs_are_imported_as_a_table_or_a_column(host):
    source = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}])
    for wrapped in (
        source,
        OnlyArray(source),
        OnlyStream(pa.chunked_array([source])),
        source.__arrow_c_array__(),
    ):
        with pytest.raises(sa.UnsupportedError, match="1 of 3 rows are null as a whole"):
            sa.from_arrow(source, host)
        column = sa.from_arrow(wrapped, host, as_column=True)
        assert isinstance(column, sa.Column)
        assert column.to_pylist() == source.to_pylist()
    rows = sa.from_arrow(source.drop_null(), host)
    assert isinstance(rows, sa.Table)
    assert rows.to_pydict() == {"a": [1, None], "b": ["x", "z"]}
    assert sa.table({"s": source}, host).to_pydict() == {"s": source.to_pylist()}
    with pytest.raises(sa.TypeMismatch, match="is a table"):
        sa.table({"s": pa.table({"a": [1]})}, host)


def test_raw_capsules_are_accepted(host):
    batch = pa.record_batch({"a": [1, 2]})
    assert sa.from_arrow(batch.__arrow_c_array__(), host).num_rows == 2
    assert sa.from_arrow(pa.table(batch).__arrow_c_stream__(), host).num_rows == 2
    assert sa.from_arrow(batch.schema.__arrow_c_schema__()).names == ["a"]


def test_a_capsule_is_consumed_once(host):
    stream = pa.table({"a": [1]}).__arrow_c_stream__()
    assert sa.from_arrow(stream, host).num_rows == 1
    with pytest.raises(sa.ClosedError, match="consumed"):
        sa.from_arrow(stream, host)
    schema, array = pa.array([1]).__arrow_c_array__()
    assert len(sa.from_arrow((schema, array), host)) == 1
    with pytest.raises(sa.ClosedError):
        sa.from_arrow((schema, array), host)


def test_a_refused_import_leaves_the_array_in_its_capsule(host):
    host.memory.limit = 10
    schema, array = pa.array(range(1000)).__arrow_c_array__()
    with pytest.raises(sa.BudgetExceeded):
        sa.from_arrow((schema, array), host, copy=True)
    host.memory.limit = None
    assert len(sa.from_arrow((schema, array), host, copy=True)) == 1000


@pytest.mark.parametrize(
    "source", [None, 3, "text", object(), (1, 2), new_capsule(b"something")], ids=lambda s: type(s).__name__
)
def test_objects_without_arrow_data_are_refused_by_type(host, source):
    with pytest.raises((sa.TypeMismatch, sa.InvalidError)):
        sa.from_arrow(source, host)


def test_swapped_capsules_are_refused(host):
    schema, array = pa.array([1]).__arrow_c_array__()
    with pytest.raises((sa.TypeMismatch, sa.InvalidError)):
        sa.from_arrow((array, schema), host)


def test_an_error_of_a_stream_is_raised(host):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the producer broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    with pytest.raises(sa.Error, match="the producer broke"):
        sa.from_arrow(reader, host)


def of_structs():
    return pa.table({"a": [1, 2]}).__arrow_c_stream__()


def of_arrays():
    return pa.chunked_array([[1, 2], [3]]).__arrow_c_stream__()


@pytest.mark.parametrize("source", [of_structs, of_arrays])
@pytest.mark.parametrize("callback", ["get_schema", "get_next"])
def test_a_stream_without_a_callback_is_refused_and_released(host, source, callback):
    stream = source()
    setattr(stream_in(stream), callback, None)
    with pytest.raises(sa.FormatError, match="get_schema or get_next is null"):
        sa.from_arrow(stream, host)
    assert stream_in(stream).release is None


@pytest.mark.parametrize("source", [of_structs, of_arrays])
@pytest.mark.parametrize("with_text", [True, False])
@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (errno.EIO, sa.FileError),
        (errno.ENOMEM, sa.OutOfMemory),
        (errno.EINVAL, sa.FormatError),
        (errno.ENOSYS, sa.UnsupportedError),
        (errno.EAGAIN, sa.ExchangeError),
    ],
)
def test_the_errno_of_a_stream_determines_the_exception(host, source, with_text, number, raised):
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    fail = call(lambda *_: number)
    stream = source()
    stream_in(stream).get_next = ctypes.cast(fail, ctypes.c_void_p).value
    if not with_text:
        stream_in(stream).get_last_error = None
    with pytest.raises(raised, match=f"get_next failed with errno {number} "):
        sa.from_arrow(stream, host)


def test_copy_false_shares_memory_or_says_why_not(anywhere):
    batch = pa.record_batch({"a": [1, 2, 3]})
    for source in (pa.table(batch), OnlyArray(batch), OnlyArray(batch["a"])):
        if anywhere.device == "host":
            shared = sa.from_arrow(source, anywhere, copy=False)
            column = shared["a"] if isinstance(shared, sa.Table) else shared
            assert column.address == batch["a"].buffers()[1].address
        else:
            with pytest.raises(sa.ExchangeError, match="without a copy"):
                sa.from_arrow(source, anywhere, copy=False)
    assert copies(anywhere) == 0


def test_copy_false_refuses_buffers_that_are_not_aligned(host):
    bytes_ = pa.py_buffer(bytes(8 * 10 + 1)).slice(1)
    column = pa.Array.from_buffers(pa.int64(), 10, [None, bytes_])
    for source in (OnlyArray(column), OnlyStream(pa.chunked_array([column]))):
        with pytest.raises(sa.ExchangeError, match="not aligned"):
            sa.from_arrow(source, host, copy=False)
        assert len(sa.from_arrow(source, host)) == 10


@pytest.mark.parametrize(
    ("field", "part"),
    [
        (pa.field(b"a\xff", pa.int32()), "name"),
        (pa.field("when", pa.timestamp("us", tz=b"Mars/\xe9")), "format"),
        (pa.field("word", pa.int8(), metadata={"ARROW:extension:name": b"\xff"}), "ARROW:extension:name"),
    ],
    ids=["name", "time zone", "extension"],
)
def test_text_that_is_not_utf8_is_refused_with_its_column(host, field, part):
    schema = pa.schema([pa.field("good", pa.int8()), field])
    with pytest.raises(sa.FormatError, match=rf"column '(a\\xff|when|word)': {part} is not UTF-8"):
        sa.from_arrow(OnlySchema(schema))
    reader = pa.RecordBatchReader.from_batches(schema, [])
    with pytest.raises(sa.FormatError, match="is not UTF-8"):
        sa.from_arrow(reader, host)


def test_bool8_is_the_canonical_extension(host):
    bits = sa.from_arrow(pa.array([True, None, False]), host)
    bytes_ = bits.as_bool8()
    assert bytes_.type.is_bool8
    assert bytes_.type.extension_name == "arrow.bool8"
    assert bytes_.to_pylist() == [True, None, False]
    assert bytes_.as_bool().to_arrow().equals(pa.chunked_array([[True, None, False]]))
    if hasattr(pa, "bool8"):  # pyarrow 18 and newer
        assert pa.array(bytes_).type == pa.bool8()


def test_columns_that_are_overlapping_slices_keep_all_rows(anywhere):
    rows = pa.array([f"row {i}" for i in range(1000)])
    lists = pa.array([[i, -i] for i in range(1000)])
    source = pa.table(
        {"now": rows[500:600], "next": rows[516:616], "again": rows[500:600], "lists": lists[516:616]}
    )
    source = source.append_column("before", lists[500:600])
    made = sa.from_arrow(source, anywhere, copy=True)
    assert made.to_arrow().equals(source)
    text = sa.column(rows, anywhere, name="text")
    lag = sa.table({"now": text[1:], "before": text[:-1]})
    assert lag.to_arrow().equals(pa.table({"now": rows[1:], "before": rows[:-1]}))
