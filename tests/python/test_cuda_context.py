"""saeta.cuda.Context has the documented arguments, results and errors of pyarrow.cuda.Context."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from cuda_module import DEVICES, KINDS, cuda, opened, simulated


@pytest.fixture(params=KINDS)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


@pytest.fixture(params=DEVICES)
def gpu(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


def test_a_device_is_opened_by_its_number(gpu: Any) -> None:
    assert cuda.Context.get_num_devices() > 0
    assert gpu.device_number == 0
    assert cuda.Context().device_number == 0
    assert cuda.Context(device_number=0).saeta is not None
    for number in (-1, cuda.Context.get_num_devices()):
        with pytest.raises(ValueError, match="device_number argument must be non-negative less than"):
            cuda.Context(number)


def test_every_device_has_its_own_number() -> None:
    with simulated(3):
        contexts = [cuda.Context(number) for number in range(3)]
        assert [each.device_number for each in contexts] == [0, 1, 2]
        buffers = [each.new_buffer(8) for each in contexts]
        assert [each.context.device_number for each in buffers] == [0, 1, 2]
        assert [each.device.device_id for each in buffers] == [0, 1, 2]
        assert contexts[0].device != contexts[1].device


def test_a_context_of_another_library_must_be_the_primary_one(gpu: Any) -> None:
    assert cuda.Context(0, gpu.handle).handle == gpu.handle
    with pytest.raises(ValueError, match="is not the primary context of device 0"):
        cuda.Context(0, gpu.handle + 64)


def test_without_a_gpu_the_number_of_devices_is_0() -> None:
    if sa.info()["cuda"]["usable"]:
        pytest.skip("there is a GPU")
    assert cuda.Context.get_num_devices() == 0
    with pytest.raises(ValueError, match="less than 0"):
        cuda.Context()


def test_bytes_allocated_counts_buffers_to_the_byte(ctx: Any) -> None:
    before = ctx.bytes_allocated
    kept = ctx.new_buffer(128)
    assert ctx.bytes_allocated == before + 128
    more = ctx.new_buffer(1000)
    assert ctx.bytes_allocated == before + 1128
    assert cuda.Context.from_saeta(ctx.saeta).bytes_allocated == before + 1128, (
        "all contexts of a device count the same bytes"
    )
    assert kept.context.bytes_allocated == before + 1128
    part = kept.slice(10, 20)
    del kept
    assert ctx.bytes_allocated == before + 1128, "a slice keeps its buffer alive"
    del part, more
    assert ctx.bytes_allocated == before


def test_memory_is_charged_to_the_budget_of_the_device(ctx: Any) -> None:
    home = ctx.saeta
    before = home.memory.statistics()["current"]
    kept = ctx.new_buffer(4096)
    assert home.memory.statistics()["current"] == before + 4096
    assert home.memory.by_tag()["saeta.cuda"] >= 4096
    home.memory.limit = before + 8192
    try:
        with pytest.raises(MemoryError) as refused:
            ctx.new_buffer(1 << 20)
    finally:
        home.memory.limit = None
    assert isinstance(refused.value, sa.BudgetExceeded)
    assert refused.value.requested == 1 << 20
    del kept


def test_new_buffer_refuses_negative_sizes(ctx: Any) -> None:
    with pytest.raises(ValueError, match="-1"):
        ctx.new_buffer(-1)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_buffer_from_data_copies_any_buffer(ctx: Any, size: int) -> None:
    values = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    page_locked = cuda.new_host_buffer(size)
    np.frombuffer(page_locked, dtype=np.uint8)[:] = values
    device = ctx.buffer_from_data(values)
    for data in (values, values.tobytes(), bytearray(values), pa.py_buffer(values), page_locked, device):
        buffer = ctx.buffer_from_data(data)
        assert buffer.size == size
        assert buffer.to_pybytes() == values.tobytes()
        part = ctx.buffer_from_data(data, offset=size // 4, size=size // 2)
        assert part.to_pybytes() == values[size // 4 : size // 4 + size // 2].tobytes()
        rest = ctx.buffer_from_data(data, offset=size // 4)
        assert rest.to_pybytes() == values[size // 4 :].tobytes()
    device.copy_from_host(bytes(size))
    assert buffer.to_pybytes() == values.tobytes(), "a copy"


def test_buffer_from_data_checks_its_range(ctx: Any) -> None:
    for offset in (-1, 10, 11):
        with pytest.raises(ValueError, match="offset argument is out-of-range"):
            ctx.buffer_from_data(bytes(10), offset=offset)
    with pytest.raises(ValueError, match="requested larger slice than available"):
        ctx.buffer_from_data(bytes(10), offset=5, size=6)
    with pytest.raises(TypeError):
        ctx.buffer_from_data(3)


def test_buffer_from_object_shows_buffers(ctx: Any) -> None:
    buffer = ctx.buffer_from_data(b"0123456789")
    same = ctx.buffer_from_object(buffer)
    assert same.address == buffer.address
    same.copy_from_host(b"abc")
    assert buffer.to_pybytes() == b"abc3456789"
    page_locked = cuda.new_host_buffer(4)
    np.frombuffer(page_locked, dtype=np.uint8)[:] = [1, 2, 3, 4]
    assert ctx.buffer_from_object(page_locked).to_pybytes() == bytes([1, 2, 3, 4])


def test_buffer_from_object_refuses_host_memory(gpu: Any) -> None:
    with pytest.raises(pa.ArrowTypeError, match="buffer is not backed by a CudaBuffer"):
        gpu.buffer_from_object(pa.py_buffer(b"123"))
    with pytest.raises(pa.ArrowTypeError, match=r"cannot create device buffer view from .*numpy.ndarray"):
        gpu.buffer_from_object(np.array([1, 2, 3]))


class Described:
    """An object with the CUDA Array Interface over a buffer."""

    def __init__(self, buffer: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "data": (buffer.address if buffer.size else 0, False),
            "shape": shape,
            "strides": strides,
            "typestr": "<i4",
            "version": 3,
        }


def test_buffer_from_object_takes_the_cuda_array_interface(ctx: Any) -> None:
    content = np.arange(24, dtype="i4")
    held = ctx.buffer_from_data(content)
    for shape, strides in [((24,), None), ((24,), (4,)), ((4, 6), (24, 4)), ((2, 3, 4), None)]:
        view = ctx.buffer_from_object(Described(held, shape, strides))
        assert view.address == held.address
        assert view.to_pybytes() == content.tobytes()
    with pytest.raises(ValueError, match="array data is non-contiguous"):
        ctx.buffer_from_object(Described(held, (12,), (8,)))
    assert ctx.buffer_from_object(Described(ctx.new_buffer(0), (0,))).size == 0


def test_a_foreign_buffer_keeps_its_base_alive(ctx: Any) -> None:
    class Base:
        """Records when it is destroyed."""

        def __init__(self, gone: list[bool], memory: Any) -> None:
            self.gone, self.memory = gone, memory

        def __del__(self) -> None:
            self.gone.append(True)

    gone: list[bool] = []
    held = ctx.buffer_from_data(b"0123456789")
    view = ctx.foreign_buffer(held.address, 10, Base(gone, held))
    assert (view.address, view.size) == (held.address, 10)
    assert view.to_pybytes() == b"0123456789"
    part = view.slice(2, 3)
    del view
    ctx.synchronize()
    assert not gone
    assert part.to_pybytes() == b"234"
    del part
    ctx.synchronize()
    assert gone


def test_a_foreign_buffer_may_have_no_base(ctx: Any) -> None:
    held = ctx.buffer_from_data(b"0123456789")
    view = ctx.foreign_buffer(held.address + 2, 5)
    assert view.to_pybytes() == b"23456"
    view.copy_from_host(b"ab")
    assert held.to_pybytes() == b"01ab456789"


def test_foreign_buffers_are_checked(gpu: Any) -> None:
    assert gpu.foreign_buffer(0, 0).size == 0
    held = gpu.new_buffer(8)
    with pytest.raises(ValueError, match="-3"):
        gpu.foreign_buffer(held.address, -3)
    with pytest.raises(ValueError, match="5 bytes at address 0"):
        gpu.foreign_buffer(0, 5)
    pageable = np.zeros(8)
    with pytest.raises(OSError, match=r"not memory that .* can reach"):
        gpu.foreign_buffer(pageable.ctypes.data, 8, pageable)
    with pytest.raises(OSError, match=hex(pageable.ctypes.data)):
        gpu.get_device_address(pageable.ctypes.data)


def test_get_device_address_returns_the_address_for_kernels(gpu: Any) -> None:
    held = gpu.new_buffer(8)
    assert gpu.get_device_address(held.address) == held.address
    page_locked = cuda.new_host_buffer(8)
    assert gpu.get_device_address(page_locked.address) == page_locked.address


def test_a_buffer_outlives_its_context_object(ctx: Any) -> None:
    buffer = cuda.Context.from_saeta(ctx.saeta).buffer_from_data(b"still here")
    assert buffer.to_pybytes() == b"still here"
    assert buffer.context.device_number == ctx.device_number


def test_a_forked_child_has_its_own_memory(run_python: Any) -> None:
    program = """
        import os
        import saeta as sa
        import saeta.cuda as cuda

        ctx = cuda.Context.from_saeta(sa.context("host"))
        kept = ctx.buffer_from_data(b"of the parent")
        child = os.fork()
        if child == 0:
            made = ctx.buffer_from_data(b"of the child")
            assert ctx.bytes_allocated == 12, ctx.bytes_allocated
            assert made.to_pybytes() == b"of the child"
            os._exit(0)
        print(os.waitpid(child, 0)[1], ctx.bytes_allocated)
    """
    assert run_python(textwrap.dedent(program)).stdout.split() == ["0", "13"]


def test_the_memory_manager_is_pyarrows(gpu: Any) -> None:
    manager = gpu.memory_manager
    assert isinstance(manager, pa.MemoryManager)
    assert not manager.is_cpu
    assert isinstance(gpu.device, pa.Device)
    assert gpu.device == manager.device
    assert not gpu.device.is_cpu
    assert gpu.device.device_id == 0


@pytest.mark.gpu
def test_a_gpu_has_arrows_device_type() -> None:
    with opened("cuda") as ctx:
        assert ctx.handle > 0
        assert ctx.device.device_type == pa.DeviceAllocationType.CUDA
        assert "<pyarrow.MemoryManager device: CudaDevice" in repr(ctx.memory_manager)
        assert ctx.device.type_name == "arrow::cuda::CudaDevice"


def test_repr_names_the_device(ctx: Any) -> None:
    assert ctx.saeta.device in repr(ctx)
