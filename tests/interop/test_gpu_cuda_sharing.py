"""Device memory shared between processes on GPUs, with pending CuPy work and with several GPUs. Tests that
need neither are in tests/python/test_cuda_sharing.py.

A kernel that spins for some 5 ms runs before each tested access. To see the first test fail, remove the lease
in `answer` (saeta/share/broker.cpp).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cuda_module import cuda, opened
from cuda_peer import Peer, handle
from gpu_frameworks import cupy_spinner, cupy_with_a_device

pytestmark = pytest.mark.gpu

ROUNDS = 100
ROWS = 1 << 16
SPIN_CYCLES = 10_000_000  # some 5 ms


@pytest.fixture
def ctx() -> Iterator[Any]:
    with opened("cuda") as found:
        yield found


def test_the_exporter_keeps_memory_until_pending_reads_are_done(ctx: Any) -> None:
    cupy = cupy_with_a_device()
    spin = cupy_spinner(cupy)
    side = cupy.cuda.Stream(non_blocking=True)
    with Peer("cuda") as exporter:
        for value in range(1, ROUNDS + 1):
            text = exporter.run(
                f"made = ctx.buffer_from_data(np.full({ROWS}, {value}, dtype='i4'))\nresult = export(made)"
            )
            opened = ctx.open_ipc_buffer(handle(text))
            memory = cupy.cuda.UnownedMemory(opened.address, opened.size, None, 0)
            array = cupy.ndarray((ROWS,), cupy.int32, cupy.cuda.MemoryPointer(memory, 0))
            with side:
                spin(SPIN_CYCLES)
                total = array.sum(dtype=cupy.int64)
            del opened
            exporter.run(
                f"del made\nothers = [ctx.buffer_from_data(b'\\xff' * {4 * ROWS}) for _ in range(8)]\n"
                "del others"
            )
            assert int(total.get(stream=side)) == value * ROWS, value
        ctx.synchronize()
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True
    assert (exporter.code, exporter.errors) == (0, "")


def test_an_export_waits_for_pending_writes() -> None:
    """The pending write and the export are in the other process, whose pool is exportable."""
    cupy_with_a_device()
    with Peer("cuda") as exporter, opened("cuda") as here:
        exporter.run(
            "from gpu_frameworks import cupy_spinner, cupy_with_a_device\n"
            "cupy = cupy_with_a_device()\n"
            "spin = cupy_spinner(cupy)\n"
            "side = cupy.cuda.Stream(non_blocking=True)\n"
            f"made = ctx.new_buffer(4 * {ROWS})\n"
            "memory = cupy.cuda.UnownedMemory(made.address, made.size, made, 0)\n"
            f"array = cupy.ndarray(({ROWS},), cupy.int32, cupy.cuda.MemoryPointer(memory, 0))\n"
        )
        for value in range(1, ROUNDS + 1):
            text = exporter.run(
                f"with side:\n    spin({SPIN_CYCLES})\n    array.fill({value})\nresult = export(made)"
            )
            values = np.frombuffer(here.open_ipc_buffer(handle(text)).copy_to_host(), dtype="i4")
            assert (values == value).all(), value


def test_memory_is_matched_by_its_physical_device_not_its_ordinal() -> None:
    if cuda.Context.get_num_devices() < 2:
        pytest.skip("the machine has one GPU")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
    with Peer("cuda", CUDA_VISIBLE_DEVICES=visible[1]) as exporter:
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        assert exporter.run("result = ctx.device_number") == 0
        with pytest.raises(pa.ArrowInvalid, match="memory of another device than cuda:0"):
            cuda.Context(0).open_ipc_buffer(handle(text))
        opened = cuda.Context(1).open_ipc_buffer(handle(text))
        assert opened.to_pybytes() == b"abc"
        assert opened.context.device_number == 1
        assert cuda.Context(0).buffer_from_data(opened).to_pybytes() == b"abc", "the copy is from GPU to GPU"
        del opened
        cuda.Context(1).synchronize()
        exporter.run("del made\ngc.collect()")
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True


def test_shared_memory_returns_to_the_driver(ctx: Any) -> None:
    """After 100 shared slabs of 32 MiB, the driver reports as much free memory as before, in both
    processes."""

    def free() -> int:
        ctx.saeta.memory.trim()
        return int(cupy.cuda.Device().mem_info[0])

    cupy = cupy_with_a_device()
    with Peer("cuda") as exporter:
        exporter.run("made = ctx.buffer_from_data(bytes(1))\ntext = export(made)")
        ctx.open_ipc_buffer(handle(exporter.run("result = text"))).to_pybytes()
        exporter.run("def trim():\n    ctx.synchronize()\n    ctx.saeta.memory.trim()\n")
        exporter.run("trim()")
        before = free()
        for turn in range(100):
            text = exporter.run("big = ctx.new_buffer(32 << 20)\nresult = export(big)")
            opened = ctx.open_ipc_buffer(handle(text))
            opened.copy_from_host(bytes([turn]))
            exporter.run("del big\ngc.collect()")
            del opened
            ctx.synchronize()
            assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated <= 1)") is True
        exporter.run("trim()")
        assert free() >= before - (64 << 20)
