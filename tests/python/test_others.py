"""IPC files of other writers are read as pyarrow reads them."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import DEVICES, contexts_of

NAMES = (
    "pandas.feather",
    "polars-newest.arrow",
    "polars-oldest.arrow",
    "polars.arrows",
    "pyarrow-plain.feather",
    "pyarrow-small-batches.arrow",
)


def by_pyarrow(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(path).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(path).read_all()


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def require_equal(path: Path, device: sa.Context) -> None:
    expected = by_pyarrow(path)
    for copy in (None, True):
        seen = sa.read_ipc(path, device, copy=copy).to_arrow()
        assert seen.schema.equals(expected.schema, check_metadata=True)
        assert seen.equals(expected)
    some = expected.column_names[::2]
    assert sa.read_ipc(path, device, columns=some).to_arrow().equals(expected.select(some))


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus(device, shared_data, name):
    path = shared_data / "others" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    require_equal(path, device)


def shapes():
    """Returns data of many shapes by name, in a form that polars and pandas accept."""
    when = datetime.datetime(2024, 2, 29, 12, 30)
    yield (
        "numbers",
        {"a": list(range(1000)), "b": [i / 7 for i in range(1000)], "c": [i % 3 == 0 for i in range(1000)]},
    )
    yield "nulls", {"a": [None, 1, None, 3], "s": ["x", None, "", None], "b": [True, None, None, False]}
    yield "nothing", {"a": [None] * 5, "s": ["only"] * 5}
    yield "empty", {"a": [], "s": []}
    yield "one row", {"a": [1], "s": ["one"]}
    yield "times", {"t": [when, None, when], "d": [when.date()] * 3}
    yield "lists", {"l": [[1, 2], [], None, [3]], "s": [["a"], [None], None, []]}
    yield "structs", {"r": [{"x": 1, "y": "one"}, {"x": None, "y": "two"}, {"x": 3, "y": None}]}
    yield "long strings", {"s": ["short", "x" * 500, None, "öäü" * 40] * 50}


SHAPES = dict(shapes())
COMPRESSIONS = ("uncompressed", "lz4", "zstd")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_polars(device, tmp_path, shape, compression):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(SHAPES[shape])
    if shape == "numbers":
        frame = pl.concat([frame, frame, frame], rechunk=False)
    for number, level in itertools.product((0, 1), ("oldest", "newest")):
        path = tmp_path / f"{number}-{level}.arrow"
        write = frame.write_ipc_stream if number else frame.write_ipc
        level_of = {"oldest": pl.CompatLevel.oldest(), "newest": pl.CompatLevel.newest()}
        write(path, compression=compression, compat_level=level_of[level])
        require_equal(path, device)


def test_polars_categories(device, tmp_path):
    pl = pytest.importorskip("polars")
    words = pl.Series("c", ["a", "b", None, "a"] * 100, dtype=pl.Categorical)
    kinds = pl.Series("e", ["x", "y", "x", None] * 100, dtype=pl.Enum(["x", "y", "z"]))
    pl.DataFrame([words, kinds]).write_ipc(tmp_path / "c.arrow", compression="zstd")
    require_equal(tmp_path / "c.arrow", device)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_pandas(device, tmp_path, shape, compression):
    pd = pytest.importorskip("pandas")
    path = tmp_path / "pandas.feather"
    pd.DataFrame(SHAPES[shape]).to_feather(path, compression=compression)
    require_equal(path, device)


def require_equal_from_pyarrow(folder, table, options, device):
    """Writes a file and a stream with batches of three rows, and compares both."""
    for name, opened in (("f", pa.ipc.new_file), ("s", pa.ipc.new_stream)):
        with opened(folder / name, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=3)
        require_equal(folder / name, device)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
def test_pyarrow(device, tmp_path, shape, compression, version):
    if compression is not None and version == pa.ipc.MetadataVersion.V4:
        pytest.skip("pyarrow can't read these files itself")
    table = pa.table(SHAPES[shape])
    options = pa.ipc.IpcWriteOptions(compression=compression, metadata_version=version)
    require_equal_from_pyarrow(tmp_path, table, options, device)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
def test_messages_with_the_prefix_used_before_0_15(device, tmp_path, shape, version):
    table = pa.table(SHAPES[shape])
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True, metadata_version=version)
    require_equal_from_pyarrow(tmp_path, table, options, device)


def test_duckdb(device, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    query = (
        "select i, i / 3.0 as f, 'n' || i as s, [i, i + 1] as l, date '2024-01-01' + i::int as d "
        "from range(5000) t(i)"
    )
    reader = duckdb.sql(query).to_arrow_reader(1000)
    with pa.ipc.new_file(tmp_path / "d.arrow", reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    require_equal(tmp_path / "d.arrow", device)


def test_the_footer_overrides_the_byte_order_of_the_first_schema(device, tmp_path):
    """The footer's byte order must be used: libarrow ignores the schema at the beginning of a file."""
    table = pa.table({"a": pa.array(range(100), pa.int32())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    whole = bytearray(sink.getvalue().to_pybytes())
    lead = pa.ipc.read_message(pa.py_buffer(bytes(whole[8:]))).metadata.size
    for place in range(16, 8 + lead):
        changed = bytearray(whole)
        changed[place] ^= 1
        path = tmp_path / "changed.arrow"
        path.write_bytes(changed)
        assert sa.read_ipc(path, device).to_arrow().equals(table), place
