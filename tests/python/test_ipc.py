"""Arrow IPC files and streams, against pyarrow."""

from __future__ import annotations

import io
import mmap
import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from contexts import copies
from threads import run_in_threads


def write(path, table, *, stream=False, compression=None, chunk=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return path


@pytest.fixture
def batched(tmp_path):
    return write(tmp_path / "batched.arrow", arrow_data.table(60), chunk=20)


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("copy", [None, True], ids=["view", "copy"])
def test_every_type_is_read_as_pyarrow_reads_it(anywhere, tmp_path, stream, compression, copy):
    source = arrow_data.table()
    path = write(tmp_path / "source.arrow", source, stream=stream, compression=compression, chunk=30)
    table = sa.read_ipc(path, anywhere, copy=copy, combine_chunks=False)
    assert table.num_batches == 3
    again = table.to_arrow()
    assert again.equals(source)
    assert again.schema.equals(source.schema, check_metadata=True)


@pytest.mark.parametrize("format", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_pyarrow_reads_what_saeta_writes(anywhere, tmp_path, format, compression):  # noqa: A002
    source = arrow_data.table().replace_schema_metadata({"key": "value"})
    path = tmp_path / "written.arrow"
    size = sa.write_ipc(sa.from_arrow(source, anywhere), path, compression=compression, format=format)
    assert size == path.stat().st_size
    opened = pa.ipc.open_file(path) if format == "file" else pa.ipc.open_stream(path)
    again = opened.read_all()
    assert again.equals(source)
    assert again.schema.equals(source.schema, check_metadata=True)
    summary = sa.ipc.inspect(path)
    assert (summary["format"], summary["compression"]) == (format, compression or "none")


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas", "duckdb"])
def test_tables_of_other_libraries_are_written(host, tmp_path, library):
    module = pytest.importorskip(library)
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    source = {
        "pyarrow": lambda: rows,
        "polars": lambda: module.from_arrow(rows),
        "pandas": rows.to_pandas,
        "duckdb": lambda: module.from_arrow(rows),
    }[library]()
    path = tmp_path / "a.arrow"
    assert sa.write_ipc(source, path) == path.stat().st_size
    assert sa.read_ipc(path, host).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("source", [3, "a.arrow", [1, 2], pa.array([1, 2])], ids=repr)
def test_writing_an_object_that_is_not_a_table_is_refused(tmp_path, source):
    with pytest.raises(sa.TypeMismatch):
        sa.write_ipc(source, tmp_path / "a.arrow")
    assert not any(tmp_path.iterdir())


def test_slices_and_batches_are_written_unchanged(host, batched, tmp_path):
    table = sa.read_ipc(batched, host)[15:50]
    table.write_ipc(tmp_path / "part.arrow")
    reader = pa.ipc.open_file(tmp_path / "part.arrow")
    assert [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)] == [5, 20, 10]
    assert reader.read_all().equals(arrow_data.table(60).slice(15, 35))


def test_a_mapped_file_is_viewed_and_a_copy_is_one_transfer(host, tmp_path):
    path = write(tmp_path / "numbers.arrow", pa.table({"a": range(90), "b": np.arange(90.0)}), chunk=30)
    viewed = sa.read_ipc(path, host)
    assert (copies(host), host.memory.statistics()["current"]) == (0, 0)
    copied = sa.read_ipc(path, host, copy=True)
    assert copies(host) == 1
    assert host.memory.statistics()["own"] >= copied.nbytes
    assert viewed.to_arrow().equals(copied.to_arrow())


def test_columns_and_batches_can_be_selected(host, batched):
    source = arrow_data.table(60)
    table = sa.read_ipc(batched, host, columns=["string", "int8"], batches=(1, 3))
    assert table.to_arrow().equals(source.select(["string", "int8"]).slice(20, 40))
    assert sa.read_ipc(batched, host, batches=range(2, 3)).num_rows == 20
    assert sa.read_ipc(batched, host, columns=[]).num_rows == 60
    with pytest.raises(sa.InvalidError, match="nothing"):
        sa.read_ipc(batched, host, columns=["nothing"])
    with pytest.raises(sa.Error, match="3"):
        sa.read_ipc(batched, host, batches=(2, 9))
    assert sa.read_ipc(batched, host, batches=range(0, 3, 2)).num_rows == 40


def test_bytes_and_open_files_are_sources(host, batched):
    source = arrow_data.table(60)
    content = batched.read_bytes()
    for given in (
        content,
        bytearray(content),
        memoryview(content),
        io.BytesIO(content),
        pa.py_buffer(content),
    ):
        assert sa.read_ipc(given, host).to_arrow().equals(source)
    with batched.open("rb") as file:
        assert sa.read_ipc(file, host).to_arrow().equals(source)
    with batched.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sa.read_ipc(memoryview(mapped), host, copy=True).to_arrow().equals(source)
    assert sa.read_ipc(os.fspath(batched), host).num_rows == 60


@pytest.mark.parametrize("copy", [None, True], ids=["view", "copy"])
@pytest.mark.parametrize("way", ["path", "bytes", "ranges", "scan"])
def test_values_are_validated_unless_disabled(host, tmp_path, way, copy):
    indices = pa.array([0, 7, 0, 1], pa.int8())
    wrong = pa.DictionaryArray.from_arrays(indices, pa.array(["x", "y"]), safe=False)
    path = write(tmp_path / "wrong.arrow", pa.table({"w": wrong}))

    def read(**options):
        if way == "scan":
            with sa.scan_ipc(path, host, copy=copy, **options) as scan:
                return next(scan)
        source = {"path": path, "bytes": path.read_bytes(), "ranges": io.BytesIO(path.read_bytes())}[way]
        return sa.read_ipc(source, host, copy=copy, **options)

    for options in ({}, {"validate": True}, {"validate": "utf8"}):
        with pytest.raises(sa.FormatError, match=r"'w'.*7"):
            read(**options)
    assert read(validate=False)["w"][2:].to_pylist() == ["x", "y"]


def test_views_of_bytes_keep_them_alive(host):
    sink = pa.BufferOutputStream()
    write(sink, pa.table({"a": np.arange(1000)}))
    table = sa.read_ipc(sink.getvalue().to_pybytes(), host)
    assert copies(host) == 0
    assert table["a"].to_numpy().sum() == 499500


def test_dictionaries_with_replacement_and_deltas(host, tmp_path):
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    path = tmp_path / "deltas.arrows"
    batches = [
        pa.record_batch([pa.array(values).dictionary_encode().cast(schema.field(0).type)], schema)
        for values in (["a", "b"], ["a", "b", "c"], ["z"])
    ]
    with pa.ipc.new_stream(
        path, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    table = sa.read_ipc(path, host)
    assert table["d"].to_pylist() == ["a", "b", "a", "b", "c", "z"]
    assert table.to_arrow().column("d").to_pylist() == ["a", "b", "a", "b", "c", "z"]


def test_progress_is_reported_after_each_batch(host, batched, tmp_path):
    heard = []
    table = sa.read_ipc(
        batched,
        host,
        progress=lambda so_far: heard.append((so_far.batches, so_far.total_batches, so_far.rows)),
    )
    assert heard == [(1, 3, 20), (2, 3, 40), (3, 3, 60)]
    heard.clear()
    sa.write_ipc(table, tmp_path / "again.arrow", progress=lambda so_far: heard.append(so_far.rows))
    assert heard[-1] == 60


def test_an_error_in_progress_ends_the_read_and_leaks_nothing(host, batched):
    def stop(so_far):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sa.read_ipc(batched, host, copy=True, progress=stop)
    assert host.memory.statistics()["current"] == 0


def test_an_error_in_progress_leaves_no_partial_file(host, batched, tmp_path):
    target = tmp_path / "folder" / "out.arrow"
    target.parent.mkdir()
    target.write_bytes(b"what was there before")
    table = sa.read_ipc(batched, host)

    def stop(so_far):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        sa.write_ipc(table, target, progress=stop)
    assert target.read_bytes() == b"what was there before"
    assert [path.name for path in target.parent.iterdir()] == ["out.arrow"]


def test_a_progress_bar_needs_one_argument(host, batched, capfd):
    assert sa.read_ipc(batched, host, progress=True).num_rows == 60
    assert capfd.readouterr().out == ""


def test_other_threads_run_during_a_read(host, batched):
    """The progress callback waits for another thread, which could not run if the read held the GIL."""
    asked, answered = threading.Event(), threading.Event()

    def answer():
        asked.wait(60)
        answered.set()

    helper = threading.Thread(target=answer)
    helper.start()

    def wait_for_answer(so_far):
        asked.set()
        assert answered.wait(60)

    assert sa.read_ipc(batched, host, progress=wait_for_answer).num_rows == 60
    helper.join()


def test_readers_on_several_threads_agree(host, batched):
    expected = arrow_data.table(60)
    equal = []

    def read(_):
        equal.extend(sa.read_ipc(batched, host, copy=True).to_arrow().equals(expected) for _ in range(10))

    run_in_threads(4, read)
    assert equal == [True] * 40


def test_valid_files_are_read_without_validation(host, batched):
    assert sa.read_ipc(batched, host, validate=False, copy=True).to_arrow().equals(arrow_data.table(60))


def test_unknown_options_are_refused(host, batched, tmp_path):
    table = sa.read_ipc(batched, host)
    with pytest.raises(sa.InvalidError, match="gzip"):
        table.write_ipc(tmp_path / "x.arrow", compression="gzip")
    with pytest.raises(sa.InvalidError, match="feather"):
        table.write_ipc(tmp_path / "x.arrow", format="feather")
    assert not (tmp_path / "x.arrow").exists()


def test_flights_are_read_and_summed(anywhere, flights):
    table = sa.read_ipc(flights, anywhere, copy=True)
    assert table.num_rows == 200_000
    assert table["delay"].to_numpy().sum(dtype=np.int64) == pa.ipc.open_file(flights).read_all()[
        "delay"
    ].to_numpy().sum(dtype=np.int64)


@pytest.mark.parametrize("copy", [None, True], ids=["views", "copies"])
def test_rechunk_decides_whether_batches_are_joined(host, batched, copy):
    expected = arrow_data.table(60)
    for combine_chunks, chunks in ((None, 3), (False, 3), (True, 1)):
        table = sa.read_ipc(batched, host, copy=copy, combine_chunks=combine_chunks)
        assert {len(table.to_arrow().column(i).chunks) for i in range(table.num_columns)} == {chunks}
        assert table.to_arrow().combine_chunks().equals(expected.combine_chunks())


def test_batches_that_must_be_views_are_not_joined(host, batched):
    with pytest.raises(sa.ExchangeError, match="can't be joined without a copy"):
        sa.read_ipc(batched, host, copy=False, combine_chunks=True)


def test_deltas_extend_a_dictionary_and_replacements_start_a_new_chunk(host, tmp_path):
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    batches = [
        pa.record_batch([pa.array(values).dictionary_encode().cast(schema.field(0).type)], schema)
        for values in (["a", "b"], ["a", "b", "c"], ["b", "c"] * 4, ["z"], ["z", None, "y"])
    ]
    path = tmp_path / "deltas.arrows"
    with pa.ipc.new_stream(
        path, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    expected = [value for batch in batches for value in batch.column(0).to_pylist()]
    for combine_chunks in (None, True, False):
        table = sa.read_ipc(path, host, copy=True, combine_chunks=combine_chunks)
        assert table["d"].to_pylist() == expected
        chunks = table.to_arrow().column("d").chunks
        assert len(chunks) == (3 if combine_chunks else 5)
        assert [len(chunk.dictionary) for chunk in chunks][:2] == ([3, 2] if combine_chunks else [2, 3])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_large_compressed_buffers_are_read_by_pyarrow_and_saeta(anywhere, tmp_path, compression):
    rows = 3 << 20  # 24 MiB per buffer: large enough to be compressed in several blocks
    noise = np.random.default_rng(5).integers(0, 1 << 62, rows)
    source = pa.table({"low": np.arange(rows) // 1000, "noise": noise})
    path = tmp_path / "blocks.arrow"
    sa.from_arrow(source, anywhere).write_ipc(path, compression=compression)
    assert path.stat().st_size < source.nbytes * 0.7
    assert pa.ipc.open_file(path).read_all().equals(source)
    assert sa.read_ipc(path, anywhere).to_arrow().equals(source)


def test_batches_of_several_windows_keep_their_order(anywhere, tmp_path):
    rows = 2_200_000  # 17 MiB per batch, 64 MiB per window
    source = pa.table({"n": np.arange(9 * rows)})
    table = sa.from_arrow(pa.Table.from_batches(source.to_batches(rows)), anywhere)
    assert table.num_batches == 9
    seen = []
    table.write_ipc(tmp_path / "windows.arrow", durable=False, progress=lambda now: seen.append(now.batches))
    assert seen == list(range(1, 10))
    again = pa.ipc.open_file(tmp_path / "windows.arrow")
    assert again.num_record_batches == 9
    assert again.read_all().equals(source)


def test_a_read_only_file_is_replaced_only_on_request(host, tmp_path):
    path = tmp_path / "kept.arrow"
    table = sa.table({"n": np.arange(5)}, host)
    table.write_ipc(path)
    path.chmod(0o444)
    with pytest.raises(sa.errors.FileError, match="replace_read_only"):
        table.write_ipc(path)
    table.slice(0, 2).write_ipc(path, replace_read_only=True)
    assert path.stat().st_mode & 0o777 == 0o444
    assert sa.read_ipc(path, host).num_rows == 2


def test_file_names_refused_by_the_system_raise_saetas_errors(host, tmp_path):
    table = sa.table({"n": np.arange(5)}, host)
    with pytest.raises(sa.errors.FileError, match="File name too long"):
        table.write_ipc(tmp_path / ("x" * 300))
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(sa.errors.FileError, match="Too many levels"):
        table.write_ipc(tmp_path / "circle")
    with pytest.raises(sa.errors.MissingFileError):
        table.write_ipc(tmp_path / "no" / "folder")
    with pytest.raises(sa.errors.FileError, match="File name too long"):
        sa.read_ipc(tmp_path / ("x" * 300), host)


KILLED = """
import os, signal, sys
import numpy as np
import saeta as sa

table = sa.table({"n": np.arange(4_000_000)}, "host")
sa.concat_tables([table] * 4).write_ipc(
    sys.argv[1], progress=lambda now: os.kill(os.getpid(), signal.SIGKILL)
)
"""


def test_a_killed_writer_leaves_the_old_file_and_no_temporary_file(tmp_path):
    path = tmp_path / "kept.arrow"
    path.write_bytes(b"the old one")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, check=False)
    assert done.returncode == -9
    assert [each.name for each in tmp_path.iterdir()] == ["kept.arrow"]
    assert path.read_bytes() == b"the old one"


# Installs a seccomp filter that makes fsync fail with EIO (x86-64, then aarch64).
NO_FSYNC = """
import ctypes, platform, struct
number, architecture = {"x86_64": (74, 0xC000003E), "aarch64": (82, 0xC00000B7)}[platform.machine()]
steps = [(0x20, 0, 0, 4), (0x15, 0, 3, architecture), (0x20, 0, 0, 0), (0x15, 0, 1, number),
         (0x06, 0, 0, 0x00050005), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, filter, 0, 0):
    raise SystemExit("the system takes no seccomp filter")
"""


def test_a_write_calls_fsync_unless_disabled(run_python, tmp_path):
    program = f"""{NO_FSYNC}
import sys, saeta as sa
table = sa.table({{"a": [1]}}, "host")
for options in ({{}}, {{"durable": True}}, {{"durable": False}}):
    for write in (lambda **given: sa.write_ipc(table, sys.argv[1], **given),
                  lambda **given: table.write_ipc(sys.argv[1], **given)):
        try:
            write(**options)
            print("written")
        except sa.FileError as failure:
            print("errno 5" in str(failure))
"""
    done = run_python(program, str(tmp_path / "a.arrow"))
    if "seccomp" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout.split() == ["True"] * 4 + ["written"] * 2, done.stderr
