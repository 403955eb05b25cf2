"""The loader's windows (saeta._loader.batches) without a loader: reading, retries, and cutting into
batches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import saeta as sa
from saeta._files.scan import ReadOnRequest
from saeta._loader import batches, readings
from saeta._loader.records import Load, Span, Taken


class Reading:
    """Yields windows of numbers. Those in `refused` raise BudgetExceeded the first time."""

    def __init__(self, host, refused):
        self._host, self._refused = host, refused

    def read(self, spans):
        (span,) = spans
        if span.batch in self._refused:
            self._refused.remove(span.batch)
            raise sa.BudgetExceeded("no room")
        return sa.table({"n": list(range(span.first, span.first + span.rows))}, self._host)

    def close(self):
        pass


class Data:
    def __init__(self, refused=()):
        self.opened, self._refused = [], list(refused)

    def advice(self, spans):
        return "read less"

    def open(self, ctx, columns, loads, *, ahead, views):
        assert not views
        self.opened.append((columns, [load.spans[0].batch for load in loads], ahead))
        return readings.reader_of(Reading(ctx, self._refused), loads, ahead)

    def describe(self, spans):
        return f"batch {spans[0].batch}"


def loads(*rows):
    return [Load([Span(number, 10 * number, count)], None) for number, count in enumerate(rows)]


def windows_of(host, data, loads, prefetch):
    return batches.Windows(data, host, ["n"], loads, prefetch, views=False)


def numbers(table):
    return table["n"].to_pylist()


def take(read):
    """Returns the numbers of the next window."""
    (table,) = read.take()
    return numbers(table)


def test_windows_are_taken_in_order_and_then_none(host):
    data = Data()
    read = windows_of(host, data, loads(2, 3), 2)
    assert [take(read), take(read), read.take()] == [[0, 1], [10, 11, 12], None]
    assert data.opened == [(["n"], [0, 1], 2)]
    assert read.are_ahead
    read.stop()
    read.wait()


def test_after_a_refusal_windows_are_not_read_ahead(host):
    data = Data(refused=[1, 1])  # refused when read ahead and when taken
    read = windows_of(host, data, loads(2, 2, 2), 1)
    assert take(read) == [0, 1]
    assert take(read) == [10, 11]
    assert not read.are_ahead
    assert data.opened == [(["n"], [0, 1, 2], 1), (["n"], [1, 2], 0)]
    data._refused.append(2)
    with pytest.raises(sa.BudgetExceeded):
        read.take()
    assert take(read) == [20, 21], "a refused window can be taken again"
    assert len(data.opened) == 2
    assert read.take() is None


def test_a_failure_names_the_window(host):
    class Broken(Data):
        def open(self, *_, **__):
            def fail():
                raise sa.FormatError("odd bytes")

            return SimpleNamespace(next=fail, close=lambda: None)

    read = windows_of(host, Broken(), loads(2), 1)
    with pytest.raises(sa.FormatError, match="reading batch 0"):
        read.take()
    read.stop()
    read.wait()


def test_a_refused_permutation_is_retried_without_reading_again(host):
    load = Load([Span(0, 0, 4)], Taken(77, 0, 1, 4, 4, 1, 1, 1, 0))
    reads, refusals = [], [1]
    whole = sa.table({"n": [0, 1, 2, 3]}, host)

    def permute(*given):
        if refusals:
            refusals.pop()
            raise sa.BudgetExceeded("no room")
        return whole._take_permuted(*given)

    reading = SimpleNamespace(
        read=lambda spans: (reads.append(1), SimpleNamespace(_take_permuted=permute))[1],
        close=lambda: reads.append("closed"),
    )
    reader = readings.reader_of(reading, [load], 0)
    assert isinstance(reader, ReadOnRequest)
    with pytest.raises(sa.BudgetExceeded):
        reader.next()
    assert sorted(numbers(reader.next())) == [0, 1, 2, 3]
    assert reads == [1]
    assert reader.next() is None
    reader.close()
    assert reads == [1, "closed"]


def tables(host, *sizes):
    made, first = [], 0
    for size in sizes:
        made.append(sa.table({"n": list(range(first, first + size))}, host))
        first += size
    return made


@pytest.mark.parametrize(
    ("size", "pieces", "parts", "rest"),
    [
        (3, [6], [6], 0),
        (3, [7], [6], 1),
        (3, [2], [], 2),
        (3, [2, 1], [3], 0),
        (3, [2, 5], [3, 3], 1),
        (3, [1, 1, 1], [3], 0),
        (3, [1, 1], [], 2),
        (3, [4, 2, 3], [3, 3, 3], 0),
        (3, [4, 4, 1], [3, 3, 3], 0),
        (1, [2, 3], [2, 3], 0),
        (5, [3, 3, 3, 3], [5, 5], 2),
    ],
)
def test_tables_are_cut_into_whole_batches(host, size, pieces, parts, rest):
    cutter = batches.Cutter(size)
    found = [part for piece in tables(host, *pieces) for part in cutter.cut(piece)]
    assert [part.num_rows for part in found] == parts
    left = cutter.rest()
    assert [part.num_rows for part in left] == ([rest] if rest else [])
    rows = [row for part in [*found, *left] for row in part["n"].to_pylist()]
    assert rows == list(range(sum(pieces)))
    assert cutter.rest() == []


def test_a_table_of_several_chunks_is_cut_at_their_ends(host):
    cutter = batches.Cutter(3)
    whole = sa.concat_tables(tables(host, 4, 3, 1))
    found = cutter.cut(whole)
    assert [(part.num_rows, part.num_batches) for part in found] == [(3, 1), (3, 2)]
    assert [part["n"].to_pylist() for part in cutter.rest()] == [[6, 7]]


@pytest.mark.parametrize(
    ("rows", "window", "batch_size", "most"),
    [(1000, 1 << 20, 48, 131040), (1000, 1000, 48, 96), (1000, 8, 48, 48)],
)
def test_the_rows_taken_from_a_table_are_a_multiple_of_the_batch_size(host, rows, window, batch_size, most):
    table = sa.table({"n": list(range(rows))}, host)
    options = {"batch_size": batch_size, "window": window, "to": "table"}
    loader = sa.loader(table, host, shuffle="rows", **options)
    assert loader._plan.order._most_rows == most
    assert loader._plan.order._window is None
    loader.close()
    for shuffle in (False, "batches"):
        loader = sa.loader(table, host, shuffle=shuffle, **options)
        assert loader._plan.order._most_rows is None
        loader.close()
    del loader, table
