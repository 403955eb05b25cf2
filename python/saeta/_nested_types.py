"""Parses nested types in Arrow's notation.

Examples: "list<item: int64>", "struct<a: int8, b: string not null>[...]".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from saeta import _core
from saeta._core import Field

if TYPE_CHECKING:
    from saeta._core import DataType

Parse = Callable[[str], "DataType"]

LISTS = {"list": "+l", "large_list": "+L", "list_view": "+vl", "large_list_view": "+vL"}
UNIONS = {"dense_union": "+ud", "sparse_union": "+us"}
NESTED = re.compile(r"(\w+)<(.*)>(?:\[(\d+)\])?", re.DOTALL)
UNION_FIELD = re.compile(r"(.*)=(\d+)", re.DOTALL)
OPENING, CLOSING = "<[(", ">])"


def nested_type(text: str, parse: Parse) -> DataType | None:
    """Returns the nested type that `text` names, None for any other text. `parse` reads the types inside."""
    found = NESTED.fullmatch(text)
    if found is None:
        return None
    name, inside, size = found.groups()
    parts = [part.strip() for part in _split(inside)]
    if name in LISTS and size is None and len(parts) == 1:
        return _core._nested_type(LISTS[name], [_field(parts[0], parse, "item")])
    if name == "fixed_size_list" and size is not None and len(parts) == 1:
        return _core._nested_type(f"+w:{size}", [_field(parts[0], parse, "item")])
    if size is not None:
        return None
    if name == "struct":
        return _core._nested_type("+s", [_field(part, parse) for part in parts])
    if name == "map":
        return _map(parts, parse)
    if name in UNIONS:
        return _union(UNIONS[name], parts, parse)
    if name == "run_end_encoded" and len(parts) == 2:
        ends, values = (_field(part, parse) for part in parts)
        return _core._nested_type("+r", [ends.with_nullable(False), values])
    return None


def _map(parts: list[str], parse: Parse) -> DataType | None:
    keys_sorted = parts[2:] == ["keys_sorted"]
    if len(parts) != 2 + keys_sorted:
        return None
    entries = [Field("key", parse(parts[0]), False), _field(f"value: {parts[1]}", parse)]
    return _core._nested_type("+m", [Field("entries", _core._nested_type("+s", entries), False)], keys_sorted)


def _union(kind: str, parts: list[str], parse: Parse) -> DataType | None:
    found = [UNION_FIELD.fullmatch(part) for part in parts]
    fields = [_field(one[1], parse) for one in found if one]
    codes = ",".join(one[2] for one in found if one)
    return _core._nested_type(f"{kind}:{codes}", fields) if all(found) else None


def _field(text: str, parse: Parse, unnamed: str = "") -> Field:
    """Parses a field as Arrow prints it, "name: type not null". A missing name becomes `unnamed`."""
    nullable = not text.endswith(" not null")
    text = text.removesuffix(" not null")
    name, colon, type_text = text.partition(": ")
    if not colon or any(letter in name for letter in OPENING):
        name, type_text = unnamed, text
    return Field(name, parse(type_text.strip()), nullable)


def _split(text: str) -> Iterator[str]:
    """Yields the parts between commas that are not inside brackets."""
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter in OPENING) - (letter in CLOSING)
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text.strip():
        yield text[start:]
