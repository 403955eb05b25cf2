"""The tools to compare with, if installed: pyarrow with torch or CuPy, and NumPy on the host."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saeta.bench.data import buffers_of


class Peer:
    """Copies host buffers to the device one by one, and back."""

    def __init__(
        self, name: str, put: Callable[[Any], Any], get: Callable[[Any], Any], wait: Callable[[], object]
    ) -> None:
        self.name = name
        self._put = put
        self._get = get
        self._wait = wait

    def load(self, table: Any) -> list[Any]:
        """Copies every buffer of a pyarrow table to the device."""
        there = [self._put(buffer) for buffer in buffers_of(table)]
        self._wait()
        return there

    def unload(self, there: list[Any]) -> list[Any]:
        """Copies arrays to the host."""
        here = [self._get(each) for each in there]
        self._wait()
        return here


def read(path: Path, *, mapped: bool = True) -> Any:
    """Reads a file with pyarrow, as views of the mapping or as decoded memory."""
    source = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
    return pa.ipc.open_file(source).read_all()


def batches(path: Path) -> Iterator[Any]:
    """Reads the batches of a file with pyarrow, one by one."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def find_peers(device: str) -> tuple[list[Peer], list[str]]:
    """Returns the peers of a device, and the reasons why others can't be measured."""
    if device == "host":
        return [
            Peer("NumPy", lambda buffer: np.frombuffer(buffer, np.uint8).copy(), np.copy, lambda: None)
        ], []
    made, missing = [], []
    for name, make in (("torch", _torch), ("cupy", _cupy)):
        try:
            made.append(make(importlib.import_module(name), int(device.partition(":")[2] or 0)))
        except Exception as failure:  # a broken installation can raise any exception
            missing.append(f"{name}: {failure}")
    return made, missing


def _torch(torch: Any, ordinal: int) -> Peer:
    where = torch.device("cuda", ordinal)
    torch.zeros(1, device=where)

    def put(buffer: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the buffer is read-only, and it is only read here
            # Goes through NumPy, because torch.frombuffer refuses pyarrow's read-only buffers.
            return torch.from_numpy(np.frombuffer(buffer, np.uint8)).to(where)

    return Peer("torch", put, lambda tensor: tensor.cpu(), lambda: torch.cuda.synchronize(where))


def _cupy(cupy: Any, ordinal: int) -> Peer:
    device = cupy.cuda.Device(ordinal)
    device.use()
    cupy.zeros(1)
    return Peer(
        "CuPy",
        lambda buffer: cupy.asarray(np.frombuffer(buffer, np.uint8)),
        lambda array: array.get(),
        device.synchronize,
    )
