"""Saeta: Arrow columns on a device, under one memory budget, exchanged without a copy and in order.

Importing Saeta needs neither a GPU nor a driver, and loads neither pyarrow nor NumPy. Each is loaded when a
call needs it.

Example:
    >>> import numpy as np
    >>> import saeta as sa
    >>> ctx = sa.context("host")  # or "cuda:0"; sa.context() picks the best
    >>> written = sa.table({"fare": [12.5, 8.0]}, ctx).write_ipc("trips.arrow")  # bytes
    >>> table = sa.read_ipc("trips.arrow", ctx)  # a Table on the device
    >>> fare = np.from_dlpack(table["fare"])  # the same memory; on a GPU for torch, CuPy and JAX
    >>> table.with_column("doubled", fare * 2)["doubled"].to_pylist()
    [25.0, 16.0]
"""

import sys as _sys
import typing as _typing

if "t" in _sys.abiflags:
    raise ImportError(
        "saeta needs a Python with the GIL, and this is the free-threaded build of Python "
        f"{_sys.version_info.major}.{_sys.version_info.minor}: use python3.{_sys.version_info.minor}, not "
        f"python3.{_sys.version_info.minor}t"
    )

from saeta import _core, _libarrow, allocators, hooks, testing, xlog
from saeta import rmm as rmm  # not in __all__: a star import would hide RMM itself
from saeta._convert import habits as _habits
from saeta._convert.build import column, counted_table, from_bytes, table
from saeta._convert.from_tensors import from_cuda_array
from saeta._convert.tables import concat_tables
from saeta._convert.types import field, schema, symbol
from saeta._core import (
    Buffer,
    Column,
    Context,
    CountedTable,
    DataType,
    Device,
    Field,
    GraphCapture,
    Memory,
    MemoryHook,
    MemoryLog,
    MemoryRecording,
    MemoryWindow,
    Schema,
    StrictMode,
    SymbolTable,
    Table,
    UseToken,
    context,
    devices,
    symbols,
)
from saeta._cpp import cmake_dir, get_include
from saeta._devices import contexts
from saeta._files.ipc_writer import IpcWriter, ipc_writer
from saeta._files.parquet import read_parquet, scan_parquet
from saeta._files.parquet_writer import ParquetWriter, parquet_writer
from saeta._files.place import place
from saeta._files.scan import Scan, scan_ipc
from saeta._loader.loader import Loader, loader
from saeta._report.info import info
from saeta._share.packed import Packed, unpack
from saeta._share.pickling import unpickling
from saeta._share.reducers import install_reducers
from saeta._share.spilling import SpillHandle, spill_statistics
from saeta._share.tables import SharedTable, open_shared
from saeta._use import use
from saeta.errors import (
    AccessError,
    BudgetExceeded,
    BusyError,
    ClosedError,
    ColumnNameError,
    DeviceError,
    DeviceLost,
    DownloadForbidden,
    Error,
    ExchangeError,
    FileError,
    FormatError,
    InvalidError,
    MissingDependency,
    MissingFileError,
    OutOfMemory,
    OutOfRange,
    SizeOverflow,
    TypeMismatch,
    UnsupportedError,
)
from saeta.exchange import from_arrow, from_dlpack
from saeta.ipc import read_ipc, write_ipc

__version__ = _core._version()
_libarrow.find_modules()
_habits.install()

if not _typing.TYPE_CHECKING:  # a type checker would take every name of the module for one that exists

    def __getattr__(name: str) -> object:
        raise AttributeError(_habits.missing_name(name), name=name, obj=_sys.modules[__name__])


__all__ = [
    "AccessError",
    "BudgetExceeded",
    "Buffer",
    "BusyError",
    "ClosedError",
    "Column",
    "ColumnNameError",
    "Context",
    "CountedTable",
    "DataType",
    "Device",
    "DeviceError",
    "DeviceLost",
    "DownloadForbidden",
    "Error",
    "ExchangeError",
    "Field",
    "FileError",
    "FormatError",
    "GraphCapture",
    "InvalidError",
    "IpcWriter",
    "Loader",
    "Memory",
    "MemoryHook",
    "MemoryLog",
    "MemoryRecording",
    "MemoryWindow",
    "MissingDependency",
    "MissingFileError",
    "OutOfMemory",
    "OutOfRange",
    "Packed",
    "ParquetWriter",
    "Scan",
    "Schema",
    "SharedTable",
    "SizeOverflow",
    "SpillHandle",
    "StrictMode",
    "SymbolTable",
    "Table",
    "TypeMismatch",
    "UnsupportedError",
    "UseToken",
    "__version__",
    "allocators",
    "cmake_dir",
    "column",
    "concat_tables",
    "context",
    "contexts",
    "counted_table",
    "devices",
    "field",
    "from_arrow",
    "from_bytes",
    "from_cuda_array",
    "from_dlpack",
    "get_include",
    "hooks",
    "info",
    "install_reducers",
    "ipc_writer",
    "loader",
    "open_shared",
    "parquet_writer",
    "place",
    "read_ipc",
    "read_parquet",
    "scan_ipc",
    "scan_parquet",
    "schema",
    "spill_statistics",
    "symbol",
    "symbols",
    "table",
    "testing",
    "unpack",
    "unpickling",
    "use",
    "write_ipc",
    "xlog",
]


def __dir__() -> list[str]:
    """Returns the public names and modules, for completion."""
    return [*__all__, "cuda", "dask", "errors", "exchange", "ipc", "ray", "rmm"]
