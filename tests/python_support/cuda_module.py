"""Contexts of saeta.cuda on host memory, on simulated devices and on a GPU."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import simulator

cuda = pytest.importorskip("saeta.cuda", exc_type=ImportError)

KINDS = ["host", "sim", pytest.param("cuda", marks=pytest.mark.gpu)]
CPU = pa.default_cpu_memory_manager()
DEVICES = ["sim", pytest.param("cuda", marks=pytest.mark.gpu)]


@contextmanager
def simulated(count: int = 1, exportable: bool = True) -> Iterator[list[Any]]:
    """Yields simulated devices of one machine, which saeta.cuda uses as GPUs. A data race is a failure."""
    from saeta.cuda import _devices

    devices: list[Any] = []
    for number in range(count):
        devices.append(simulator().Device(number, devices[0] if devices else None, exportable))
    _devices.stand_ins.update({number: each.context for number, each in enumerate(devices)})
    try:
        yield devices
    finally:
        gc.collect()
        _devices.stand_ins.clear()
    for each in devices:
        assert each.races == [], each.races


@contextmanager
def opened(kind: str) -> Iterator[Any]:
    """Yields a saeta.cuda.Context, which must hold no memory when the block ends."""
    if kind == "sim":
        with simulated(), leaving_nothing(cuda.Context(0)) as ctx:
            yield ctx
    elif kind == "host":
        with leaving_nothing(cuda.Context.from_saeta(sa.context("host"))) as ctx:
            yield ctx
    else:
        if not sa.info()["cuda"]["usable"]:
            pytest.skip("no usable CUDA device")
        with leaving_nothing(cuda.Context(0)) as ctx:
            yield ctx


@contextmanager
def leaving_nothing(ctx: Any) -> Iterator[Any]:
    before = ctx.bytes_allocated
    yield ctx
    gc.collect()
    assert ctx.bytes_allocated == before


def run_pyarrows_tests(suite: str, chosen: str, path: Path) -> str:
    """Runs tests of `pyarrow.tests` in a new process with `path` first in sys.path. Returns pytest's
    output."""
    if importlib.util.find_spec(f"pyarrow.tests.{suite}") is None:
        pytest.skip("this pyarrow comes without its tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-k", chosen, "--pyargs", f"pyarrow.tests.{suite}"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), *sys.path])},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def example() -> pa.RecordBatch:
    """Returns a batch with known null counts. pyarrow counts unknown ones on the CPU, where it would read
    device memory."""
    return pa.record_batch(
        {
            "ints": pa.array([1, None, 3, 4], pa.int32()),
            "floats": pa.array([0.5, 1.5, None, 2.5]),
            "bools": pa.array([True, None, False, True]),
            "words": pa.array(["a", None, "ccc", ""]),
            "large": pa.array(["a", None, "ccc", ""], pa.large_string()),
            "binary": pa.array([b"a", None, b"ccc", b""]),
            "lists": pa.array([[1, 2], None, [], [None, 4]], pa.list_(pa.int64())),
            "fixed": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
            "structs": pa.array([{"x": 1, "y": "p"}, None, {"x": None, "y": "q"}, {"x": 4, "y": None}]),
            "maps": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int32())),
            "dates": pa.array([0, 1, None, 3], pa.date32()),
            "times": pa.array([0, None, 2, 3], pa.timestamp("us", "UTC")),
            "decimals": pa.array([Decimal(1), Decimal(2), None, Decimal(4)], pa.decimal128(12, 2)),
            "codes": pa.DictionaryArray.from_arrays(
                pa.array([0, None, 1, 0], pa.int32()), pa.array(["a", "ccc"])
            ),
        }
    )
