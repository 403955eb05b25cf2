"""Marks columns of a Parquet footer as times and timestamps without a zone.

cuDF's writer of several tables marks all of them as adjusted to UTC. The mark is changed in place:
Thrift's compact protocol has booleans of structs in the type of their field. Standard: apache/parquet-format,
parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

END = b"PAR1"
LENGTH = 4  # bytes of the footer's length, before the magic number

# Types of Thrift's compact protocol.
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12

# Numbers of fields in parquet.thrift.
SCHEMA = 2  # of FileMetaData
CHILDREN, LOGICAL_TYPE = 5, 10  # of SchemaElement
TIME, TIMESTAMP = 7, 8  # of LogicalType
IS_ADJUSTED_TO_UTC = 1  # of TimeType and TimestampType


class _Field(NamedTuple):
    number: int
    kind: int
    at: int  # of its type
    begin: int  # of its value


class _Reader:
    def __init__(self, content: bytearray, at: int) -> None:
        self.content = content
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        """Reads an unsigned number of variable length."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def fields(self) -> Iterator[_Field]:
        """Yields the fields of a struct. Whoever takes one may read it or not."""
        number = 0
        while True:
            at = self.at
            byte = self.byte()
            kind = byte & 0x0F
            if kind == STOP:
                return
            if byte >> 4:
                number += byte >> 4
            else:
                number = (value := self.number()) >> 1 ^ -(value & 1)
            begin = self.at
            yield _Field(number, kind, at, begin)
            self.at = begin
            self.skip(kind)

    def elements(self) -> tuple[int, int]:
        """Reads the beginning of a list: the number of its elements and their type."""
        byte = self.byte()
        count = byte >> 4
        return (self.number() if count == 0x0F else count), byte & 0x0F

    def skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in (TRUE, FALSE):
            self.at += in_list
        elif kind == BYTE:
            self.at += 1
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            count = self.number()
            self.at += count
        elif kind in (LIST, SET):
            count, element = self.elements()
            for _ in range(count):
                self.skip(element, in_list=True)
        elif kind == MAP:
            raise ValueError("a footer of Parquet has no maps")
        elif kind == STRUCT:
            for _ in self.fields():
                pass
        else:
            self.number()


def without_zones(end_of_file: bytes, leaves: Sequence[bool]) -> bytes:
    """Returns the end of a file with a footer whose times and timestamps are not adjusted to UTC.

    Args:
        end_of_file: the footer, and any bytes before it.
        leaves: whether a column without children is a time or timestamp without a zone, in the order of the
            file.
    """
    content = bytearray(end_of_file)
    after = len(content) - len(END) - LENGTH
    length = int.from_bytes(content[after : after + LENGTH], "little")
    if not any(leaves):
        return end_of_file
    reader = _Reader(content, after - length)
    marked = [
        mark for field in reader.fields() if field.number == SCHEMA for mark in _marks_of_leaves(reader)
    ]
    for is_plain, mark in zip(leaves, marked, strict=True):
        if is_plain:
            if mark is None:
                raise ValueError("a time or timestamp is none in the footer")
            content[mark] = content[mark] & 0xF0 | FALSE
    return bytes(content)


def _marks_of_leaves(reader: _Reader) -> Iterator[int | None]:
    """Yields for each column without children where it is said whether it is adjusted to UTC, if it is."""
    count, _ = reader.elements()
    for _ in range(count):
        is_leaf, mark = True, None
        for field in reader.fields():
            if field.number == CHILDREN:
                is_leaf = reader.number() == 0
            elif field.number == LOGICAL_TYPE:
                mark = _mark_of(reader)
        if is_leaf:
            yield mark


def _mark_of(reader: _Reader) -> int | None:
    found = None
    for kind in reader.fields():
        if kind.number in (TIME, TIMESTAMP):
            for field in reader.fields():
                if field.number == IS_ADJUSTED_TO_UTC:
                    found = field.at
    return found
