"""The serialisation families "dask" and "cuda" of distributed, for tables and columns in the packed form.

Family "dask": a frame with the metadata and a frame with the body, in host memory. Family "cuda": the
metadata in the header, and the body in device memory. If the transport can send GPU memory, distributed tries
"cuda" first; for a table on the host it then falls back to "dask".

If deserialization raises anything but an OSError, distributed leaves the waiting task without a result for
ever. Therefore received bytes are not charged to a worker's budget, and a received table that does not fit
raises an OSError, after which the worker requests it again. For an invalid table the task gets an object that
raises an error when it is used (`_refused.py`).
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from distributed.protocol import cuda_deserialize, cuda_serialize, dask_deserialize, dask_serialize

from saeta import _core
from saeta._core import Column, Table, context
from saeta._share.packed import host_bytes, pack, unpack
from saeta._use import use
from saeta.dask._contexts import worker_context
from saeta.dask._refused import arrived_refused

_log = logging.getLogger("saeta.dask")
_KINDS = (Table, Column)
Header: TypeAlias = dict[str, Any]  # values that msgpack can encode


def register() -> None:
    dask_serialize.register(_KINDS, serialize_on_host)
    dask_deserialize.register(_KINDS, restore_from_host)
    cuda_serialize.register(_KINDS, serialize_on_device)
    cuda_deserialize.register(_KINDS, restore_from_device)


def serialize_on_host(source: Table | Column) -> tuple[Header, list[Any]]:
    """Returns header and frames in host memory, ready to be read."""
    table = _as_table(source)
    metadata, body = pack(table.to(context("host")))
    # distributed receives all frames up to the first one that is not `bytes` into one buffer, and each later
    # frame into its own. With the metadata as that frame, the body starts at an aligned address and needs no
    # copy.
    return _header(source, table), [bytearray(metadata), host_bytes(body)]


def _arriving(restore: Callable[[Header, list[Any]], Table | Column]) -> Callable[[Header, list[Any]], Any]:
    """Wraps a deserializer so that it raises exceptions that distributed can handle."""

    @functools.wraps(restore)
    def arrive(header: Header, frames: list[Any]) -> Any:
        try:
            return restore(header, frames)
        except OSError:
            raise
        except MemoryError as refused:
            raise OSError(f"a table has arrived that does not fit: {refused}") from refused
        except Exception as refused:
            text = f"a table has arrived that can't be read: {type(refused).__name__}: {refused}"
            _log.exception("%s", text)
            return arrived_refused(text)

    return arrive


@_arriving
def restore_from_host(header: Header, frames: list[Any]) -> Table | Column:
    metadata, body = frames
    table = unpack(metadata, body, context("host"))
    where = worker_context("host" if header["device"] == "host" else None)
    return _restored(header, table.to(where))


def serialize_on_device(source: Table | Column) -> tuple[Header, list[Any]]:
    """Returns the header and device memory without pending work.

    The transport does not use Saeta's streams: UCXX synchronises only the default stream.
    """
    table = _as_table(source)
    if table.device == "host":
        raise NotImplementedError("memory of the host is sent by the family dask")
    try:
        metadata, body = pack(table)
        frames = [_complete(body)] if len(body) else []
    except MemoryError as refused:  # raised by the budget, the device or RMM
        raise NotImplementedError("no room to gather it: sent by the family dask") from refused
    return {**_header(source, table), "metadata": metadata}, frames


def _complete(body: Column) -> Any:
    """Waits for pending work on a body. Returns it in memory that UCX can send from GPU to GPU.

    Memory of the driver's pool has no CUDA IPC handle, and UCX 1.21 sends it through sockets, a thousand
    times slower than the link. Such a body is copied into RMM memory, which UCXX also uses for receiving.
    """
    with use(reads=[body]) as token:
        token.synchronize()
        if "ucxx" not in sys.modules or _has_ipc_handle(body.address):
            return body
        import rmm

        return rmm.DeviceBuffer(ptr=body.address, size=len(body))  # a synchronous copy


def _has_ipc_handle(address: int) -> bool:
    from cuda.bindings import driver

    capable = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
    _, capability = driver.cuPointerGetAttribute(capable, address)
    return bool(capability)


@_arriving
def restore_from_device(header: Header, frames: list[Any]) -> Table | Column:
    body = ReceivedBytes(frames[0]) if frames else b""
    return _restored(header, unpack(header["metadata"], body, worker_context()))


class ReceivedBytes:
    """A completely received frame in device memory, for which no stream must wait.

    The transport chooses the frame's class. RMM's exports version 0 of the CUDA Array Interface.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame  # keeps the memory alive

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        pointer, read_only = self._frame.__cuda_array_interface__["data"]
        return {
            "version": 3,
            "shape": (self._frame.nbytes,),
            "typestr": "|u1",
            "data": (pointer, read_only),
            "stream": None,
        }


def _as_table(source: Table | Column) -> Table:
    return source if isinstance(source, Table) else _core._from_columns(source.context, [source])


def _header(source: Table | Column, table: Table) -> Header:
    """Returns the header, with the kind of the table's device, on which the receiver restores it."""
    return {"device": table.device, "column": isinstance(source, Column)}


def _restored(header: Header, table: Table) -> Table | Column:
    return table.column(0) if header["column"] else table
