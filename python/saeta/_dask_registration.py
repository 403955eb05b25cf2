"""Registers tables and columns with dask, with distributed and with dask-cuda.

This module is the entry point `dask.sizeof`: dask calls `register` when it is imported, in every process of a
cluster that has Saeta installed. It imports none of the three, because dask is only partly imported at that
time and the others may be missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from saeta._core import Column, Table

_KINDS = (Table, Column)


def register(sizeof: Any) -> None:
    """Registers sizes now, and the rest as soon as its package has been imported.

    Args:
        sizeof: the dispatch `dask.sizeof.sizeof`.
    """
    sizeof.register(_KINDS, _nbytes)
    _call_after_import("distributed.protocol", _register_families)
    _call_after_import("dask_cuda.is_device_object", _register_device_objects)


def _nbytes(source: Table | Column) -> int:
    return source.nbytes


def _register_families(protocol: ModuleType) -> None:
    """Makes the first table that this process sends or receives import `saeta.dask`."""
    for name in ("dask_serialize", "dask_deserialize", "cuda_serialize", "cuda_deserialize"):
        getattr(protocol, name).register_lazy("saeta", _import_families)


def _import_families() -> None:
    importlib.import_module("saeta.dask")


def _register_device_objects(module: ModuleType) -> None:
    """Tells dask-cuda's spilling which tables are on a GPU."""
    module.is_device_object.register(_KINDS, _is_on_device)


def _is_on_device(source: Table | Column) -> bool:
    return source.device != "host"


def _call_after_import(name: str, function: Callable[[ModuleType], None]) -> None:
    if name in sys.modules:
        function(sys.modules[name])
    elif not any(isinstance(finder, _Watch) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch(name, function))


class _Watch:
    """An import finder that calls a function after the first import of a module."""

    def __init__(self, name: str, function: Callable[[ModuleType], None]) -> None:
        self.name = name
        self._function = function

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._function(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
