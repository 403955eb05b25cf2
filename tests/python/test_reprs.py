"""The reprs of objects, and byte sizes, which C++ and Python must format identically."""

from __future__ import annotations

import pytest

import saeta as sa
from saeta._report import human_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1234567, "1.18 MiB"),
        (2**20 - 1, "1 MiB"),
        (1000 * 2**20, "1000 MiB"),
        (2**64 - 1, "16 EiB"),
    ],
)
def test_python_and_cpp_format_sizes_identically(host, count, text):
    assert human_bytes(count) == text
    host.memory.limit = count
    shown = "no budget" if count == 2**64 - 1 else f"budget {text}"
    assert shown in repr(host)


@pytest.mark.parametrize(
    ("type_", "ticks", "text"),
    [
        ("timestamp[s]", -1, "1969-12-31 23:59:59"),
        ("timestamp[us, tz=Europe/Madrid]", 1_500_000, "1970-01-01 00:00:01.500000Z"),
        ("timestamp[ns, tz=UTC]", 1, "1970-01-01 00:00:00.000000001Z"),
        ("timestamp[ns]", -1, "1969-12-31 23:59:59.999999999"),
        ("timestamp[s]", 2**60, str(2**60)),
        ("time32[s]", 61, "00:01:01"),
        ("time64[ns]", 3_600_000_000_001, "01:00:00.000000001"),
        ("duration[s]", 5, "5 s"),
        ("duration[ms]", -1, "-0.001 s"),
        ("duration[us]", -1_500_000, "-1.500000 s"),
        ("duration[ns]", -1_000_000_000, "-1.000000000 s"),
    ],
)
def test_times_are_shown_with_all_their_digits(host, type_, ticks, text):
    column = sa.column([ticks], host, name="when", type=type_, reinterpret=True)
    assert repr(column).split("\n  ")[1] == text
    assert text in repr(sa.table({"when": column}))
    assert text in column._repr_html_()


def test_the_repr_of_memory_shows_the_bytes_in_use(host):
    kept = host.allocate("1.5KiB")
    assert repr(host.memory).startswith("<saeta.Memory of host: 1.5 KiB in use, peak ")
    assert repr(host.memory).endswith(", no budget>")
    host.memory.limit = "8GiB"
    assert repr(host.memory).endswith(", budget 8 GiB>")
    del kept


def test_the_repr_of_a_window_shows_its_numbers(host):
    with host.memory.window() as window:
        host.allocate(2048)
        assert (
            repr(window)
            == "<saeta.MemoryWindow: 0 B in use, 0 B at the start, peak 2 KiB, 1 requests, 0 refused>"
        )
    assert repr(window).endswith("closed>")


def test_the_repr_of_a_recording_shows_its_size(host):
    with host.memory.record(capacity=3) as recording:
        for _ in range(4):
            host.allocate(64)
        assert repr(recording) == "<saeta.MemoryRecording: 3 records, 5 forgotten>"
    assert repr(recording).endswith(", ended>")


def test_the_reprs_of_logs_hooks_tokens_and_buffers(host, tmp_path):
    with host.memory.log_to(f"csv:{tmp_path / 'a.csv'}") as log:
        assert repr(log) == "<saeta.MemoryLog>"
    assert repr(log) == "<saeta.MemoryLog, closed>"
    with host.memory.add_hook(lambda wanted: 0, name="mine") as hook:
        assert repr(hook) == "<saeta.MemoryHook 'mine'>"
    with sa.use(None, reads=host.allocate(8)) as token:
        assert repr(token) == "<saeta.UseToken, open>"
    assert repr(token) == "<saeta.UseToken, not open>"
    for block, name in ((host.capturing(), "GraphCapture"), (host.forbid_downloads(), "StrictMode")):
        assert repr(block) == f"<saeta.{name}, not open>"
        with block:
            assert repr(block) == f"<saeta.{name}, open>"
