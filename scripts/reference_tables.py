#!/usr/bin/env python3
"""Writes the generated pages of the reference: docs/reference/types.md, which operations support each type
(found by trying), and docs/reference/cli.md, the help of the command `saeta`.

    reference_tables.py [--check]

--check compares instead of writing; exit code 1 if they differ
(tests/python/test_reference_tables.py).
"""

from __future__ import annotations

import argparse
import contextlib
import html
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs/reference"
sys.path.append(str(ROOT / "tests/python_support"))
from arrow_data import arrays  # noqa: E402 - the types that the tests use

ROWS = 20
# Types that are left out of the table: they differ from another type only in the unit, or combine others.
SAME_AGAIN = re.compile(r"\[(s|ms|ns)\b|Madrid|^deep$|^dictionary uint8$")
INTRODUCTION = """# Supported types: what each can do

`scripts/reference_tables.py` finds every cell by trying it in a context on the host, and a test compares.
Times, timestamps and durations of other units do what those in microseconds do. The last two types are
Saeta's: booleans of one byte, as tensors have them, and [symbols](../coming-from-xlog.md), numbers of 32 bits
that stand for names.

| column | yes means |
|---|---|
| Arrow | an array with nulls is imported and exported through the Arrow C interfaces with equal values |
| file | a table of it is written to an Arrow file and read again with equal values |
| pickle | a column is pickled and unpickled with equal values |
| Python | `to_pylist` gives values of which `sa.column` makes an equal column of the same type |
| rows | `take`, `filter` and `drop_null` choose rows of it on its device |
| join | `combine_chunks` makes one chunk of several |
| equals | `equals` compares values on the device |
| fill | `fill_null` replaces nulls by a value |
| cast | `cast` converts it: to float64 or int64, or to the integers over the same bytes |
| DLPack | a column without nulls is a tensor, at once or with this keyword of `to_torch`, `to_numpy` ... |

A cell that says no is an error with a message: `UnsupportedError`, `TypeMismatch` or `ExchangeError`. Lists,
strings and binaries have `offsets_and_values` instead of a tensor
([columns as tensors](../guides/tensors.md#strings-and-lists)).
"""


def works(attempt: Callable[[], Any]) -> bool:
    """Returns whether an attempt succeeds: it neither returns False nor raises an error of Saeta."""
    try:
        return attempt() is not False
    except (sa.Error, pa.ArrowNotImplementedError):
        return False


def same(column: sa.Column, array: pa.Array) -> bool:
    shown = column.to_arrow()
    given = pa.chunked_array([array])
    return bool(shown.type == given.type) and shown.to_pylist() == given.to_pylist()


def through_a_file(column: sa.Column, array: pa.Array, ctx: sa.Context) -> bool:
    read = sa.read_ipc(io.BytesIO(sa.table({"x": column}, ctx).to_ipc_bytes()), ctx)
    return same(read["x"], array)


def through_a_pickle(column: sa.Column, array: pa.Array) -> bool:
    import pickle

    with sa.unpickling("host"):
        return same(pickle.loads(pickle.dumps(column)), array)


def chooses_rows(column: sa.Column, array: pa.Array) -> bool:
    some = [row for row in range(ROWS) if row % 3]
    expected = [value for row, value in enumerate(array.to_pylist()) if row % 3]
    chosen = [column.take(some), column.filter([bool(row % 3) for row in range(ROWS)])]
    column.drop_null()
    return all(each.to_arrow().to_pylist() == expected for each in chosen)


def filled(column: sa.Column) -> bool:
    valid = column.drop_null()
    return column.fill_null(valid[:1]).null_count == 0


def is_cast(column: sa.Column) -> bool:
    targets = ("float64", "int64", "int32")
    return any(
        works(lambda target=target: column.cast(target, round=True))
        for target in targets
        if target != column.type.name
    )


def as_tensor(column: sa.Column) -> str:
    """Says how a column becomes a tensor. For types without one, `to_numpy` returns arrays of objects."""
    if works(lambda: np.from_dlpack(column)):
        return "yes"
    for keyword, value in (("reinterpret", True), ("codes", True), ("dtype", "float64")):
        chosen = {keyword: value}
        if works(lambda chosen=chosen: column.to_numpy(**chosen).dtype.kind in "iuf"):
            return f"`{keyword}={value!r}`"
    return "no"


def cells(column: sa.Column, array: pa.Array, without_nulls: sa.Column) -> list[str]:
    ctx = column.context
    attempts: list[Callable[[], Any]] = [
        lambda: same(column, array),
        lambda: through_a_file(column, array, ctx),
        lambda: through_a_pickle(column, array),
        lambda: sa.column(column.to_pylist(), ctx, name="x", type=column.type).equals(column),
        lambda: chooses_rows(column, array),
        lambda: sa.Column.from_chunks([column, column]).combine_chunks().num_chunks == 1,
        lambda: column.equals(column.take(list(range(ROWS)))),
        lambda: filled(column),
        lambda: is_cast(column),
    ]
    return [*("yes" if works(attempt) else "no" for attempt in attempts), as_tensor(without_nulls)]


def type_rows(ctx: sa.Context) -> list[list[str]]:
    full = arrays(ROWS, "none")
    rows = []
    for name, array in arrays(ROWS).items():
        if SAME_AGAIN.search(name):
            continue
        column = sa.from_arrow(array, ctx, as_column=True)
        without_nulls = sa.from_arrow(full[name], ctx, as_column=True)
        rows.append([f"`{column.type.name}`", *cells(column, array, without_nulls)])
    for type in ("bool8", "symbol"):  # noqa: A001
        values = [row % 3 == 0 if type == "bool8" else f"name {row}" for row in range(ROWS)]
        column = sa.column(
            [value if row % 7 != 3 else None for row, value in enumerate(values)], ctx, name="x", type=type
        )
        array = pa.concat_arrays(column.to_arrow().chunks)
        rows.append([f"`{type}`", *cells(column, array, sa.column(values, ctx, name="x", type=type))])
    return rows


def type_page() -> str:
    head = ["type", "Arrow", "file", "pickle", "Python", "rows", "join", "equals", "fill", "cast", "DLPack"]
    with contextlib.closing(sa.context("host")) as ctx:
        rows = type_rows(ctx)
    table = "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
    return f"{INTRODUCTION}\n{table}\n"


def command_page() -> str:
    """Returns typer's Markdown help of the command, with the exit codes only once."""
    command = [sys.executable, "-m", "typer", "saeta.cli.app", "utils", "docs", "--name", "saeta"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^Exit codes: .*\n+", "", html.unescape(made), flags=re.MULTILINE)
    text = text.replace("# `saeta`", "# The command line", 1).replace("<", "&lt;")
    text = re.sub(r"`[^`\n]*`", lambda code: code[0].replace("&lt;", "<"), text)
    codes = "The exit codes are listed with the [errors](../errors.md#exit-codes-of-saeta)."
    return re.sub(r"\n{3,}", "\n\n", text.replace("\n\n", f"\n\n{codes}\n\n", 1)).strip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes docs/reference/types.md and docs/reference/cli.md.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    differ = []
    for name, make in (("types.md", type_page), ("cli.md", command_page)):
        page = REFERENCE / name
        text = make()
        if options.check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            differ.append(name)
        elif not options.check:
            page.write_text(text, encoding="utf-8")
    if differ:
        print(f"{', '.join(differ)} differ from what is found: run scripts/reference_tables.py")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
