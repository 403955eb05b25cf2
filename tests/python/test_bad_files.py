"""Every corrupt, missing or inaccessible file raises an exception of its own class and leaks nothing."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

BROKEN = (sa.FormatError, sa.UnsupportedError, sa.FileError, sa.SizeOverflow, sa.OutOfRange, sa.InvalidError)


def content(*, stream=False, compression=None, table=None):
    sink = pa.BufferOutputStream()
    table = arrow_data.table(200) if table is None else table
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue().to_pybytes()


def test_a_missing_file(host, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.arrow") as caught:
        sa.read_ipc(tmp_path / "nothing.arrow", host)
    assert isinstance(caught.value, sa.FileError)
    with pytest.raises(FileNotFoundError):
        sa.ipc.inspect(tmp_path / "nothing.arrow")


def test_a_directory(host, tmp_path):
    with pytest.raises(sa.FileError, match="directory"):
        sa.read_ipc(tmp_path, host)


def test_a_file_without_permission(run_python):
    program = """
import os, sys
import pyarrow as pa
import saeta as sa

try:
    sa.read_ipc("missing.arrow", sa.context("host"))
except FileNotFoundError:
    pass  # import the modules of a read while their files are readable
if os.geteuid() == 0:  # root could read the file
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    sa.read_ipc(sys.argv[1], sa.context("host"))
except sa.FileError as refused:
    print(refused)
"""
    with TemporaryDirectory() as folder:  # other users can't enter tmp_path's parent
        Path(folder).chmod(0o755)
        path = Path(folder) / "secret.arrow"
        path.write_bytes(content())
        path.chmod(0)
        done = run_python(program, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "secret.arrow" in done.stdout
    assert "ermission" in done.stdout


@pytest.mark.parametrize(
    "bytes_", [b"", b"A", b"ARROW1\0\0", b"PAR1" * 10, b"\0" * 64, b"\xff" * 64], ids=repr
)
def test_wrong_magic(host, tmp_path, bytes_):
    path = tmp_path / "wrong.arrow"
    path.write_bytes(bytes_)
    for source in (path, bytes_):
        with pytest.raises(sa.FormatError):
            sa.read_ipc(source, host)


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_files_truncated_at_any_length(host, stream, compression):
    whole = content(stream=stream, compression=compression)
    rows = sa.read_ipc(whole, host).num_rows
    for length in sorted({*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1, len(whole) - 8}):
        try:
            table = sa.read_ipc(whole[:length], host, copy=True)
        except BROKEN:
            continue
        # A stream may lack its end marker: the complete batches before its end are read.
        assert stream
        assert table.num_rows <= rows
        assert table.to_arrow().equals(arrow_data.table(200).slice(0, table.num_rows))


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_flipped_bits(host, stream, compression):
    """A file with flipped bits is either refused or read as a table that can be printed."""
    whole = content(stream=stream, compression=compression)
    rng = random.Random(5)
    refused = 0
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        try:
            repr(sa.read_ipc(bytes(broken), host, copy=True))
        except (*BROKEN, UnicodeDecodeError):
            refused += 1
        except MemoryError as failure:
            pytest.fail(f"a flipped bit requested unbounded memory: {failure}")
    assert refused, "no file was refused: the test proves nothing"
    assert host.memory.statistics()["current"] == 0


def test_a_wrong_length_allocates_no_memory(host):
    """A wrong length is a FormatError before memory is requested, so that memory stays proportional to the
    file."""
    whole = content()
    host.memory.limit = 10 * len(whole)
    refusals = host.memory.statistics()["refused"]
    refused = 0
    for place in range(
        len(whole) - 4000, len(whole) - 10, 4
    ):  # in the footer: readers do not use the first part of the file
        broken = bytearray(whole)
        broken[place : place + 4] = b"\xff\xff\xff\x7f"
        try:
            sa.read_ipc(bytes(broken), host, copy=True)
        except BROKEN:
            refused += 1
    assert refused > 100
    assert host.memory.statistics()["refused"] == refusals


def test_a_column_name_with_a_zero_byte_is_refused(host):
    bad = content(table=pa.schema([("good", pa.int8()), ("bad\0name", pa.int8())]).empty_table())
    with pytest.raises(sa.UnsupportedError, match="'bad' has a zero byte in its name"):
        sa.read_ipc(bad, host)
    assert sa.read_ipc(bad, host, columns=["good"]).column_names == ["good"]


def test_offsets_outside_their_bytes_are_refused(host):
    values = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 1 << 20, 5], pa.int32()).buffers()[1], pa.py_buffer(b"hello")]
    )
    with pytest.raises(sa.FormatError, match="offset"):
        sa.from_arrow(pa.table({"s": values}), host)


def test_indices_outside_their_dictionary_are_refused(host):
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["only"]), safe=False)
    with pytest.raises(sa.FormatError, match="7"):
        sa.from_arrow(pa.table({"d": bad}), host)


FULL_DISK = """
import resource, signal, sys
import pyarrow as pa
import saeta as sa

table = sa.from_arrow(pa.table({"a": range(100_000)}), sa.context("host"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    table.write_ipc(sys.argv[1])
except OSError as failure:
    assert isinstance(failure, sa.FileError)
    print(failure)
"""


def test_a_disk_that_fills_up_leaves_no_file(run_python, tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: the kernel fails a write in the middle of the file."""
    done = run_python(FULL_DISK, str(tmp_path / "out.arrow"))
    assert done.returncode == 0, done.stderr
    assert "out.arrow" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder(host, tmp_path):
    table = sa.table({"a": [1]}, host)
    with pytest.raises(FileNotFoundError):
        table.write_ipc(tmp_path / "no" / "out.arrow")


def test_failed_reads_leak_no_file_descriptor(host, tmp_path):
    path = tmp_path / "broken.arrow"
    path.write_bytes(content()[:-20])

    def open_files():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    for _ in range(50):
        with pytest.raises(BROKEN):
            sa.read_ipc(path, host)
    assert open_files() <= before
