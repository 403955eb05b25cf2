"""Disturbances for the stress tests: forked child processes, and graph captures by another library."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import saeta as sa
from soak_items import WrongError, require

ALARM = 60  # seconds until a child process that hangs is killed
ROWS = 1000

# Python from 3.12 on and JAX warn about fork in a process with threads, which is tested here.
warnings.filterwarnings("ignore", r".*multi-?threaded", DeprecationWarning)
warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)


def work_on_the_host() -> None:
    """Runs in the child process: uses a new host context."""
    own = sa.context("host")
    require(own.memory.statistics()["current"] == 0, "the bytes of the parent are charged in its child")
    made = sa.from_dlpack(np.arange(ROWS), own, copy=True)
    require(int(np.from_dlpack(made).sum()) == ROWS * (ROWS - 1) // 2, "a column of a child is wrong")
    require((own.memory.statistics()["current"] or 0) >= made.nbytes, "a column of a child is not charged")
    del made
    own.memory.trim()


def be_refused_cuda() -> None:
    """Runs in the child process: using the parent's GPU must raise an error."""
    try:
        sa.context("cuda:0")
    except sa.DeviceError as refused:
        require("forked process" in str(refused), f"a child of fork was told: {refused}")
    else:
        raise WrongError("a child of fork opened cuda:0")


def fork_a_child(ctx: sa.Context) -> None:
    """Forks a child that uses the host and must be refused the context's GPU. Waits for its end."""
    jobs = [work_on_the_host] if ctx.device == "host" else [be_refused_cuda, work_on_the_host]
    child = os.fork()
    if child == 0:
        signal.alarm(ALARM)
        try:
            for job in jobs:
                job()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    require(code == 0, f"a child of fork ended with {code}")


class Graph:
    """Announces and captures an addition of 1 to an array, and launches the graph once for each call.

    The values of the array are the number of launches. Only one thread captures at a time.
    """

    def __init__(self, ctx: sa.Context) -> None:
        self.ctx = ctx
        self.turn = threading.Lock()
        self.runs = 0

    def __call__(self) -> None:
        with self.turn:
            self.runs += 1
            found = self.run()
            require(found == self.runs * ROWS, f"{self.runs} runs of graphs counted {found // ROWS}")

    def run(self) -> int:
        """Only announces a capture, because the host has no graphs."""
        with self.ctx.capturing():
            return self.runs * ROWS


class TorchGraph(Graph):
    def __init__(self, ctx: sa.Context, torch: Any) -> None:
        super().__init__(ctx)
        self.torch = torch
        self.stream = torch.cuda.Stream()
        self.total = torch.zeros(ROWS, dtype=torch.int32, device="cuda")
        self.total += 0  # loads the kernel, which is not allowed during a capture
        torch.cuda.synchronize()

    def run(self) -> int:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.stream(self.stream):
            with self.ctx.capturing():
                graph.capture_begin(capture_error_mode="thread_local")
                self.total += 1
                graph.capture_end()
            graph.replay()
            return int(self.total.sum())


class CupyGraph(Graph):
    def __init__(self, ctx: sa.Context, cupy: Any) -> None:
        super().__init__(ctx)
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.total = cupy.full(ROWS, -1, dtype=cupy.int32)
        self.total += 1  # compiles the kernel before the capture, and sets 0
        cupy.cuda.runtime.deviceSynchronize()

    def run(self) -> int:
        with self.stream:
            with self.ctx.capturing():
                self.stream.begin_capture(self.cupy.cuda.runtime.streamCaptureModeThreadLocal)
                self.total += 1
                graph = self.stream.end_capture()
            graph.launch(self.stream)
            return int(self.total.sum())


def graph_of(ctx: sa.Context, module: Any) -> Graph:
    """Returns a graph of CuPy or torch for a GPU; for the host one that only announces captures."""
    made: dict[str, Callable[[sa.Context, Any], Graph]] = {"cupy": CupyGraph, "torch": TorchGraph}
    if ctx.device == "host" or module is None:
        return Graph(ctx)
    return made[module.__name__](ctx, module)
