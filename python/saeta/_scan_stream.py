"""Exports a scan as an Arrow C stream, through a reader of pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from saeta._core import Table
from saeta._optional import load
from saeta.exchange import from_arrow

if TYPE_CHECKING:
    from saeta._scan import Scan, _Batches


class _Requested(NamedTuple):
    """A table that is exported with the schema that the consumer of a stream requested."""

    table: Table
    schema: Any

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.table.__arrow_c_stream__(self.schema)


def stream(scan: Scan, taken: _Batches, requested: Any) -> Any:
    """Implements `Scan.__arrow_c_stream__`."""
    taken.require_more()
    pyarrow = load("pyarrow", "Scan.__arrow_c_stream__")
    reader = pyarrow.RecordBatchReader

    def shown(table: Table) -> Any:
        return reader.from_stream(_Requested(table, requested))

    def batches() -> Iterator[Any]:
        taken.require_more()  # another stream may have taken all batches since
        for batch in scan:
            yield from shown(batch)

    nothing = from_arrow(reader.from_batches(pyarrow.schema(scan.schema), []), "host")
    return reader.from_batches(shown(nothing).schema, batches()).__arrow_c_stream__()
