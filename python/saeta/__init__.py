"""Saeta: Arrow columns on a device, under one memory budget, exchanged without a copy and in order.

For every day:
    context                                      the memory of a device, under a budget
    table, column, schema                        data from Python, NumPy, torch, pandas and others
    from_arrow, from_dlpack                      one Arrow object, one tensor
    read_ipc, scan_ipc, ipc_writer               Arrow files, read at once, in windows, written
    read_parquet, scan_parquet, parquet_writer   the same for Parquet files
    loader                                       shuffled batches of tensors for training

`Table`, `Column` and `Context` have the methods. `saeta.__all__` and the first page of the reference list the
other names by theme. Importing Saeta needs neither a GPU nor a driver, and loads neither pyarrow nor NumPy.
Each is loaded when a call needs it.

Example:
    >>> import numpy as np
    >>> import saeta as sa
    >>> ctx = sa.context("host")  # or "cuda:0"; sa.context() picks the best
    >>> written = sa.table({"fare": [12.5, 8.0]}, ctx).write_ipc("trips.arrow")  # bytes
    >>> table = sa.read_ipc("trips.arrow", ctx)  # a Table on the device
    >>> fare = np.from_dlpack(table["fare"])  # the same memory; on a GPU for torch, CuPy and JAX
    >>> table.append_column("doubled", fare * 2)["doubled"].to_pylist()
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
from saeta._convert.types import field, schema
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
)
from saeta._cpp import cmake_dir, get_include
from saeta._devices import contexts
from saeta._files.ipc_writer import IpcWriter, ipc_writer
from saeta._files.parquet import read_parquet, scan_parquet
from saeta._files.parquet_writer import ParquetWriter, parquet_writer
from saeta._files.place import place
from saeta._files.scan import Scan, scan_ipc
from saeta._loader.loader import Loader, loader
from saeta._loader.records import ReadOptions, TensorOptions
from saeta._report.info import info
from saeta._report.read_report import ReadReport
from saeta._report.reads import profile_read
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


# The names for every day come first, the others by theme.
__all__ = [  # noqa: RUF022
    "context",
    "Context",
    "table",
    "Table",
    "column",
    "Column",
    "schema",
    "read_ipc",
    "scan_ipc",
    "ipc_writer",
    "read_parquet",
    "scan_parquet",
    "parquet_writer",
    "loader",
    "from_arrow",
    "from_dlpack",
    # tables and types
    "concat_tables",
    "field",
    "Field",
    "Schema",
    "DataType",
    "SymbolTable",
    "from_bytes",
    "from_cuda_array",
    "counted_table",
    "CountedTable",
    # files and training
    "write_ipc",
    "profile_read",
    "ReadReport",
    "place",
    "Scan",
    "IpcWriter",
    "ParquetWriter",
    "Loader",
    "ReadOptions",
    "TensorOptions",
    # devices and memory
    "devices",
    "contexts",
    "info",
    "Device",
    "Memory",
    "MemoryHook",
    "MemoryLog",
    "MemoryRecording",
    "MemoryWindow",
    "SpillHandle",
    "spill_statistics",
    "StrictMode",
    # your own kernels
    "use",
    "UseToken",
    "Buffer",
    "GraphCapture",
    # processes
    "unpack",
    "Packed",
    "open_shared",
    "SharedTable",
    "install_reducers",
    "unpickling",
    # errors
    "Error",
    "InvalidError",
    "ColumnNameError",
    "TypeMismatch",
    "UnsupportedError",
    "OutOfRange",
    "SizeOverflow",
    "BudgetExceeded",
    "OutOfMemory",
    "DeviceError",
    "DeviceLost",
    "FormatError",
    "FileError",
    "MissingFileError",
    "AccessError",
    "ExchangeError",
    "ClosedError",
    "BusyError",
    "DownloadForbidden",
    "MissingDependency",
    # modules, and the C++ library
    "allocators",
    "hooks",
    "testing",
    "xlog",
    "cmake_dir",
    "get_include",
    "__version__",
]
# Classes of what calls return, which programs name in annotations only: completion leaves them out.
_RETURNED = {
    *("Buffer", "CountedTable", "Device", "GraphCapture", "IpcWriter", "Loader", "Memory", "MemoryHook"),
    *("MemoryLog", "MemoryRecording", "MemoryWindow", "Packed", "ParquetWriter", "ReadReport", "Scan"),
    *("SharedTable", "SpillHandle", "StrictMode", "UseToken"),
}


def __dir__() -> list[str]:
    """Returns the public names that programs call, and the modules, for completion."""
    modules = ["cuda", "dask", "errors", "exchange", "ipc", "ray", "rmm"]
    return [*(name for name in __all__ if name not in _RETURNED), *modules]
