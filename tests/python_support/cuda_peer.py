"""A second process that uses saeta.cuda and runs the Python code that a test sends."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any

import pyarrow as pa
import pytest

import saeta as sa
from cuda_module import cuda

PROGRAM = """
import sys
sys.path[:0] = {path!r}
import gc, json, os, time, threading
import numpy as np
import pyarrow as pa
import saeta as sa
from cuda_module import cuda, opened, simulated
from saeta import _core

def opened_handle(text):
    return ctx.open_ipc_buffer(cuda.IpcMemHandle.from_buffer(pa.py_buffer(bytes.fromhex(text))))

def export(buffer):
    return buffer.export_for_ipc().serialize().to_pybytes().hex()

def wait_until(true):
    deadline = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline:
            return False
        ctx.synchronize()
        gc.collect()
        time.sleep(0.001)
    return True

def reset():
    for name in set(globals()) - first_names:
        del globals()[name]
    gc.collect()
    ctx.synchronize()

def serve():
    names = globals()
    print("ready", flush=True)
    for line in sys.stdin:
        code = json.loads(line)
        try:
            names.pop("result", None)
            exec(code, names)
            print(repr(names.get("result")), flush=True)
        except Exception as failure:
            print(repr((type(failure).__mro__[0].__name__, str(failure))), "!", flush=True)

held = opened({kind!r})
ctx = held.__enter__()
first_names = {{*globals(), "first_names"}}
serve()
"""


def handle(text: str) -> Any:
    """Decodes the IPC handle that `export` of PROGRAM returned as text."""
    return cuda.IpcMemHandle.from_buffer(pa.py_buffer(bytes.fromhex(text)))


class RefusedError(Exception):
    """An exception that the other process raised: the name of its class and its message."""


class Peer:
    """A process that ends with the `with` block. Afterwards, `errors` is its stderr."""

    def __init__(self, kind: str, **environment: str) -> None:
        if kind == "cuda" and not sa.info()["cuda"]["usable"]:
            pytest.skip("no usable CUDA device")
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(path=sys.path, kind=kind)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.errors = ""
        self.code: int | None = None
        self._hear()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, code: str) -> Any:
        """Runs code in the other process, in the namespace of PROGRAM. Returns the variable `result`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line == "ready":
            return None
        if not line:
            self.end()
            raise AssertionError(f"the other process ended with {self.code}: {self.errors}")
        if line.endswith("!"):
            raise RefusedError(*ast.literal_eval(line[:-1].strip()))
        return ast.literal_eval(line)

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Ends the interpreter normally, with whatever it still holds."""
        if self.code is None:
            _, self.errors = self._process.communicate(timeout=300)
            self.code = self._process.returncode

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
