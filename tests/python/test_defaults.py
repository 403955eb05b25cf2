"""The default arguments of public functions and commands. Changing one would change existing programs."""

from __future__ import annotations

import importlib
import inspect
from typing import get_type_hints

import pytest

FUNCTIONS = {
    "saeta.BudgetExceeded.__init__": {
        "layer": "",
        **dict.fromkeys(
            ("requested", "current", "reserved", "kept", "required", "limit", "remaining", "peak"), 0
        ),
    },
    "saeta.field": {"nullable": True},
    "saeta.from_arrow": {"as_column": False, "symbols": "ids", "index": False},
    "saeta.from_cuda_array": {"name": ""},
    "saeta.ipc_writer": {"pending": "256MiB", "durable": True, "replace_read_only": False},
    "saeta.column": {"name": "", "truncate": False, "reinterpret": False},
    "saeta.loader": {
        "shuffle": False,
        "seed": 0,
        "window": "64MiB",
        "rank": 0,
        "world_size": 1,
        "drop_last": False,
        "to": "torch",
    },
    "saeta.ReadOptions.__init__": {"index": False, "partitioning": "hive", "prefetch": 2},
    "saeta.TensorOptions.__init__": {"nulls": "error", "lists": "jagged"},
    "saeta.open_shared": {"validate": True},
    "saeta.parquet_writer": {
        "compression": "snappy",
        "use_dictionary": True,
        "durable": True,
        "replace_read_only": False,
    },
    "saeta.place": {"by": "files", "index": False, "validate": True},
    "saeta.profile_read": {"rounds": 3, "cold": False},
    "saeta.read_ipc": {"index": False, "validate": True},
    "saeta.read_parquet": {"index": False, "batch_size": 1 << 20, "partitioning": "hive"},
    "saeta.scan_ipc": {"index": False, "window": "128MiB", "in_flight": 2, "validate": True},
    "saeta.scan_parquet": {"index": False, "window": "128MiB", "partitioning": "hive"},
    "saeta.table": {"truncate": False, "reinterpret": False, "index": False},
    "saeta.unpack": {"validate": True},
    "saeta.use": {"reads": (), "writes": ()},
    "saeta.write_ipc": {"index": False, "durable": True, "replace_read_only": False},
    "saeta.allocators.cupy_allocator": {"tag": "cupy"},
    "saeta.allocators.graph_pool": {"tag": "graph_pool"},
    "saeta.allocators.numba_manager": {"tag": "numba"},
    "saeta.allocators.torch_allocator": {"tag": "torch"},
    "saeta.allocators.torch_mem_pool": {"tag": "torch"},
    "saeta.hooks.trim_cupy": {"priority": 0},
    "saeta.hooks.trim_rmm": {"priority": 0},
    "saeta.hooks.trim_torch": {"priority": 0},
    "saeta.ipc.to_ipc_bytes": {"format": "file"},
    "saeta.rmm.resource": {"tag": "rmm"},
    "saeta.xlog.dlpack_roundtrip": {"device": 0},
    "saeta.xlog.export_arrow_device": {"device": 0},
    "saeta.xlog.import_arrow_device": {"device": 0},
}
OF_CUDA = {
    "saeta.cuda.BufferWriter.seek": {"whence": 0},
    "saeta.cuda.Context.__init__": {"device_number": 0, "handle": 0},
    "saeta.cuda.Context.buffer_from_data": {"offset": 0, "size": -1},
    "saeta.cuda.CudaBuffer.copy_to_host": {"position": 0, "nbytes": -1, "resizable": False},
    "saeta.cuda.CudaBuffer.copy_from_host": {"position": 0, "nbytes": -1},
    "saeta.cuda.CudaBuffer.copy_from_device": {"position": 0, "nbytes": -1},
    "saeta.cuda.CudaBuffer.slice": {"offset": 0},
    "saeta.cuda.new_host_buffer": {"device": 0},
}
# Defaults of the commands' options, with the minimum if there is one.
COMMANDS = {
    "info": {"as_json": False},
    "inspect": {"as_json": False},
    "demo": {"rows": (6_000_000, 1), "seed": (19_920_102, 0), "as_json": False},
    "load": {"rounds": (1, 1), "check": False, "as_json": False},
    "profile": {"rounds": (3, 1), "cold": False, "as_json": False},
    "convert": {"level": (None, 1), "batch_size": (None, 1), "as_json": False},
    "bench": {"rounds": (None, 1), "quick": False, "commit": "", "as_json": False},
}


def defaults_of(function):
    return {
        each.name: each.default
        for each in inspect.signature(function).parameters.values()
        if each.default is not each.empty and each.default is not None
    }


def found_in(modules):
    """Returns the defaults of these modules' public functions and methods that are written in Python."""
    found = {}
    for name in modules:
        module = importlib.import_module(name)
        for public in module.__all__:
            made = getattr(module, public)
            if inspect.isfunction(made):
                found[f"{name}.{public}"] = made
            elif inspect.isclass(made) and made.__module__.startswith("saeta"):
                for method, function in vars(made).items():
                    plain = getattr(function, "__func__", function)
                    if inspect.isfunction(plain):
                        found[f"{name}.{public}.{method}"] = plain
    return {name: defaults for name, function in found.items() if (defaults := defaults_of(function))}


def test_public_functions_keep_their_defaults():
    names = ("", ".allocators", ".hooks", ".rmm", ".testing", ".xlog")
    defaults = found_in([f"saeta{name}" for name in names])
    from saeta import ipc

    defaults["saeta.ipc.to_ipc_bytes"] = defaults_of(ipc.to_ipc_bytes)
    assert defaults == FUNCTIONS


def test_the_names_of_pyarrow_cuda_keep_their_defaults():
    pytest.importorskip("saeta.cuda")
    assert found_in(["saeta.cuda"]) == OF_CUDA


def test_commands_keep_their_defaults_and_minimums():
    pytest.importorskip("typer")
    from saeta.cli.app import app

    found = {}
    for command in app.registered_commands:
        hints = get_type_hints(command.callback, include_extras=True)
        options = {}
        for name, option in inspect.signature(command.callback).parameters.items():
            plain = None if option.default is option.empty else option.default
            least = [each.min for each in getattr(hints[name], "__metadata__", ()) if each.min is not None]
            if least:
                options[name] = plain, *least
            elif plain is not None:
                options[name] = plain
        found[command.callback.__name__] = options
        assert command.epilog == app.info.epilog, "every command's help ends with the exit codes"
    assert found == COMMANDS
