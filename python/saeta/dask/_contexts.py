"""The contexts of a worker: one for each device, each with its own budget."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import dask
import distributed
from distributed.core import Status
from distributed.worker import Worker

from saeta._core import Context, context, devices
from saeta.errors import InvalidError

_contexts: WeakKeyDictionary[Any, dict[str, Context]] = WeakKeyDictionary()
_lock = threading.Lock()


def worker_context(device: str | None = None, *, budget: int | str | None = None) -> Context:
    """Returns the context of the worker that runs this task. There is one for each worker and device.

    It is a child of the process's context of that device (`Context.memory.child`), so workers in one process
    share its memory but not their budgets. Tables received from other processes are in this context. If a
    task has closed it, the next call makes a new one.

    If this call is the first use of a GPU by a worker with UCX, it opens the process's context with memory
    that has CUDA IPC handles (`stack="caching, direct"`), which UCX needs to send from GPU to GPU.

    Outside of tasks, returns the context of the only worker in this process. If there is none, or several,
    returns the process's own context, with its own budget, so that functions for workers also run without
    one.

    Args:
        device: the name of a device. None: the first GPU that the process sees, else the host. dask-cuda
            gives each worker its own first GPU by CUDA_VISIBLE_DEVICES.
        budget: the limit: bytes, "8GiB", or "50%" of the device's memory. None leaves the limit of an
            existing context unchanged. A new context gets the limit in Dask's configuration,
            `saeta.budget.host` or `saeta.budget.device`. By default a host context has the memory limit of
            the worker, and a GPU context only the limit of the process's context. Outside of workers `budget`
            is ignored.

    Raises:
        DeviceError: there is no such device.
        InvalidError: more than `budget` is in use.

    Example:
        >>> import saeta.dask
        >>> saeta.dask.worker_context("host").device
        'host'
    """
    name = _first_device() if device is None else device
    worker = _find_worker()
    if worker is None:
        return context(name)
    with _lock:
        own = _contexts.setdefault(worker, {})
        ctx = own.get(name)
        if ctx is None or ctx.closed:
            limit = _default_budget(worker, name) if budget is None else budget
            own[name] = ctx = _process_context(worker, name).memory.child(f"worker {worker.name}", limit)
        elif budget is not None:
            ctx.memory.limit = budget
        return ctx


def _process_context(worker: Any, name: str) -> Context:
    """Returns the context of the process. If this call opens it, UCX can send its memory from GPU to GPU.

    UCX needs CUDA IPC handles, which memory of the driver's pool lacks.
    """
    chosen = {"SAETA_STACK", "SAETA_RESOURCE"} & os.environ.keys()
    if name != "host" and worker.address.startswith("ucx") and not chosen:
        with suppress(InvalidError):  # the context is open already
            return context(name, stack="logging, budget, caching, direct")
    return context(name)


def _first_device() -> str:
    return next((device.name for device in devices() if device.name != "host"), "host")


def _find_worker() -> Any:
    """Returns the worker of this task, or the only one of this process.

    There may be no task: distributed serialises and restores tables in other threads of the process.
    """
    try:
        return distributed.get_worker()
    except ValueError:
        workers = _workers()
        return workers[0] if len(workers) == 1 else None


def in_worker_process() -> bool:
    return bool(_workers())


def _workers() -> list[Any]:
    """Returns the workers of this process, without ended ones that something still refers to."""
    return [each for each in Worker._instances if each.status not in (Status.closed, Status.failed)]


def _default_budget(worker: Any, device: str) -> int | str | None:
    kind = "host" if device == "host" else "device"
    said: int | str | None = dask.config.get(f"saeta.budget.{kind}", None)
    if said is None and kind == "host":
        return worker.memory_manager.memory_limit or None
    return said
