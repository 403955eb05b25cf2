"""Parquet files that a device encodes, with a stand-in for pylibcudf: what it is told, and the files."""

from __future__ import annotations

import base64
import datetime
import io
import logging
import sys
import types
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import arrow_data
import saeta as sa
from full_target import FullTarget
from saeta._parquet import device_file
from saeta._parquet.footer import without_zones
from saeta._parquet.options import Options
from sim_devices import contexts_of

DAY = datetime.datetime(2024, 2, 28, 12)
SOURCE = pa.table(
    {
        "id": pa.array([1, None, 3, 4], pa.int16()),
        "word": pa.array(["a", None, "", "dd"]),
        "raw": pa.array([b"\xff", None, b"", b"a"]),
        "plain": pa.array([DAY, None, DAY, DAY], pa.timestamp("us")),
        "paris": pa.array([DAY, None, DAY, DAY], pa.timestamp("ms", "Europe/Paris")),
        "took": pa.array([1, 2, None, 4], pa.duration("ns")),
        "clock": pa.array([DAY.time(), None, DAY.time(), DAY.time()], pa.time64("us")),
        "price": pa.array([None, 2, 3, 4], pa.decimal128(9, 2)),
        "days": pa.array([[DAY], [], [], [DAY, None]], pa.list_(pa.timestamp("ns"))),
        "both": pa.array([{"x": 1, "y": b"b"}, {}, {"x": None, "y": b""}, {"x": 4, "y": None}]).cast(
            pa.struct([("x", pa.int32()), ("y", pa.binary())])
        ),
    }
)
# Below a null list or struct, Arrow may have values, and cuDF writes them.
SOURCE = SOURCE.cast(
    pa.schema([field.with_nullable(not pa.types.is_nested(field.type)) for field in SOURCE.schema])
)
LEFT_TO_PYARROW = [
    pa.float16(),
    pa.date64(),
    pa.time32("ms"),
    pa.decimal256(50, 1),
    pa.large_list(pa.int8()),
    pa.map_(pa.string(), pa.int8()),
    pa.dictionary(pa.int8(), pa.string()),
    pa.uuid(),
    pa.string_view(),
    pa.list_(pa.int8(), 2),
    pa.binary(2),
    pa.null(),
]


class Told:
    """Stands in for a ColumnInMetadata, and keeps what is set."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.inside: dict[int, Told] = {}

    def child(self, number: int) -> Told:
        return self.inside.setdefault(number, Told())

    def __getattr__(self, name: str) -> Any:
        assert name.startswith("set_")
        return lambda value: self.known.update({name[4:]: value})


class Given:
    """Stands in for the builder of options, and for the options."""

    def __init__(self, sink: Any) -> None:
        self.known: dict[str, Any] = {"sink": sink}

    def build(self) -> Given:
        return self

    def __getattr__(self, name: str) -> Any:
        def keep(value: Any) -> Given:
            self.known[name.removeprefix("set_")] = value
            return self

        return keep


class Cudf:
    """Stands in for pylibcudf: pyarrow writes what it would, with durations as times, and all times and
    timestamps adjusted to UTC."""

    def __init__(self, ctx: sa.Context) -> None:
        self.ctx = ctx
        self.writers: list[Any] = []
        self.refusal: BaseException | None = None

    def from_arrow(self, exported: Any, stream: Any, mr: Any) -> pa.Table:
        return sa.from_arrow(exported.__arrow_c_device_array__(), self.ctx).to_arrow()

    def metadata_of(self, table: pa.Table) -> Any:
        return types.SimpleNamespace(column_metadata=[Told() for _ in table.column_names])

    def writer_of(self, options: Given, stream: Any) -> Any:
        self.writers.append(Writer(self, options))
        return self.writers[-1]


class Writer:
    def __init__(self, cudf: Cudf, options: Given) -> None:
        self.told = options.known
        self.sink = options.known["sink"][0]
        self._cudf = cudf
        self._file: Any = None

    def write(self, table: pa.Table) -> None:
        if self._cudf.refusal is not None:
            raise self._cudf.refusal
        columns, fields = [], []
        for name, told, column in zip(
            table.column_names, self.told["metadata"].column_metadata, table.columns, strict=True
        ):
            assert told.known["name"] == name
            fields.append(pa.field(name, self._written(column.type, told), told.known["nullability"]))
            is_time = pa.types.is_time(fields[-1].type)
            columns.append((column.cast(pa.int64()) if is_time else column).cast(fields[-1].type))
        shown = pa.table(columns, pa.schema(fields))
        if self._file is None:
            keys = self.told["key_value_metadata"][0]
            options = {"store_schema": False, "write_time_adjusted_to_utc": True}
            self._file = pq.ParquetWriter(self.sink, shown.schema, **options)
            self._file.add_key_value_metadata(keys)
        self._file.write_table(shown, row_group_size=table.num_rows)

    def close(self, paths: list[str]) -> None:
        self._file.close()

    def _written(self, type_: Any, told: Told) -> Any:
        if pa.types.is_timestamp(type_):
            return pa.timestamp(type_.unit, "UTC")
        if pa.types.is_duration(type_):
            return pa.time64(type_.unit)
        if told.known.get("output_as_binary"):
            return pa.binary()
        if pa.types.is_list(type_):
            return pa.list_(self._written(type_.value_type, told.child(1)))
        if pa.types.is_struct(type_):
            return pa.struct(
                [
                    (inside.known["name"], self._written(type_.field(number).type, inside))
                    for number, inside in told.inside.items()
                ]
            )
        return type_


@pytest.fixture
def device():
    yield from contexts_of("sim")


@pytest.fixture
def cudf(device, monkeypatch):
    """A stand-in for pylibcudf on a simulated device."""
    cudf = Cudf(device)
    names = ("NONE", "SNAPPY", "ZSTD", "LZ4", "ADAPTIVE", "NEVER")
    words = types.SimpleNamespace(**{name: name for name in names})
    parquet = types.SimpleNamespace(
        ChunkedParquetWriter=types.SimpleNamespace(from_options=cudf.writer_of),
        ChunkedParquetWriterOptions=types.SimpleNamespace(builder=Given),
        is_supported_write_parquet=lambda codec: codec != "LZ4",
    )
    named = types.SimpleNamespace(
        CompressionType=words, DictionaryPolicy=words, SinkInfo=list, TableInputMetadata=cudf.metadata_of
    )
    module, below = types.ModuleType("pylibcudf"), types.ModuleType("pylibcudf.io")
    below.parquet, below.types = parquet, named  # type: ignore[attr-defined]
    module.io, module.Table = below, types.SimpleNamespace(from_arrow=cudf.from_arrow)  # type: ignore[attr-defined]
    rmm = types.ModuleType("rmm")
    rmm.mr = None  # type: ignore[attr-defined]
    for name, stand_in in (("pylibcudf", module), ("pylibcudf.io", below), ("rmm", rmm)):
        monkeypatch.setitem(sys.modules, name, stand_in)

    class Memory:
        users = 0

        def begin(self) -> None:
            Memory.users += 1

        def end(self) -> None:
            Memory.users -= 1

        @contextmanager
        def of(self, ctx: sa.Context) -> Any:
            assert Memory.users == 1
            yield ctx

    @contextmanager
    def current(ordinal: int) -> Any:
        assert ordinal == 0
        yield

    monkeypatch.setattr(device_file, "is_cuda", lambda ctx: ctx.device == "sim:0")
    monkeypatch.setattr(device_file, "decoding_memory", lambda ordinal, mr: Memory())
    monkeypatch.setattr(device_file, "current_device", current)
    monkeypatch.setattr(device_file, "new_stream", lambda: types.SimpleNamespace(synchronize=lambda: None))
    yield cudf
    assert Memory.users == 0


def test_a_device_writes_files_that_pyarrow_reads_back(device, cudf, tmp_path):
    source = SOURCE.replace_schema_metadata({"k": "é"})
    path = tmp_path / "a.parquet"
    table = sa.from_arrow(source, device)
    assert table.write_parquet(path, engine="device", row_group_size=3) == path.stat().st_size
    again = pq.ParquetFile(path)
    assert [again.metadata.row_group(number).num_rows for number in range(2)] == [3, 1]
    assert again.read().equals(source)
    assert again.schema_arrow.metadata == {b"k": "é".encode()}
    (writer,) = cudf.writers
    keys = writer.told["key_value_metadata"][0]
    stored = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(keys["ARROW:schema"])))
    assert stored.equals(source.schema, check_metadata=True)
    assert writer.told["write_arrow_schema"] is False


def test_a_file_reads_the_same_as_that_of_pyarrow(device, cudf, tmp_path):
    def written(engine: str) -> pq.ParquetFile:
        target = io.BytesIO()
        with sa.parquet_writer(target, engine=engine) as writer:
            writer.write(sa.from_arrow(SOURCE, device))
            writer.write(sa.from_arrow(SOURCE.slice(1, 2), device))
        return pq.ParquetFile(io.BytesIO(target.getvalue()))

    files = [written("device"), written("host")]
    assert files[0].read().equals(files[1].read())
    logical_types = [[str(leaf.logical_type) for leaf in file.schema] for file in files]
    assert logical_types[0] == logical_types[1]
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frames, relations = [], []
    for engine in ("device", "host"):
        path = tmp_path / f"{engine}.parquet"
        sa.from_arrow(SOURCE, device).write_parquet(path, engine=engine)
        frames.append(polars.read_parquet(path))
        relations.append(duckdb.sql(f"select * replace (paris::varchar as paris) from '{path}'"))
    assert frames[0].schema == frames[1].schema
    assert frames[0].equals(frames[1])
    assert relations[0].types == relations[1].types
    assert relations[0].fetchall() == relations[1].fetchall()


def test_what_cudf_is_told_of_columns(device, cudf):
    fields = [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("list", pa.list_(pa.field("item", pa.decimal128(5, 1), nullable=False)), nullable=False),
        pa.field("struct", pa.struct([pa.field("raw", pa.large_binary())]), nullable=False),
    ]
    values = [[1], [[2]], [{"raw": b"a"}]]
    arrays = [pa.array(value, field.type) for value, field in zip(values, fields, strict=True)]
    source = pa.table(arrays, schema=pa.schema(fields))
    sa.from_arrow(source, device).write_parquet(
        io.BytesIO(), engine="device", compression="zstd", use_dictionary=False
    )
    told = cudf.writers[0].told
    numbers, lists, structs = told["metadata"].column_metadata
    assert numbers.known == {"name": "n", "nullability": False}
    assert lists.known == {"name": "list", "nullability": False}
    assert lists.child(1).known == {"name": "element", "nullability": False, "decimal_precision": 5}
    assert structs.known == {"name": "struct", "nullability": False}
    assert structs.child(0).known == {"name": "raw", "nullability": True, "output_as_binary": True}
    assert (told["compression"], told["dictionary_policy"]) == ("ZSTD", "NEVER")
    assert told["row_group_size_rows"] >= 1 << 30


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compression": "gzip"}, "compression 'gzip', which cuDF does not write"),
        ({"compression": "lz4"}, "compression 'lz4', which this cuDF does not write"),
        ({"compression": "zstd", "compression_level": 3}, "compression_level, which cuDF has not"),
        ({"use_dictionary": ["id"]}, "use_dictionary names columns"),
    ],
    ids=str,
)
def test_what_needs_pyarrow_is_written_by_it_or_refused(device, cudf, caplog, options, reason, tmp_path):
    table = sa.from_arrow(SOURCE, device)
    path = tmp_path / "a.parquet"
    with pytest.raises(sa.UnsupportedError, match=f"engine='device' can't write Parquet: {reason}"):
        table.write_parquet(path, engine="device", **options)
    assert list(tmp_path.iterdir()) == []
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        table.write_parquet(path, **options)
    assert f"pyarrow encodes Parquet on the host: {reason}" in caplog.text
    assert pq.read_table(path).equals(SOURCE)
    assert cudf.writers == []


def test_types_that_do_not_come_back_are_left_to_pyarrow(host, device, cudf):
    kept = {"bool", "int8", "uint64", "float32", "float64", "string", "large_string", "binary", "date32[day]"}
    arrays = arrow_data.arrays()
    assert kept < arrays.keys()
    for name, array in arrays.items():
        for column in (array, pa.ListArray.from_arrays([0, len(array)], array)):
            schema = pa.schema([pa.field("x", column.type, nullable=not pa.types.is_nested(column.type))])
            reason = device_file.reason_for_host(schema, options_of(), device)
            if name in kept:
                assert reason is None, name
            elif reason is not None:
                assert reason.startswith(f"column 'x' of type {column.type}: cuDF does not write")
    for refused in LEFT_TO_PYARROW:
        for type_ in (refused, pa.struct([("a", refused)])):
            schema = pa.schema([pa.field("x", type_, nullable=not pa.types.is_struct(type_))])
            assert device_file.reason_for_host(schema, options_of(), device) is not None
    for nested in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())])):
        inside = pa.struct([pa.field("b", nested)])
        for field in (pa.field("x", nested), pa.field("x", inside, nullable=False)):
            reason = device_file.reason_for_host(pa.schema([field]), options_of(), device)
            assert str(reason).endswith("cuDF does not write nested values that may be null")


def options_of() -> Any:
    return Options(None, "snappy", None, True)


def test_the_host_encodes_its_own_tables(host, cudf, caplog):
    table = sa.from_arrow(SOURCE, host)
    with pytest.raises(sa.UnsupportedError, match="the table is of 'host', not of a CUDA device"):
        table.write_parquet(io.BytesIO(), engine="device")
    with pytest.raises(sa.InvalidError, match="engine='gpu': expected 'device', 'host' or None"):
        table.write_parquet(io.BytesIO(), engine="gpu")
    with caplog.at_level(logging.DEBUG, "saeta.parquet"):
        table.write_parquet(io.BytesIO())
    assert caplog.records == []
    assert cudf.writers == []


def test_the_first_table_with_rows_decides_and_others_are_moved(host, device, cudf):
    target = io.BytesIO()
    numbers = pa.table({"a": np.arange(10)})
    with sa.parquet_writer(target, {"a": "int64"}, row_group_size=4) as writer:
        writer.write(sa.from_arrow(numbers.slice(0, 0), host))
        writer.write(sa.from_arrow(numbers, device))
        writer.write(sa.from_arrow(numbers, host))
    assert len(cudf.writers) == 1
    assert pq.read_table(io.BytesIO(target.getvalue())).equals(pa.concat_tables([numbers, numbers]))
    with sa.parquet_writer(io.BytesIO(), {"a": "int64"}, engine="device") as empty:
        pass
    assert empty.close() > 0


def test_without_pylibcudf_pyarrow_writes(device, cudf, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "pylibcudf", None)
    table = sa.from_arrow(SOURCE, device)
    with pytest.raises(sa.MissingDependency, match="pylibcudf"):
        table.write_parquet(io.BytesIO(), engine="device")
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        table.write_parquet(io.BytesIO())
    assert "pip install pylibcudf" in caplog.text


def test_a_failure_of_the_device_or_of_the_target_leaves_no_file(device, cudf, tmp_path):
    table = sa.from_arrow(SOURCE, device)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"before")
    for failure, raised in ((RuntimeError("bad page"), sa.UnsupportedError), (MemoryError(), MemoryError)):
        cudf.refusal = failure
        with pytest.raises(raised):
            table.write_parquet(path, engine="device")
    cudf.refusal = None
    writer = sa.parquet_writer(path)
    writer.write(table)
    writer.flush()
    cudf.refusal = RuntimeError("bad")
    writer.write(table)
    with pytest.raises(sa.UnsupportedError, match="cuDF can't encode the rows: bad"):
        writer.flush()
    writer.abort()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    cudf.refusal = None

    with pytest.raises(sa.FileError, match="no space left"):
        table.write_parquet(FullTarget())


def test_rows_that_cudf_refuses_first_are_written_by_pyarrow(device, cudf, caplog):
    cudf.refusal = RuntimeError("bad page")
    target = io.BytesIO()
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        sa.from_arrow(SOURCE, device).write_parquet(target, row_group_size=2)
    assert pq.read_table(io.BytesIO(target.getvalue())).equals(SOURCE)
    assert caplog.text.count("cuDF can't encode the rows: bad page") == 1


def test_a_footer_without_the_timestamps_is_an_error():
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), file)
    with pytest.raises(ValueError, match="a time or timestamp is none in the footer"):
        without_zones(file.getvalue(), [True])
    with pytest.raises(ValueError, match="shorter"):
        without_zones(file.getvalue(), [False, True])
    assert without_zones(file.getvalue(), [False]) == file.getvalue()
