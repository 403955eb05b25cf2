"""Several devices in one process: tables copied between them, and data sets read onto all of them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from saeta import exchange
from sim_devices import simulator
from threads import run_in_threads

SOURCE = pa.table(arrow_data.arrays())


class Pair:
    """Two simulated devices of one machine, with or without peer access."""

    def __init__(self, *, peers: bool) -> None:
        self.devices = [simulator().Device(0, None, False, peers)]
        self.devices.append(simulator().Device(1, self.devices[0], False, peers))
        self.contexts = [each.context for each in self.devices]
        self.peers = peers

    def require_route(self, target: sa.Context, tables: int) -> None:
        """Requires `tables` copies to the context: by peer access if the devices have it, otherwise through
        the host."""
        seen = target.counters()
        direct, staged = seen["peer_to_device"]["transfers"], seen["staged"]
        assert (direct, staged) == ((tables, 0) if self.peers else (0, tables))


@pytest.fixture(params=[True, False], ids=["peers", "staged"])
def pair(request):
    made = Pair(peers=request.param)
    yield made
    assert [each.races for each in made.devices] == [[], []]


@pytest.fixture
def by_ordinal(pair, monkeypatch):
    """Makes device arrays with ordinals 0 and 1 refer to the devices of the pair."""
    monkeypatch.setattr(exchange, "_context_of", lambda device: pair.contexts[device[1]])


def test_a_table_is_copied_to_another_device_and_back(pair):
    first, second = pair.contexts
    table = sa.table(SOURCE, first)
    second.reset_counters()
    moved = table.to(second)
    assert (moved.device, moved.context) == ("sim:1", second)
    pair.require_route(second, 1)
    assert moved.to_arrow().equals(SOURCE)
    assert moved.to(first).to_arrow().equals(SOURCE)


def test_slices_and_single_columns_are_copied(pair):
    first, second = pair.contexts
    table = sa.table(pa.concat_tables([SOURCE, SOURCE]), first)
    assert table[5:90].to(second).to_arrow().equals(pa.concat_tables([SOURCE, SOURCE])[5:90])
    column = table["string"].to(second)
    assert (column.name, column.device) == ("string", "sim:1")
    assert column.to_pylist() == 2 * SOURCE["string"].to_pylist()
    assert table[:0].to(second).num_rows == 0


def test_the_budget_of_the_target_refuses_before_anything_is_copied(pair):
    first, second = pair.contexts
    table = sa.table({"x": np.arange(10_000)}, first)
    second.reset_counters()
    with second.memory.child("small", 1024) as small, pytest.raises(sa.BudgetExceeded):
        table.to(small)
    assert second.counters()["peer_to_device"]["calls"] == 0
    assert second.counters()["host_to_device"]["calls"] == 0
    with second.memory.child("query", 1 << 20) as query:
        moved = table.to(query)
        assert query.memory.statistics()["current"] >= 80_000
        assert moved["x"].to_pylist() == list(range(10_000))
        del moved


def test_strict_mode_refuses_only_copies_through_the_host(pair):
    first, second = pair.contexts
    table = sa.table({"x": [1, 2, 3]}, first)
    with first.forbid_downloads():
        if pair.peers:
            assert table.to(second).num_rows == 3
        else:
            with pytest.raises(sa.DownloadForbidden):
                table.to(second)


def test_a_copy_waits_for_pending_foreign_writes():
    from cuda_module import cuda, simulated

    with simulated(2) as (device, other):
        memory = cuda.Context(0).buffer_from_data(bytes(64))
        column = sa.from_arrow(pa.Array.from_buffers(pa.uint8(), 64, [None, memory]), device.context)
        for value in (5, 7):
            work = device.fill_late(memory.address, 64, value, 0.02)
            assert column.to(other.context).to_pylist() == [value] * 64
            del work
        del memory, column


def test_from_arrow_copies_to_the_given_context(pair, by_ordinal):
    first, second = pair.contexts
    table = sa.table({"x": [1, None, 3], "s": ["a", "b", None]}, first)
    for source in (table, table.__arrow_c_device_stream__()):
        second.reset_counters()
        taken = sa.from_arrow(source, second)
        assert (taken.context, taken.to_pydict()) == (second, table.to_pydict())
        pair.require_route(second, 1)
    column = sa.from_arrow(table["x"].__arrow_c_device_array__(), second, copy=True)
    assert (column.device, column.to_pylist()) == ("sim:1", [1, None, 3])
    assert sa.from_arrow(table, second, as_column=True).to_pylist() == [
        {"x": 1, "s": "a"},
        {"x": None, "s": "b"},
        {"x": 3, "s": None},
    ]
    assert sa.from_arrow(table, first)["x"].address == table["x"].address


def test_a_stream_is_imported_on_the_device_of_its_arrays(pair, by_ordinal):
    """A device stream has only a device type. The ordinal is in its first array."""
    for number, ctx in enumerate(pair.contexts):
        whole = sa.table({"x": [1, None, 3]}, ctx)
        for table in (whole, sa.concat_tables([whole, whole[1:]])):
            for each in pair.contexts:
                each.reset_counters()
            taken = sa.from_arrow(table.__arrow_c_device_stream__())
            assert (taken.context, taken.to_pydict()) == (ctx, table.to_pydict())
            assert taken["x"].chunks[0].address == table["x"].chunks[0].address
            assert [each.num_rows for each in taken.batches] == [each.num_rows for each in table.batches]
            assert sa.from_arrow(table.__arrow_c_device_stream__(), ctx, copy=False).context == ctx
            assert [each.counters()["peer_to_device"]["calls"] for each in pair.contexts] == [0, 0]
        empty = sa.from_arrow(whole[:0].__arrow_c_device_stream__(), pair.contexts[1 - number])
        assert empty.num_rows == 0


def test_the_error_of_a_forbidden_copy_names_the_solution(pair, by_ordinal):
    first, second = pair.contexts
    table = sa.table({"x": [1, 2, 3]}, first)
    for source in (table, table["x"], table.__arrow_c_device_stream__()):
        with pytest.raises(sa.ExchangeError, match=r'to\("sim:1"\)'):
            sa.from_arrow(source, second, copy=False)


def test_tensors_of_another_device_need_an_explicit_copy(pair):
    """tests/interop/test_gpu_peers.py tests the copies."""
    first, second = pair.contexts
    column = sa.column(np.arange(100, dtype="i4"), first, name="x")
    for copy in (None, False):
        for source in (column, column.__dlpack__()):
            with pytest.raises(sa.ExchangeError, match=r"copy=True.*Column\.to"):
                sa.from_dlpack(source, second, copy=copy)


def test_a_given_context_accepts_columns_of_other_devices(pair):
    first, second = pair.contexts
    column = sa.column([1, 2, None], first, name="x")
    assert sa.column(column, second, name="y").device == "sim:1"
    table = sa.table({"x": column, "y": [4, 5, 6]}, second)
    assert table.context == second
    assert table.to_pydict() == {"x": [1, 2, None], "y": [4, 5, 6]}
    assert sa.table(sa.table({"x": column}), second).to_pydict() == {"x": [1, 2, None]}


def test_a_table_of_columns_of_two_devices_needs_a_context(pair):
    first, second = pair.contexts
    columns = {"x": sa.column([1], first, name="x"), "y": sa.column([2], second, name="y")}
    with pytest.raises(sa.InvalidError, match=r"on sim:1, the table on sim:0; Column\.to"):
        sa.table(columns)
    assert sa.table(columns, first).device == "sim:0"


def test_threads_exchange_tables_in_both_directions(pair):
    tables = [sa.table({"x": [number] * 1000}, ctx) for number, ctx in enumerate(pair.contexts)]
    seen: list[set[int]] = [set(), set()]

    def move(number: int) -> None:
        for _ in range(5):
            moved = tables[number].to(pair.contexts[1 - number])
            seen[number].update(moved["x"].to_pylist())

    run_in_threads(2, move)
    assert seen == [{0}, {1}]


# Data sets on several devices.


@pytest.fixture
def files(tmp_path):
    """Five files with 2, 4, 6, 8 and 10 rows, in batches of two."""
    for number in range(5):
        rows = pa.table({"n": pa.array(range(10 * number, 10 * number + 2 * number + 2), pa.int64())})
        with pa.ipc.new_file(tmp_path / f"{number}.arrow", rows.schema) as writer:
            writer.write_table(rows, max_chunksize=2)
    return tmp_path


def values(tables):
    return [table["n"].to_pylist() for table in tables]


def rows_of(*numbers):
    return [row for number in numbers for row in range(10 * number, 10 * number + 2 * number + 2)]


def test_files_are_distributed_in_turn(pair, files):
    placed = sa.place(files, pair.contexts)
    assert [table.context for table in placed] == pair.contexts
    assert values(placed) == [rows_of(0, 2, 4), rows_of(1, 3)]


def test_batches_are_distributed_by_their_bytes(pair, files):
    placed = sa.place(sorted(files.glob("*.arrow")), pair.contexts, by="bytes")
    assert [table.context for table in placed] == pair.contexts
    assert [row for part in values(placed) for row in part] == rows_of(0, 1, 2, 3, 4)
    large = files / "large.arrow"
    rows = pa.table({"n": pa.array(range(10_000), pa.int64())})
    sa.concat_tables([sa.table(rows[at : at + 1000], "host") for at in range(0, 10_000, 1000)]).write_ipc(
        large
    )
    assert values(sa.place(large, pair.contexts, by="bytes")) == [
        list(range(5000)),
        list(range(5000, 10_000)),
    ]


def test_there_may_be_more_contexts_than_files_or_batches(host, files):
    placed = sa.place(files / "0.arrow", [host] * 3)
    assert values(placed) == [[0, 1], [], []]
    assert sorted(values(sa.place(files / "0.arrow", [host] * 3, by="bytes"))) == [[], [], [0, 1]]


def test_columns_and_schema_are_those_of_a_read(host, files):
    [part] = sa.place(files, [host], columns="n", schema=sa.schema({"n": "int64"}))
    assert part["n"].to_pylist() == rows_of(0, 1, 2, 3, 4)
    with pytest.raises(sa.TypeMismatch):
        sa.place(files, [host], schema=sa.schema({"n": "int32"}))
    other = files / "9.arrow"
    sa.table({"n": ["text"]}, host).write_ipc(other)
    with pytest.raises(sa.TypeMismatch, match=r"9\.arrow"):
        sa.place(files, [host, host])


def test_all_devices_are_used_by_default(files):
    assert [table.context for table in sa.place(files)] == sa.contexts()
    assert [ctx.device for ctx in sa.contexts()] == (
        [each.name for each in sa.devices() if each.name != "host"] or ["host"]
    )


def test_a_failure_leaks_nothing_on_any_device(pair, files):
    broken = files / "3.arrow"
    content = bytearray(broken.read_bytes())
    for ctx in pair.contexts:
        ctx.synchronize()
    before = [ctx.memory.statistics()["current"] for ctx in pair.contexts]
    broken.write_bytes(content[: len(content) // 2])
    with pytest.raises(sa.Error):
        sa.place(files, pair.contexts)
    broken.write_bytes(content)
    with pair.contexts[1].memory.child("small", 8) as small, pytest.raises(sa.BudgetExceeded):
        sa.place(files, [pair.contexts[0], small])
    for ctx in pair.contexts:
        ctx.synchronize()
    assert [ctx.memory.statistics()["current"] for ctx in pair.contexts] == before
    assert values(sa.place(files, pair.contexts)) == [rows_of(0, 2, 4), rows_of(1, 3)]


def test_errors_name_invalid_arguments(host, files):
    with pytest.raises(sa.InvalidError, match="at least one context"):
        sa.place(files, [])
    with pytest.raises(sa.InvalidError, match="by='rows'"):
        sa.place(files, [host], by="rows")
    stream = io.BytesIO()
    sa.write_ipc(sa.table({"n": [1]}, host), stream, format="stream")

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *given):
            raise io.UnsupportedOperation

    with pytest.raises(sa.UnsupportedError, match="by='files'"):
        sa.place(Pipe(stream.getvalue()), [host, host], by="bytes")
    assert values(sa.place(Pipe(stream.getvalue()), [host, host])) == [[1], []]
