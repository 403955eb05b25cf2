"""Table.write_parquet and sa.parquet_writer: Parquet files written table by table."""

from __future__ import annotations

import io
import os
import stat
import threading
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of

# What a Parquet file can't hold, and what pyarrow gives back in another type.
REFUSED = {"interval", "dense_union", "sparse_union", "run_end_encoded", "dictionary of struct"}
WIDENED = {
    "date64[ms]",
    "time32[s]",
    "timestamp[s]",
    "timestamp[s, tz=UTC]",
    "timestamp[s, tz=Europe/Madrid]",
}


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def written(table, **options):
    target = io.BytesIO()
    assert table.write_parquet(target, **options) == len(target.getvalue())
    return pq.ParquetFile(io.BytesIO(target.getvalue()))


def write_and_raise(target, table, raised):
    with sa.parquet_writer(target, row_group_size=1) as writer:
        writer.write(table)
        raise raised


def rows_of(file):
    return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]


@pytest.mark.parametrize("nulls", ["some", "none", "all"])
def test_pyarrow_reads_every_type_back(ctx, nulls):
    arrays = arrow_data.arrays(nulls=nulls)
    assert arrays.keys() > REFUSED | WIDENED
    if nulls != "none" and int(pa.__version__.split(".")[0]) < 26:  # which can't read its own files of them
        arrays = {name: each for name, each in arrays.items() if not pa.types.is_fixed_size_list(each.type)}
    source = pa.table({name: array for name, array in arrays.items() if name not in REFUSED})
    table = sa.from_arrow(source, ctx)
    for part, size in ((table, 10), (table.slice(5, 31), 7), (table.slice(3, 0), 5)):
        file = written(part, row_group_size=size)
        expected = part.to_arrow()
        groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
        again = pa.concat_tables(groups) if groups else file.read()
        for name in again.column_names:
            column = again[name] if name not in WIDENED else again[name].cast(expected[name].type)
            assert column.equals(expected[name]), name
        assert again.schema.names == source.schema.names
        assert set(rows_of(file)) <= {size, part.num_rows % size}


@pytest.mark.parametrize("value", [pa.int8(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_lists_of_no_values_are_refused(ctx, value):
    """pyarrow 26 refuses them later, or ends the process."""
    column = pa.array([[]] * 40, pa.list_(value, 0))
    for given in (column, pa.StructArray.from_arrays([column], ["x"])):
        table = sa.from_arrow(pa.table({"odd": given}), ctx)
        with pytest.raises(sa.UnsupportedError, match=r"column 'odd' .*can't hold: its lists have no values"):
            table.write_parquet(io.BytesIO())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_type_that_parquet_can_not_hold_is_named_before_a_byte_is_written(ctx, tmp_path, name):
    array = arrow_data.arrays()[name]
    path = tmp_path / "a.parquet"
    path.write_bytes(b"before")
    target = io.BytesIO()
    inside = pa.ListArray.from_arrays([0, len(array)], array)
    for column in (array, inside):
        table = sa.from_arrow(pa.table({"odd": column}), ctx)
        for where in (path, target):
            with pytest.raises(sa.UnsupportedError, match=r"column 'odd' is of type .*can't hold"):
                table.write_parquet(where)
            with pytest.raises(sa.UnsupportedError, match="column 'odd' is of type"):
                sa.parquet_writer(where, table.schema)
            with sa.parquet_writer(where, {"odd": "int8"}) as writer, pytest.raises(sa.TypeMismatch):
                writer.write(table)
            if where is path:
                path.write_bytes(b"before")
            else:
                assert pq.read_metadata(io.BytesIO(target.getvalue())).num_rows == 0
                target.seek(0)
                target.truncate()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("type_", [pa.struct([]), pa.list_(pa.struct([])), pa.binary(0)], ids=str)
def test_types_without_bytes_are_refused(host, type_):
    target = io.BytesIO()
    with pytest.raises(sa.UnsupportedError, match="column 'odd'"):
        sa.from_arrow(pa.table({"odd": pa.nulls(2, type_)}), host).write_parquet(target)
    assert target.getvalue() == b""


def test_polars_and_duckdb_read_the_same_rows(ctx, tmp_path):
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    known = ("int8", "uint64", "float64", "bool", "string", "large_string", "binary", "date32[day]")
    known += (
        "timestamp[us]",
        "timestamp[ns]",
        "time64[us]",
        "decimal128(12, 2)",
        "list",
        "struct",
        "dictionary",
    )
    source = pa.table({name: arrow_data.arrays()[name] for name in known})
    path = tmp_path / "a.parquet"
    sa.from_arrow(source, ctx).write_parquet(path, row_group_size=20, compression="zstd")
    assert pl.read_parquet(path).equals(pl.from_arrow(source))
    relation = duckdb.sql(f"select * from '{path}'")
    direct = duckdb.sql("select * from source")
    assert relation.columns == direct.columns
    assert relation.fetchall() == direct.fetchall()
    assert sa.read_parquet(path, "host").to_arrow().equals(source)


def test_metadata_nullability_and_extension_types_come_back(host):
    fields = [
        pa.field("a", pa.int8(), nullable=False, metadata={"unit": "m"}),
        pa.field("u", pa.uuid()),
        pa.field("s", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
    ]
    values = [pa.array([1, 2], pa.int8()), pa.array([b"0" * 16, None], pa.binary(16)).cast(pa.uuid())]
    values.append(pa.array([{"x": 1}, {"x": 2}], fields[2].type))
    source = pa.table(values, schema=pa.schema(fields, metadata={"k": "v"}))
    again = written(sa.from_arrow(source, host)).read()
    assert again.equals(source)
    assert again.schema.metadata == {b"k": b"v"}
    for field in source.schema:
        found = again.schema.field(field.name)
        assert (found.type, found.nullable) == (field.type, field.nullable)
        assert (field.metadata or {}).items() <= (found.metadata or {}).items()


def test_symbols_become_dictionaries_of_their_names(host):
    table = sa.table([sa.column(["x", "y", "x"], host, name="s", type="symbol")])
    assert written(table).read()["s"].to_pylist() == ["x", "y", "x"]


def test_row_groups_have_the_size_that_was_asked_for(ctx):
    table = sa.from_arrow(pa.table({"a": np.arange(100), "b": [str(i) for i in range(100)]}), ctx)
    assert rows_of(written(table, row_group_size=30)) == [30, 30, 30, 10]
    assert rows_of(written(table)) == [100]
    target = io.BytesIO()
    with sa.parquet_writer(target, row_group_size=64) as writer:
        for _ in range(4000):
            writer.write(table.slice(7, 1))
        writer.write(table)
        writer.flush()
        writer.flush()
        writer.write(table.slice(0, 3))
    file = pq.ParquetFile(io.BytesIO(target.getvalue()))
    assert rows_of(file) == [64] * 64 + [4, 3]
    assert file.read()["a"].to_pylist() == [7] * 4000 + [*range(100), 0, 1, 2]


def test_row_groups_have_at_most_64_mib_of_values_and_2_to_the_20_rows(host):
    wide = sa.table({f"c{i}": np.zeros(300_000) for i in range(40)}, host)  # 96 MB
    groups = rows_of(written(wide, compression="zstd"))
    assert groups == [(64 << 20) // 320, 300_000 - (64 << 20) // 320]
    narrow = sa.table({"a": np.zeros(2_500_000, np.int8)}, host)
    assert rows_of(written(narrow)) == [1 << 20, 1 << 20, 2_500_000 - (2 << 20)]
    texts = sa.table({"a": ["x" * (1 << 20)] * 70}, host)
    assert max(rows_of(written(texts, compression="zstd"))) <= 64


def test_batches_of_several_contexts_share_a_row_group(host, ctx):
    target = io.BytesIO()
    with host.memory.child("other", "1MiB") as other, sa.parquet_writer(target) as writer:
        for where in (host, ctx, other):
            writer.write(sa.table({"a": [1, 2]}, where))
        writer.write(pa.table({"a": [3]}))
    assert pq.read_table(io.BytesIO(target.getvalue()))["a"].to_pylist() == [1, 2] * 3 + [3]


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "lz4", "gzip", "brotli"])
def test_values_are_written_with_the_codec(host, codec):
    table = sa.table({"a": np.arange(1000) % 7, "b": ["text"] * 1000}, host)
    file = written(table, compression=codec)
    name = {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    chunks = [file.metadata.row_group(0).column(number) for number in range(2)]
    assert {chunk.compression for chunk in chunks} == {name}
    assert file.read().equals(table.to_arrow())


def test_levels_and_dictionaries_are_passed_on(host):
    numbers = np.random.default_rng(1).integers(0, 1000, 50_000)
    table = sa.from_arrow(pa.table({name: [f"text {i} of {i % 99}" for i in numbers] for name in "ab"}), host)
    sizes = [written(table, compression="zstd", compression_level=level).metadata for level in (1, 19)]
    packed = [sum(each.row_group(0).column(n).total_compressed_size for n in (0, 1)) for each in sizes]
    assert packed[1] < packed[0]

    def encodings(file):
        group = file.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        return {each.path_in_schema: each.has_dictionary_page for each in columns}

    assert encodings(written(table)) == {"a": True, "b": True}
    assert encodings(written(table, use_dictionary=False)) == {"a": False, "b": False}
    assert encodings(written(table, use_dictionary=["b"])) == {"a": False, "b": True}
    nested = sa.from_arrow(pa.table({"l": [[{"x": 1, "y": "a"}]] * 3, "m": [1, 1, 1]}), host)
    found = encodings(written(nested, use_dictionary="l"))
    assert found == {"l.list.element.x": True, "l.list.element.y": True, "m": False}


def test_arguments_are_checked_before_anything_is_written(host, tmp_path):
    table = sa.table({"a": [1]}, host)
    for wrong, text in (
        ({"row_group_size": 0}, "row_group_size is 0, expected a number of rows from 1 on"),
        ({"row_group_size": True}, "row_group_size is True"),
        ({"compression": "lzo"}, "compression 'lzo': expected one of none, snappy"),
        ({"compression": None}, "compression None: expected one of none"),
        ({"compression_level": 3}, "compression_level=3 of 'snappy'"),
        ({"compression": "none", "compression_level": 3}, "compression_level is 3 without compression"),
        ({"compression": "zstd", "compression_level": "high"}, "compression_level is 'high'"),
    ):
        with pytest.raises(sa.InvalidError, match=text):
            table.write_parquet(tmp_path / "a.parquet", **wrong)
    with pytest.raises(sa.ColumnNameError, match="use_dictionary: no column is named 'z'"):
        table.write_parquet(tmp_path / "a.parquet", use_dictionary=["z"])
    with pytest.raises(sa.MissingFileError):
        table.write_parquet(tmp_path / "no" / "a.parquet")
    with pytest.raises(sa.TypeMismatch, match="expected a path, a URL or an object"):
        table.write_parquet(7)
    with pytest.raises(sa.TypeMismatch, match="open for text"):
        table.write_parquet(io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_tables_without_rows_or_columns(host, tmp_path):
    path = tmp_path / "a.parquet"
    empty = sa.table({"a": sa.column([], host, name="a", type="string")}, host)
    empty.write_parquet(path)
    assert pq.read_table(path).equals(empty.to_arrow())
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False)], metadata={"k": "v"})
    with sa.parquet_writer(path, schema):
        pass
    assert pq.read_schema(path).equals(schema, check_metadata=True)
    nothing = empty.select([])
    nothing.write_parquet(path)
    assert pq.read_table(path).shape == (0, 0)
    with pytest.raises(sa.UnsupportedError, match="no rows without columns, and the table has 2"):
        sa.table({"a": [1, 2]}, host).select([]).write_parquet(path)
    with pytest.raises(sa.InvalidError, match="no schema"), sa.parquet_writer(tmp_path / "b.parquet"):
        pass
    assert list(tmp_path.iterdir()) == [path]


def test_ten_thousand_columns_are_written(host, tmp_path):
    table = sa.table({f"c{number}": [number, None] for number in range(10_000)}, host)
    table.write_parquet(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table.to_arrow())


def test_a_table_that_does_not_fit_the_schema_is_refused_and_the_writer_goes_on(host):
    target = io.BytesIO()
    with sa.parquet_writer(target, {"a": "int64", "b": "string"}) as writer:
        for wrong in ({"b": ["x"], "a": [1]}, {"a": [1.5], "b": ["x"]}, {"a": [1]}):
            with pytest.raises(sa.TypeMismatch):
                writer.write(sa.table(wrong, host))
        with pytest.raises(sa.TypeMismatch, match="rows is of type Int64Array"):
            writer.write(pa.array([1]))
        writer.write(pa.table({"a": [1], "b": pa.nulls(1)}))
    again = pq.read_table(io.BytesIO(target.getvalue()))
    assert again.equals(pa.table({"a": [1], "b": pa.nulls(1, pa.string())}))


def test_an_exception_in_the_block_keeps_the_old_file(ctx, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"before")
    table = sa.table({"a": np.arange(1000)}, ctx)
    for raised in (LookupError, KeyboardInterrupt):
        with pytest.raises(raised):
            write_and_raise(path, table, raised)
    writer = sa.parquet_writer(path)
    writer.write(table)
    writer.abort()
    for call in (lambda: writer.write(table), writer.flush, writer.close):
        with pytest.raises(sa.ClosedError, match="the writer is abandoned"):
            call()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_appears_when_the_writer_is_closed(host, tmp_path):
    path = tmp_path / "a.parquet"
    with sa.parquet_writer(path, durable=False, row_group_size=1) as writer:
        writer.write(sa.table({"a": [1, 2]}, host))
        assert not path.exists()
        assert repr(writer) == f"<saeta.ParquetWriter of '{path}'>"
    assert writer.close() == path.stat().st_size
    with pytest.raises(sa.ClosedError, match="the writer is closed"):
        writer.write(sa.table({"a": [1]}, host))
    path.chmod(0o440)
    if os.geteuid() != 0:
        with pytest.raises(sa.FileError, match="replace_read_only"):
            sa.table({"a": [3]}, host).write_parquet(path)
    sa.table({"a": [3]}, host).write_parquet(path, replace_read_only=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o440
    assert pq.read_table(path)["a"].to_pylist() == [3]


def test_a_writer_that_is_dropped_warns_and_leaves_no_file(host, tmp_path):
    held = [sa.parquet_writer(tmp_path / "a.parquet", row_group_size=1)]
    held[0].write(sa.table({"a": [1]}, host))
    with pytest.warns(ResourceWarning, match=r"a\.parquet' was not closed"):
        held.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed = sa.parquet_writer(tmp_path / "b.parquet", {"a": "int8"})
        closed.close()
        del closed
    assert [each.name for each in tmp_path.iterdir()] == ["b.parquet"]


def test_a_writer_that_is_open_at_exit_leaves_no_file(run_python, tmp_path):
    program = f"""if True:
        import saeta as sa
        writer = sa.parquet_writer({str(tmp_path / "a.parquet")!r}, row_group_size=1)
        writer.write(sa.table({{"a": [1]}}, "host"))
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_fork_can_not_use_the_writer(run_python, tmp_path):
    program = f"""if True:
        import os, saeta as sa
        writer = sa.parquet_writer({str(tmp_path / "a.parquet")!r}, row_group_size=1)
        table = sa.table({{"a": [1]}}, "host")
        writer.write(table)
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: writer.write(table), writer.flush, writer.close):
                try:
                    call()
                except sa.ClosedError:
                    refused += 1
            writer.abort()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        writer.write(table)
        writer.close()
        print(sa.read_parquet({str(tmp_path / "a.parquet")!r}, "host")["a"].to_pylist())
    """
    done = run_python(program)
    assert (done.returncode, done.stdout) == (0, "[1, 1]\n"), done.stderr


class Full:
    """A target that fails after some bytes."""

    def __init__(self, most, failure):
        self.got = b""
        self.most = most
        self.failure = failure

    def write(self, piece):
        if len(self.got) + len(piece) > self.most:
            raise self.failure
        self.got += piece


@pytest.mark.parametrize(("kind", "seen"), [(OSError, sa.FileError), (KeyboardInterrupt, KeyboardInterrupt)])
def test_a_failure_of_the_target_ends_the_writer(host, kind, seen):
    failure = kind(28, "full")
    table = sa.table({"a": np.random.default_rng(1).random(100_000)}, host)
    target = Full(500_000, failure)
    with pytest.raises(seen) as raised, sa.parquet_writer(target, row_group_size=10_000) as writer:
        writer.write(table)
    if seen is sa.FileError:
        assert raised.value.errno == 28
        assert raised.value.__cause__ is failure
    size = len(target.got)
    with pytest.raises(sa.ClosedError, match="ended by a failure"):
        writer.write(table)
    del writer
    assert len(target.got) == size, "the end of a file was written after a failure"


def test_urls_file_systems_and_objects_are_targets(host, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    table = sa.table({"a": [1, 2, 3]}, host)
    local = pyarrow.fs.LocalFileSystem()
    for target, options in (
        ((tmp_path / "u.parquet").as_uri(), {}),
        ("f.parquet", {"filesystem": pyarrow.fs.SubTreeFileSystem(str(tmp_path), local)}),
        (str(tmp_path / "l.parquet"), {"filesystem": local}),
        ("memory://bucket/m.parquet", {}),
        ("/bucket/n.parquet", {"filesystem": fsspec.filesystem("memory")}),
    ):
        assert table.write_parquet(target, **options) > 0
        assert sa.read_parquet(target, host, **options).equals(table)
    with pytest.raises(LookupError):
        write_and_raise("memory://bucket/x.parquet", table, LookupError)
    assert not fsspec.filesystem("memory").exists("/bucket/x.parquet")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["f.parquet", "l.parquet", "u.parquet"]


def test_progress_tells_the_row_groups(host):
    seen = []
    table = sa.table({"a": np.arange(100)}, host)
    table.write_parquet(io.BytesIO(), row_group_size=40, progress=seen.append)
    assert [(each.batches, each.rows, each.bytes) for each in seen] == [
        (1, 40, 320),
        (2, 80, 640),
        (3, 100, 800),
    ]
    assert {each.total_batches for each in seen} == {3}
    with sa.parquet_writer(io.BytesIO(), progress=seen.append) as writer:
        writer.write(table)
    assert seen[-1].total_batches == -1


def test_a_hook_can_end_the_writer_and_not_use_it(host, tmp_path):
    table = sa.table({"a": np.arange(10)}, host)
    refused = []

    def use(_):
        for call in (lambda: writer.write(table), writer.flush, writer.close):
            with pytest.raises(sa.BusyError, match="used by its own target or progress hook"):
                call()
            refused.append(call)

    with sa.parquet_writer(tmp_path / "a.parquet", row_group_size=10, progress=use) as writer:
        writer.write(table)
    assert len(refused) == 3
    with (
        pytest.raises(sa.ClosedError),
        sa.parquet_writer(
            tmp_path / "b.parquet", row_group_size=2, progress=lambda _: writer.abort()
        ) as writer,
    ):
        writer.write(table)
    assert [each.name for each in tmp_path.iterdir()] == ["a.parquet"]


def test_several_threads_write(host):
    target = io.BytesIO()
    with sa.parquet_writer(target, row_group_size=50) as writer:

        def write(number):
            for _ in range(20):
                writer.write(sa.table({"a": [number] * 7}, host))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = pq.read_table(io.BytesIO(target.getvalue()))["a"].to_pylist()
    assert sorted(values) == sorted([0, 1, 2, 3] * 140)


def test_a_writer_is_not_pickled(host):
    import pickle

    with sa.parquet_writer(io.BytesIO(), {"a": "int8"}) as writer, pytest.raises(sa.TypeMismatch):
        pickle.dumps(writer)


def test_a_table_of_a_device_is_downloaded_one_row_group_at_a_time():
    for ctx in contexts_of("sim"):
        table = sa.table({"a": np.arange(100_000), "b": np.arange(100_000)}, ctx)
        groups = []
        table.write_parquet(io.BytesIO(), row_group_size=10_000, progress=groups.append)
        assert len(groups) == 10
        assert 160_000 <= ctx.memory.statistics()["host_held"] < 2 * 160_000


@pytest.mark.parametrize("dictionary", [True, False])
def test_what_pyarrow_holds_does_not_grow_with_row_groups(run_python, dictionary):
    """The docstring of `parquet_writer` tells these numbers."""
    program = f"""if True:
        import numpy as np, pyarrow as pa, saeta as sa
        table = sa.table({{f"c{{i}}": np.random.default_rng(i).random(1 << 23) for i in range(2)}}, "host")
        class Nothing:
            def write(self, piece):
                pass
        options = dict(use_dictionary={dictionary}, row_group_size=1 << 23)
        table.write_parquet(Nothing(), compression="zstd", **options)
        print(pa.default_memory_pool().max_memory())
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < (32 << 20 if dictionary else 1 << 20)
