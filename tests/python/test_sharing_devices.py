"""Tables in device memory shared with other processes, from contexts with an exportable pool."""

from __future__ import annotations

import gc
import os
import pickle
from typing import Any

import pytest

import arrow_data
import saeta as sa
from cuda_module import DEVICES, opened
from cuda_peer import Peer, RefusedError
from saeta._share import reducers, tables
from share_wire import DONE, LARGEST, OPEN, SIZES, FalseBroker, connect, limits, receive, request

PEER = """
import pickle
import arrow_data
import saeta._core

def show(table):
    global kept
    kept = table.share()
    return pickle.dumps(kept).hex()

def found_in(text):
    return sa.open_shared(pickle.loads(bytes.fromhex(text)), ctx.saeta)

first_names = {*globals(), "first_names"}
"""


@pytest.fixture(params=DEVICES)
def kind(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def ctx(kind: str) -> Any:
    with opened(kind) as found:
        yield found


@pytest.fixture
def exporter(kind: str) -> Any:
    with Peer(kind) as other:
        other.run(PEER)
        yield other
    assert other.errors == ""


def received(text: str) -> sa.SharedTable:
    found: sa.SharedTable = pickle.loads(bytes.fromhex(text))
    return found


def test_a_table_too_large_for_the_drivers_pool_import_can_be_shared(
    kind: str, ctx: Any, exporter: Peer
) -> None:
    """cudaMemPoolImportPointer crashes the process for allocations of 6 GiB."""
    rows = 6 << 27 if kind == "cuda" else 6 << 17
    exporter.run(f"import numpy as np; made = sa.table({{'x': np.arange({rows})}}, ctx.saeta)")
    for _ in range(2):
        opened = sa.open_shared(received(exporter.run("result = show(made)")), ctx.saeta)
        assert opened["x"][0] == 0
        assert opened["x"][rows - 1] == rows - 1
        assert opened["x"].slice(rows // 2, 3).to_pylist() == [rows // 2, rows // 2 + 1, rows // 2 + 2]
        del opened


def test_every_type_is_shared_without_a_copy(ctx: Any, exporter: Peer) -> None:
    text = exporter.run("result = show(sa.from_arrow(arrow_data.table(), ctx.saeta))")
    assert len(text) < 1000
    table = sa.open_shared(received(text), ctx.saeta)
    assert table.device == ctx.saeta.device
    assert table.to_arrow().equals(arrow_data.table())
    assert sa.open_shared(received(text), ctx.saeta) is table
    assert sa.open_shared(received(text), "host").to_arrow().equals(arrow_data.table())


def reply_to(token: sa.SharedTable) -> tuple[bytes, int]:
    """Returns what the exporter of a table replies, and the number of descriptors."""
    with connect(token._place.broker) as connection:
        connection.send(request(OPEN, token._place.token))
        reply, descriptors = receive(connection)
    for each in descriptors:
        os.close(each)
    return reply, len(descriptors)


@pytest.mark.parametrize(("columns", "in_reply"), [(10, True), (1000, False)])
def test_metadata_are_in_the_reply_unless_they_are_large(
    ctx: Any, exporter: Peer, columns: int, in_reply: bool
) -> None:
    text = exporter.run(
        f"result = show(sa.table({{f'c{{i}}': [i, None] for i in range({columns})}}, ctx.saeta))"
    )
    token = received(text)
    reply, number = reply_to(token)
    assert (len(reply) <= LARGEST, number) == (True, 0 if in_reply else 1)
    table = sa.open_shared(token, ctx.saeta)
    assert table.column_names == [f"c{i}" for i in range(columns)]
    assert table[f"c{columns - 1}"].to_pylist() == [columns - 1, None]


@pytest.mark.parametrize("room", [0, 1])
def test_a_reply_of_the_maximum_length_is_sent(ctx: Any, exporter: Peer, room: int) -> None:
    """The status byte must fit into the reply too. Longer metadata are sent in a file."""
    made = "sa.table({'a': [1, 2]}, ctx.saeta)"
    longest = room + exporter.run(
        f"memory = {made}.share()._entry\nassert memory.file == -1\nresult = len(memory.reply)"
    )
    text = exporter.run(f"del memory\n_core._share_limits(largest_reply={longest})\nresult = show({made})")
    token = received(text)
    reply, number = reply_to(token)
    assert (len(reply) == longest, number) == (room == 1, 1 - room)
    with limits(largest_reply=longest):
        assert sa.open_shared(token, ctx.saeta)["a"].to_pylist() == [1, 2]


def test_device_tables_sent_by_an_ended_process_arrive_through_the_host(
    ctx: Any, kind: str, monkeypatch: Any
) -> None:
    messages = []
    with Peer(kind) as exporter:
        exporter.run(PEER + "from multiprocessing.reduction import ForkingPickler\nsa.install_reducers()")
        for columns in ("{'a': [1, None], 's': ['x', 'yy']}", "{}", "{f'c{i}': [] for i in range(1000)}"):
            exporter.run(f"made = sa.table({columns}, ctx.saeta)")
            messages.append(exporter.run("result = bytes(ForkingPickler.dumps(made)).hex()"))
        exporter.run("del made")
        exporter.end()
    assert (exporter.code, exporter.errors) == (0, "")
    monkeypatch.setattr(reducers, "open_shared", lambda token: sa.open_shared(token, ctx.saeta))
    found = [pickle.loads(bytes.fromhex(each)) for each in messages]
    assert [each.device for each in found] == [ctx.saeta.device] * 3
    assert found[0].to_pydict() == {"a": [1, None], "s": ["x", "yy"]}
    assert [each.num_columns for each in found] == [2, 0, 1000]


def test_a_reply_without_its_metadata_is_refused(ctx: Any, exporter: Peer) -> None:
    token = received(exporter.run("result = show(sa.table({'a': [1]}, ctx.saeta))"))
    false = FalseBroker(
        lambda connection: connection.send(bytes([DONE]) + SIZES.pack(64, 100) + bytes(80))  # type: ignore[func-returns-value]
    )
    place = token._place._replace(broker=false.name)
    with pytest.raises(sa.FormatError, match="sent 96 bytes, which can't have metadata of 100 bytes"):
        sa.open_shared(tables._restored_token(*place), ctx.saeta)
    false.close()


def test_the_exporter_keeps_a_table_until_the_last_consumer_has_dropped_it(ctx: Any, exporter: Peer) -> None:
    used = "result = ctx.saeta.memory.statistics()['current']"
    before = exporter.run(used)
    text = exporter.run("result = show(sa.from_arrow(arrow_data.table(), ctx.saeta))")
    table = sa.open_shared(received(text), ctx.saeta)
    exporter.run("del kept\ngc.collect()\nctx.synchronize()")
    assert exporter.run(used) > before
    assert table.to_arrow().equals(arrow_data.table())
    del table
    gc.collect()
    ctx.synchronize()
    assert exporter.run(f"result = wait_until(lambda: ctx.saeta.memory.statistics()['current'] == {before})")
    with pytest.raises(sa.ClosedError, match="not shared any more"):
        sa.open_shared(received(text), ctx.saeta)


def test_open_tables_of_a_killed_exporter_stay_valid(ctx: Any, kind: str) -> None:
    """Sharing such a table again makes a copy, which needs a context with an exportable pool."""
    same = ".to_arrow().equals(arrow_data.table())"
    with Peer(kind) as exporter, Peer(kind) as importer:
        exporter.run(PEER)
        importer.run(PEER)
        text = exporter.run("result = show(sa.from_arrow(arrow_data.table(), ctx.saeta))")
        importer.run(f"found = found_in({text!r})")
        exporter.kill()
        assert importer.run(f"result = found{same}")
        onward = importer.run("result = show(found)")
        assert sa.open_shared(received(onward), ctx.saeta).to_arrow().equals(arrow_data.table())
    gc.collect()
    ctx.synchronize()
    with pytest.raises(sa.ClosedError, match="has ended"):
        sa.open_shared(received(text), ctx.saeta)


def test_killed_consumers_release_their_tables(exporter: Peer, kind: str) -> None:
    used = "ctx.saeta.memory.statistics()['current']"
    before = exporter.run(f"result = {used}")
    text = exporter.run("result = show(sa.from_arrow(arrow_data.table(), ctx.saeta))")
    for turn in range(3):
        with Peer(kind) as importer:
            importer.run(PEER)
            importer.run(f"found = found_in({text!r})")
            if turn % 2:
                importer.kill()
            else:
                assert importer.run("result = found.to_arrow().equals(arrow_data.table())") is True
                importer.run("del found")
    exporter.run("del kept\ngc.collect()\nctx.synchronize()")
    assert exporter.run(f"result = wait_until(lambda: {used} == {before})") is True


WITHOUT_POOL = {
    "sim": "devices = simulated(exportable=False)\nwhere = devices.__enter__()[0].context",
    "cuda": "where = sa.context('cuda:0')",
}


def test_a_table_of_a_context_without_an_exportable_pool_is_copied(kind: str, ctx: Any) -> None:
    with Peer("host") as exporter:
        exporter.run(PEER)
        exporter.run(WITHOUT_POOL[kind])
        exporter.run("made = sa.from_arrow(arrow_data.table(), where)")
        exporter.run("used = lambda: (where.synchronize(), where.memory.statistics()['current'])[1]")
        exporter.run("before = used()")
        text = exporter.run("result = show(made)")
        assert exporter.run("result = show(made)") == text, "it is copied once"
        assert exporter.run("result = used() - before >= kept.nbytes // 2"), "the copy is charged"
        found = sa.open_shared(received(text), ctx.saeta)
        assert found.to_arrow().equals(arrow_data.table())
        exporter.run("del kept")
        assert found.to_arrow().equals(arrow_data.table())
        del found
        gc.collect()
        ctx.synchronize()
        assert exporter.run("result = wait_until(lambda: used() == before)")
    assert exporter.errors == ""


def test_a_copy_for_other_processes_counts_in_the_budget(kind: str, ctx: Any) -> None:
    del ctx
    with Peer("host") as exporter:
        exporter.run(PEER)
        exporter.run(WITHOUT_POOL[kind])
        exporter.run("made = sa.table({'a': list(range(100_000))}, where)")
        exporter.run("where.memory.limit = where.memory.statistics()['current'] + 500_000")
        with pytest.raises(RefusedError, match="BudgetExceeded"):
            exporter.run("made.share()")
        exporter.run("where.memory.limit = None")
        assert exporter.run("made.share()") is None
    assert exporter.errors == ""


def test_the_uuid_of_a_device_is_read_once(ctx: Any, exporter: Peer) -> None:
    exporter.run("show(sa.table({'a': [1]}, ctx.saeta))\ndel saeta._core._device_uuid")
    text = exporter.run("result = show(sa.table({'a': [2]}, ctx.saeta))")
    assert sa.open_shared(received(text), ctx.saeta)["a"].to_pylist() == [2]


def test_memory_allocated_again_after_trim_can_be_shared(ctx: Any, exporter: Peer) -> None:
    for value in range(3):
        text = exporter.run(f"result = show(sa.table({{'a': [{value}] * 1000}}, ctx.saeta))")
        assert sa.open_shared(received(text), ctx.saeta)["a"].to_pylist() == [value] * 1000
        gc.collect()
        ctx.synchronize()
        done = "ctx.saeta.memory.statistics()['current'] == 0"
        exporter.run(f"del kept\ngc.collect()\nctx.synchronize()\nwait_until(lambda: {done})")
        assert exporter.run("result = ctx.saeta.memory.trim()") > 0


def test_the_error_for_a_gpu_that_is_not_visible_names_the_solution(ctx: Any, exporter: Peer) -> None:
    text = exporter.run("result = show(sa.table({'a': [1]}, ctx.saeta))")
    token = received(text)
    token._place = token._place._replace(device=os.urandom(16))
    with pytest.raises(sa.InvalidError, match="copy it through the host"):
        sa.open_shared(token, "host")
