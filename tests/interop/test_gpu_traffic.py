"""Which operations copy data between host and CUDA device: proved by the transfer counters and by
addresses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import clean, copies

pytestmark = pytest.mark.gpu

FRAMEWORKS = ["torch", "cupy"]


@pytest.fixture
def cuda() -> Iterator[sa.Context]:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with clean("cuda") as ctx:
        yield ctx


def pointer(tensor):
    return tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.data.ptr


def take(name, column):
    framework = pytest.importorskip(name)
    return framework.from_dlpack(column)


def test_a_file_is_one_transfer(cuda, tmp_path):
    source = pa.table(
        {"a": np.arange(3000), "b": np.arange(3000.0), "s": [f"text {row}" for row in range(3000)]}
    )
    with pa.ipc.new_file(tmp_path / "x.arrow", source.schema) as writer:
        writer.write_table(source, max_chunksize=1000)
    table = sa.read_ipc(tmp_path / "x.arrow", cuda)
    counted = cuda.counters()
    assert counted["host_to_device"]["transfers"] == 1
    assert copies(cuda) == 1
    assert table.num_batches == 1
    assert cuda.memory.statistics()["buffers"] == 1
    assert table.to_arrow().equals(source)
    assert cuda.counters()["device_to_host"]["transfers"] == 1


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bool"]
)
def test_export_and_import_of_a_tensor_copy_nothing(cuda, name, dtype):
    column = sa.from_dlpack((np.arange(1000) % 2).astype(dtype), cuda)
    cuda.reset_counters()
    tensor = take(name, column.slice(100, 800))
    assert pointer(tensor) == column.address + 100 * column.type.byte_width
    back = sa.from_dlpack(tensor, cuda)
    assert back.address == pointer(tensor)
    counted = cuda.counters()
    assert copies(cuda) == 0
    assert (counted["allocations"], counted["synchronizations"]) == (0, 0)
    assert back.to_numpy().tolist() == column.to_numpy()[100:900].tolist()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_tensor_is_copied_under_the_budget_only_on_request(cuda, name):
    framework = pytest.importorskip(name)
    tensor = framework.arange(1000, device="cuda") if name == "torch" else framework.arange(1000)
    copied = sa.from_dlpack(tensor, cuda, copy=True)
    assert copied.address != pointer(tensor)
    assert cuda.counters()["device_to_device"]["transfers"] == 1
    assert cuda.memory.statistics()["own"] >= copied.nbytes
    assert copied.to_numpy().tolist() == list(range(1000))


def test_host_memory_takes_one_transfer_or_is_refused(cuda):
    values = np.arange(1000)
    with pytest.raises(sa.ExchangeError):
        sa.from_dlpack(values, cuda, copy=False)
    column = sa.from_dlpack(values, cuda)
    assert column.device.startswith("cuda")
    assert column.__dlpack_device__()[0] == 2
    assert cuda.counters()["host_to_device"]["transfers"] == 1


def test_tensors_are_imported_into_the_context_of_their_device(cuda):
    torch = pytest.importorskip("torch")
    assert sa.from_dlpack(torch.arange(3, device="cuda")).context == cuda
    assert sa.from_dlpack(torch.arange(3)).device == "host"


@pytest.mark.parametrize("stream", [0, -2])
def test_stream_numbers_that_dlpack_disallows_are_refused(cuda, stream):
    column = sa.from_dlpack(np.arange(3), cuda)
    with pytest.raises(ValueError, match="stream"):
        column.__dlpack__(stream=stream)


def test_null_counts_are_counted_on_the_device(cuda):
    source = pa.array([None if row % 3 == 0 else row for row in range(1000)])
    column = sa.from_arrow(source, cuda).slice(7, 500)
    cuda.reset_counters()
    assert column.null_count == source.slice(7, 500).null_count
    assert copies(cuda) == 0
