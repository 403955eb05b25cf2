"""Tables sent between the GPUs of two Dask workers: over UCXX from GPU to GPU, over TCP through the host.

On a machine with one GPU both workers use it. The workers' transfer counters prove which path a table took.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import dask_tasks
import saeta as sa
from gpu_frameworks import installed_rmm

pytestmark = pytest.mark.gpu
distributed = pytest.importorskip("distributed")

import dask  # noqa: E402

import saeta.dask  # noqa: E402

LATE_WRITERS = 100
SETTINGS = {"distributed.worker.memory.terminate": False, "distributed.comm.timeouts.connect": "120s"}


@pytest.fixture(scope="module", params=["tcp", "ucx"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    if request.param == "ucx":
        pytest.importorskip("distributed_ucxx")
        installed_rmm()
    gpus = len([each for each in sa.devices() if each.name != "host"])
    options = {"dashboard_address": "127.0.0.1:0", "local_directory": str(tmp_path_factory.mktemp("dask"))}
    folder = tmp_path_factory.mktemp("installed")
    dask_tasks.pretend_to_be_installed(folder)
    sys.path.append(str(folder))
    try:
        with dask.config.set(SETTINGS):
            if gpus > 1:
                cuda = pytest.importorskip("dask_cuda")
                cluster = cuda.LocalCUDACluster(
                    n_workers=2, CUDA_VISIBLE_DEVICES=[0, 1], protocol=request.param, **options
                )
            else:
                cluster = distributed.LocalCluster(
                    n_workers=2, threads_per_worker=1, protocol=f"{request.param}://", **options
                )
            with cluster, distributed.Client(cluster) as made:
                yield made
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def workers(client: Any) -> list[str]:
    client.wait_for_workers(2, timeout=120)
    return sorted(client.run(os.getpid))


def run_on(client: Any, worker: str, function: Any, *arguments: Any) -> Any:
    return client.submit(function, *arguments, workers=[worker], allow_other_workers=False, pure=False)


def test_tables_of_all_types_are_sent_from_gpu_to_gpu(client, workers):
    one, other = workers
    numbers = range(0, dask_tasks.TABLES, 3)
    futures = client.map(
        dask_tasks.make_on_device, numbers, workers=[one], allow_other_workers=False, pure=False
    )
    compared = client.map(
        dask_tasks.same_on_device, numbers, futures, workers=[other], allow_other_workers=False, pure=False
    )
    assert [each for each in client.gather(compared) if each] == []


def test_the_counters_show_the_path_of_a_table(client, workers):
    one, other = workers
    assert one.partition(":")[0] == other.partition(":")[0] == client.scheduler.address.partition(":")[0]
    sent = run_on(client, one, dask_tasks.late_on_device, 1, 1 << 20)
    distributed.wait(sent)
    client.run(dask_tasks.reset_counters)
    seen = run_on(client, other, dask_tasks.uploaded_bytes, sent).result()
    downloaded = client.run(dask_tasks.downloaded_bytes, workers=[one])[one]
    if one.startswith("ucx"):
        assert (downloaded, seen) == (0, 0), "UCXX copies from GPU to GPU"
    else:
        assert downloaded >= 16 << 20
        assert seen >= 16 << 20


def test_ucx_sends_memory_with_an_ipc_handle(client, workers):
    one, other = workers
    if not one.startswith("ucx"):
        pytest.skip("over TCP the body is host memory")
    for make, kind in (
        (dask_tasks.late_on_device, "Column"),
        (dask_tasks.late_without_ipc_handles, "DeviceBuffer"),
    ):
        sent = run_on(client, one, make, 7, 1 << 18)
        assert run_on(client, one, dask_tasks.sent_memory, sent).result() == (
            kind,
            True,
            "logging, budget, caching, direct",
        )
        assert run_on(client, other, dask_tasks.wrong_rows, 7, sent).result() == 0


def test_the_receiver_never_sees_a_table_with_pending_writes(client, workers):
    one, other = workers
    wrong = []
    for number in range(LATE_WRITERS):
        sent = run_on(client, one, dask_tasks.late_on_device, number, 1 << 18)
        wrong.append(run_on(client, other, dask_tasks.wrong_rows, number, sent))
    assert client.gather(wrong) == [0] * LATE_WRITERS
