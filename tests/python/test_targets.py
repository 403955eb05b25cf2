"""Targets of writers: file objects with short writes, failures or wrong counts, and file systems of pyarrow
and fsspec."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.fs
import pytest

import saeta as sa
from saeta._files import ipc_writer, sinks
from saeta._files.filesystems import file_system


class Target:
    """Accepts at most `most` bytes per write, and returns the count, or the result of `answer`."""

    def __init__(self, most=100, answer=None):
        self.got = bytearray()
        self.flushed = 0
        self._most = most
        self._answer = answer

    def write(self, data):
        taken = bytes(data[: self._most])
        self.got += taken
        return self._answer(len(taken)) if self._answer is not None else len(taken)

    def flush(self):
        self.flushed += 1


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.arrows", "stream"),
        ("a.ARROWS", "stream"),
        ("a.arrow", "file"),
        ("a.feather", "file"),
        ("a.ipc", "file"),
        ("a.arrows.bak", "file"),
        ("arrows", "file"),
    ],
)
def test_the_suffix_of_a_path_determines_the_format(tmp_path, name, written):
    table = sa.table({"a": [1, 2]}, "host")
    path = tmp_path / name
    other = "file" if written == "stream" else "stream"
    for target in (path, str(path), f"file://{path}"):
        table.write_ipc(target)
        assert sa.ipc.inspect(path)["format"] == written
        sa.write_ipc(table, target, format=other)
        assert sa.ipc.inspect(path)["format"] == other
        with sa.ipc_writer(target) as writer:
            writer.write(table)
        assert sa.ipc.inspect(path)["format"] == written
    table.write_ipc(
        name, filesystem=pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    )
    assert sa.ipc.inspect(path)["format"] == written
    target = io.BytesIO()
    table.write_ipc(target)
    assert sa.ipc.inspect(target.getvalue())["format"] == "file"
    with pytest.raises(sa.InvalidError, match="format 'arrows'"):
        table.write_ipc(path, format="arrows")


def test_objects_with_short_writes_get_all_bytes_in_order():
    for most in (1, 3, 10, 11):
        target = Target(most)
        sink = sinks.Sink(target, "a target")
        sink.put(b"0123456789")
        sink.put(b"ab")
        assert target.got == b"0123456789ab"
        assert sink._written == 12
        sink.finish()
        assert target.flushed == 1
    sinks.Sink(SimpleNamespace(flush=None), "a target").finish()
    sinks.Sink(object(), "a target").finish()


def test_a_write_returning_none_wrote_all_bytes_except_for_raw_files():
    target = Target(answer=lambda count: None)
    sinks.Sink(target, "a target").put(b"abc")
    assert target.got == b"abc"

    class Full(io.RawIOBase):
        left = 1

        def write(self, data):
            self.left -= 1
            return 2 if self.left == 0 else None

    with pytest.raises(
        sa.FileError,
        match="can't write to 'a pipe' without waiting: it is non-blocking and full after 2 bytes",
    ):
        sinks.Sink(Full(), "a pipe").put(b"abc")


@pytest.mark.parametrize("count", [0, -1, 4])
def test_an_impossible_count_is_refused(count):
    sink = sinks.Sink(Target(answer=lambda _: count), "a target")
    with pytest.raises(
        sa.FileError, match=rf"write\(\) of 'a target' returned {count}, expected a number from 1 to 3"
    ):
        sink.put(b"abc")


@pytest.mark.parametrize(("answer", "kind"), [(True, "bool"), ("3", "str"), (3.0, "float")])
def test_a_result_that_is_not_a_count_is_refused(answer, kind):
    with pytest.raises(
        sa.TypeMismatch, match=rf"write\(\) of Target returned an object of type {kind}, expected"
    ):
        sinks.Sink(Target(answer=lambda _: answer), "a target").put(b"abc")


def test_a_write_that_is_a_coroutine_is_closed():
    async def later():
        return 3

    with pytest.raises(sa.TypeMismatch, match="of type coroutine"):
        sinks.Sink(Target(answer=lambda _: later()), "a target").put(b"abc")


def raising(failure, after=0):
    def answer(count):
        nonlocal after
        after -= 1
        if after < 0:
            raise failure
        return count

    return Target(3, answer)


def test_failures_name_the_operation():
    for failure, text in (
        (OSError("no room"), "can't write 3 bytes at offset 3 to 'a target': no room"),
        (ValueError(), "can't write 3 bytes at offset 3 to 'a target': ValueError"),
        (TypeError("odd"), "can't write 3 bytes at offset 3 to 'a target': odd"),
    ):
        with pytest.raises(sa.FileError, match=f"^{text}$"):
            sinks.Sink(raising(failure, 1), "a target").put(b"abcdef")
    with pytest.raises(
        sa.TypeMismatch, match=r"write\(\) of Target does not take bytes: expected a file that is"
    ):
        sinks.Sink(raising(TypeError("odd")), "a target").put(b"abc")
    with pytest.raises(sa.BusyError, match="ours"):
        sinks.Sink(raising(sa.BusyError("ours")), "a target").put(b"abc")

    def fail():
        raise OSError("no room")

    with pytest.raises(sa.FileError, match="can't flush what was written to 'a target': no room"):
        sinks.Sink(SimpleNamespace(flush=fail), "a target").finish()


class OfPyarrow:
    type_name = "memory"
    open_input_file = None

    def __init__(self, failure=None):
        self.asked = []
        self.files = []
        self._failure = failure

    def open_output_stream(self, path, compression="detect"):
        self.asked.append((path, compression))
        if self._failure is not None:
            raise self._failure
        self.files.append(Closing())
        return self.files[-1]

    def delete_file(self, path):
        self.asked.append(("delete", path))
        raise OSError("it is gone already")


class OfFsspec:
    def __init__(self):
        self.asked = []

    def cat_file(self):
        raise NotImplementedError

    def _strip_protocol(self, path):
        return path.removeprefix("mem://")

    def open(self, path, mode):
        self.asked.append((path, mode))
        return Closing()

    def rm_file(self, path):
        self.asked.append(("rm", path))


class Closing(Target):
    closes = 0

    def close(self):
        self.closes += 1


def test_an_upload_starts_with_the_first_bytes_and_ends_with_close():
    system = OfPyarrow()
    with sinks.writing(sinks.resolve_target("a/b", system)) as put:
        assert system.asked == []
        put(b"one")
        put(b"two")
    assert system.asked == [("a/b", None)]
    (file,) = system.files
    assert (file.got, file.closes) == (b"onetwo", 1)


@pytest.mark.parametrize(
    ("system", "begun", "removed"),
    [
        (OfPyarrow(), ("b", None), ("delete", "b")),
        (OfFsspec(), ("b", "wb"), ("rm", "b")),
    ],
)
def test_a_failed_upload_is_removed(system, begun, removed):
    target = sinks.resolve_target("mem://b" if isinstance(system, OfFsspec) else "b", system)

    def fail():
        with sinks.writing(target) as put:
            put(b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert system.asked == [begun, removed]
    unused = sinks.Upload(file_system(system), "c")
    unused.abort()
    assert system.asked == [begun, removed]


def test_errors_name_an_upload_that_can_not_start_or_end():
    for failure, kind, text in (
        (FileNotFoundError("no bucket"), sa.MissingFileError, "can't create 'b': no bucket"),
        (PermissionError("not yours"), sa.FileError, "can't create 'b': not yours"),
        (ValueError(), sa.FileError, "can't create 'b': ValueError"),
    ):
        with pytest.raises(kind, match=text):
            sinks.Upload(file_system(OfPyarrow(failure)), "b").put(b"x")

    class Failing(OfPyarrow):
        def open_output_stream(self, path, compression="detect"):
            made = super().open_output_stream(path, compression)

            def close():
                raise OSError("the last part failed")

            made.close = close
            return made

    with (
        pytest.raises(sa.FileError, match="can't finish 'b': the last part failed"),
        sinks.writing(sinks.Upload(file_system(Failing()), "b")) as put,
    ):
        put(b"x")


def test_local_targets_are_paths(tmp_path):
    from fsspec.implementations.local import LocalFileSystem
    from pyarrow import fs

    assert sinks.resolve_target(tmp_path) is tmp_path
    assert sinks.resolve_target("a.arrow", fs.LocalFileSystem()) == "a.arrow"
    below = str(tmp_path / "x" / "y" / "a.arrow")
    assert sinks.resolve_target(below, LocalFileSystem(auto_mkdir=False)) == below
    assert not (tmp_path / "x").exists()
    for _ in range(2):
        assert sinks.resolve_target(below, LocalFileSystem(auto_mkdir=True)) == below
        assert (tmp_path / "x" / "y").is_dir()


def test_objects_that_are_not_targets_are_refused(tmp_path):
    for wrong, text in (
        (3, "the target is of type int, expected a path, a URL or an object with write"),
        (SimpleNamespace(write=3), "the target is of type SimpleNamespace, expected a path"),
        (io.StringIO(), "is open for text: open it in binary mode"),
        (SimpleNamespace(write=print, encoding="utf-8", name="odd"), "'odd' is open for text"),
    ):
        with pytest.raises(sa.TypeMismatch, match=text):
            sinks.resolve_target(wrong)
    assert isinstance(sinks.resolve_target(SimpleNamespace(write=print, encoding=None)), sinks.Sink)
    with pytest.raises(sa.TypeMismatch, match="filesystem is for a path, and the target is of type BytesIO"):
        sinks.resolve_target(io.BytesIO(), OfPyarrow())
    with pytest.raises(
        sa.TypeMismatch,
        match=r"filesystem is of type object, expected one of pyarrow\.fs, of fsspec or",
    ):
        sinks.resolve_target("a", object())


def test_pending_bytes_can_be_a_number_or_text():
    assert ipc_writer._bytes(1) == 1
    assert ipc_writer._bytes("64MiB") == 64 << 20
    for wrong in (0, -1, True, 1.5, None):
        with pytest.raises(
            sa.InvalidError, match=r"pending is .*, expected a number of bytes from 1 on, or text"
        ):
            ipc_writer._bytes(wrong)


class Writer:
    """Stands in for the compiled writer and records the calls of an IpcWriter."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            return 77

        return call


@pytest.fixture
def writer():
    ends = ExitStack()
    left = []
    ends.push(lambda kind, *_: left.append(None if kind is None else kind.__name__))
    inner = Writer()
    made = ipc_writer.IpcWriter(inner, "a.arrow", ends)
    yield made, inner, left
    made._end.detach()


def test_a_writer_closes_once_with_its_target(writer, host):
    made, inner, left = writer
    table = sa.table({"a": [1]}, host)
    made.write(table)
    made.flush()
    assert made.close() == 77
    assert (inner.calls, left) == ([("write", table), ("flush",), ("close",)], [None])
    inner.calls.clear()
    assert made.close() == 77
    assert left == [None]
    assert repr(made) == "<saeta.IpcWriter of 'a.arrow'>"
    with pytest.raises(sa.TypeMismatch, match="rows is of type Int64Array, expected a table"):
        made.write(pa.array([1]))


def test_a_writer_leaves_no_file_after_an_exception(writer):
    made, inner, left = writer
    with pytest.raises(LookupError), made:
        raise LookupError
    assert (inner.calls, left) == ([("abort",)], ["_Aborted"])


def test_a_forked_child_does_not_end_its_parents_writer(writer):
    made, inner, left = writer
    made._process = os.getpid() + 1
    made.abort()
    assert (inner.calls, left) == ([], [])
    assert made.close() == 77, "the call is forwarded to the compiled writer, which refuses it"
    assert left == []


def test_dropping_an_open_writer_warns(recwarn):
    inner = Writer()
    writer = ipc_writer.IpcWriter(inner, "a.arrow", ExitStack())
    del writer
    (warning,) = [each for each in recwarn if each.category is ResourceWarning]
    assert str(warning.message) == "the writer to 'a.arrow' was not closed: there is no new file"
    assert inner.calls == [("abort",)]
