"""Tables sent between Ray actors on GPUs: without a copy on the same GPU, with one peer copy to another
GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("ray")

import ray

import arrow_data
import saeta as sa
import saeta.ray
from ray_cluster import by_transport, cluster
from saeta.ray._files import Blocks
from saeta.ray._parquet import ParquetDatasource
from waiting import eventually

pytestmark = pytest.mark.gpu

ROWS = 1 << 20
MOVEMENTS = ("device_to_device", "device_to_host", "host_to_device", "peer_to_device")


class GpuActor:
    """Sends and receives tables on one GPU of the machine."""

    def __init__(self, number: int) -> None:
        self.ctx = sa.context(f"cuda:{number}", exportable_pool=True)
        saeta.ray.receive_into(self.ctx)
        self.table: Any = None

    def make(self, every_type: bool) -> None:
        """Makes a table whose buffers lie in one allocation, as after reading a file."""
        source = arrow_data.table() if every_type else {"a": np.arange(ROWS)}
        made = sa.from_arrow(source, self.ctx) if every_type else sa.table(source, self.ctx)
        self.table = sa.unpack(*made.pack())

    def give(self) -> sa.Table:
        return self.table

    def drop(self) -> None:
        self.table = None

    def used(self) -> int:
        self.ctx.synchronize()
        return int(self.ctx.memory.statistics()["current"] or 0)

    def reset(self) -> None:
        self.ctx.reset_counters()

    def take(self, table: sa.Table) -> tuple[str, dict[str, int], int]:
        """Returns the device of the table, the bytes transferred for it, and its last value."""
        counted = self.ctx.counters()
        return table.device, {way: counted[way]["bytes"] for way in MOVEMENTS}, table["a"][-1]

    def equals(self, table: sa.Table) -> bool:
        return bool(table.to_arrow().equals(arrow_data.table()))


def start(number: int) -> Any:
    return ray.remote(num_cpus=0, enable_tensor_transport=True)(GpuActor).remote(number)


@pytest.fixture(scope="module")
def running() -> Iterator[None]:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    os.environ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] = "1"  # each actor sees all GPUs
    with cluster():
        yield


@pytest.mark.parametrize("every_type", [False, True])
def test_on_the_same_gpu_nothing_is_copied(running: None, every_type: bool) -> None:
    maker, user = start(0), start(0)
    ray.get(maker.make.remote(every_type))
    ray.get(maker.reset.remote())
    made = by_transport(maker.give).remote()
    if every_type:
        assert ray.get(user.equals.remote(made))
    else:
        ray.get(user.reset.remote())
        assert ray.get(user.take.remote(made)) == ("cuda:0", dict.fromkeys(MOVEMENTS, 0), ROWS - 1)
        assert ray.get(user.used.remote()) < 8 * ROWS  # less than a copy would take
    ray.get(maker.drop.remote())
    del made
    assert eventually(lambda: ray.get(maker.used.remote()) == 0)


def test_a_table_is_copied_once_to_another_gpu(running: None) -> None:
    if len(sa.contexts()) < 2:
        pytest.skip("the machine has one GPU")
    maker, user = start(0), start(1)
    ray.get(maker.make.remote(False))
    made = by_transport(maker.give).remote()
    ray.get(user.reset.remote())
    device, moved, last = ray.get(user.take.remote(made))
    assert (device, last) == ("cuda:1", ROWS - 1)
    assert 8 * ROWS <= sum(moved.values()) <= 8 * ROWS + 4096
    assert moved["device_to_host"] == 0


def test_tables_opened_from_a_killed_actor_stay_valid(running: None) -> None:
    maker, user = start(0), start(0)
    ray.get(maker.make.remote(False))
    kept = ray.get(by_transport(maker.give).remote())
    ray.kill(maker)
    assert kept["a"][-1] == ROWS - 1
    assert ray.get(user.used.remote()) == 0


@pytest.fixture
def folder(tmp_path: Any) -> Any:
    rows = pa.table({"a": np.arange(ROWS), "text": [f"x{row % 7}" for row in range(ROWS)]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=ROWS // 4)
    return tmp_path


def test_a_function_gets_tables_that_the_gpu_decoded(running: None, folder: Any) -> None:
    pytest.importorskip("pylibcudf")
    ctx = sa.context("cuda:0")
    seen: list[int] = []

    def few(table: sa.Table) -> sa.Table:
        assert table.device == "cuda:0"
        seen.append(ctx.counters()["device_to_host"]["bytes"])
        return table.select(["a"])[:10]

    source = ParquetDatasource(
        folder, columns=None, filters=None, schema=None, index=False, filesystem=None, partitioning="hive",
        engine="device", blocks=Blocks("cuda:0", few),
    )  # fmt: skip
    ctx.reset_counters()
    blocks = [block for task in source.get_read_tasks(4) for block in task()]
    assert [row for block in blocks for row in block["a"].to_pylist()] == [
        first + row for first in range(0, ROWS, ROWS // 4) for row in range(10)
    ]
    assert seen[0] < 1 << 10, "no column was downloaded before the function"
    assert ctx.counters()["device_to_host"]["bytes"] < 1 << 12, "only its results were"


def test_batches_of_cudf_become_tables_without_a_copy(running: None, folder: Any) -> None:
    pytest.importorskip("cudf")
    ctx = sa.context("cuda:0")
    batches = saeta.ray.read_parquet(folder).iter_batches(batch_size=ROWS // 2, batch_format="cudf")
    rows = []
    for batch in batches:
        ctx.reset_counters()
        with ctx.forbid_downloads():
            table = saeta.ray.collate(ctx)(batch)
        moved = ctx.counters()
        assert all(moved[way]["bytes"] == 0 for way in MOVEMENTS), moved
        rows += table["a"].to_pylist()
    assert sorted(rows) == list(range(ROWS))
