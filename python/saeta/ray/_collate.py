"""Makes batches of Ray Data tables or tensors."""

from __future__ import annotations

from typing import Any

from ray.data.collate_fn import ArrowBatchCollateFn

from saeta._core import Table
from saeta.exchange import ContextLike, from_arrow


class TableCollateFn(ArrowBatchCollateFn):  # type: ignore[misc] # Ray has no types that mypy may use
    """Implements `saeta.ray.collate`."""

    def __init__(self, ctx: ContextLike, tensors: bool) -> None:
        self._ctx = ctx
        self._tensors = tensors

    def __call__(self, batch: Any) -> Any:
        table: Table = from_arrow(batch, self._ctx)
        if not self._tensors:
            return table
        joined = table.combine_chunks()  # a tensor can be made of one chunk only
        return {name: joined[name].to_torch() for name in joined.schema.names}
