"""The loader's data sources (saeta._loader.data) without a loader: their batches, reads, and refused
sources."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

import saeta as sa
from saeta._files import data_sets
from saeta._files.data_sets import Listed
from saeta._files.filesystems import file_system
from saeta._loader import data, readings
from saeta._loader.ipc_data import _batches_by_inspection
from saeta._loader.records import Batch, Load, Selection, Span


def table(*rows):
    return pa.Table.from_batches(
        [
            pa.record_batch({"n": pa.array(range(100 * i, 100 * i + each), pa.int64())})
            for i, each in enumerate(rows)
        ]
    )


def written(path, made, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_file(path, made.schema, options=options) as writer:
        for chunk in made["n"].chunks:  # to_batches would skip empty batches
            writer.write_batch(pa.record_batch({"n": chunk}))
    return str(path)


def loads(*windows):
    return [Load(spans, None) for spans in windows]


def rows_of(made):
    return made["n"].to_pylist()


def test_a_table_describes_its_batches(host):
    opened = data.data_of(sa.from_arrow(table(3, 0, 2), host), host)
    assert opened.is_table
    assert (opened.names, opened.schema.names) == (["table"], ["n"])
    assert [(batch.rows, batch.whole) for batch in opened.batches] == [
        (3, False),
        (0, False),
        (2, False),
    ]
    assert opened.firsts() == [Span(0, 0, 3), Span(2, 0, 2)]
    assert (
        opened.describe([Span(2, 0, 1), Span(0, 0, 1), Span(2, 1, 1)]) == "the table, 2 batches from 0 to 2"
    )
    assert opened.describe([Span(2, 0, 1)]) == "the table, batch 2"
    assert opened.identity() == [["table"], [(each.rows, each.nbytes) for each in opened.batches]]


def test_a_window_with_all_rows_in_order_is_the_table_itself(host):
    opened = data.data_of(sa.from_arrow(table(3, 2), host), host)
    windows = [[Span(0, 0, 3), Span(1, 0, 2)], [Span(1, 0, 2), Span(0, 0, 3)], [Span(0, 1, 1)]]
    reading = opened.open(host, ["n"], loads(*windows), ahead=2)
    assert reading.next().num_batches == 2, "the batches must not be joined"
    assert rows_of(reading.next()) == [100, 101, 0, 1, 2]
    assert rows_of(reading.next()) == [1]
    del opened, reading


@pytest.mark.parametrize("kind", ["new", "older", "parquet"])
def test_files_describe_their_batches_and_read_consecutive_ones_together(host, tmp_path, kind):
    files = []
    for name, rows in (("a", (0, 4, 3)), ("b", (5,)), ("c", (2, 2))):
        if kind == "parquet":
            path = tmp_path / f"{name}.parquet"
            made = table(*rows)
            with pq.ParquetWriter(path, made.schema) as writer:
                for batch in made.to_batches():
                    writer.write_batch(batch)
            files.append(str(path))
        else:
            version = pa.ipc.MetadataVersion.V5 if kind == "new" else pa.ipc.MetadataVersion.V4
            files.append(written(tmp_path / f"{name}.arrow", table(*rows), metadata_version=version))
    opened = data.data_of(files, host)
    suffix = "parquet" if kind == "parquet" else "arrow"
    assert opened.names == [f"{name}.{suffix}" for name in "abc"]
    assert not opened.is_table
    empty = [0] if opened.batches[0].rows == 0 else []  # pyarrow's Parquet writer skips an empty batch
    assert [batch.rows for batch in opened.batches] == [*empty, 4, 3, 5, 2, 2]
    first = len(empty)
    assert opened.firsts() == [Span(first, 0, 4), Span(first + 2, 0, 5), Span(first + 3, 0, 2)]
    assert all(batch.whole == (kind == "parquet") for batch in opened.batches)
    spans = [Span(first, 1, 2), Span(first + 1, 0, 3), Span(first + 2, 4, 1), Span(first, 0, 1)]
    runs = list(opened.runs(spans))
    assert [run[:3] for run in runs] == [(0, first, first + 2), (1, 0, 1), (0, first, first + 1)]
    assert [len(run[3]) for run in runs] == [2, 1, 1]
    expected = [1 + 100 * first, 2 + 100 * first, *(100 * (first + 1) + i for i in range(3)), 4, 100 * first]
    reading = opened.open(host, ["n"], loads(spans, spans[:1]), ahead=0)
    assert rows_of(reading.next()) == expected
    assert rows_of(reading.next()) == expected[:2]
    reading.close()
    assert opened.describe(spans) == (
        f"file '{files[0]}', 2 batches from {first} to {first + 1}; file '{files[1]}', batch 0"
    )
    assert opened.describe([*spans, Span(first + 3, 0, 1)]).endswith("batch 0 and 1 more files")
    opened.close()


def test_batch_sizes_of_older_files_are_estimated_by_rows(host, tmp_path):
    path = written(tmp_path / "a.arrow", table(1, 3), metadata_version=pa.ipc.MetadataVersion.V4)
    size = Path(path).stat().st_size
    assert _batches_by_inspection(path) == [
        Batch(1, size // 4, False),
        Batch(3, size * 3 // 4, False),
    ]
    packed = written(tmp_path / "b.arrow", table(1), compression="zstd")
    assert _batches_by_inspection(packed)[0].whole
    empty = written(tmp_path / "c.arrow", table(0))
    assert _batches_by_inspection(empty) == [Batch(0, 0, False)]


def test_a_compressed_batch_is_read_once_for_all_spans_in_it(host, tmp_path):
    opened = data.data_of(
        [written(tmp_path / "a.arrow", table(100, 100), compression="lz4")], host, Selection(["n"])
    )
    spans = [Span(0, 10, 2), Span(0, 50, 2), Span(1, 0, 2)]
    reading = opened.open(host, ["n"], loads(spans), ahead=1)
    assert readings.spans_to_read(loads(spans, spans[1:]), opened.batches) == [
        [Span(0, 0, 100), Span(1, 0, 100)],
        [],
    ]
    assert rows_of(reading.next()) == [10, 11, 50, 51, 100, 101]
    reading.close()
    opened.close()


def test_a_closed_reader_reads_nothing(host, tmp_path):
    pq.write_table(table(2), tmp_path / "a.parquet")
    for path in (written(tmp_path / "a.arrow", table(2, 2)), str(tmp_path / "a.parquet")):
        reading = data.data_of([path], host).open(host, ["n"], loads(*[[Span(0, 0, 1)]] * 2), ahead=0)
        assert rows_of(reading.next()) == [0]
        reading.close()
        with pytest.raises(sa.ClosedError, match="the loader is closed"):
            reading.next()


def test_close_closes_the_reader_in_use(host):
    closed = []

    class Reader:
        def close(self):
            closed.append(1)

    reading = readings.ReadingFiles(None, host, [])
    with reading.ended_by_close(Reader()):
        reading.close()
        assert closed == [1]
    assert closed == [1, 1]
    reading.close()
    assert closed == [1, 1], "the reader is not closed again"
    with pytest.raises(sa.ClosedError, match="the loader is closed"), reading.ended_by_close(Reader()):
        pytest.fail("it is closed")
    assert closed == [1, 1, 1]


def test_sources_that_are_not_paths_are_refused(host, tmp_path):
    for wrong, type_ in ((7, "int"), (b"a", "bytes"), (None, "NoneType")):
        with pytest.raises(
            sa.TypeMismatch, match=f"files is of type {type_}, expected a path, a list of paths or a Table"
        ):
            data.data_of(wrong, host)
    with pytest.raises(
        sa.TypeMismatch,
        match="files has an object of type BytesIO, expected paths: a loader opens files by name",
    ):
        data.data_of([io.BytesIO()], host)


def test_errors_name_files_that_can_not_be_opened(tmp_path):
    with pytest.raises(sa.MissingFileError, match=f"'{tmp_path}/none' does not exist"):
        data.is_parquet(Listed(f"{tmp_path}/none"))
    with pytest.raises(sa.FileError, match=f"can't read '{tmp_path}'"):
        data.is_parquet(Listed(str(tmp_path)))
    (tmp_path / "short").write_bytes(b"PAR")
    (tmp_path / "long").write_bytes(b"PAR1 and more")
    assert not data.is_parquet(Listed(f"{tmp_path}/short"))
    assert data.is_parquet(Listed(f"{tmp_path}/long"))
    assert data.is_parquet(Listed("s3://bucket/a.parquet"))
    assert not data.is_parquet(Listed("s3://bucket/a.arrow"))
    with pytest.raises(sa.FormatError, match=f"{tmp_path}/long"):
        data.data_of(f"{tmp_path}/long", sa.context("host"))
    with pytest.raises(sa.MissingFileError, match="can't read"):
        data.data_of((tmp_path / "none.parquet").as_uri(), sa.context("host"))


def test_bytes_paths_are_accepted(host, tmp_path):
    path = written(tmp_path / "a.arrow", table(2))
    (found,) = data_sets.list_sources(BytesPath(path), None, (".arrow",))
    assert os.fspath(found.source) == os.fsencode(path)
    assert found.regular
    assert data.data_of([path], host).names == ["a.arrow"]


class BytesPath:
    def __init__(self, path):
        self._path = os.fsencode(path)

    def __fspath__(self):
        return self._path


@pytest.mark.parametrize(
    ("path", "pattern", "matched"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "*", True),
        (".a", "*", False),
        (".a", ".*", True),
        ("a/b", "*", False),
        ("a/b", "*/b", True),
        ("a", "*/b", False),
        ("b", "**/b", True),
        ("a/c/b", "**/b", True),
        ("a/.c/b", "**/b", False),
        (".c/b", "**/b", False),
        ("a/c", "**/b", False),
        ("a/b/c", "a/**", True),
        ("a", "**", True),
        (".a", "**", False),
        ("B", "b", False),
    ],
)
def test_paths_match_patterns_as_glob_matches_them(path, pattern, matched):
    assert data_sets._matches(path.split("/"), pattern.split("/")) is matched


@pytest.mark.parametrize(
    ("path", "root", "rest"),
    [
        ("bucket/a/*.arrow", "bucket/a", "*.arrow"),
        ("bucket/*/b.arrow", "bucket", "*/b.arrow"),
        ("*.arrow", "", "*.arrow"),
        ("/*.arrow", "/", "*.arrow"),
        ("s3://bucket/*", "s3://bucket", "*"),
        ("s3://*", "s3://", "*"),
        ("memory:///*.arrow", "memory:///", "*.arrow"),
    ],
)
def test_a_pattern_is_split_after_its_last_plain_folder(path, root, rest):
    assert data_sets._split(path, path.index("*")) == (root, rest)


class OfFsspec:
    """The methods of an fsspec file system that Saeta uses."""

    asked = None
    cat_file = None

    def info(self, path):
        if path == "gone":
            raise FileNotFoundError(path)
        return {"type": "directory"} if path == "folder" else {} if path == "odd" else {"type": "file"}

    def find(self, root, maxdepth):
        self.asked = root, maxdepth
        return ["folder/b/c", "folder/a"]


def test_file_systems_tell_files_from_folders(tmp_path):
    local = file_system(fs.LocalFileSystem())
    (tmp_path / "a").write_bytes(b"")
    assert local.kind(str(tmp_path)) == "directory"
    assert local.kind(str(tmp_path / "a")) == "file"
    assert local.kind(str(tmp_path / "b")) == ""
    of_fsspec = file_system(OfFsspec())
    kinds = {path: of_fsspec.kind(path) for path in ("folder", "a", "gone", "odd")}
    assert kinds == {"folder": "directory", "a": "file", "gone": "", "odd": ""}
    with pytest.raises(
        sa.TypeMismatch, match=r"filesystem is of type object, expected one of pyarrow\.fs, of fsspec or"
    ):
        file_system(object())


def test_file_systems_list_a_folder(tmp_path):
    of_fsspec = OfFsspec()
    assert data_sets._files_below(of_fsspec, "folder", deep=True) == [
        ("folder/a", ["a"]),
        ("folder/b/c", ["b", "c"]),
    ]
    assert of_fsspec.asked == ("folder", None)
    assert data_sets._files_below(of_fsspec, "", deep=False)[0] == ("folder/a", ["folder", "a"])
    assert of_fsspec.asked == ("", 1)
    (tmp_path / "below").mkdir()
    for name in ("a", "below/b"):
        (tmp_path / name).write_bytes(b"")
    local = fs.LocalFileSystem()
    assert data_sets._files_below(local, str(tmp_path), deep=False) == [(f"{tmp_path}/a", ["a"])]
    assert [parts for _, parts in data_sets._files_below(local, f"{tmp_path}/", deep=True)] == [
        ["a"],
        ["below", "b"],
    ]


def test_a_matrix_is_row_major(host, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0], "z": [7, 8, 9]}), path)
    with sa.loader(str(path), host, batch_size=2, matrix={"m": ["x", "y"]}, to="numpy") as loader:
        first, second = loader
    assert first["m"].tolist() == [[1, 4], [2, 5]]
    assert first["m"].flags.c_contiguous
    assert first["z"].tolist() == [7, 8]
    assert second["m"].tolist() == [[3, 6]]
    del first, second, loader


def test_parquet_at_a_url_is_read_through_its_file_system(host):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    with memory.open("/loader/a.parquet", "wb") as target:
        pq.write_table(table(3), target)
    try:
        opened = data.data_of(["memory://loader/a.parquet"], host)
        assert (opened.names, [batch.rows for batch in opened.batches]) == (["a.parquet"], [3])
        reading = opened.open(host, ["n"], loads([Span(0, 1, 2)]), ahead=2)
        assert rows_of(reading.next()) == [1, 2]
        del reading
    finally:
        memory.rm("/loader", recursive=True)
