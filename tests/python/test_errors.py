"""Each exception derives from saeta.Error and from the expected built-in class. BudgetExceeded carries
numbers."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

import saeta as sa
from saeta._files import filesystems

BUILT_IN = {
    sa.InvalidError: ValueError,
    sa.TypeMismatch: TypeError,
    sa.UnsupportedError: NotImplementedError,
    sa.OutOfRange: IndexError,
    sa.SizeOverflow: OverflowError,
    sa.BudgetExceeded: MemoryError,
    sa.OutOfMemory: MemoryError,
    sa.DeviceError: RuntimeError,
    sa.DeviceLost: sa.DeviceError,
    sa.FormatError: ValueError,
    sa.ColumnNameError: KeyError,
    sa.FileError: OSError,
    sa.MissingFileError: FileNotFoundError,
    sa.AccessError: PermissionError,
    sa.ExchangeError: BufferError,
    sa.ClosedError: ValueError,
    sa.BusyError: RuntimeError,
    sa.DownloadForbidden: RuntimeError,
    sa.MissingDependency: ImportError,
}


@pytest.mark.parametrize(("kind", "built_in"), BUILT_IN.items(), ids=lambda kind: kind.__name__)
def test_classes_derive_from_error_and_from_the_built_in(kind, built_in):
    assert issubclass(kind, sa.Error)
    assert issubclass(kind, built_in)
    assert kind.__module__ == "saeta.errors"
    assert kind.__doc__


def test_a_refusal_carries_its_numbers(host, flights):
    host.memory.limit = 1_000_000
    with pytest.raises(sa.BudgetExceeded) as caught:
        sa.read_ipc(flights, host, copy=True)
    refusal = caught.value
    assert refusal.layer == "host"
    assert refusal.limit == 1_000_000
    assert refusal.requested > refusal.limit
    assert refusal.current == 0
    assert refusal.required == refusal.current + refusal.requested
    assert refusal.remaining == refusal.limit - refusal.current
    assert refusal.owners == {}
    assert str(refusal.requested) in str(refusal)
    assert host.memory.statistics()["refused"] >= 1


def test_a_refusal_has_separate_numbers_for_peak_and_current(host):
    child = host.memory.child("small", 1000)
    dropped = child.allocate(800)
    del dropped
    held = child.allocate(100)
    with pytest.raises(sa.BudgetExceeded) as caught:
        child.allocate(2000)
    assert (caught.value.peak, caught.value.current, held.nbytes) == (800, 100, 100)


def test_a_refusal_names_the_owners(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    host.memory.limit = held.nbytes + 1_000_000
    with pytest.raises(MemoryError) as caught:
        sa.read_ipc(flights, host, copy=True)
    assert isinstance(caught.value, sa.BudgetExceeded)
    assert sum(caught.value.owners.values()) == caught.value.current > 0


def test_a_refusal_without_numbers_has_zeros():
    refusal = sa.BudgetExceeded("full")
    numbers = refusal.numbers()
    assert (numbers.pop("layer"), numbers.pop("owners"), numbers.pop("others")) == ("", {}, {})
    assert set(numbers.values()) == {0}
    given = {name: place + 1 for place, name in enumerate(numbers)}
    assert len(given) == 8
    assert vars(sa.BudgetExceeded("full", **given)).items() >= given.items()


def test_a_refusal_can_be_pickled():
    refusal = sa.BudgetExceeded("no", layer="host", requested=2**64 - 1, required=2**65, owners={"a": 1})
    again = pickle.loads(pickle.dumps(refusal))
    assert str(again) == "no"
    assert again.numbers() == refusal.numbers()


def errno_of(call):
    """Returns errno, its text, and the built-in class for it."""
    with pytest.raises(sa.FileError) as caught:
        call()
    return type(caught.value), caught.value.errno, caught.value.strerror


@pytest.mark.parametrize(
    ("source", "kind", "number"),
    [
        ("none.arrow", sa.MissingFileError, errno.ENOENT),
        ("file/below.arrow", sa.MissingFileError, errno.ENOTDIR),
        ("folder", sa.FileError, errno.EISDIR),
        ("x" * 300, sa.FileError, errno.ENAMETOOLONG),
    ],
)
def test_errors_of_files_have_an_errno(host, tmp_path, source, kind, number):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    path = tmp_path / source
    table = sa.table({"a": [1]}, host)
    expected = (kind, number, os.strerror(number))
    if source != "folder":  # the message of a data set differs
        assert errno_of(lambda: sa.read_ipc(path, host)) == expected
        assert errno_of(lambda: sa.read_ipc([path, path], host)) == expected
    assert errno_of(lambda: sa.ipc.inspect(path)) == expected
    target = path / "below.arrow" if source == "none.arrow" else path
    assert errno_of(lambda: table.write_ipc(target)) == expected
    assert errno_of(lambda: sa.ipc_writer(target, schema=table.schema)) == expected


def test_a_full_disk_has_its_errno(host):
    if not Path("/dev/full").is_char_device():
        pytest.skip("there is no /dev/full")
    with Path("/dev/full").open("wb", buffering=0) as full:
        found = errno_of(lambda: sa.table({"a": [1]}, host).write_ipc(full))
    assert found == (sa.FileError, errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failure_outside_the_system_has_no_errno(host, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert errno_of(lambda: sa.table({"a": [1]}, host).write_ipc(pipe)) == (sa.FileError, None, None)


def test_an_error_of_a_file_shows_its_message_and_can_be_pickled():
    for kind in (sa.FileError, sa.MissingFileError):
        failure = kind("can't open 'a'", errno=errno.ENOENT)
        again = pickle.loads(pickle.dumps(failure))
        assert type(again) is kind
        for each in (failure, again):
            assert (str(each), each.errno) == ("can't open 'a'", errno.ENOENT)
        assert pickle.loads(pickle.dumps(kind("no number"))).errno is None


def test_only_integer_errnos_of_other_libraries_are_kept():
    made = filesystems.file_error("full", OSError(errno.ENOSPC, "no room"))
    assert (type(made), made.errno) == (sa.FileError, errno.ENOSPC)
    made = filesystems.file_error("gone", FileNotFoundError("bucket/key"))
    assert (type(made), made.errno) == (sa.MissingFileError, None)
    assert filesystems.file_error("odd", OSError("NoSuchKey", "gone")).errno is None


def test_error_codes_of_the_library_raise_their_class(host):
    with pytest.raises(sa.InvalidError, match="expected"):
        sa.context("gpu")
    with pytest.raises(sa.DeviceError):
        sa.context("cuda:99")
    column = sa.table({"a": [1, 2, 3]}, host)["a"]
    with pytest.raises(sa.OutOfRange, match="4"):
        column.slice(4, 1)
    with pytest.raises(sa.TypeMismatch):
        sa.Column.from_chunks([column, sa.table({"a": ["x"]}, host)["a"]])
    with pytest.raises(sa.InvalidError, match="lots"):
        host.memory.limit = "lots"
