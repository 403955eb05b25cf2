"""Ctrl-C at any line of code that reads, writes or starts threads is raised to the caller and leaks
nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from loader_files import write_ipc, write_parquet

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="sys.settrace gives no events of opcodes from CPython 3.12 on"
)


ROWS = pa.table({"a": list(range(40)), "c": pa.array(["x", "y"] * 20).dictionary_encode()})

PRELUDE = """
import io, sys, warnings
import pyarrow as pa
import saeta as sa
from python_support.interrupts import try_all

warnings.simplefilter("ignore", ResourceWarning)  # about a dropped writer
arrow, parquet, target, step = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
table = sa.table({"a": [1, 2, 3]}, "host")

def load(files, **options):
    return sa.loader(files, "host", **{"batch_size": 16, "window": "100B", "to": "table", **options})

def take_one(iterator):
    next(iter(iterator))
"""

WORK = {
    "a loader": (211, "[None for _ in load(arrow, to='numpy', tensor_options=sa.TensorOptions(codes=True))]"),
    "a loader that permutes": (199, "[None for _ in load(arrow, shuffle='rows')]"),
    "a loader of parquet": (193, "[None for _ in load(parquet)]"),
    "a loader that is left": (131, "take_one(load(parquet))"),
    "a loader that is closed": (127, "with load(parquet) as batches:\n        take_one(batches)"),
    "a scan in windows": (31, "[None for _ in sa.scan_ipc(arrow, 'host', copy=True)]"),
    "a scan of rows": (61, "[None for _ in sa.scan_ipc(arrow, 'host', batch_size=7)]"),
    "a scan of parquet": (37, "[None for _ in sa.scan_parquet(parquet, 'host')]"),
    "a scan that is left": (19, "take_one(sa.scan_parquet(parquet, 'host'))"),
    "a scan that is closed": (23, "with sa.scan_parquet(parquet, 'host') as scan:\n        take_one(scan)"),
    "a scan as a stream": (17, "pa.table(sa.scan_ipc(arrow, 'host'))"),
    "a read": (11, "sa.read_ipc(arrow, 'host', copy=True)"),
    "a read of parquet": (17, "sa.read_parquet(parquet, 'host')"),
    "a read into several contexts": (17, "sa.place(arrow, ['host', 'host'])"),
    "a writer": (17, "with sa.ipc_writer(target) as writer:\n        writer.write(table)"),
    "a writer that is left": (19, "sa.ipc_writer(target).write(table)"),
    "a writer to an object": (17, "with sa.ipc_writer(io.BytesIO()) as writer:\n        writer.write(table)"),
    "a file": (13, "table.write_ipc(target)"),
    "a spillable table": (13, "with sa.context('host').spillable(table).use() as used:\n        pass"),
}


@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_is_raised_and_leaks_nothing(tmp_path, run_python, work):
    for number in range(2):
        write_ipc(ROWS, tmp_path / f"{number}.arrow", 10)
    write_parquet(ROWS, tmp_path / "0.parquet", 10)
    step, lines = WORK[work]
    program = f"{PRELUDE}\ndef work():\n    {lines}\n\nfor each in try_all(work, step):\n    print(each)\n"
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_python(
        program, str(tmp_path / "*.arrow"), str(tmp_path / "*.parquet"), str(tmp_path / "target"), str(step),
        PYTHONPATH=paths,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
