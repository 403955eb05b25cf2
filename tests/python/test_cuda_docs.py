"""docs/coming-from-pyarrow-cuda.md lists every name of pyarrow.cuda, and each name works in saeta.cuda."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cuda_module import DEVICES, cuda, opened

PAGE = (Path(__file__).resolve().parents[2] / "docs/coming-from-pyarrow-cuda.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.*?) \| (`.*?) \|(.*)\|$", PAGE, re.MULTILINE)
NAMES = [name for _, ours, _ in ROWS for name in re.findall(r"`([\w.]+)`", ours)]


@pytest.fixture(params=DEVICES)
def ctx(request: Any) -> Iterator[Any]:
    with opened(request.param) as found:
        yield found


def exported(ctx: Any) -> Any:
    """Exports a buffer. It is empty if the GPU's context was opened without an exportable pool, because only
    an empty buffer can be exported then (see tests/python/test_cuda_sharing.py)."""
    buffer = ctx.buffer_from_data(b"abc" if ctx.saeta.options["exportable_pool"] else b"")
    return buffer.export_for_ipc()


def written(ctx: Any) -> Any:
    target = ctx.buffer_from_data(bytes(16))
    writer = cuda.BufferWriter(target)
    writer.write(b"abc")
    return writer


def message(ctx: Any) -> Any:
    return cuda.serialize_record_batch(pa.record_batch({"a": [1, 2]}), ctx)


CALLS: dict[str, Callable[[Any], Any]] = {
    "Context": lambda ctx: cuda.Context(0).device_number == 0,
    "Context.get_num_devices": lambda ctx: cuda.Context.get_num_devices() > 0,
    "Context.device_number": lambda ctx: ctx.device_number == 0,
    "Context.handle": lambda ctx: isinstance(ctx.handle, int),
    "Context.bytes_allocated": lambda ctx: ctx.bytes_allocated >= 0,
    "Context.device": lambda ctx: not ctx.device.is_cpu,
    "Context.memory_manager": lambda ctx: not ctx.memory_manager.is_cpu,
    "Context.synchronize": lambda ctx: ctx.synchronize() is None,
    "Context.get_device_address": lambda ctx: (
        (made := ctx.new_buffer(8)) and ctx.get_device_address(made.address) == made.address
    ),
    "Context.new_buffer": lambda ctx: ctx.new_buffer(7).size == 7,
    "Context.buffer_from_data": lambda ctx: ctx.buffer_from_data(b"abc").to_pybytes() == b"abc",
    "Context.buffer_from_object": lambda ctx: ctx.buffer_from_object(cuda.new_host_buffer(3)).size == 3,
    "Context.foreign_buffer": lambda ctx: (
        (made := ctx.new_buffer(8)) and ctx.foreign_buffer(made.address, 8, made).size == 8
    ),
    "Context.open_ipc_buffer": lambda ctx: (
        (handle := exported(ctx)) and ctx.open_ipc_buffer(handle).to_pybytes() in (b"", b"abc")
    ),
    "CudaBuffer.from_buffer": lambda ctx: cuda.CudaBuffer.from_buffer(ctx.new_buffer(3)).size == 3,
    "CudaBuffer.copy_to_host": lambda ctx: ctx.buffer_from_data(b"abc").copy_to_host(1).to_pybytes() == b"bc",
    "CudaBuffer.copy_from_host": lambda ctx: ctx.new_buffer(3).copy_from_host(b"ab") == 2,
    "CudaBuffer.copy_from_device": lambda ctx: ctx.new_buffer(3).copy_from_device(ctx.new_buffer(2)) == 2,
    "CudaBuffer.export_for_ipc": lambda ctx: isinstance(exported(ctx), cuda.IpcMemHandle),
    "CudaBuffer.context": lambda ctx: ctx.new_buffer(3).context.device_number == 0,
    "CudaBuffer.slice": lambda ctx: ctx.new_buffer(3).slice(1, 1).size == 1,
    "CudaBuffer.to_pybytes": lambda ctx: ctx.buffer_from_data(b"abc").to_pybytes() == b"abc",
    "HostBuffer.size": lambda ctx: cuda.new_host_buffer(5).size == 5,
    "new_host_buffer": lambda ctx: cuda.new_host_buffer(5, 0).is_cpu,
    "IpcMemHandle.from_buffer": lambda ctx: isinstance(
        cuda.IpcMemHandle.from_buffer(exported(ctx).serialize()), cuda.IpcMemHandle
    ),
    "IpcMemHandle.serialize": lambda ctx: exported(ctx).serialize().is_cpu,
    "BufferReader": lambda ctx: cuda.BufferReader(ctx.buffer_from_data(b"abc")).read() == b"abc",
    "BufferReader.read_buffer": lambda ctx: cuda.BufferReader(ctx.new_buffer(3)).read_buffer(2).size == 2,
    "BufferWriter": lambda ctx: written(ctx).tell() == 3,
    "BufferWriter.writeat": lambda ctx: written(ctx).writeat(8, np.zeros(2, "u1")) is None,
    "BufferWriter.flush": lambda ctx: written(ctx).flush() is None,
    "BufferWriter.seek": lambda ctx: written(ctx).seek(1) == 1,
    "BufferWriter.buffer_size": lambda ctx: written(ctx).buffer_size == 0,
    "BufferWriter.num_bytes_buffered": lambda ctx: written(ctx).num_bytes_buffered == 0,
    "serialize_record_batch": lambda ctx: message(ctx).size > 0,
    "read_message": lambda ctx: cuda.read_message(message(ctx)).type == "record batch",
    "read_record_batch": lambda ctx: (
        cuda.read_record_batch(message(ctx), pa.schema({"a": pa.int64()})).num_rows == 2
    ),
}
# These need Numba on a GPU: tests/interop/test_gpu_cuda_module.py calls them.
OF_NUMBA = {"Context.to_numba", "Context.from_numba", "CudaBuffer.from_numba", "CudaBuffer.to_numba"}


def test_the_page_has_every_name_of_pyarrow_cuda() -> None:
    theirs = " ".join(names for names, _, _ in ROWS)
    for name in NAMES:
        assert f"{name}(" in theirs or f"{name}`" in theirs or name in theirs, name
    public = {
        f"{kind.__name__}.{name}"
        for kind in (cuda.Context, cuda.CudaBuffer, cuda.BufferReader, cuda.BufferWriter, cuda.IpcMemHandle)
        for name in vars(kind)
        if not name.startswith("_")
    }
    ours_alone = {
        "Context.saeta",
        "Context.from_saeta",
        "CudaBuffer.memory",
        "CudaBuffer.equals",
        "CudaBuffer.hex",
    }
    assert public - ours_alone <= set(NAMES)


def test_every_name_is_called() -> None:
    assert set(NAMES) == set(CALLS) | OF_NUMBA


@pytest.mark.parametrize("name", CALLS)
def test_the_name_works(ctx: Any, name: str) -> None:
    assert CALLS[name](ctx)
