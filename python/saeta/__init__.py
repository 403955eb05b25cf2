"""Saeta: Arrow columns on a device, under one memory budget, exchanged without a copy and in order.

    import saeta as sa

    ctx = sa.context("cuda:0", budget="8GiB")   # or "host"; sa.context() picks the best
    table = sa.read_ipc("trips.arrow", ctx)     # a Table on the device
    tensor = torch.from_dlpack(table["fare"])   # the same memory, ordered on torch's stream; the batches of a
                                                # file are joined first
    table.with_column("doubled", tensor * 2).write_ipc("out.arrow")

Importing Saeta needs neither a GPU nor a driver nor pyarrow nor NumPy. Each is loaded when a call needs it.
"""

from saeta import _core, allocators, hooks, testing, xlog
from saeta import rmm as rmm  # not in __all__: a star import would hide RMM itself
from saeta._convert.build import column, counted_table, from_bytes, table
from saeta._convert.from_cuda_array import from_cuda_array
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
from saeta._files.ipc_writer import IpcWriter, ipc_writer
from saeta._files.parquet import read_parquet, scan_parquet
from saeta._files.scan import Scan, scan_ipc
from saeta._loader.loader import Loader, loader
from saeta._packed import Packed, unpack
from saeta._pickling import unpickling
from saeta._report.info import info
from saeta._share.reducers import install_reducers
from saeta._share.spilling import SpillHandle, spill_statistics
from saeta._share.tables import SharedTable, open_shared
from saeta._use import use
from saeta.errors import (
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

__all__ = [
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
    "column",
    "concat_tables",
    "context",
    "counted_table",
    "devices",
    "field",
    "from_arrow",
    "from_bytes",
    "from_cuda_array",
    "from_dlpack",
    "hooks",
    "info",
    "install_reducers",
    "ipc_writer",
    "loader",
    "open_shared",
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
