"""Imports of pandas frames, and of files written by pandas, omit the index unless it is requested."""

from __future__ import annotations

import io
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from loader_options import grouped

pd = pytest.importorskip("pandas")

VALUES = {"x": [1.0, 2.0, 3.0], "y": [5, 6, 7]}
INDEXES = {
    "numbers": pd.Index([7, 3, 5]),
    "named": pd.Index(["c", "a", "b"], name="id"),
    "levels": pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["k", None]),
    "times": pd.date_range("2030-01-01", periods=3),
    "range": pd.RangeIndex(4, 10, 2),
}
LEVELS = {
    "numbers": ["__index_level_0__"],
    "named": ["id"],
    "levels": ["k", "__index_level_1__"],
    "times": ["__index_level_0__"],
    "range": ["__index_level_0__"],
}
STORED = [name for name in INDEXES if name != "range"]  # a range index is stored only in the metadata


def frame(name):
    return pd.DataFrame(VALUES, index=INDEXES[name])


def ipc_bytes(made, *, stream=False):
    target = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(target, made.schema) as writer:
        writer.write_table(made)
    return target.getvalue()


def written(source, **options):
    target = io.BytesIO()
    sa.write_ipc(source, target, **options)
    return pa.ipc.open_file(target.getvalue()).read_all()


def loaded(source, **options):
    with sa.loader(source, "host", batch_size=9, to="table", **grouped(options)) as loader:
        return next(iter(loader))


WAYS_IN = {
    "from_arrow": lambda given, **options: sa.from_arrow(given, "host", **options),
    "table": lambda given, **options: sa.table(given, "host", **options),
    "loader": loaded,
    "write_ipc": written,
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("name", INDEXES)
def test_a_frame_has_its_index_only_on_request(name, way):
    made = WAYS_IN[way]
    assert made(frame(name)).column_names == ["x", "y"]
    assert made(frame(name), index=True).column_names == ["x", "y", *LEVELS[name]]


@pytest.mark.parametrize("name", INDEXES)
def test_a_frame_makes_the_round_trip_with_its_index(name):
    given = frame(name)
    pd.testing.assert_frame_equal(sa.table(given, "host", index=True).to_pandas(), given, check_freq=False)
    without = sa.table(given, "host").to_pandas()
    kept = given if name == "range" else given.reset_index(drop=True)
    pd.testing.assert_frame_equal(without, kept)


def test_a_shuffled_frame_has_no_index_among_its_features():
    train = frame("range").sample(3, random_state=1)
    assert sa.table(train, "host").to_numpy(dtype="float32").shape == (3, 2)
    with sa.loader(train, "host", batch_size=9, matrix=True, dtype="float32", to="numpy") as loader:
        assert next(iter(loader)).shape == (3, 2)
    with sa.ipc_writer(target := io.BytesIO()) as writer:
        writer.write(train)
    assert pa.ipc.open_file(target.getvalue()).schema.names == ["x", "y"]


def test_a_table_of_pyarrow_has_all_its_columns():
    given = pa.Table.from_pandas(frame("named"))
    assert sa.from_arrow(given, "host").column_names == ["x", "y", "id"]
    assert sa.table(given.to_reader(), "host").column_names == ["x", "y", "id"]


def read_live(content, **options):
    """Reads the content through a pipe, which can be read only once."""
    ours, theirs = os.pipe()

    def send():
        with os.fdopen(theirs, "wb") as target:
            target.write(content)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with os.fdopen(ours, "rb", buffering=0) as source:
            return sa.read_ipc(source, "host", **options)
    finally:
        thread.join()


def scanned(source, scan=None, **options):
    with (scan or sa.scan_ipc)(source, "host", **options) as parts:
        table = sa.concat_tables(parts)
        assert parts.schema == table.schema
    return table


def from_ipc(folder, name, read, **options):
    (folder / "a.arrow").write_bytes(ipc_bytes(pa.Table.from_pandas(frame(name))))
    return read(folder / "a.arrow", **options)


def from_parquet(folder, name, read, **options):
    frame(name).to_parquet(folder / "a.parquet")
    return read(folder / "a.parquet", **options)


FILES = {
    "read_ipc": (from_ipc, lambda path, **options: sa.read_ipc(path, "host", **options)),
    "read_ipc of a copy": (from_ipc, lambda path, **options: sa.read_ipc(path, "host", copy=True, **options)),
    "read_ipc of several": (from_ipc, lambda path, **options: sa.read_ipc([path] * 2, "host", **options)[:3]),
    "scan_ipc": (from_ipc, scanned),
    "place": (from_ipc, lambda path, **options: sa.place(path, ["host"], **options)[0]),
    "loader of Arrow files": (from_ipc, loaded),
    "a stream that is sent": (
        from_ipc,
        lambda path, **options: read_live(
            ipc_bytes(pa.ipc.open_file(path).read_all(), stream=True), **options
        ),
    ),
    "read_parquet": (from_parquet, lambda path, **options: sa.read_parquet(path, "host", **options)),
    "scan_parquet": (from_parquet, lambda path, **options: scanned(path, sa.scan_parquet, **options)),
    "loader of Parquet files": (from_parquet, loaded),
}


@pytest.mark.parametrize("way", FILES)
@pytest.mark.parametrize("name", STORED)
def test_a_file_written_by_pandas_has_its_index_only_on_request(tmp_path, name, way):
    write, read = FILES[way]
    made = write(tmp_path, name, read)
    assert made.column_names == ["x", "y"]
    assert made["y"].to_pylist() == VALUES["y"]
    pd.testing.assert_frame_equal(made.to_pandas(), frame(name).reset_index(drop=True))
    whole = write(tmp_path, name, read, index=True)
    assert whole.column_names == ["x", "y", *LEVELS[name]]
    pd.testing.assert_frame_equal(whole.to_pandas(), frame(name), check_freq=False)


@pytest.mark.parametrize("way", FILES)
def test_explicitly_selected_index_columns_are_read(tmp_path, way):
    write, read = FILES[way]
    assert write(tmp_path, "named", read, columns=["id", "y"]).column_names == ["id", "y"]
    meant = sa.schema([("x", "float64"), ("y", "int64"), ("id", "large_string")])
    if way == "place":
        return
    found = write(tmp_path, "named", read, columns="id")
    assert found["id"].to_pylist() == ["c", "a", "b"]
    fields = [*meant.fields[:2], found.schema.field("id")]
    assert write(tmp_path, "named", read, schema=sa.Schema(fields)).column_names == meant.names


def test_files_with_and_without_an_index_can_be_read_together(tmp_path):
    frame("named").to_parquet(tmp_path / "0.parquet")
    frame("range").to_parquet(tmp_path / "1.parquet")
    assert sa.read_parquet(tmp_path, "host")["y"].to_pylist() == VALUES["y"] * 2
    for number, name in enumerate(("named", "range")):
        (tmp_path / f"{number}.arrow").write_bytes(ipc_bytes(pa.Table.from_pandas(frame(name))))
    assert sa.read_ipc(tmp_path, "host")["y"].to_pylist() == VALUES["y"] * 2
    with pytest.raises(sa.TypeMismatch, match="column 2 is missing, expected 'id'"):
        sa.read_ipc(tmp_path, "host", index=True)


def test_a_filter_may_use_the_index(tmp_path):
    frame("named").to_parquet(tmp_path / "a.parquet")
    table = sa.read_parquet(tmp_path, "host", filters=[("id", ">", "a")])
    assert table.to_pydict() == {"x": [1.0, 3.0], "y": [5, 7]}


@pytest.mark.parametrize(
    "said", [b"no json", b"[]", b"{}", b'{"index_columns": null}', b'{"index_columns": [1]}']
)
def test_invalid_pandas_metadata_omit_no_column(said):
    made = pa.table({"a": [1]}).replace_schema_metadata({"pandas": said})
    assert sa.read_ipc(ipc_bytes(made), "host").column_names == ["a"]
    target = io.BytesIO()
    pq.write_table(made, target)
