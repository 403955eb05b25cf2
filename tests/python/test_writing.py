"""Writing Arrow IPC to file objects, file systems and bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import tempfile
import threading
import zipfile

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


def batched(rows=60, batches=3):
    part = rows // batches
    return pa.Table.from_batches(
        [
            arrow_data.table(rows).slice(first, part).combine_chunks().to_batches()[0]
            for first in range(0, rows, part)
        ]
    )


def read(content, format="file"):  # noqa: A002
    return (pa.ipc.open_file if format == "file" else pa.ipc.open_stream)(content).read_all()


class Raw(io.RawIOBase):
    """Accepts at most 1000 bytes per write, like a raw file or socket."""

    def __init__(self):
        self.taken = bytearray()

    def writable(self):
        return True

    def write(self, piece):
        self.taken += piece[:1000]
        return min(len(piece), 1000)


@pytest.mark.parametrize("format", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_file_object_gets_the_same_bytes_as_a_file(ctx, tmp_path, format, compression):  # noqa: A002
    source = sa.from_arrow(batched(), ctx)
    options = {"format": format, "compression": compression}
    source.write_ipc(tmp_path / "expected.arrow", **options)
    expected = (tmp_path / "expected.arrow").read_bytes()
    assert source.to_ipc_bytes(**options) == expected
    target = io.BytesIO()
    assert source.write_ipc(target, **options) == len(expected)
    assert target.getvalue() == expected
    with (tmp_path / "object.arrow").open("wb") as file:
        sa.write_ipc(source, file, **options)
        assert not file.closed
        assert (tmp_path / "object.arrow").read_bytes() == expected  # written although the file is still open
    raw = Raw()
    assert sa.write_ipc(source, raw, **options) == len(expected)
    assert bytes(raw.taken) == expected
    assert read(expected, format).equals(batched())


def test_files_of_other_libraries_are_targets(host, tmp_path):
    source = arrow_data.table()
    table = sa.from_arrow(source, host)
    for opened, module in ((gzip.open, gzip), (bz2.open, bz2), (lzma.open, lzma)):
        with opened(tmp_path / "packed", "wb") as file:
            table.write_ipc(file)
        with module.open(tmp_path / "packed", "rb") as file:
            assert read(file.read()).equals(source)
    with pa.OSFile(str(tmp_path / "native"), "wb") as file:
        table.write_ipc(file)
    assert read((tmp_path / "native").read_bytes()).equals(source)
    sink = pa.BufferOutputStream()
    table.write_ipc(sink)
    assert read(sink.getvalue()).equals(source)
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive, archive.open("inside", "w") as file:
        table.write_ipc(file)
    with zipfile.ZipFile(tmp_path / "zip") as archive:
        assert read(archive.read("inside")).equals(source)
    with tempfile.SpooledTemporaryFile() as file, tempfile.NamedTemporaryFile() as named:
        for each in (file, named):
            table.write_ipc(each)
            each.seek(0)
            assert read(each.read()).equals(source)


def test_several_streams_can_be_written_to_a_socket_or_pipe(host):
    source = batched()
    table = sa.from_arrow(source, host)
    ours, theirs = socket.socketpair()
    seen = []

    def take():
        with theirs.makefile("rb") as file:
            seen.extend(pa.ipc.open_stream(file).read_all() for _ in range(2))

    taker = threading.Thread(target=take)
    taker.start()
    with ours, theirs, ours.makefile("wb") as file, ours.makefile("wb", buffering=0) as raw:
        table.write_ipc(file, format="stream")
        table.write_ipc(raw, format="stream")
        taker.join()  # the reader gets all bytes before the file is closed
    assert all(each.equals(source) for each in seen)


def test_writing_starts_at_the_position_of_the_file(host):
    target = io.BytesIO(b"header, ")
    target.seek(8)
    size = sa.table({"a": [1, 2]}, host).write_ipc(target)
    assert target.getvalue()[:8] == b"header, "
    assert target.tell() == 8 + size
    target.seek(8)
    assert sa.read_ipc(target, host)["a"].to_pylist() == [1, 2]


def test_a_text_file_is_refused_before_anything_is_written(host, tmp_path):
    import codecs

    table = sa.table({"a": [1]}, host)
    with (tmp_path / "text").open("w") as file, pytest.raises(sa.TypeMismatch, match="binary mode"):
        table.write_ipc(file)
    with codecs.open(str(tmp_path / "text"), "w", "utf-8") as file, pytest.raises(sa.TypeMismatch):
        table.write_ipc(file)
    with tempfile.NamedTemporaryFile("w") as file, pytest.raises(sa.TypeMismatch, match=r"\.buffer"):
        table.write_ipc(file)
    with pytest.raises(sa.TypeMismatch, match="open for text"):
        table.write_ipc(io.StringIO())

    class Lines:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

    lines = Lines()
    with pytest.raises(sa.TypeMismatch, match="does not take bytes") as caught:
        table.write_ipc(lines)
    assert isinstance(caught.value.__cause__, TypeError)
    assert lines.text == ""
    assert (tmp_path / "text").read_bytes() == b""


class Failing(io.BytesIO):
    """Raises `failure` after `room` bytes."""

    name = "failing"

    def __init__(self, room, failure):
        super().__init__()
        self.room = room
        self.failure = failure

    def write(self, piece):
        if self.tell() + len(piece) > self.room:
            raise self.failure
        return super().write(piece)


@pytest.mark.parametrize("room", [0, 200_000])
def test_a_failing_object_is_a_file_error_with_its_cause_and_stays_open(ctx, room):
    source = sa.from_arrow(pa.table({"a": np.arange(100_000)}), ctx)
    source = sa.concat_tables([source, source])
    for failure in (OSError(28, "No space left on device"), ValueError("closed"), RuntimeError("odd")):
        target = Failing(room, failure)
        with pytest.raises(sa.FileError, match=r"can't write \d+ bytes at offset \d+ to 'failing'") as caught:
            source.write_ipc(target)
        assert caught.value.__cause__ is failure
        assert not target.closed
    with pytest.raises(KeyboardInterrupt):
        source.write_ipc(Failing(room, KeyboardInterrupt()))
    with pytest.raises(sa.BusyError, match="ours"):
        source.write_ipc(Failing(room, sa.BusyError("ours")))


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (0, sa.FileError, "returned 0, expected"),
        (-1, sa.FileError, "returned -1, expected"),
        (1 << 40, sa.FileError, "returned 1099511627776, expected"),
        (True, sa.TypeMismatch, "type bool"),
        ("all", sa.TypeMismatch, "type str"),
    ],
)
def test_an_object_that_returns_no_valid_count_is_refused(host, answer, error, words):
    class Odd:
        def write(self, piece):
            return answer

    with pytest.raises(error, match=words):
        sa.table({"a": [1]}, host).write_ipc(Odd())


def test_asynchronous_and_non_blocking_objects_are_refused(host):
    class Asynchronous:
        async def write(self, piece):
            raise AssertionError

    with pytest.raises(sa.TypeMismatch, match="type coroutine"):
        sa.table({"a": [1]}, host).write_ipc(Asynchronous())
    inlet, outlet = os.pipe()
    os.set_blocking(outlet, False)
    table = sa.table({"a": np.arange(100_000)}, host)
    with io.FileIO(inlet), io.FileIO(outlet, "wb") as pipe:
        with pytest.raises(sa.FileError, match="non-blocking and full after") as caught:
            table.write_ipc(pipe)
        del caught


def test_an_object_that_returns_none_has_written_all_and_may_keep_the_bytes(host):
    class Keeper:
        def __init__(self):
            self.pieces = []

        def write(self, piece):
            self.pieces.append(piece)

    keeper = Keeper()
    source = pa.table({"a": np.arange(100_000)})
    sa.from_arrow(source, host).write_ipc(keeper)
    assert read(b"".join(keeper.pieces)).equals(source)


def test_batches_are_written_before_later_ones_are_downloaded(ctx):
    rows = 5 << 20  # 40 MiB per batch, so that each is one window
    batch = sa.from_arrow(pa.table({"a": np.arange(rows)}), ctx)
    table = sa.concat_tables([batch] * 3)
    ctx.reset_counters()

    class Watching:
        def __init__(self):
            self.written = 0
            self.behind = []

        def write(self, piece):
            self.written += len(piece)
            self.behind.append(ctx.counters()["device_to_host"]["bytes"] - self.written)

    watching = Watching()
    assert table.write_ipc(watching) == watching.written
    assert max(watching.behind) <= 8 * rows
    assert len(watching.behind) >= 30  # the writes are of 4 MiB


def test_objects_that_are_not_targets_are_refused(host):
    table = sa.table({"a": [1]}, host)
    for wrong in (7, None, b"bytes", bytearray(), [], object()):
        with pytest.raises(sa.TypeMismatch, match=r"expected a path, a URL or an object with write\(\)"):
            table.write_ipc(wrong)
    with pytest.raises(sa.TypeMismatch, match="filesystem is for a path"):
        table.write_ipc(io.BytesIO(), filesystem=pa.fs.LocalFileSystem())
    with pytest.raises(sa.TypeMismatch, match=r"expected one of pyarrow\.fs, of fsspec or a store"):
        table.write_ipc("a", filesystem=object())


def test_a_local_file_system_and_a_file_url_are_written_like_a_path(host, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    table = sa.table({"a": [1, 2]}, host)
    path = tmp_path / "name with blanks.arrow"
    for number, (target, options) in enumerate(
        [
            (path.as_uri(), {}),
            (path, {"filesystem": pa.fs.LocalFileSystem()}),
            (str(path), {"filesystem": fsspec.filesystem("file")}),
        ]
    ):
        size = sa.write_ipc(table.slice(0, number), target, **options)
        assert path.stat().st_size == size
        path.chmod(0o444)
        with pytest.raises(sa.FileError, match="replace_read_only"):  # only supported for local paths
            table.write_ipc(target, **options)
        path.chmod(0o644)
    assert list(tmp_path.iterdir()) == [path]
    deep = tmp_path / "a" / "b.arrow"
    with pytest.raises(sa.MissingFileError):
        table.write_ipc(deep.as_uri())
    for _ in range(2):  # a missing folder is created
        table.write_ipc(deep, filesystem=fsspec.filesystem("file", auto_mkdir=True))
    assert sa.read_ipc(deep, host)["a"].to_pylist() == [1, 2]


def test_file_systems_of_pyarrow_are_targets(host):
    from pyarrow.fs import _MockFileSystem

    files = _MockFileSystem()
    table = sa.table({"a": [1, 2]}, host)
    table.write_ipc("plain.arrow.gz", filesystem=files)  # not compressed, despite its suffix
    assert files.open_input_file("plain.arrow.gz").readall() == table.to_ipc_bytes()
    with pytest.raises(sa.MissingFileError, match=r"can't create 'no/such\.arrow'"):
        table.write_ipc("no/such.arrow", filesystem=files)


def test_fsspec_urls_are_targets(host):
    fsspec = pytest.importorskip("fsspec")
    table = sa.table({"a": [1, 2]}, host)
    assert table.write_ipc("memory://saeta-test/a.arrow") == len(table.to_ipc_bytes())
    assert sa.read_ipc("memory://saeta-test/a.arrow", host)["a"].to_pylist() == [1, 2]
    memory = fsspec.filesystem("memory")
    table.write_ipc("/saeta-test/b.arrow", filesystem=memory, format="stream")
    assert memory.cat_file("/saeta-test/b.arrow") == table.to_ipc_bytes(format="stream")
    memory.rm("/saeta-test", recursive=True)


class Interrupting:
    """A progress callback that raises after the first batch."""

    def __call__(self, progress):
        raise LookupError("enough")


def test_a_failed_write_leaves_no_partial_file(host):
    from pyarrow.fs import _MockFileSystem

    fsspec = pytest.importorskip("fsspec")
    table = sa.table({"a": np.arange(100_000)}, host)
    files = _MockFileSystem()
    memory = fsspec.filesystem("memory")
    for system, path in ((files, "half.arrow"), (memory, "/saeta-half.arrow")):
        with pytest.raises(LookupError):
            table.write_ipc(path, filesystem=system, progress=Interrupting())
    assert files.get_file_info("half.arrow").type == pa.fs.FileType.NotFound
    assert not memory.exists("/saeta-half.arrow")


def test_a_refused_write_changes_no_file(host):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/saeta-kept.arrow", b"before")
    table = sa.table({"a": [1]}, host)
    for wrong in ({"format": "parquet"}, {"compression": "snappy"}):
        with pytest.raises(sa.InvalidError):
            table.write_ipc("/saeta-kept.arrow", filesystem=memory, **wrong)
        with pytest.raises(sa.InvalidError):
            table.to_ipc_bytes(**wrong)
    assert memory.cat_file("/saeta-kept.arrow") == b"before"
    memory.rm("/saeta-kept.arrow")


def object_store(*, aborts, full_after=None):
    """An fsspec object store: uploads in parts of 256 KiB, which appear when the upload is finished."""
    spec = pytest.importorskip("fsspec.spec")

    class Upload(spec.AbstractBufferedFile):
        def _initiate_upload(self):
            self.parts = []
            self.fs.pending[self.path] = self.parts
            if not aborts:
                self.fs.store[self.path] = b""

        def _upload_chunk(self, final=False):
            if full_after is not None and len(self.parts) == full_after:
                raise PermissionError("quota")
            self.parts.append(self.buffer.getvalue())
            if not aborts:
                self.fs.store[self.path] += self.parts[-1]
            if final:
                self.fs.store[self.path] = b"".join(self.fs.pending.pop(self.path))
            return True

    def discard(self):
        self.fs.pending.pop(self.path, None)

    if aborts:
        Upload.discard = discard

    class Store(spec.AbstractFileSystem):
        cachable = False
        protocol = "saeta-store"

        def __init__(self):
            super().__init__()
            self.store = {"kept": b"before"}
            self.pending = {}

        def _open(self, path, mode="rb", **options):
            return Upload(self, path, mode, block_size=1 << 18)

        def rm_file(self, path):
            del self.store[path]

    return Store()


@pytest.mark.parametrize("rows", [10, 200_000], ids=["small", "several parts"])
def test_an_fsspec_upload_appears_at_its_end(host, rows):
    store = object_store(aborts=True)
    table = sa.table({"a": np.arange(rows)}, host)
    table.write_ipc("kept", filesystem=store)
    assert (store.store, store.pending) == ({"kept": table.to_ipc_bytes()}, {})


@pytest.mark.parametrize("rows", [10, 200_000], ids=["small", "several parts"])
@pytest.mark.parametrize("full_after", [None, 1], ids=["our failure", "its failure"])
def test_a_failed_fsspec_upload_is_aborted_and_keeps_the_old_file(host, rows, full_after):
    store = object_store(aborts=True, full_after=full_after)
    table = sa.table({"a": np.arange(rows)}, host)
    if full_after is None:
        with pytest.raises(LookupError):
            table.write_ipc("kept", filesystem=store, progress=Interrupting())
    elif rows > 10:
        with pytest.raises(sa.FileError, match="quota") as caught:
            table.write_ipc("kept", filesystem=store)
        assert isinstance(caught.value.__cause__, PermissionError)
        del caught
    assert (store.store, store.pending) == ({"kept": b"before"}, {})


def test_an_upload_that_can_not_be_aborted_is_removed(host):
    store = object_store(aborts=False)
    table = sa.table({"a": np.arange(200_000)}, host)
    with pytest.raises(LookupError):
        table.write_ipc("half", filesystem=store, progress=Interrupting())
    assert store.store == {"kept": b"before"}


def test_to_ipc_bytes_needs_the_memory_only_once(run_python):
    """The memory grows as needed, without doubling."""
    program = """if True:
        import resource, saeta as sa, numpy as np
        table = sa.table({"a": np.ones(1 << 24)}, "host")  # 128 MiB
        sa.table({"a": [1]}, "host").to_ipc_bytes()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        content = table.to_ipc_bytes()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(content) > 1 << 27
        print(grown >> 10)
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160
