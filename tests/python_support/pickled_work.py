"""Functions that other processes run on pickled tables. They must be importable by name."""

from __future__ import annotations

from typing import Any

import saeta as sa


def turned(table: sa.Table, column: sa.Column) -> tuple[sa.Table, dict[str, Any]]:
    """Returns the table with its first row moved to the end, and facts that the test checks."""
    seen = {"device": table.device, "schema": table.schema, "values": column.to_pylist()}
    return sa.concat_tables([table[1:], table[:1]]), seen


class Rows:
    """A map-style data set of PyTorch whose items are tables of one row."""

    def __init__(self, table: sa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, row: int) -> sa.Table:
        return self.table[row : row + 1]


def total(table: sa.Table) -> int:
    return sum(table["a"].to_pylist())


def total_of_queue(queue: Any, answers: Any) -> None:
    answers.put(total(queue.get()))


def put_and_end(queue: Any, count: int) -> None:
    sa.install_reducers()
    for each in range(count):
        queue.put(sa.table({"a": [each]}, "host"))


def send_and_end(connection: Any, count: int) -> None:
    sa.install_reducers()
    for each in range(count):
        connection.send(sa.table({"a": [each]}, "host"))


def share_one(number: int) -> sa.Table:
    sa.install_reducers()
    return sa.table({"a": [number]}, "host")
