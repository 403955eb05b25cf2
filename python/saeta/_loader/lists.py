"""Strings and lists, batch by batch: values and offsets from 0 on, or a padded matrix and lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from saeta._core import Column, Table
from saeta._loader.records import PLAIN, Conversion, Lists
from saeta._loader.refusals import add_label, refuse_nulls, ways_with_nulls_inside
from saeta._optional import load
from saeta.errors import ClosedError, Error
from saeta.exchange import from_arrow

VIEWS = ("vu", "vz", "+vl", "+vL")  # Arrow's format strings


def batches_of_lists(
    plan: Lists, to: str, tensor: Callable[[str, Column, Conversion], Any], column: Column, rows: int
) -> Iterator[tuple[Any, ...]]:
    """Yields batches of so many rows. `tensor` converts a column for the library `to`."""
    try:
        if not plan.has_mask and column.null_count:
            refuse_nulls(column, f"choose nulls={{'{plan.key}': 'mask'}} in tensor_options")
        if column.type.format in VIEWS:
            column = _with_offsets(column)
        parts: Any = column.offsets_and_values(nulls="mask" if plan.has_mask else None)
        offsets, values, *masks = parts
        if plan.how.nulls is None and plan.how.fill is None and values.null_count:
            refuse_nulls(values, ways_with_nulls_inside(plan.key, is_float=plan.offers_nan))
        firsts = [*range(0, len(column), rows), len(column)]
        bounds = offsets.take(firsts).to_pylist()
        for (first, last), (begin, end) in zip(pairwise(firsts), pairwise(bounds), strict=True):
            inside = tensor(to, values.slice(begin, end - begin), plan.how)
            own = tensor(to, offsets.slice(first, last - first + 1), PLAIN) - begin
            found = _padded(to, inside, own, plan.fill) if plan.padded else (inside, own)
            yield (*found, *(tensor(to, mask.slice(first, last - first), PLAIN) for mask in masks))
    except Error as failure:
        if not isinstance(failure, ClosedError):
            add_label(failure, f"column '{plan.key}'")
        raise


def _padded(to: str, values: Any, offsets: Any, fill: Any) -> tuple[Any, Any]:
    module = load("jax.numpy" if to == "jax" else to, "saeta.loader")
    lengths = offsets[1:] - offsets[:-1]
    on_device = {"device": values.device} if to == "torch" else {}
    columns = module.arange(int(lengths.max()) if len(lengths) else 0, **on_device)
    if len(values) == 0:
        return values.reshape(len(lengths), 0), lengths
    places = offsets[:-1, None] + columns
    used = columns < lengths[:, None]
    return module.where(used, values[module.where(used, places, 0)], fill), lengths


def _with_offsets(column: Column) -> Column:
    """Converts views to strings or lists with offsets. pyarrow does, so those of a device go to the host."""
    pyarrow = load("pyarrow", "saeta.loader")
    views = pyarrow.concat_arrays(column.to_arrow().chunks)
    if column.type.format.startswith("+"):
        made = _lists_of(pyarrow, views)
    else:
        made = views.cast(pyarrow.large_string() if column.type.format == "vu" else pyarrow.large_binary())
    table: Table = from_arrow(pyarrow.table({column.name: made}), column.context)
    return table.column(0).combine_chunks()


def _lists_of(pyarrow: Any, views: Any) -> Any:
    """Converts list views. pyarrow's own cast makes offsets that decrease before a null."""
    compute = load("pyarrow.compute", "saeta.loader")
    lengths = compute.fill_null(compute.list_value_length(views), 0).cast(pyarrow.int64())
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int64()), compute.cumulative_sum(lengths)])
    return pyarrow.LargeListArray.from_arrays(offsets, views.flatten(), mask=views.is_null())
