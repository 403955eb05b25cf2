"""Tables in Ray: between its actors without a copy, and as data sets of Ray Data.

`register_transport` gives Ray's direct transport (RDT) a way to pass tables between the processes of a
machine. `read_ipc`, `read_parquet` and `write_ipc` read and write files as data sets of Ray Data, and
`collate` makes its batches tables or tensors on a device. Without any of these, tables and columns can be
arguments and results of tasks, in Ray's object store.

The import needs Ray 2.60 or a later release of Ray 2; for others it raises MissingDependency, which is an
ImportError.

Example:
    >>> import pyarrow as pa
    >>> import saeta.ray
    >>> saeta.ray.collate("host")(pa.table({"fare": [12.5, 8.0]}))["fare"].to_pylist()
    [12.5, 8.0]
"""

from __future__ import annotations

from saeta.ray import _release  # first, because it raises MissingDependency
from saeta.ray._data import collate, read_ipc, read_parquet, write_ipc
from saeta.ray._transport import TableTransport, receive_into, register_transport

__all__ = ["collate", "read_ipc", "read_parquet", "receive_into", "register_transport", "write_ipc"]

_release.require_complete(TableTransport, _release.RELEASE)


def __dir__() -> list[str]:
    return __all__
