"""Unit tests of saeta._files.sources: reads that return small pieces, too few or too many bytes, or text."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

import saeta as sa
from saeta._convert import numbers
from saeta._files import readers, sources
from saeta._files.data_sets import Listed
from saeta._files.stores.ranges import RangeFile


class Pipe:
    """Returns at most `most` bytes per read."""

    def __init__(self, content, most=1000):
        self.left, self._most, self.asked = content, most, []

    def read(self, size):
        self.asked.append(size)
        size = min(size, self._most)
        part, self.left = self.left[:size], self.left[size:]
        return part


def filled(live, size):
    target = bytearray(size)
    count = live.fill(memoryview(target))
    return bytes(target[:count])


@pytest.mark.parametrize("most", [1, 3, 4, 5, 6, 100])
def test_a_file_is_detected_by_its_first_bytes_and_none_is_lost(most):
    live = sources.Live(Pipe(b"ARROW1 and more", most), "a pipe")
    assert live.begins_a_file()
    assert live.read_rest() == b"ARROW1 and more"
    stream = sources.Live(Pipe(b"ARRO|x", most), "a pipe")
    assert not stream.begins_a_file()
    assert len(stream._begun) <= 5
    assert stream.read_rest() == b"ARRO|x"


def test_only_the_bytes_needed_for_detection_are_read():
    pipe = Pipe(b"\xff\xff\xff\xff\x10\0\0\0 a message")
    live = sources.Live(pipe, "a pipe")
    assert not live.begins_a_file()
    assert pipe.asked == [4]
    assert filled(live, 3) == b"\xff\xff\xff"
    assert filled(live, 9) == b"\xff", "the bytes read for detection come first"
    assert filled(live, 4) == b"\x10\0\0\0"
    file = Pipe(b"ARROW1\0\0")
    assert sources.Live(file, "a pipe").begins_a_file()
    assert file.asked == [4, 1, 1]
    assert not sources.Live(Pipe(b"ARR"), "a pipe").begins_a_file()
    assert not sources.Live(Pipe(b""), "a pipe").begins_a_file()
    assert filled(sources.Live(Pipe(b""), "a pipe"), 5) == b""


def test_large_reads_are_split():
    pipe = Pipe(b"x" * 10)
    filled(sources.Live(pipe, "a pipe"), 2 << 20)
    assert pipe.asked == [1 << 20]


def test_a_short_read_of_a_buffered_reader_is_repeated():
    class Raw(io.RawIOBase):
        parts = [b"ab", b"c", b""]  # noqa: RUF012 - one object is made

        def readable(self):
            return True

        def readinto(self, target):
            part = self.parts.pop(0) if self.parts else b""
            target[: len(part)] = part
            return len(part)

    live = sources.Live(io.BufferedReader(Raw()), "a pipe")
    assert live.read_rest() == b"abc"


def test_a_non_blocking_source_is_refused():
    def blocked(size):
        raise BlockingIOError

    for read in (blocked, lambda size: None):
        with pytest.raises(
            sa.FileError, match="'a pipe' is non-blocking and has no bytes now: make it blocking"
        ):
            filled(sources.Live(SimpleNamespace(read=read), "a pipe"), 5)


def test_a_source_that_returns_too_many_bytes_is_refused():
    greedy = SimpleNamespace(read=lambda size: b"x" * (size + 1))
    with pytest.raises(sa.FileError, match="'a pipe' returned 6 bytes when 5 were requested"):
        filled(sources.Live(greedy, "a pipe"), 5)
    exact = SimpleNamespace(read=lambda size: b"x" * size)
    assert filled(sources.Live(exact, "a pipe"), 5) == b"xxxxx"


def test_read_must_return_bytes():
    assert sources.bytes_of(b"ab", "a") == b"ab"
    assert bytes(sources.bytes_of(bytearray(b"ab"), "a")) == b"ab"
    assert len(sources.bytes_of(memoryview(b"abcd").cast("H"), "a")) == 4
    with pytest.raises(
        sa.TypeMismatch, match=r"read\(\) of 'a' returns text, expected bytes: open it in binary"
    ):
        sources.bytes_of("ab", "a")
    with pytest.raises(sa.TypeMismatch, match=r"read\(\) of 'a' returns list, expected bytes"):
        sources.bytes_of([1], "a")


def test_each_kind_of_source_is_opened_by_its_own_function(tmp_path, monkeypatch):
    class Module:
        def __getattr__(self, name):
            return lambda *given: (name, *given)

    def opened(source, options, *more):
        return readers._open(Listed(source, regular=True), options, *more)

    monkeypatch.setattr(readers, "_ipc", Module())
    ranges, live = RangeFile("r", 6, None), sources.Live(Pipe(b""), "p")
    direct = RangeFile("d", 6, None, is_direct=True)
    options = readers.ReadArguments(["a"], 1, copy=True, validate=False)
    given = (["a"], (1, 2), True, False, None)
    of_ranges = ("open_ranges", ranges.fill, "r", 6, *given, ranges.ahead, ranges.fetched)
    assert opened(ranges, options) == of_ranges
    assert opened(direct, options) == ("open_ranges", direct.fill, "d", 6, *given, None, direct.fetched)
    assert opened(live, options) == ("open_live", live.fill, "p", *given)
    assert opened("path", options) == ("open_file", "path", *given, True)
    assert opened(tmp_path, options, False) == ("open_file", tmp_path, *given, False)
    assert opened(b"bytes", options) == ("open_bytes", b"bytes", *given)
    assert opened(b"bytes", readers.ReadArguments(index=True))[2:] == (None, None, None, True, None)
    assert readers.describe_source(ranges) == ("inspect_ranges", ranges.fill, "r", 6)
    assert readers.describe_source(live) == ("inspect_live", live.fill, "p")
    assert readers.describe_source("path") == ("inspect_file", "path")
    assert readers.describe_source(b"bytes") == ("inspect_bytes", b"bytes")


def test_integer_options_of_a_scan_must_be_positive(host, tmp_path):
    for good in (1, (1 << 63) - 1):
        assert numbers.require_count("in_flight", good, "batches") == good
    wrong = (0, -1, 1 << 63, True, 1.5, "1", None)
    for each in wrong:
        with pytest.raises(sa.InvalidError, match=r"in_flight is .*, expected a number of batches from 1 on"):
            numbers.require_count("in_flight", each, "batches")
    path = tmp_path / "a.arrow"
    sa.table({"a": [1, 2, 3]}, host).write_ipc(path)
    for each in wrong[:-2]:
        with pytest.raises(sa.InvalidError, match=r"window is .*, expected a number of bytes from 1 on"):
            sa.scan_ipc(path, host, window=each)
        with pytest.raises(sa.InvalidError, match=r"batch_size is .*, expected a number of rows from 1 on"):
            sa.scan_ipc(path, host, batch_size=each)
        with pytest.raises(sa.InvalidError, match=r"in_flight is .*, expected a number of batches from 1 on"):
            sa.scan_ipc(path, host, in_flight=each)
    with sa.scan_ipc(path, host, window=1, batch_size=1, in_flight=1) as scanned:
        assert [batch["a"].to_pylist() for batch in scanned] == [[1], [2], [3]]


def test_opening_a_file_does_not_move_its_position():
    file = io.BytesIO(b"abcdef")
    file.seek(2)
    ranges = sources._open_seekable(file, "a file")
    assert (file.tell(), ranges.size) == (2, 4)
    assert bytes(ranges.read(1, 2)) == b"de"
    assert bytes(ranges.read(0, 9)) == b"cdef"
