"""Graph pools serve what CuPy and RMM allocate during a graph capture on a GPU."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import saeta as sa
import saeta.allocators
import saeta.rmm
from contexts import leaving_nothing
from gpu_frameworks import cupy_with_a_device, installed_rmm

MIB = 1 << 20


def test_a_graph_pool_block_is_entered_once_and_ends_with_an_error(anywhere):
    pool = saeta.allocators.graph_pool(anywhere, tag="decoder")
    assert isinstance(pool, saeta.allocators.GraphPool)
    with pool as entered:
        assert entered is pool
        with pytest.raises(sa.BusyError, match="is already open"):
            pool.__enter__()
        with pytest.raises(sa.BusyError, match="release it after the capture"):
            pool.release()
    with pytest.raises(LookupError), pool:
        raise LookupError
    assert pool.nbytes == 0
    pool.release()
    pool.release()


def test_a_graph_pool_can_be_exited_on_another_thread_and_dropped_while_open(host):
    pool = saeta.allocators.graph_pool(host)
    pool.__enter__()
    other = threading.Thread(target=pool.__exit__)
    other.start()
    other.join()
    pool.__enter__()
    del pool


@pytest.fixture
def gpu():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with leaving_nothing(sa.context("cuda")) as ctx:
        yield ctx


@contextmanager
def cupy_capture(cupy, stream):
    """Captures the block as a graph. Yields a function that launches it."""
    graphs = []
    stream.begin_capture()
    yield lambda: graphs[0].launch(stream)
    graphs.append(stream.end_capture())


@pytest.fixture
def on_saeta(gpu):
    cupy = cupy_with_a_device()
    with cupy.cuda.using_allocator(saeta.allocators.cupy_allocator(gpu)):
        yield cupy


@pytest.mark.gpu
@pytest.mark.parametrize("non_blocking", [True, False])
def test_cupy_captures_code_that_allocates(gpu, on_saeta, non_blocking):
    cupy = on_saeta
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    pool = saeta.allocators.graph_pool(gpu, tag="cupy.graph")
    with stream:
        source = cupy.zeros(MIB, dtype="i4")
        (source * 2 + 3) * source  # compiles the kernels before the capture
        stream.synchronize()
        with pool, cupy_capture(cupy, stream) as launch:
            result = (source * 2 + 3) * source
        assert pool.nbytes == 2 * 4 * MIB, "the result reuses the memory of the first temporary"
        for number in range(100):
            source.fill(number)
            launch()
            other = cupy.full(MIB, number, dtype="i4")  # must not get the graph's memory
            np.testing.assert_array_equal(result[::4096].get(), (2 * number + 3) * number)
            assert int(other.min()) == int(other.max()) == number
    assert gpu.memory.by_tag()["cupy.graph"] == pool.nbytes
    stream.synchronize()
    del launch, source, other
    pool.release()
    gpu.synchronize()
    assert gpu.memory.by_tag()["cupy.graph"] == 4 * MIB, "the result still uses its memory"
    del result
    gpu.synchronize()
    assert "cupy.graph" not in gpu.memory.by_tag()


@pytest.mark.gpu
def test_an_allocation_without_a_graph_pool_is_refused_and_the_capture_goes_on(gpu, on_saeta):
    cupy = on_saeta
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        source = cupy.zeros(MIB, dtype="i4")
        source += 1
        stream.synchronize()
        with cupy_capture(cupy, stream) as launch:
            with pytest.raises(sa.InvalidError, match=r"saeta\.allocators\.graph_pool"):
                cupy.empty(MIB)
            source += 1
        launch()
        assert int(source[0].get()) == 2
    del source, launch


@pytest.mark.gpu
def test_rmm_allocates_from_a_graph_pool_while_cupy_captures(gpu):
    cupy = cupy_with_a_device()
    rmm = installed_rmm()
    resource = saeta.rmm.resource(gpu, tag="rmm")
    stream = cupy.cuda.Stream(non_blocking=True)
    of_rmm = rmm.pylibrmm.stream.Stream(stream)
    pool = saeta.allocators.graph_pool(gpu, tag="rmm.graph")
    source = rmm.DeviceBuffer.to_device(bytes(range(256)) * 4096, stream=of_rmm)
    with pool, cupy_capture(cupy, stream) as launch:
        temporary = rmm.DeviceBuffer(size=MIB, stream=of_rmm, mr=resource)
        first = temporary.ptr
        cupy.cuda.runtime.memcpyAsync(first, source.ptr, MIB, 3, stream.ptr)
        result = rmm.DeviceBuffer(size=MIB, stream=of_rmm, mr=resource)
        cupy.cuda.runtime.memcpyAsync(result.ptr, first, MIB, 3, stream.ptr)
        del temporary
        again = rmm.DeviceBuffer(size=MIB, stream=of_rmm, mr=resource)
        assert again.ptr == first
        cupy.cuda.runtime.memsetAsync(again.ptr, 7, MIB, stream.ptr)
        del again
    assert gpu.memory.by_tag()["rmm.graph"] == 2 * MIB
    for _ in range(100):
        launch()
    stream.synchronize()
    assert result.copy_to_host(stream=of_rmm).tobytes() == bytes(range(256)) * 4096
    del result, launch
    pool.release()
    gpu.synchronize()
    assert "rmm.graph" not in gpu.memory.by_tag()
