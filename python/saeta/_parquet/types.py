"""Which types of Parquet columns are decoded on a device and get their Arrow type back there."""

from __future__ import annotations

from typing import Any

from saeta._optional import load

# What cuDF has no layout for, in pyarrow's words. docs/guides/parquet.md has the whole table.
HOST_TYPES = {
    "is_float16": "16-bit floats",
    "is_fixed_size_binary": "binary values of a fixed size",
    "is_string_view": "string views",
    "is_binary_view": "binary views",
    "is_list_view": "list views",
    "is_large_list_view": "list views",
    "is_fixed_size_list": "lists of a fixed size",
    "is_decimal256": "decimals of 256 bits",
    "is_date64": "dates of 64 bits",
    "is_null": "nothing but nulls",
    "is_union": "unions",
    "is_run_end_encoded": "runs",
}


def reason_for_host(type: Any) -> str | None:  # noqa: A002 - lexicon's word
    """Returns why values of a pyarrow type are decoded on the host. None: a device can give them back."""
    types = load("pyarrow", "reading Parquet").types
    if hasattr(type, "storage_type"):
        type = type.storage_type  # noqa: A001
    for is_type, reason in HOST_TYPES.items():
        if getattr(types, is_type)(type):
            return reason
    if types.is_dictionary(type):
        if type.ordered:
            return "ordered dictionaries, whose values cuDF would sort"
        value = type.value_type
        plain = types.is_string(value) or types.is_binary(value)
        return None if plain else "dictionaries of other values than text and bytes"
    return next(filter(None, (reason_for_host(field.type) for field in children(type))), None)


def same_values(one: Any, other: Any) -> bool:
    """Whether values of two types of pyarrow differ in no more than what their schemas say of them.

    The names of the values of lists and maps, and whether they may be null, are such things.
    """
    one, other = (getattr(given, "storage_type", given) for given in (one, other))
    if one.num_fields == 0 or one.id != other.id:
        return bool(one == other)
    pairs = list(zip(children(one), children(other), strict=False))
    is_struct = load("pyarrow", "reading Parquet").types.is_struct(one)
    named = not is_struct or all(a.name == b.name for a, b in pairs)
    return named and one.num_fields == other.num_fields and all(same_values(a.type, b.type) for a, b in pairs)


def children(type: Any) -> list[Any]:  # noqa: A002
    """Returns the fields inside of a nested type of pyarrow."""
    return [type.field(number) for number in range(type.num_fields)]


def plain_type(type: Any) -> Any:  # noqa: A002
    """Returns the type of the values that a filter compares: of dictionaries and extensions what is below."""
    below = getattr(type, "storage_type", type)
    return getattr(below, "value_type", below) if hasattr(below, "index_type") else below
