"""Tables sent between Ray actors and tasks: by the tensor transport SAETA, and through Ray's object store."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

import ray

import arrow_data
import saeta as sa
import saeta.ray
from cuda_module import DEVICES, opened
from cuda_peer import Peer
from ray_cluster import (
    actor,
    add_up,
    by_transport,
    charged,
    cluster,
    make,
    mapping_of,
)
from saeta.ray._transport import TableTransport
from waiting import eventually

SHARED, OBJECT_STORE = "memfd:saeta table", "plasma"


@pytest.fixture(scope="module", autouse=True)
def running() -> Any:
    with cluster():
        yield


@pytest.fixture(scope="module")
def pair(running: None) -> Any:
    """Two actors, which must hold no memory after each test."""
    return actor(), actor()


@pytest.fixture(autouse=True)
def nothing_is_left(pair: Any) -> Any:
    before = charged()
    yield
    assert eventually(lambda: charged() == before)
    ray.get([each.drop.remote() for each in pair])
    for each in pair:
        assert eventually(lambda each=each: ray.get(each.charged.remote()) == 0)


def test_a_table_of_every_type_is_sent_between_actors(pair):
    maker, user = pair
    assert ray.get(user.equals.remote(by_transport(maker.every_type).remote()))


def test_tables_columns_and_other_values_arrive_in_one_object(pair):
    found = ray.get(by_transport(pair[0].several).remote())
    assert [each.to_pydict() for each in found["tables"]] == [{"a": [1, 2]}, {"b": ["x"]}]
    assert found["column"].to_pylist() == [1.5, None]
    assert found["number"] == 7


def test_the_receiver_gets_a_read_only_view_of_shared_memory(pair):
    maker, user = pair
    made = by_transport(maker.numbers).remote()
    here = ray.get(made)
    assert SHARED in mapping_of(here["a"])
    assert not np.from_dlpack(here["a"]).flags.writeable
    assert SHARED in ray.get(user.mapping.remote(made))
    assert ray.get(user.total.remote(made)) == 499500


def test_every_user_of_an_object_opens_the_same_memory(pair):
    maker, user = pair
    made = by_transport(maker.numbers).remote()
    first = ray.get(made)
    held = ray.get(maker.charged.remote())
    ray.get(user.keep.remote(made))
    assert ray.get(maker.charged.remote()) == held
    assert ray.get(made) is first  # a process opens a table once


def test_a_table_passed_on_stays_in_the_memory_of_its_maker(pair):
    maker, user = pair
    made = by_transport(maker.numbers).remote()
    passed = by_transport(user.pass_on).remote(made)
    assert ray.get(maker.total.remote(passed)) == 499500
    del made
    assert np.from_dlpack(ray.get(passed)["a"])[-1] == 999
    assert ray.get(user.charged.remote()) == 0
    assert ray.get(maker.charged.remote()) > 8000


def test_memory_is_freed_with_the_last_reference(pair):
    maker = pair[0]
    made = by_transport(maker.numbers).remote()
    assert ray.get(pair[1].total.remote(made)) == 499500
    assert ray.get(maker.charged.remote()) > 8000
    del made
    assert eventually(lambda: ray.get(maker.charged.remote()) == 0)


def test_an_open_table_keeps_the_memory_after_the_reference_is_dropped(pair):
    maker = pair[0]
    made = by_transport(maker.numbers).remote()
    opened_here = ray.get(made)
    ray.get(pair[1].keep.remote(made))
    del made
    assert np.from_dlpack(opened_here["a"])[-1] == 999
    del opened_here
    assert ray.get(maker.charged.remote()) > 8000  # kept for the other actor
    ray.get(pair[1].drop.remote())
    assert eventually(lambda: ray.get(maker.charged.remote()) == 0)


def test_the_receiver_does_not_see_later_writes_of_the_maker(pair):
    maker = pair[0]
    made = by_transport(maker.over_my_values).remote()
    before = ray.get(made)
    assert ray.get(maker.overwrite.remote()) == [-1, -1, -1]
    assert before["a"].to_pylist()[:3] == [0, 1, 2]
    assert ray.get(made)["a"].to_pylist()[:3] == [0, 1, 2]
    assert ray.get(maker.total.remote(made)) == -1000  # the maker uses its own table, not the copy


def test_a_process_chooses_the_context_of_received_tables(pair):
    made = by_transport(pair[0].numbers).remote()
    receiver = actor()
    ray.get(receiver.receive_into.remote("received"))
    assert "received" in ray.get(receiver.context.remote(made))
    assert SHARED in ray.get(receiver.mapping.remote(made))
    ray.kill(receiver)


def test_a_table_that_exceeds_the_budget_fails_only_its_task(pair):
    maker = actor()
    ray.get(maker.limit.remote("1MiB"))
    made = by_transport(maker.numbers).remote(1 << 18)
    with pytest.raises(sa.BudgetExceeded):
        ray.get(made)
    with pytest.raises(sa.BudgetExceeded):
        ray.get(pair[0].total.remote(made))
    assert ray.get(pair[0].total.remote(by_transport(maker.numbers).remote())) == 499500
    ray.kill(maker)


def test_tables_opened_from_a_killed_actor_stay_valid():
    maker, user = actor(), actor()
    made = by_transport(maker.numbers).remote()
    here = ray.get(made)
    ray.get(user.keep.remote(by_transport(maker.numbers).remote()))
    pid = ray.get(maker.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not is_running(pid))
    assert np.from_dlpack(here["a"])[-1] == 999
    del here
    with pytest.raises(sa.ClosedError, match="has ended"):
        ray.get(made)
    with pytest.raises(sa.ClosedError, match="has ended"):
        ray.get(user.total.remote(made))
    assert ray.get(user.pid.remote())  # the receiver must survive
    ray.kill(user)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_receiver_releases_its_tables(pair):
    maker, user = pair[0], actor()
    made = by_transport(maker.numbers).remote()
    ray.get(user.keep.remote(made))
    del made
    pid = ray.get(user.pid.remote())
    assert ray.get(maker.charged.remote()) > 8000
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: ray.get(maker.charged.remote()) == 0)


def test_the_driver_puts_a_table(pair):
    table = sa.table({"a": np.arange(1000)}, "host")
    before = charged()
    put = ray.put(table, _tensor_transport="SAETA")
    assert charged() > before
    assert ray.get(put) is table
    assert ray.get(pair[0].total.remote(put)) == 499500
    assert SHARED in ray.get(pair[1].mapping.remote(put))
    del put
    assert eventually(lambda: charged() == before)


def test_tables_are_sent_between_tasks_through_the_object_store():
    assert ray.get(add_up.remote(make.remote(1000))) == 499500


def test_tables_view_the_object_store_even_after_the_transport_was_used(pair):
    table = sa.table({"a": np.arange(1 << 15)}, "host")
    ray.get(ray.put(table, _tensor_transport="SAETA"))
    before = charged()
    got = ray.get(ray.put(table))
    assert OBJECT_STORE in mapping_of(got["a"])
    assert not np.from_dlpack(got["a"]).flags.writeable
    assert charged() <= before  # memory of the transport may have been freed
    for each in pair:  # with and without an earlier use of the transport
        assert OBJECT_STORE in mapping_of(ray.get(each.numbers.remote(1 << 15))["a"])


def test_ray_counts_the_bytes_of_stored_tables_but_only_tokens_of_the_transport(pair):
    table = sa.table({"a": np.arange(1 << 15), "text": ["x"] * (1 << 15)}, "host")
    metadata, body = table.pack()
    stored, kept, made = (
        ray.put(table),
        ray.put(table, _tensor_transport="SAETA"),
        by_transport(pair[0].numbers).remote(1 << 15),
    )
    ray.get([stored, kept, made])
    found = ray.experimental.get_object_locations([stored, kept, made])
    packed = len(metadata) + len(body)
    assert packed <= found[stored]["object_size"] <= packed + 1024
    assert found[kept]["object_size"] < 4096
    assert found[made]["object_size"] < 4096
    assert ray.get(pair[0].charged.remote()) >= 8 << 15  # the table is charged to the actor
    del kept, made


def test_a_restarted_actor_registers_the_transport_again(pair):
    again = actor(max_restarts=1, max_task_retries=-1)
    old = by_transport(again.numbers).remote()
    assert ray.get(pair[0].total.remote(old)) == 499500
    pid = ray.get(again.pid.remote())
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: ray.get(again.pid.remote()) != pid)
    assert ray.get(pair[0].total.remote(by_transport(again.numbers).remote())) == 499500
    with pytest.raises(sa.ClosedError, match="has ended"):
        ray.get(old)
    ray.kill(again)


def test_sa_unpickling_chooses_the_context_of_a_stored_table():
    put = ray.put(sa.table({"a": np.arange(1000)}, "host"))
    with sa.unpickling(sa.context("host").memory.child("small", "1MiB")) as small:
        assert ray.get(put).context == small


def test_a_table_of_the_transport_can_be_fetched_through_the_object_store(pair):
    made = by_transport(pair[0].numbers).remote(1 << 15)
    assert OBJECT_STORE in mapping_of(ray.get(made, _use_object_store=True)["a"])


def test_references_can_be_nested_in_arguments(pair):
    maker, user = pair
    made = [by_transport(maker.numbers).remote(), by_transport(maker.numbers).remote()]
    ray.get(made)  # Ray requires that an object in a nested reference exists
    assert ray.get(user.total_of.remote(made)) == 2 * 499500


def test_the_transport_does_not_write_into_given_buffers():
    transport = TableTransport()
    table = sa.table({"a": [1]}, "host")
    sent = transport.extract_tensor_transport_metadata("1", [table])
    with pytest.raises(sa.UnsupportedError, match="receive_into"):
        transport.recv_multiple_tensors("1", sent, transport.get_communicator_metadata(None, None), [table])
    transport.garbage_collect("1", sent, [table])


def test_the_transport_implements_rays_interface():
    transport = TableTransport()
    assert (transport.tensor_transport_backend(), transport.is_one_sided()) == ("SAETA", True)
    assert transport.can_abort_transport()
    transport.abort_transport("1", transport.get_communicator_metadata(None, None))
    assert transport.actor_has_tensor_transport(None)
    assert not TableTransport.__abstractmethods__
    assert transport.extract_tensor_transport_metadata("1", []).tensor_meta == []


SENDER = """
import pickle
import arrow_data
from saeta.ray._transport import TableTransport
transport = TableTransport()

def send(table):
    return pickle.dumps(transport.extract_tensor_transport_metadata("1", [table])).hex()

first_names = {*globals(), "first_names"}
"""


@contextmanager
def received_into(ctx: sa.Context) -> Iterator[TableTransport]:
    saeta.ray.receive_into(ctx)
    try:
        yield TableTransport()
    finally:
        saeta.ray.receive_into(None)


@pytest.mark.parametrize("kind", DEVICES)
def test_a_table_on_a_gpu_is_opened_without_a_copy(kind):
    used = "ctx.saeta.memory.statistics()['current']"
    with opened(kind) as ctx, Peer(kind) as sender, received_into(ctx.saeta) as transport:
        sender.run(SENDER)
        before = sender.run(f"result = {used}")
        sent = pickle.loads(
            bytes.fromhex(sender.run("result = send(sa.from_arrow(arrow_data.table(), ctx.saeta))"))
        )
        assert sent.tensor_device == "cuda"
        ctx.saeta.reset_counters()
        (found,) = transport.recv_multiple_tensors("1", sent, None)
        moved = ctx.saeta.counters()
        assert [moved[way]["bytes"] for way in ("device_to_device", "host_to_device", "peer_to_device")] == [
            0
        ] * 3
        assert found.device == ctx.saeta.device
        assert found.to_arrow().equals(arrow_data.table())
        assert sender.run(f"result = {used}") > before
        del found
        sender.run("transport.garbage_collect('1', None, None)")
        assert sender.run(f"result = wait_until(lambda: {used} == {before})")
    assert sender.errors == ""


@pytest.mark.parametrize("kind", DEVICES)
def test_a_host_table_is_uploaded_once_for_a_gpu_receiver(kind):
    with opened(kind) as ctx, received_into(ctx.saeta) as transport:
        table = sa.table({"a": np.arange(1000)}, "host")
        sent = transport.extract_tensor_transport_metadata("1", [table])
        ctx.saeta.reset_counters()
        (found,) = transport.recv_multiple_tensors("1", sent, None)
        assert found.device == ctx.saeta.device
        assert ctx.saeta.counters()["host_to_device"]["transfers"] == 1
        assert found["a"].to_pylist() == list(range(1000))
        transport.garbage_collect("1", sent, [table])
        del found
