"""gdb pretty printers for buffers, storages, columns, tables and budgets.

    (gdb) source scripts/gdb/saeta_printers.py
    (gdb) print table
    $1 = saeta::table: 3 rows, 2 columns, 1 batch = {fare = float64, city = string}

They only read memory and call no function of the program, so they also work on a core file. They need debug
information about the types: a program that includes the headers, compiled with -g. A budget shows its bytes
only if there is debug information for `budget::node`, as in a libsaeta with -g. Written for libstdc++.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gdb
import gdb.printing

DEVICE_KINDS = {1: "host", 2: "cuda"}  # as DLPack numbers them
UNLIMITED = (1 << 64) - 1
UNKNOWN_NULLS = -1


def text_of(value: Any) -> str:
    """Returns the contents of a std::string."""
    size = int(value["_M_string_length"])
    return str(value["_M_dataplus"]["_M_p"].string("utf-8", "replace", length=size)) if size else ""


def pointee(pointer: Any) -> Any:
    """Returns the object that a std::shared_ptr or std::unique_ptr points to, or None if it is null."""
    # std::unique_ptr consists of the pointer only, so it can be cast.
    if pointer.type.strip_typedefs().name.startswith("std::unique_ptr"):
        raw = pointer.address.cast(pointer.type.template_argument(0).pointer().pointer()).dereference()
    else:
        raw = pointer["_M_ptr"]
    return raw.dereference() if int(raw) else None


def items_of(vector: Any) -> list[Any]:
    """Returns the elements of a std::vector."""
    first, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    return [(first + place).dereference() for place in range(int(end - first))]


def items_of_short_list(values: Any) -> list[Any]:
    """Returns the elements of a saeta::short_list."""
    many = items_of(values["many_"])
    few = values["few_"]["_M_elems"]
    return many or [few[place] for place in range(int(values["size_"]))]


def device_name(device: Any) -> str:
    kind, ordinal = int(device["kind"]), int(device["ordinal"])
    name = DEVICE_KINDS.get(kind, f"device kind {kind}")
    return name if name == "host" else f"{name}:{ordinal}"


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def atomic(value: Any) -> int:
    """Returns the number in a std::atomic, whose only member it is."""
    return int(value.address.cast(value.type.strip_typedefs().template_argument(0).pointer()).dereference())


def type_name(data_type: Any) -> str:
    parts = pointee(data_type["parts_"])
    return "no type" if parts is None else text_of(parts["extension_name"]) or text_of(parts["name"])


class Storage:
    """A saeta::storage: the allocation that buffers refer to."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_string(self) -> str:
        block = self._value["block_"]
        external = "external, " if bool(self._value["external_"]) else ""
        kind = str(block["kind"]).rpartition("::")[2]
        label = block["label"]["name_"]
        tag = text_of(label.dereference()) if int(label) else ""
        return (
            f"saeta::storage '{tag}' on {device_name(block['device'])}: {int(block['bytes']):,} bytes at "
            f"{int(block['pointer']):#x}, {external}{kind} memory, generation {int(block['generation'])}"
        )


class Buffer:
    """A saeta::buffer: a range of bytes in a storage."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_string(self) -> str:
        storage = pointee(self._value["storage_"])
        if storage is None:
            return "absent saeta::buffer"
        offset, size = int(self._value["offset_"]), int(self._value["size_"])
        return f"saeta::buffer of bytes [{offset:,}, {offset + size:,}) of {Storage(storage).to_string()}"


class Column:
    """A saeta::column. It shows its buffers, its dictionary and its child columns."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._parts = pointee(value["parts_"])

    def to_string(self) -> str:
        if self._parts is None:
            return "saeta::column that was moved from"
        of_slice = pointee(self._value["of_slice_"])
        nulls = atomic((self._parts["facts"] if of_slice is None else of_slice)["nulls"])
        known = "nulls not counted" if nulls == UNKNOWN_NULLS else count(nulls, "null", "nulls")
        rows = count(int(self._value["length_"]), "row", "rows")
        named = type_name(self._parts["type"])
        return f"saeta::column of {named}: {rows} from {int(self._value['offset_'])}, {known}"

    def children(self) -> Iterator[tuple[str, Any]]:
        if self._parts is None:
            return
        for place, buffer in enumerate(items_of_short_list(self._parts["buffers"])):
            yield f"buffer {place}", buffer
        dictionary = pointee(self._parts["dictionary"])
        if dictionary is not None:
            yield "dictionary", dictionary
        for place, child in enumerate(items_of(self._parts["children"])):
            yield f"child {place}", child


class Table:
    """A saeta::table. It shows the name and the type of each column."""

    def __init__(self, value: Any) -> None:
        self._value = value
        schema = pointee(value["schema_"])
        self._fields = [] if schema is None else items_of(schema["fields_"]["fields"])

    def to_string(self) -> str:
        batches = items_of(self._value["batches_"])
        return (
            f"saeta::table: {count(int(self._value['rows_']['count']), 'row', 'rows')}, "
            f"{count(len(self._fields), 'column', 'columns')}, {count(len(batches), 'batch', 'batches')}"
        )

    def children(self) -> Iterator[tuple[str, str]]:
        for field in self._fields:
            yield text_of(field["name"]), type_name(field["type"])


class Budget:
    """A saeta::budget. The bytes shown include credit that threads hold in advance."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_string(self) -> str:
        name = f"saeta::budget '{text_of(self._value['name_'])}'"
        try:
            node = pointee(self._value["node_"])
            granted, reserved, peak = (int(node[each]) for each in ("granted", "reserved", "peak"))
            limit, closed = atomic(node["limit"]), atomic(node["closed"])
        except gdb.error:  # no debug information about the members of budget::node
            return name
        of = "no limit" if limit == UNLIMITED else f"of {limit:,}"
        ended = ", closed" if closed else ""
        return f"{name}: {granted:,} bytes granted {of}, {reserved:,} reserved, peak {peak:,}{ended}"

    def children(self) -> Iterator[tuple[str, Any]]:
        parent = pointee(self._value["parent_"])
        if parent is not None:
            yield "parent", parent


def printers() -> gdb.printing.RegexpCollectionPrettyPrinter:
    made = gdb.printing.RegexpCollectionPrettyPrinter("saeta")
    for printer in (Storage, Buffer, Column, Table, Budget):
        name = printer.__name__.lower()
        made.add_printer(name, f"^saeta::{name}$", printer)
    return made


gdb.printing.register_pretty_printer(None, printers(), replace=True)
