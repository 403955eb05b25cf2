"""Arbitrary objects and numbers of any size as arguments of the bindings: errors are Saeta's, never a
translated `std::bad_cast`."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa

NUMBERS = [2**63, 2**64, 2**70, -(2**63) - 1, -(2**70), 10**5000]


def uses(ctx: sa.Context, table: sa.Table, path: str) -> dict[str, Any]:
    column, schema = table["a"], table.schema
    return {
        "table item": lambda n: table[n],
        "table column": lambda n: table.column(n),
        "select": lambda n: table.select(n),
        "select several": lambda n: table.select([0, n]),
        "drop_columns": lambda n: table.drop_columns([n]),
        "set_column": lambda n: table.set_column(n, "b", [1, 2]),
        "add_column": lambda n: table.add_column(n, "b", [1, 2]),
        "table slice": lambda n: table.slice(n),
        "table slice length": lambda n: table.slice(0, n),
        "head": lambda n: table.head(n),
        "tail": lambda n: table.tail(n),
        "to_batches": lambda n: table.to_batches(-abs(n)),
        "column item": lambda n: column[n],
        "column slice": lambda n: column.slice(n),
        "column slice length": lambda n: column.slice(0, n),
        "field": lambda n: schema.field(n),
        "schema item": lambda n: schema[n],
        "allocate": lambda n: ctx.allocate(n),
        "alignment": lambda n: ctx.allocate(10, alignment=n),
        "budget": lambda n: setattr(ctx.memory, "limit", n),
        "context budget": lambda n: sa.context("host", budget=n),
        "reserve": lambda n: ctx.memory.reserve(n),
        "use": lambda n: sa.use(n, reads=column).__enter__(),
        "record": lambda n: ctx.memory.record(capacity=n),
        "dlpack stream": lambda n: column.__dlpack__(stream=n),
        "dlpack device": lambda n: column.__dlpack__(dl_device=(n, 0)),
        "dlpack version": lambda n: column.__dlpack__(max_version=(n, 0)),
        "batches": lambda n: sa.read_ipc(path, ctx, batches=n),
        "batch pair": lambda n: sa.read_ipc(path, ctx, batches=(0, n)),
        "in flight": lambda n: sa.scan_ipc(path, ctx, in_flight=n),
        "counted": lambda n: sa.counted_table(table, [1], num_rows=n),
        "type": lambda n: sa.DataType(n),
        "batch rows": lambda n: sa.read_parquet(path, ctx, batch_size=-abs(n)),
    }


WAYS = [
    "table item",
    "table column",
    "select",
    "select several",
    "drop_columns",
    "set_column",
    "add_column",
    "table slice",
    "table slice length",
    "head",
    "tail",
    "to_batches",
    "column item",
    "column slice",
    "column slice length",
    "field",
    "schema item",
    "allocate",
    "alignment",
    "budget",
    "context budget",
    "reserve",
    "use",
    "record",
    "dlpack stream",
    "dlpack device",
    "dlpack version",
    "batches",
    "batch pair",
    "in flight",
    "counted",
    "type",
    "batch rows",
]


@pytest.mark.parametrize("way", WAYS)
def test_numbers_of_any_size_raise_saetas_errors(host: sa.Context, tmp_path: Any, way: str) -> None:
    table = sa.table({"a": np.arange(2)}, host)
    path = str(tmp_path / "x.arrow")
    sa.write_ipc(table, path)
    named = uses(host, table, path)
    assert list(named) == WAYS
    use = named[way]
    for number in NUMBERS:
        with suppress(sa.Error):  # some functions accept huge sizes as "everything"
            use(number)


def test_the_dlpack_table_refuses_foreign_objects(host: sa.Context) -> None:
    """A consumer may pass any object to the functions of DLPack's C exchange API."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = sa.Column.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    functions = (ctypes.c_void_p * 7).from_address(api.PyCapsule_GetPointer(capsule, b"dlpack_exchange_api"))
    table = sa.table({"a": [1]}, host)
    for place in (3, 5):  # the functions for a managed and for a borrowed tensor
        room = (ctypes.c_char * 64)()
        take = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(functions[place])
        for other in (5, None, "a", object(), table, table.schema):
            with pytest.raises(
                sa.TypeMismatch, match=f"was given an object of type .*{type(other).__name__}"
            ):
                take(other, ctypes.addressof(room))


@pytest.mark.parametrize("text", ["\udcff", "a\ud800"])
def test_text_without_utf8_encoding_is_not_a_name(host: sa.Context, text: str) -> None:
    table = sa.table({"a": [1]}, host)
    assert text not in table
    assert text not in table.schema
    assert table.schema.field(0).type != text
    for ask in (lambda: table[text], lambda: table.schema.field(text), lambda: table.drop_columns(text)):
        with pytest.raises(sa.ColumnNameError):
            ask()


@pytest.mark.parametrize("bounds", [slice("a", None), slice(None, 1.5), slice(None, None, "x")])
def test_a_slice_of_anything_but_numbers_is_a_type_mismatch(host: sa.Context, bounds: Any) -> None:
    table = sa.table({"a": [1]}, host)
    for sliced in (table, table["a"]):
        with pytest.raises(sa.TypeMismatch, match="the bounds of a slice must be numbers of rows, or None"):
            sliced[bounds]


IN_SUBINTERPRETER = """
for name in ("saeta", "saeta._core", "saeta._ipc"):
    try:
        __import__(name)
    except ImportError as failure:
        assert "main interpreter" in str(failure), failure
    else:
        raise SystemError(name)
"""
SUBINTERPRETER = """
import sys
import saeta as sa
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    create = lambda: interpreters.create("legacy")
else:
    import _xxsubinterpreters as interpreters
    create = interpreters.create
ctx = sa.context("host")
for _ in range(3):
    failed = interpreters.run_string(create(), sys.argv[1])
    assert failed is None, failed
table = sa.table({"a": [1, 2, 3]}, ctx)
assert table["a"].to_pylist() == [1, 2, 3]
assert ctx.device == "host"
try:
    table["b"]
except sa.ColumnNameError:
    print("whole")
"""


def test_a_subinterpreter_is_refused_and_the_main_one_still_works(run_python: Any) -> None:
    done = run_python(SUBINTERPRETER, IN_SUBINTERPRETER)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"c\0\xff\xfe", b"c\\x00\\xff\\xfe"),
        (b"\x1b\x07\xc2\x9b", b"\\x1b\\x07\\x9b"),
    ],
)
def test_invalid_names_of_columns_can_be_inspected(tmp_path: Any, name: bytes, shown: bytes) -> None:
    path = file_with_name(tmp_path, pa.table({"QQQQ": [1]}), name)
    assert [column["type"] for column in sa.ipc.inspect(path)["columns"]] == ["int64"]
    done = inspected(path)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert name not in done.stdout


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (pa.table({"QQQQ": [1]}), r"column '\\x1bn\\xe9 '"),
        (pa.table({"s": pa.array([{"QQQQ": 1}])}), r"column 's', child '\\x1bn\\xe9 '"),
    ],
)
def test_a_name_that_is_not_utf8_is_a_format_error(tmp_path: Any, table: pa.Table, place: str) -> None:
    path = file_with_name(tmp_path, table, b"\x1bn\xe9 ")
    for read in (lambda: sa.ipc.inspect(path), lambda: sa.read_ipc(path, "host")):
        with pytest.raises(sa.FormatError, match=place):
            read()
    done = inspected(path)
    assert done.returncode == 3
    assert b"\x1b" not in done.stderr


def file_with_name(folder: Any, table: pa.Table, name: bytes) -> Any:
    """Writes the table to a file and replaces the name QQQQ by `name`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    path = folder / "odd.arrow"
    path.write_bytes(sink.getvalue().to_pybytes().replace(b"QQQQ", name))
    return path


def inspected(path: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "saeta", "inspect", str(path)]
    return subprocess.run(command, capture_output=True, timeout=300, check=False)
