"""Tables and tensors copied from one GPU to another while torch works on its own streams. Needs two GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa

pytestmark = pytest.mark.gpu

ROUNDS = 50
ROWS = 1 << 20
CYCLES = 20_000_000  # some 10 ms


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if found.cuda.device_count() < 2:
        pytest.skip("one GPU alone")
    return found


@pytest.fixture
def pair(torch: Any) -> list[sa.Context]:
    return sa.contexts()[:2]


def test_every_type_is_copied_to_another_gpu_and_back(torch: Any, pair: list[sa.Context]) -> None:
    first, second = pair
    source = pa.table(arrow_data.arrays())
    second.reset_counters()
    moved = sa.table(source, first).to(second)
    counted = second.counters()
    direct = torch.cuda.can_device_access_peer(1, 0)
    assert (counted["peer_to_device"]["transfers"], counted["staged"]) == ((1, 0) if direct else (0, 1))
    assert moved.to_arrow().equals(source)
    assert moved.to("cuda:0").to_arrow().equals(source)


def test_many_columns_of_several_batches_are_copied_in_windows(pair: list[sa.Context]) -> None:
    first, second = pair
    values = np.arange(64 * 50_000, dtype="i8").reshape(64, -1)
    batch = sa.table({f"c{number}": each for number, each in enumerate(values)}, first)
    whole = sa.concat_tables([batch, batch[7:], batch])
    moved = whole.to(second)
    for number in (0, 31, 63):
        expected = np.concatenate([values[number], values[number][7:], values[number]])
        assert np.array_equal(moved[f"c{number}"].to_numpy(), expected)


def test_copying_a_tensor_waits_for_pending_writes(torch: Any, pair: list[sa.Context]) -> None:
    side = torch.cuda.Stream(device=1)
    for value in range(ROUNDS):
        with torch.cuda.stream(side):
            tensor = torch.zeros(ROWS, dtype=torch.int32, device="cuda:1")
            torch.cuda._sleep(CYCLES)
            tensor.fill_(value)
            column = sa.from_dlpack(tensor, pair[0], copy=True)
        assert column.device == "cuda:0"
        assert int(torch.from_dlpack(column).sum()) == value * ROWS


def test_a_tensor_of_another_gpu_is_refused_without_a_copy(torch: Any, pair: list[sa.Context]) -> None:
    tensor = torch.ones(8, device="cuda:1")
    for copy in (None, False):
        with pytest.raises(sa.ExchangeError, match=r"copy=True.*Column\.to"):
            sa.from_dlpack(tensor, pair[0], copy=copy)
    assert sa.column(tensor, pair[0], name="x").device == "cuda:0"
    assert sa.table({"x": tensor, "y": [1.0] * 8}, pair[0])["x"].to_pylist() == [1.0] * 8
    matrix = torch.arange(6, device="cuda:1").reshape(3, 2)
    assert sa.table(matrix, "cuda:0")["col_1"].to_pylist() == [1, 3, 5]


def test_device_arrays_of_another_gpu_are_copied(pair: list[sa.Context]) -> None:
    first, second = pair
    source = pa.table(arrow_data.arrays())
    table = sa.table(source, first)
    for given in (table, table.__arrow_c_device_stream__()):
        taken = sa.from_arrow(given, second)
        assert taken.device == "cuda:1"
        assert taken.to_arrow().equals(source)
    with pytest.raises(sa.ExchangeError, match=r'to\("cuda:1"\)'):
        sa.from_arrow(table, second, copy=False)
    for there in (table, taken):
        for given in (there, there.__arrow_c_device_stream__()):
            again = sa.from_arrow(given)
            assert (again.context, again["int64"].address) == (there.context, there["int64"].address)


def test_memory_is_not_reused_before_the_other_gpu_has_read_it(torch: Any, pair: list[sa.Context]) -> None:
    first, second = pair
    for value in range(ROUNDS):
        tensor = torch.full((ROWS,), value, dtype=torch.int32, device="cuda:0")
        column = sa.from_dlpack(tensor, first, copy=True)
        del tensor
        moved = column.to(second)
        del column
        noise = sa.from_dlpack(torch.full((ROWS,), -1, dtype=torch.int32, device="cuda:0"), first, copy=True)
        assert int(torch.from_dlpack(moved).sum()) == value * ROWS
        del noise, moved


def test_torch_reads_moved_columns_after_the_copy(torch: Any, pair: list[sa.Context]) -> None:
    first, second = pair
    side = torch.cuda.Stream(device=0)
    for value in range(ROUNDS):
        with torch.cuda.stream(side):
            tensor = torch.zeros(ROWS, dtype=torch.int32, device="cuda:0")
            torch.cuda._sleep(CYCLES)
            tensor.fill_(value)
            table = sa.table({"x": tensor, "y": tensor}, first)
        with torch.cuda.device(1):
            seen = torch.from_dlpack(table.to(second)["y"])
            assert int(seen.sum()) == value * ROWS


@pytest.mark.parametrize("by", ["files", "bytes"])
def test_a_data_set_is_distributed_over_both_gpus(tmp_path: Any, pair: list[sa.Context], by: Any) -> None:
    for number in range(6):
        rows = np.arange(100_000 * number, 100_000 * (number + 1))
        sa.table({"n": rows}, "host").write_ipc(tmp_path / f"{number}.arrow")
    placed = sa.place(tmp_path, pair, by=by)
    assert [part.device for part in placed] == ["cuda:0", "cuda:1"]
    together = np.sort(np.concatenate([part["n"].to_numpy() for part in placed]))
    assert np.array_equal(together, np.arange(600_000))
