"""sa.ipc_writer: Arrow IPC files and streams written table by table."""

from __future__ import annotations

import copy
import gc
import io
import os
import threading
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

import arrow_data
import saeta as sa
from sim_devices import DEVICES, contexts_of


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def parts(rows=60, batches=3):
    whole = arrow_data.table(rows)
    size = rows // batches
    return [whole.slice(first, size).combine_chunks() for first in range(0, rows, size)]


def write_each(target, tables, raised=None, **options):
    """Writes the tables, then raises `raised` inside the writer's block, if given."""
    with sa.ipc_writer(target, **options) as writer:
        for table in tables:
            writer.write(table)
        if raised is not None:
            writer.flush()
            raise raised
    return writer.close()


def read(content, format="file"):  # noqa: A002
    return (pa.ipc.open_file if format == "file" else pa.ipc.open_stream)(content).read_all()


@pytest.mark.parametrize("format", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_pyarrow_reads_files_written_table_by_table(ctx, tmp_path, format, compression):  # noqa: A002
    path = tmp_path / "a.arrow"
    source = parts()
    with sa.ipc_writer(path, compression=compression, format=format, durable=False) as writer:
        for part in source:
            writer.write(sa.from_arrow(part, ctx))
        assert not path.exists()
    assert writer.close() == path.stat().st_size
    assert read(path.read_bytes(), format).equals(pa.concat_tables(source))


def test_a_file_equals_that_of_write_ipc(ctx, tmp_path):
    table = sa.from_arrow(pa.table({"a": np.arange(100), "b": [str(i) for i in range(100)]}), ctx)
    whole = sa.concat_tables([table, table.slice(10, 20), table])
    whole.write_ipc(tmp_path / "whole.arrow")
    for schema in (None, table.schema, {"a": "int64", "b": "string"}):
        with sa.ipc_writer(tmp_path / "parts.arrow", schema) as writer:
            for rows in (table, table.slice(10, 20), table):
                writer.write(rows)
        assert (tmp_path / "parts.arrow").read_bytes() == (tmp_path / "whole.arrow").read_bytes()
    pl = pytest.importorskip("polars")
    assert pl.read_ipc(tmp_path / "parts.arrow")["a"].sum() == whole["a"].to_arrow().to_numpy().sum()


def test_tables_of_other_libraries_are_written(host, tmp_path):
    pl = pytest.importorskip("polars")
    source = pa.table({"a": [1, 2], "b": ["x", None]})
    with sa.ipc_writer(tmp_path / "a.arrow", source.schema) as writer:
        for rows in (source, source.to_batches()[0], source.to_reader()):
            writer.write(rows)
        with pytest.raises(sa.TypeMismatch, match=r"'b' \(string_view\), expected 'b' \(string\)"):
            writer.write(pl.from_arrow(source))
        with pytest.raises(sa.TypeMismatch, match="rows is of type Int64Array"):
            writer.write(pa.array([1]))
        with pytest.raises(sa.TypeMismatch):
            writer.write(7)
    assert read((tmp_path / "a.arrow").read_bytes()).equals(pa.concat_tables([source] * 3))


def test_an_exception_in_the_block_keeps_the_old_file(ctx, tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(b"before")
    table = sa.table({"a": np.arange(1000)}, ctx)
    for raised in (LookupError, KeyboardInterrupt):
        with pytest.raises(raised):
            write_each(path, [table, table], raised)
    writer = sa.ipc_writer(path)
    writer.abort()
    with pytest.raises(sa.ClosedError, match="abandoned"):
        writer.write(table)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_is_dropped_warns_and_leaves_no_file(host, tmp_path):
    writer = sa.ipc_writer(tmp_path / "a.arrow")
    writer.write(sa.table({"a": [1]}, host))
    held = [writer]
    del writer
    with pytest.warns(ResourceWarning, match=r"a\.arrow' was not closed"):
        held.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed = sa.ipc_writer(tmp_path / "b.arrow", {"a": "int8"})
        closed.close()
        aborted = sa.ipc_writer(tmp_path / "c.arrow")
        aborted.abort()
        del closed, aborted
        gc.collect()
    assert [each.name for each in tmp_path.iterdir()] == ["b.arrow"]


def test_a_writer_that_is_open_at_exit_leaves_no_file(run_python, tmp_path):
    program = f"""if True:
        import saeta as sa, sys
        writer = sa.ipc_writer({str(tmp_path / "a.arrow")!r}, progress=lambda now: None)
        class Slow:
            def write(self, piece):
                pass
        other = sa.ipc_writer(Slow())
        for each in (writer, other):
            each.write(sa.table({{"a": [1]}}, "host"))
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_writer_without_tables_writes_its_schema_or_requires_one(tmp_path):
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False)], metadata={"k": "v"})
    with sa.ipc_writer(tmp_path / "a.arrow", schema):
        pass
    assert read((tmp_path / "a.arrow").read_bytes()).schema.equals(schema, check_metadata=True)
    with pytest.raises(sa.InvalidError, match="no schema"), sa.ipc_writer(tmp_path / "b.arrow"):
        pass
    assert not (tmp_path / "b.arrow").exists()


def test_arguments_are_checked_before_anything_is_written(tmp_path):
    for wrong in ({"pending": 0}, {"pending": True}, {"pending": "much"}, {"format": "parquet"}):
        with pytest.raises(sa.InvalidError):
            sa.ipc_writer(tmp_path / "a.arrow", **wrong)
    with pytest.raises(sa.MissingFileError):
        sa.ipc_writer(tmp_path / "no" / "a.arrow")
    with pytest.raises(sa.TypeMismatch, match="binary mode"):
        sa.ipc_writer(io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_a_file_object_gets_each_table_at_once_and_is_flushed(host):
    class Target(io.BytesIO):
        flushed = 0

        def flush(self):
            self.flushed += 1

    target = Target()
    with sa.ipc_writer(target, format="stream") as writer:
        for number in range(3):
            writer.write(sa.table({"a": [number]}, host))
            writer.flush()
            assert read(target.getvalue(), "stream")["a"].to_pylist() == list(range(number + 1))
    assert target.flushed == 1
    assert not target.closed
    assert writer.close() == len(target.getvalue())


class Failing(io.BytesIO):
    name = "failing"

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, piece):
        if self.tell() + len(piece) > self.room:
            raise OSError(28, "No space left on device")
        return super().write(piece)


@pytest.mark.parametrize("room", [0, 200_000, 1_000_000])
def test_a_failure_of_the_background_thread_is_raised_once_by_the_next_call(ctx, room):
    table = sa.table({"a": np.arange(50_000)}, ctx)
    writer = sa.ipc_writer(Failing(room))

    def write():
        for _ in range(5):
            writer.write(table)
        writer.close()

    with pytest.raises(sa.FileError, match="'failing'") as caught:
        write()
    assert isinstance(caught.value.__cause__, OSError)
    del caught
    for call in (writer.flush, writer.close, lambda: writer.write(table)):
        with pytest.raises(sa.ClosedError, match="has failed"):
            call()


def test_a_file_on_a_file_system_appears_at_the_end_or_not_at_all(host):
    from pyarrow.fs import _MockFileSystem

    files = _MockFileSystem()
    table = sa.table({"a": np.arange(100_000)}, host)
    write_each("a.arrow", [table], filesystem=files)
    assert files.open_input_file("a.arrow").readall() == table.to_ipc_bytes()
    with pytest.raises(LookupError):
        write_each("b.arrow", [table], LookupError, filesystem=files)
    assert files.get_file_info("b.arrow").type == pa.fs.FileType.NotFound


def test_pending_counts_tables_until_they_are_in_the_file(host, tmp_path):
    """Threads write from the memory of the tables, in pieces of 4 MiB, after these were encoded."""
    source = pa.table({"a": np.arange(131_072)})
    with host.memory.child("small") as small:
        with sa.ipc_writer(tmp_path / "a.arrow", pending="1MiB") as writer:
            for _ in range(40):
                table = sa.from_arrow(source, small, copy=True)
                writer.write(table)
                del table
                assert small.memory.statistics()["current"] <= source.nbytes, "the table that was given last"
        assert sa.read_ipc(tmp_path / "a.arrow", host).num_rows == 40 * 131_072


def test_a_write_waits_while_too_many_bytes_are_pending(host):
    table = sa.table({"a": np.arange(10_000)}, host)
    held = threading.Event()
    written = []

    class Held:
        def write(self, piece):
            held.wait()

    def produce():
        with sa.ipc_writer(Held(), pending=table.nbytes) as writer:
            for number in range(5):
                writer.write(table)
                written.append(number)

    producer = threading.Thread(target=produce)
    producer.start()
    while not written:
        pass
    assert len(written) < 5  # one piece is being written and one is queued
    held.set()
    producer.join()
    assert len(written) == 5


def test_progress_is_reported(host, tmp_path):
    heard = []
    with sa.ipc_writer(tmp_path / "a.arrow", progress=lambda now: heard.append((now.batches, now.rows))) as w:
        for _ in range(3):
            w.write(sa.table({"a": [1, 2]}, host))
    assert heard == [(1, 2), (2, 4), (3, 6)]


def test_dictionaries_may_grow_in_a_file_and_change_in_a_stream(host, tmp_path):
    def words(values, rows):
        return pa.table({"w": pa.DictionaryArray.from_arrays(pa.array(rows, pa.int8()), values)})

    grown = [words(["a", "b"], [0, 1]), words(["a", "b", "c"], [2, 0]), words(["a"], [0])]
    write_each(tmp_path / "a.arrow", grown)
    assert read((tmp_path / "a.arrow").read_bytes())["w"].to_pylist() == ["a", "b", "c", "a", "a"]
    changed = [words(["a", "b"], [0, 1]), words(["c"], [0])]
    write_each(tmp_path / "b.arrow", changed, format="stream")
    assert read((tmp_path / "b.arrow").read_bytes(), "stream")["w"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(sa.UnsupportedError, match=r"column 'w'.*format=\"stream\""):
        write_each(tmp_path / "c.arrow", changed)
    assert not (tmp_path / "c.arrow").exists()


def test_a_forked_child_does_not_touch_its_parents_writer(run_python, tmp_path):
    program = f"""if True:
        import os, saeta as sa
        writer = sa.ipc_writer({str(tmp_path / "a.arrow")!r})
        writer.write(sa.table({{"a": [1]}}, "host"))
        child = os.fork()
        if child == 0:
            try:
                writer.close()
            except sa.ClosedError as refused:
                assert "parent" in str(refused)
                writer.abort()
                raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(writer.close() > 0)
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"


def test_a_writer_can_not_be_copied(tmp_path):
    writer = sa.ipc_writer(tmp_path / "a.arrow", {"a": "int8"})
    assert repr(writer) == f"<saeta.IpcWriter of '{os.fspath(tmp_path / 'a.arrow')}'>"
    with pytest.raises(sa.TypeMismatch, match="a file of its own"):
        copy.copy(writer)
    writer.abort()
