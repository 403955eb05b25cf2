"""What the sizes of batches say about the epochs of a loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from saeta._loader.base import Data
from saeta._loader.order import NBYTES, ROWS, Order
from saeta._loader.records import Batch, Options, Selection, Steps

VIEWED_BYTES = 1 << 20  # of a batch of a file


class Plan(NamedTuple):
    order: Order
    most: int  # batches that are made at once
    views: bool  # whether windows may be views of files
    width: int  # bytes of a row, on average


def plan_of(batches: Sequence[Batch], data: Data, chosen: Selection, steps: Steps, options: Options) -> Plan:
    """Returns the plan for batches of these sizes, which may be guessed."""
    all_rows, all_bytes = sum(map(ROWS, batches)), sum(map(NBYTES, batches))
    width = max(1, -(-all_bytes // max(1, all_rows)))
    most = max(1, steps.window // width // steps.batch_size)
    order = Order(
        batches,
        batch_size=steps.batch_size,
        window=None if data.is_table else steps.window,
        shuffle=steps.shuffle,
        seed=steps.seed,
        drop_last=steps.drop_last and chosen.transform is None,  # rows are left out after the function
        most_rows=most * steps.batch_size if data.is_table and steps.shuffle == "rows" else None,
        shares=data.shares,
    )
    # A view of a small batch takes longer than its copy, and one that is smaller than what is yielded is
    # copied anyway. A tensor of torch that views a file looks writable, and writing to it would end the
    # process.
    count = len(batches)
    is_large = all_bytes >= VIEWED_BYTES * count and all_rows >= steps.batch_size * count
    views = is_large and order.lanes == 1 and steps.shuffle != "rows" and options.to != "torch"
    return Plan(order, most, views, width)
