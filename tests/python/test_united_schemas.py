"""Joining tables and files whose schemas differ in nullability or nested names: every operation follows one
rule.

The expected rows are those that pyarrow makes of all values in the united schema.
"""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from loader_options import grouped
from sim_devices import DEVICES, contexts_of


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def field(type_, nullable=True, name="v"):
    return pa.field(name, type_, nullable)


def list_of(name, nullable=True):
    return pa.list_(pa.field(name, pa.int64(), nullable))


def map_of(key, item):
    return pa.map_(pa.field(key, pa.string(), False), pa.field(item, pa.int64()))


def struct_of(type_):
    return pa.struct([("a", pa.int64()), ("b", type_)])


# Each case: field and values of two tables, and the united field.
PAIRS = {
    "nulls later": (field(pa.int64(), False), [1], field(pa.int64()), [None, 2], field(pa.int64())),
    "nulls first": (field(pa.int64()), [None, 2], field(pa.int64(), False), [1], field(pa.int64())),
    "item, element": (
        field(list_of("item")),
        [[1]],
        field(list_of("element")),
        [[2], None],
        field(list_of("item")),
    ),
    "values allow nulls": (
        field(list_of("item", False)),
        [[1]],
        field(list_of("element")),
        [[None]],
        field(list_of("item")),
    ),
    "large lists": (
        field(pa.large_list(pa.field("x", pa.int8()))),
        [[1]],
        field(pa.large_list(pa.field("y", pa.int8()))),
        [[2]],
        field(pa.large_list(pa.field("x", pa.int8()))),
    ),
    "lists of a size": (
        field(pa.list_(pa.field("x", pa.int8()), 2)),
        [[1, 2]],
        field(pa.list_(pa.field("y", pa.int8()), 2)),
        [[3, None]],
        field(pa.list_(pa.field("x", pa.int8()), 2)),
    ),
    "maps": (
        field(map_of("key", "value")),
        [[("a", 1)]],
        field(map_of("k", "v")),
        [[("b", None)], None],
        field(map_of("key", "value")),
    ),
    "null later": (field(pa.float64()), [1.5], field(pa.null()), [None, None], field(pa.float64())),
    "null first": (field(pa.null()), [None, None], field(pa.float64()), [1.5], field(pa.float64())),
    "null and not null": (
        field(pa.string(), False),
        ["x"],
        field(pa.null()),
        [None],
        field(pa.string()),
    ),
    "null inside of lists": (
        field(pa.list_(pa.null())),
        [[], [None, None]],
        field(pa.list_(pa.string())),
        [["a"]],
        field(pa.list_(pa.string())),
    ),
    "null inside of structs": (
        field(struct_of(pa.string())),
        [{"a": 1, "b": "x"}],
        field(struct_of(pa.null())),
        [None, {"a": 2, "b": None}],
        field(struct_of(pa.string())),
    ),
}

OF_NULLS = {
    "bool": pa.bool_(),
    "text": pa.string(),
    "large text": pa.large_string(),
    "bytes of a size": pa.binary(3),
    "decimal": pa.decimal128(10, 2),
    "timestamp": pa.timestamp("us", "UTC"),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "list": pa.list_(pa.int16()),
    "map": pa.map_(pa.string(), pa.int8()),
    "struct": pa.struct([("a", pa.int8()), ("b", pa.string())]),
}
IN_MEMORY = {  # types that pyarrow reads from Parquet differently than written
    "view": pa.string_view(),
    "list view": pa.list_view(pa.int8()),
    "interval": pa.month_day_nano_interval(),
    "runs": pa.run_end_encoded(pa.int32(), pa.string()),
    "dense union": pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
    "sparse union": pa.sparse_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
}


def pair(name):
    one, left, other, right, whole = PAIRS[name]
    return table(one, left), table(other, right), whole, left + right


def table(described, values):
    return pa.table([pa.array(values, described.type)], schema=pa.schema([described]))


def write_arrow(path, made, **options):
    with pa.ipc.new_file(path, made.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(made)


def files(folder, tables, ending, **options):
    for number, each in enumerate(tables):
        path = folder / f"{number}.{ending}"
        if ending == "parquet":
            pq.write_table(each, path)
        else:
            write_arrow(path, each, **options)
    return folder


def joined(device, folder, tables):
    return sa.concat_tables([sa.from_arrow(each, device) for each in tables])


def read(device, folder, tables):
    return sa.read_ipc(files(folder, tables, "arrow"), device)


def read_joined(device, folder, tables):
    return sa.read_ipc(files(folder, tables, "arrow"), device, combine_chunks=True)


def read_compressed(device, folder, tables):
    return sa.read_ipc(files(folder, tables, "arrow", compression="zstd"), device, copy=True)


def read_bytes(device, folder, tables):
    files(folder, tables, "arrow")
    return sa.read_ipc([io.BytesIO(path.read_bytes()) for path in sorted(folder.iterdir())], device)


def scanned(device, folder, tables):
    with sa.scan_ipc(files(folder, tables, "arrow"), device, batch_size=2) as scan:
        return same_schemas(scan)


def scanned_windows(device, folder, tables):
    with sa.scan_ipc(files(folder, tables, "arrow"), device, copy=True) as scan:
        return same_schemas(scan)


def of_parquet(device, folder, tables):
    return sa.read_parquet(files(folder, tables, "parquet"), device)


def scanned_parquet(device, folder, tables):
    with sa.scan_parquet(files(folder, tables, "parquet"), device) as scan:
        return same_schemas(scan)


def loaded(device, folder, tables):
    with sa.loader(files(folder, tables, "arrow"), device, batch_size=2, to="table") as loader:
        return same_schemas(loader)


def loaded_parquet(device, folder, tables):
    with sa.loader(files(folder, tables, "parquet"), device, batch_size=2, to="table") as loader:
        return same_schemas(loader)


def same_schemas(source):
    """Joins the parts of a source, after checking that all have the source's schema."""
    parts = list(source)
    assert [part.schema for part in parts] == [source.schema] * len(parts)
    return sa.concat_tables(parts)


ALL = (joined, read, read_joined, read_compressed, read_bytes, scanned, scanned_windows, loaded)
OF_PARQUET = (of_parquet, scanned_parquet, loaded_parquet)


@pytest.mark.parametrize("way", [*ALL, *OF_PARQUET], ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", PAIRS)
def test_two_tables_are_joined_with_the_united_schema_in_either_order(device, tmp_path, name, way):
    one, other, whole, values = pair(name)
    found = way(device, tmp_path, [one, other])
    assert found["v"].to_pylist() == as_python(values, whole)
    assert found.schema.field("v").nullable == whole.nullable
    if way not in OF_PARQUET:  # Parquet has other names for nested fields
        assert found.schema.field("v").type == sa.DataType(whole.type)
    found.to_arrow().validate(full=True)


def as_python(values, whole):
    return pa.array(values, whole.type).to_pylist()


@pytest.mark.parametrize("name", [*OF_NULLS, *IN_MEMORY])
def test_a_column_of_type_null_is_united_with_any_type(device, tmp_path, name):
    type_ = {**OF_NULLS, **IN_MEMORY}[name]
    nulls = sa.from_arrow(pa.table({"v": pa.nulls(3)}), device)
    wanted = sa.from_arrow(pa.table({"v": pa.nulls(3, type_)}), device)
    meant = sa.schema([("v", type_)])
    found = [
        nulls["v"].cast(type_),
        nulls.cast({"v": type_})["v"],
        sa.concat_tables([wanted, nulls])["v"][3:],
        sa.concat_tables([nulls, wanted])["v"][:3],
        sa.table(nulls, device, schema=meant)["v"],
        sa.column(nulls["v"], name=sa.field("v", type_)),
        sa.Column.from_chunks([nulls["v"], wanted["v"]])[:3],
    ]
    write_arrow(tmp_path / "a.arrow", pa.table({"v": pa.nulls(3)}))
    found += [sa.read_ipc(tmp_path, device, schema=meant, copy=copy)["v"] for copy in (None, True)]
    for each in found:
        assert each.type == sa.DataType(type_)
        assert each.to_pylist() == [None] * 3
        each.to_arrow().validate(full=True)


@pytest.mark.parametrize("name", OF_NULLS)
def test_a_parquet_file_of_nulls_has_the_type_of_the_given_schema(device, tmp_path, name):
    pq.write_table(pa.table({"v": pa.nulls(3)}), tmp_path / "a.parquet")
    meant = sa.schema([("v", OF_NULLS[name])])
    assert sa.read_parquet(tmp_path, device, schema=meant)["v"].to_pylist() == [None] * 3
    with sa.scan_parquet(tmp_path, device, schema=meant) as scan:
        assert scan.schema.field("v").type == meant.field("v").type
        assert [part["v"].null_count for part in scan] == [3]


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_only_columns_that_are_read_are_compared(device, tmp_path, ending):
    made = [pa.table({"x": [1.0], "note": ["a"]}), pa.table({"note": [5], "x": [2.0], "more": [0]})]
    files(tmp_path, made, ending)
    whole, parts = (sa.read_ipc, sa.scan_ipc) if ending == "arrow" else (sa.read_parquet, sa.scan_parquet)
    assert whole(tmp_path, device, columns="x")["x"].to_pylist() == [1.0, 2.0]
    with parts(tmp_path, device, columns=["x"]) as scan:
        assert list(itertools.chain.from_iterable(part["x"].to_pylist() for part in scan)) == [1.0, 2.0]
    with sa.loader(tmp_path, device, columns="x", batch_size=2, to="table") as loader:
        assert [batch["x"].to_pylist() for batch in loader] == [[1.0, 2.0]]
        assert loader.schema.names == ["x"]


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_loader_uses_the_given_schema(host, tmp_path, ending):
    made = [pa.table({"a": pa.nulls(2), "b": [1, 2]}), pa.table({"a": [0.5], "b": [3]})]
    files(tmp_path, made, ending)
    meant = sa.schema([("a", "float64"), ("b", "int64")])
    for columns, names in ((None, ["a", "b"]), ("a", ["a"]), (["b", "a"], ["b", "a"])):
        options = {"columns": columns, "schema": meant, "batch_size": 2}
        with sa.loader(tmp_path, host, to="numpy", **grouped({"fill": 0, **options})) as loader:
            assert loader.schema.names == names
            assert [batch["a"].tolist() for batch in loader] == [[0, 0], [0.5]]
            state = loader.state_dict()
        with sa.loader(tmp_path, host, to="numpy", **grouped({"fill": 0, **options})) as again:
            again.load_state_dict(state)
            assert again.epoch == 1
    with pytest.raises(
        sa.TypeMismatch, match=rf"0\.{ending}: column 1 is 'b' \(int64\), expected 'b' \(string"
    ):
        sa.loader(
            tmp_path,
            host,
            batch_size=2,
            to="numpy",
            read_options=sa.ReadOptions(schema={"a": "float64", "b": "string"}),
        )


def test_a_loader_of_a_table_uses_the_given_schema(host):
    rows = sa.table({"a": [None, None], "b": [1, 2]}, host)
    meant = {"a": "int16", "b": "int64"}
    with sa.loader(
        rows,
        host,
        batch_size=2,
        to="numpy",
        tensor_options=sa.TensorOptions(fill=7),
        read_options=sa.ReadOptions(schema=meant),
    ) as loader:
        assert [batch["a"].tolist() for batch in loader] == [[7, 7]]
    with pytest.raises(
        sa.TypeMismatch, match=r"the table: column 1 is 'b' \(int64\), expected 'b' \(string\)"
    ):
        sa.loader(
            rows,
            host,
            batch_size=2,
            to="numpy",
            read_options=sa.ReadOptions(schema={"a": "int16", "b": "string"}),
        )


def test_a_writer_accepts_every_table_that_fits_its_schema(device):
    for name in (
        "nulls first",
        "item, element",
        "large lists",
        "maps",
        "null later",
        "null inside of structs",
    ):
        one, other, whole, values = pair(name)
        target = io.BytesIO()
        with sa.ipc_writer(target) as writer:
            writer.write(sa.from_arrow(one, device))
            writer.write(sa.from_arrow(other, device))
        found = pa.ipc.open_file(target.getvalue()).read_all()
        assert found["v"].to_pylist() == as_python(values, whole)
        assert found.schema.field("v").type == one.schema.field("v").type


@pytest.mark.parametrize("name", ["nulls later", "null first", "values allow nulls"])
def test_a_writer_with_a_schema_accepts_more_than_its_first_table(host, name):
    one, other, whole, values = pair(name)
    with sa.ipc_writer(io.BytesIO()) as writer:
        writer.write(one)
        with pytest.raises(sa.TypeMismatch, match=r"column 0 is 'v' .*, expected 'v'"):
            writer.write(other)
    target = io.BytesIO()
    with sa.ipc_writer(target, pa.schema([whole])) as writer:
        writer.write(one)
        writer.write(other)
    assert pa.ipc.open_file(target.getvalue()).read_all()["v"].to_pylist() == as_python(values, whole)


OTHERS = {
    "numbers": (pa.int64(), pa.int32()),
    "names of fields": (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
    "zones": (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    "inside of lists": (pa.list_(pa.int8()), pa.list_(pa.int16())),
    "texts": (pa.string(), pa.large_string()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_error_for_other_types_names_file_column_and_types(host, tmp_path, name):
    one, other = OTHERS[name]
    tables = [table(field(each), [None]) for each in (one, other)]
    texts = [f"'v' ({sa.DataType(each).name})" for each in (other, one)]
    for way in (joined, read, scanned, of_parquet, scanned_parquet, loaded, loaded_parquet):
        if "parquet" in way.__name__ and name == "texts":
            continue  # pyarrow restores the string type from its own metadata
        folder = tmp_path / way.__name__
        folder.mkdir()
        with pytest.raises(sa.TypeMismatch) as raised:
            way(host, folder, tables)
        message = str(raised.value)
        assert ("table 1" if way is joined else str(folder / "1.")) in message
        assert ("table 0" if way is joined else str(folder / "0.")) in message
        assert "column 0" in message
        if "parquet" not in way.__name__:
            assert all(text in message for text in texts)


def test_parts_on_several_contexts_have_one_schema(host, tmp_path):
    one, other, _, values = pair("nulls later")
    files(tmp_path, [one, other], "arrow")
    parts = sa.place(tmp_path, [host, host])
    assert [part.schema.field("v").nullable for part in parts] == [True, True]
    assert parts[0]["v"].to_pylist() + parts[1]["v"].to_pylist() == values
