"""Tables on a cluster of two worker processes: transfers between workers and client, spilling, and killed
workers. The workers load saeta.dask only through its entry point and through received messages."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dask_tasks
import saeta as sa
from waiting import eventually

distributed = pytest.importorskip("distributed")

import dask  # noqa: E402
from dask.utils import format_bytes  # noqa: E402

import saeta.dask  # noqa: E402

LIMIT = 1 << 30
SETTINGS = {
    # Spill by the sizes of the results alone, at a low threshold.
    "distributed.worker.memory.target": (1 << 20) / LIMIT,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    # The active memory manager would drop replicas every 2 seconds.
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.comm.timeouts.connect": "120s",
    "distributed.scheduler.worker-ttl": None,
    # Otherwise LocalCluster closes the nanny that has restarted a killed worker.
    "distributed.deploy.lost-worker-timeout": "1 hour",
    "distributed.admin.tick.limit": "120s",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("installed")
    dask_tasks.pretend_to_be_installed(folder)
    sys.path.append(str(folder))  # workers inherit sys.path
    try:
        with (
            dask.config.set(SETTINGS),
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                memory_limit=LIMIT,
                scheduler_port=0,
                dashboard_address="127.0.0.1:0",
                local_directory=str(tmp_path_factory.mktemp("workers")),
            ) as cluster,
            distributed.Client(cluster) as made,
        ):
            yield made
    finally:
        sys.path.remove(str(folder))
        dask_tasks.every_type.cache_clear()  # later tests check host memory


@pytest.fixture
def workers(client: Any) -> list[str]:
    return two_workers(client)


def two_workers(client: Any) -> list[str]:
    """Returns the addresses of two workers that respond.

    After a kill, the scheduler may still list the killed worker, and `scheduler_info` of a client may return
    a cached reply without workers.
    """
    found: list[str] = []

    def answered() -> bool:
        try:
            found[:] = sorted(client.run(os.getpid))
        except OSError:
            return False
        return len(found) == 2

    assert eventually(answered, collect=False)
    return found


def run_on(client: Any, worker: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return client.submit(
        function, *arguments, workers=[worker], allow_other_workers=False, pure=False, **options
    )


def gather(client: Any, futures: list[Any]) -> list[Any]:
    """Returns the results of the futures, with a timeout: a failed transfer may leave a task waiting for
    ever."""
    distributed.wait(futures, timeout=180)
    found: list[Any] = client.gather(futures)
    return found


def weights_in_scheduler(client: Any) -> dict[str, int]:
    def find(dask_scheduler: Any) -> dict[str, int]:
        return {str(key): task.nbytes for key, task in dask_scheduler.tasks.items() if task.who_has}

    found: dict[str, int] = client.run_on_scheduler(find)
    return found


def require_nothing_left(client: Any) -> None:
    """Requires that no worker holds charged or external memory once all futures are released."""

    def clean() -> bool:
        found = client.run(dask_tasks.statistics).values()
        return all(each["current"] == 0 and each["external"] == 0 for each in found)

    assert eventually(clean, collect=False), client.run(dask_tasks.statistics)


def test_tables_of_all_types_are_sent_between_workers_and_spilled(client, workers):
    one, other = workers
    futures = client.map(
        dask_tasks.make, range(dask_tasks.TABLES), workers=[one], allow_other_workers=False, pure=False
    )
    distributed.wait(futures, timeout=180)
    assert client.run(dask_tasks.spilled_bytes, workers=[one])[one] > 0
    compared = client.map(
        dask_tasks.same,
        range(dask_tasks.TABLES),
        futures,
        workers=[other],
        allow_other_workers=False,
        pure=False,
    )
    assert [each for each in gather(client, compared) if each] == []
    assert client.run(dask_tasks.spilled_bytes, workers=[other])[other] > 0, "received tables are spilled too"

    # Spilled tables come back unchanged on both workers: where they were made and where they were received.
    for worker in (one, other):
        again = client.map(
            dask_tasks.same,
            range(0, dask_tasks.TABLES, 5),
            futures[::5],
            workers=[worker],
            allow_other_workers=False,
            pure=False,
        )
        assert [each for each in gather(client, again) if each] == []
    del futures, compared, again
    require_nothing_left(client)


def test_tables_are_sent_to_workers_and_back_to_the_client(client, workers):
    for worker in workers:
        numbers = range(0, dask_tasks.TABLES, 11)
        sent = client.scatter([dask_tasks.make(each) for each in numbers], workers=[worker], hash=False)
        compared = client.map(dask_tasks.same, numbers, sent, workers=[worker], pure=False)
        assert [each for each in gather(client, compared) if each] == []
        for number, table in zip(numbers, gather(client, sent), strict=True):
            assert dask_tasks.same(number, table) == ""
            assert table.context == sa.context("host"), "a client uses the context of its process"
    column = run_on(client, workers[0], dask_tasks.column_of, 4).result(timeout=180)
    assert (column.name, column.to_pylist()) == ("number", [4] * 67)
    del sent, compared
    require_nothing_left(client)


def test_the_scheduler_knows_the_exact_bytes_of_every_table(client, workers):
    futures = client.map(dask_tasks.make, range(0, dask_tasks.TABLES, 7), pure=False)
    distributed.wait(futures, timeout=180)
    expected = gather(client, client.map(dask_tasks.nbytes, futures, pure=False))
    weights = weights_in_scheduler(client)
    assert [weights[str(each.key)] for each in futures] == expected
    assert len(set(expected)) > 10
    del futures
    require_nothing_left(client)


def shown_by_dashboard(client: Any, page: str) -> str:
    """Returns a dashboard page that needs no bokeh. The bokeh pages show the same numbers of the
    scheduler."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(client.dashboard_link.replace("status", page), timeout=60) as answer:
        return str(answer.read(), "utf-8")


def test_the_dashboard_shows_the_exact_bytes_in_memory_and_spilled(client, workers):
    futures = client.map(dask_tasks.numbers, [20_000 + each for each in range(12)], pure=False)
    distributed.wait(futures, timeout=180)
    expected = {str(future.key): 16 * (20_000 + each) for each, future in enumerate(futures)}

    def in_all() -> int:
        return int(json.loads(shown_by_dashboard(client, "json/counts.json"))["bytes"])

    assert eventually(lambda: in_all() == sum(expected.values()), collect=False), in_all()
    for key, nbytes in expected.items():
        assert f" {format_bytes(nbytes)} " in shown_by_dashboard(client, f"info/task/{key}.html")

    def on_workers(dask_scheduler: Any) -> dict[str, tuple[int, int]]:
        """Returns the bytes of results in memory and of spilled results, which the worker pages show."""
        return {
            address: (worker.memory.managed, worker.metrics["spilled_bytes"]["memory"])
            for address, worker in dask_scheduler.workers.items()
        }

    weights = {
        worker: tuple(sum(expected[key] for key in each) for each in keys)
        for worker, keys in client.run(dask_tasks.keys_in_memory_and_spilled).items()
    }
    assert sum(spilled for _, spilled in weights.values()) > 0
    assert eventually(lambda: client.run_on_scheduler(on_workers) == weights, collect=False), (
        client.run_on_scheduler(on_workers),
        weights,
    )
    del futures
    require_nothing_left(client)


def test_a_table_is_received_in_the_context_of_the_worker_without_a_copy(client, workers):
    one, other = workers
    rows = 50_000  # frames too large to be merged with others, too small to be spilled
    sent = run_on(client, one, dask_tasks.numbers, rows)
    found = run_on(client, other, dask_tasks.arrived, sent).result(timeout=180)
    assert (found["own"], found["budget"], found["rows"]) == (True, LIMIT, rows)
    assert found["nbytes"] == 16 * rows
    assert found["charged"] == 0, "the table is a view of the received memory"
    assert found["external"] >= 16 * rows
    del sent
    require_nothing_left(client)


def test_a_worker_with_a_full_budget_can_send_its_tables(client, workers):
    one, other = workers
    full = run_on(client, one, dask_tasks.slice_in_a_full_context, 50_000)
    assert run_on(client, other, dask_tasks.arrived, full).result(timeout=180)["rows"] == 49_999
    del full
    require_nothing_left(client)


def test_a_task_fails_if_its_table_arrives_corrupt(client, workers):
    """Otherwise distributed would leave the task waiting for ever."""
    one, other = workers
    broken = run_on(client, one, dask_tasks.numbers, 10)
    client.run(dask_tasks.send_frames, False, workers=[one])
    wanted = [
        run_on(client, other, task, broken) for task in (dask_tasks.nbytes, dask_tasks.arrived, sa.table)
    ]
    for each in [*wanted, broken]:
        with pytest.raises(sa.FormatError, match=r"a table has arrived that can't be read: .*truncated"):
            each.result(timeout=180)
    client.run(dask_tasks.send_frames, True, workers=[one])
    sound = run_on(client, one, dask_tasks.numbers, 10)
    assert run_on(client, other, dask_tasks.nbytes, sound).result(timeout=180) == 160, "still usable"
    for each in [*wanted, broken, sound]:
        each.release()  # logged tracebacks keep the futures alive
    require_nothing_left(client)


@pytest.mark.parametrize("at", ["sending", "receiving"])
def test_a_task_is_rerun_if_its_worker_is_killed_in_a_transfer(client, workers, tmp_path, at):
    one, other = workers
    fuse = tmp_path / "burnt"
    made = client.submit(
        dask_tasks.make_with_fuse,
        6,
        str(fuse),
        at,
        workers=[one],
        allow_other_workers=True,
        pure=False,
    )
    distributed.wait(made, timeout=180)
    compared = client.submit(
        dask_tasks.same_with_fuse, 6, made, workers=[other], allow_other_workers=True, pure=False
    )
    assert compared.result(timeout=180) == ""
    assert fuse.exists(), "no worker was killed"
    del made, compared
    two_workers(client)
    require_nothing_left(client)


def test_files_are_read_by_batches_and_written_by_workers(client, workers, tmp_path):
    parts = [sa.table({"n": np.arange(1000 * each, 1000 * each + 700)}, "host") for each in range(6)]
    for number in range(2):
        sa.concat_tables(parts[3 * number : 3 * number + 3]).write_ipc(tmp_path / f"{number}.arrow")
    tables = saeta.dask.read_ipc(tmp_path, client, blocksize=8 * 700)
    assert len(tables) == 6
    assert [each["rows"] for each in gather(client, client.map(dask_tasks.arrived, tables))] == [700] * 6
    assert all(each["own"] for each in gather(client, client.map(dask_tasks.arrived, tables, pure=False)))
    names = [str(tmp_path / f"out-{number}.arrows") for number in range(6)]
    gather(client, client.map(sa.write_ipc, tables, names, pure=False))
    written = sa.read_ipc(sorted(tmp_path.glob("out-*")), "host")
    assert written.equals(sa.concat_tables(parts))
    del tables
    require_nothing_left(client)
