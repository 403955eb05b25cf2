"""Parquet encoded on a GPU: files that read the same as those of pyarrow, and the memory that it takes."""

from __future__ import annotations

import io
import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from full_target import FullTarget
from parquet_collection import COLUMNS, HOST_COLUMNS
from saeta._parquet.device_file import reason_for_host
from saeta._parquet.options import Options

pytestmark = pytest.mark.gpu

pytest.importorskip("pylibcudf")

ON_DEVICE = [
    name
    for name in COLUMNS
    if name
    not in (
        *("date64", "time32", "decimal32", "decimal64", "large_list", "map", "json", "null"),
        *("dictionary", "small_dictionary", "unsigned_dictionary", "binary_dictionary", "number_dictionary"),
        *("list_of_dictionaries", "list_of_lists"),
        "struct_of_all",
    )
]
NESTED = [name for name in ON_DEVICE if pa.types.is_nested(COLUMNS[name].type)]  # on the device without nulls
FLAT = [name for name in ON_DEVICE if name not in NESTED]
TABLE = pa.table({name: COLUMNS[name] for name in FLAT}).replace_schema_metadata({"source": "here"})


@pytest.fixture
def ctx() -> sa.Context:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    return sa.context("cuda:0")


def written(table: sa.Table, **options: Any) -> pq.ParquetFile:
    target = io.BytesIO()
    assert table.write_parquet(target, **options) == len(target.getvalue())
    return pq.ParquetFile(io.BytesIO(target.getvalue()))


def require_same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema.equals(other.schema, check_metadata=True), f"{one.schema}\n{other.schema}"
    assert repr(one.to_pydict()) == repr(other.to_pydict())  # in which NaN equals itself


@pytest.mark.parametrize(
    ("name", "nullable"), [*((name, True) for name in FLAT), *((name, False) for name in ON_DEVICE)]
)
def test_a_column_reads_the_same_as_from_pyarrow(ctx, name, nullable):
    array = COLUMNS[name]
    if not nullable:
        array = array.drop_null()
    schema = pa.schema([pa.field("x", array.type, nullable=nullable, metadata={"unit": "m"})])
    table = sa.from_arrow(pa.table([array], schema), ctx)
    for part in (table, table[13:513], table[7:8]):
        file = written(part, engine="device", row_group_size=300)
        require_same(file.read(), written(part, engine="host", row_group_size=300).read())
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert [size for size in sizes if size] == [
            min(300, part.num_rows - first) for first in range(0, part.num_rows, 300)
        ]


@pytest.mark.parametrize("name", [name for name in {**COLUMNS, **HOST_COLUMNS} if name not in FLAT])
def test_other_columns_are_written_by_pyarrow(ctx, caplog, name):
    array = {**COLUMNS, **HOST_COLUMNS}[name]
    table = sa.from_arrow(pa.table({"x": array}), ctx)
    with pytest.raises(sa.UnsupportedError, match="column 'x' of type"):
        table.write_parquet(io.BytesIO(), engine="device")
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        file = written(table)
    assert "pyarrow encodes Parquet on the host: column 'x' of type" in caplog.text
    assert file.metadata.num_rows == len(array)


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "lz4"])
def test_a_whole_table_with_each_codec(ctx, tmp_path, compression, use_dictionary):
    options: dict[str, Any] = {"compression": compression, "use_dictionary": use_dictionary}
    table = sa.from_arrow(TABLE, ctx)
    reason = reason_for_host(TABLE.schema, Options(None, compression, None, use_dictionary), ctx)
    if reason is not None:
        assert compression == "lz4", reason
        pytest.skip(reason)
    path = tmp_path / "a.parquet"
    assert table.write_parquet(path, engine="device", row_group_size=400, **options) == path.stat().st_size
    file = pq.ParquetFile(path)
    require_same(file.read(), written(table, engine="host", row_group_size=400, **options).read())
    assert [file.metadata.row_group(number).num_rows for number in range(3)] == [400, 400, 200]
    chunks = [file.metadata.row_group(0).column(number) for number in range(len(TABLE.schema))]
    named = {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    assert named in {chunk.compression for chunk in chunks}
    assert any(chunk.has_dictionary_page for chunk in chunks) == use_dictionary
    back = sa.read_parquet(path, ctx, engine="device")
    require_same(back.to_arrow(), sa.read_parquet(path, ctx, engine="host").to_arrow())


def test_polars_and_duckdb_read_the_same(ctx, tmp_path):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    table = sa.from_arrow(TABLE, ctx)
    frames, relations = [], []
    for engine in ("device", "host"):
        path = tmp_path / f"{engine}.parquet"
        table.write_parquet(path, engine=engine)
        frames.append(polars.read_parquet(path))
        relations.append(
            duckdb.sql(f"select * replace (utc::varchar as utc, paris::varchar as paris) from '{path}'")
        )
    assert frames[0].schema == frames[1].schema
    assert frames[0].equals(frames[1])
    assert relations[0].types == relations[1].types
    assert repr(relations[0].fetchall()) == repr(relations[1].fetchall())


def test_tables_of_several_batches_and_contexts_share_row_groups(ctx):
    target = io.BytesIO()
    numbers = pa.table({"a": np.arange(100_000), "b": [f"word {number}" for number in range(100_000)]})
    with (
        sa.parquet_writer(target, row_group_size=70_000) as writer,
        ctx.memory.child("other", "64MiB") as other,
    ):
        writer.write(sa.from_arrow(pa.concat_tables([numbers.slice(0, 10), numbers.slice(10)]), ctx))
        writer.write(sa.from_arrow(numbers, other))
        writer.write(sa.from_arrow(numbers, "host"))
        writer.flush()
        writer.write(sa.from_arrow(numbers.slice(5, 3), ctx))
    file = pq.ParquetFile(io.BytesIO(target.getvalue()))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [70_000] * 4 + [20_000, 3]
    assert file.read().equals(pa.concat_tables([numbers] * 3 + [numbers.slice(5, 3)]))
    assert "parquet-cpp" not in file.metadata.created_by


def test_encoding_is_charged_to_the_context_and_a_refusal_leaves_no_file(ctx, tmp_path):
    import rmm

    before = rmm.mr.get_current_device_resource()
    source = pa.table({name: np.random.default_rng(3).random(1_000_000) for name in "abcdefgh"})
    path = tmp_path / "a.parquet"
    with ctx.memory.child("wide", "1GiB") as wide:
        table = sa.from_arrow(source, wide)
        held = wide.memory.statistics()["current"]
        table.write_parquet(path, engine="device")
        wide.synchronize()
        assert wide.memory.statistics()["current"] == held
        assert wide.memory.statistics()["peak"] > held
        assert pq.read_table(path).equals(source)
        del table
    path.unlink()
    with ctx.memory.child("small", source.nbytes + (4 << 20)) as small:
        table = sa.from_arrow(source, small)
        with pytest.raises(sa.BudgetExceeded):
            table.write_parquet(path, engine="device", row_group_size=1_000_000)
        small.synchronize()
        assert list(tmp_path.iterdir()) == []
        del table
    assert rmm.mr.get_current_device_resource() is before


def test_a_target_that_fails_ends_the_writer(ctx):
    with pytest.raises(sa.FileError, match="no space left"):
        sa.from_arrow(TABLE, ctx).write_parquet(FullTarget(), engine="device")
