"""Random pyarrow arrays of every layout, nested in each other, with arbitrary values in their null rows."""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa

# Few values, so that rows are often equal. The floats include those with special comparison: zeros and NaN.
FLOATS = [0.0, -0.0, math.nan, 1.5, -math.inf]
LEAVES = {
    pa.int8(): [0, 1, -1],
    pa.uint64(): [0, 1, 2**63],
    pa.float16(): [np.float16(value) for value in FLOATS],
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.bool_(): [False, True],
    pa.string(): ["", "a", "b", "a much longer string"],
    pa.large_binary(): [b"", b"a", b"b"],
    pa.binary(3): [b"abc", b"abd"],
    pa.string_view(): ["", "abcd", "abce", "twelve bytes", "thirteen byte", "thirteen bytf"],
    pa.decimal128(9, 2): [decimal.Decimal("1.25"), decimal.Decimal("-1.25")],
    pa.month_day_nano_interval(): [(1, 2, 3), (1, 2, 4)],
}


KINDS = (
    "leaf",
    "null",
    "list",
    "large",
    "view",
    "fixed",
    "struct",
    "map",
    "dictionary",
    "runs",
    "dense",
    "sparse",
)


def any_type(random: Random, depth: int = 3) -> Any:
    """Returns a random type at most `depth` levels deep."""
    match random.choice(KINDS) if depth else "leaf":
        case "leaf":
            return random.choice(list(LEAVES))
        case "null":
            return pa.null()
        case "list":
            return pa.list_(any_type(random, depth - 1))
        case "large":
            return pa.large_list(any_type(random, depth - 1))
        case "view":
            return pa.list_view(any_type(random, depth - 1))
        case "fixed":
            return pa.list_(any_type(random, depth - 1), random.randint(0, 2))
        case "struct":
            return pa.struct([("a", any_type(random, depth - 1)), ("b", any_type(random, depth - 1))])
        case "map":
            return pa.map_(pa.string(), any_type(random, depth - 1))
        case "dictionary":
            return pa.dictionary(pa.int8(), any_type(random, depth - 1))
        case "runs":
            values = any_type(random, depth - 1)
            return values if pa.types.is_run_end_encoded(values) else pa.run_end_encoded(pa.int16(), values)
        case kind:
            make = pa.dense_union if kind == "dense" else pa.sparse_union
            return make([pa.field(name, any_type(random, depth - 1)) for name in "xy"], [3, 7])


def bitmap(random: Random, rows: int) -> Any:
    if rows == 0 or random.random() < 0.5:
        return None
    return pa.array([random.random() < 0.6 for _ in range(rows)], pa.bool_()).buffers()[1]


def numbers(values: Any, dtype: Any) -> Any:
    return pa.py_buffer(np.array(values, dtype).tobytes())


def offsets(random: Random, rows: int, dtype: Any) -> tuple[Any, int]:
    """Returns offsets of lists of 0 to 2 values, also for null rows, and the number of rows the child
    needs."""
    edges = np.cumsum([random.randint(0, 1), *(random.randint(0, 2) for _ in range(rows))])
    return numbers(edges, dtype), int(edges[-1])


def filled(random: Random, type_: Any, rows: int) -> Any:
    """Returns an array of `rows` rows with an offset and with arbitrary values in its null rows."""
    skipped = random.randint(0, 2)
    return array_of(random, type_, rows + skipped).slice(skipped)


def array_of(random: Random, type_: Any, rows: int) -> Any:
    make = pa.Array.from_buffers
    if type_ in LEAVES:
        array = pa.array(random.choices(LEAVES[type_], k=rows), type_)
        return make(type_, rows, [bitmap(random, rows), *array.buffers()[1:]])
    if pa.types.is_null(type_):
        return pa.nulls(rows)
    if pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        edges, needed = offsets(random, rows, np.int64 if pa.types.is_large_list(type_) else np.int32)
        if pa.types.is_map(type_):
            keys = pa.array(random.choices("kl", k=needed), pa.string())
            items = filled(random, type_.item_type, needed)
            child = pa.StructArray.from_arrays([keys, items], fields=[type_.key_field, type_.item_field])
        else:
            child = filled(random, type_.value_type, needed)
        return make(type_, rows, [bitmap(random, rows), edges], children=[child])
    if pa.types.is_list_view(type_):
        child = filled(random, type_.value_type, 4)
        places, sizes = ([random.randint(0, 2) for _ in range(rows)] for _ in range(2))
        buffers = [bitmap(random, rows), numbers(places, np.int32), numbers(sizes, np.int32)]
        return make(type_, rows, buffers, children=[child])
    if pa.types.is_fixed_size_list(type_):
        child = filled(random, type_.value_type, rows * type_.list_size)
        return make(type_, rows, [bitmap(random, rows)], children=[child])
    if pa.types.is_struct(type_):
        children = [filled(random, field.type, rows) for field in type_]
        return make(type_, rows, [bitmap(random, rows)], children=children)
    if pa.types.is_dictionary(type_):
        entries = random.randint(1, 3)
        codes = [random.randrange(entries) for _ in range(rows)]
        indices = make(pa.int8(), rows, [bitmap(random, rows), numbers(codes, np.int8)])
        return pa.DictionaryArray.from_arrays(indices, filled(random, type_.value_type, entries))
    if pa.types.is_run_end_encoded(type_):
        ends = [row for row in range(1, rows) if random.random() < 0.5] + [rows] * (rows > 0)
        values = filled(random, type_.value_type, len(ends))
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int16()), values)
    ids = pa.array(random.choices(type_.type_codes, k=rows), pa.int8())
    names, codes = [field.name for field in type_], type_.type_codes
    if type_.mode == "sparse":
        children = [filled(random, field.type, rows) for field in type_]
        return pa.UnionArray.from_sparse(ids, children, names, codes)
    children = [filled(random, field.type, 3) for field in type_]
    places = pa.array(sorted(random.randrange(3) for _ in range(rows)), pa.int32())
    return pa.UnionArray.from_dense(ids, places, children, names, codes)


def holds(type_: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Returns whether `is_kind` holds for a type or for a type nested in it."""
    if is_kind(type_):
        return True
    if pa.types.is_dictionary(type_):
        return holds(type_.value_type, is_kind)
    if pa.types.is_run_end_encoded(type_):
        return holds(type_.value_type, is_kind)
    return any(holds(type_.field(i).type, is_kind) for i in range(type_.num_fields))


def can_show(type_: Any) -> bool:
    """Returns False for types whose values pyarrow 26 can't show.

    Of runs in list views it reads out of bounds, and it ends the process for dictionaries of 16-bit floats
    in runs.
    """
    of_runs = pa.types.is_run_end_encoded
    in_views = holds(type_, lambda t: pa.types.is_list_view(t) and holds(t, of_runs))
    in_runs = holds(type_, lambda t: of_runs(t) and holds(t.value_type, pa.types.is_dictionary))
    return not (in_views or in_runs)


def in_pieces(random: Random, array: Any, ctx: Any = "host") -> sa.Column:
    """Converts the array to a column of up to four chunks."""
    edges = [0, *sorted(random.choices(range(len(array) + 1), k=random.randint(0, 3))), len(array)]
    pieces = [array.slice(first, last - first) for first, last in itertools.pairwise(edges)]
    return sa.from_arrow(pa.chunked_array(pieces, array.type), ctx, as_column=True)


def random_column(random: Random, ctx: Any = "host") -> tuple[Any, sa.Column]:
    """Returns an array or a chunked array, and a column of its rows in chunks.

    The chunks are slices of one array or arrays of their own, which differ in dictionaries and children.
    """
    type_ = any_type(random)
    if random.randint(0, 1):
        source = filled(random, type_, random.randint(0, 9))
        return source, in_pieces(random, source, ctx)
    source = pa.chunked_array([filled(random, type_, random.randint(0, 4)) for _ in range(3)], type_)
    return source, sa.from_arrow(source, ctx, as_column=True)
