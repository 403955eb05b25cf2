"""The memory that a read may use is bounded by the budget, and a truncated file is an error."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from sim_devices import simulator


def write(path, table, compression=None, chunk=None, stream=False):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return path


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_decoded_memory_is_charged_until_it_is_freed(host, tmp_path, compression):
    rows = 4_000_000
    path = write(tmp_path / "zeros.arrow", pa.table({"a": np.zeros(rows, np.int8)}), compression)
    assert path.stat().st_size < rows / 50
    host.memory.limit = 1 << 20
    with pytest.raises(sa.BudgetExceeded) as refused:
        sa.read_ipc(path, host)
    assert refused.value.numbers()["limit"] == 1 << 20
    assert host.memory.statistics()["current"] == 0
    host.memory.limit = 2 * rows
    table = sa.read_ipc(path, host)
    assert rows <= host.memory.statistics()["current"] < 1.1 * rows
    column = table["a"]
    del table
    assert host.memory.statistics()["current"] >= rows
    assert column.to_numpy().sum() == 0
    del column
    assert host.memory.statistics()["current"] == 0


def test_a_file_of_any_compression_ratio_is_read(host, tmp_path):
    """150 million zeros in 37 KB: the reader has no limit for the compression ratio."""
    rows = 150_000_000
    source = sa.from_arrow(pa.table({"a": np.zeros(rows, np.int64)}), host)
    sa.write_ipc(source, tmp_path / "zeros.arrow", compression="zstd")
    del source
    assert (tmp_path / "zeros.arrow").stat().st_size < 200_000
    assert sa.read_ipc(tmp_path / "zeros.arrow", host).num_rows == rows


PEAK = """
import os, resource, sys
import saeta as sa

ctx = sa.context("host")
path = sys.argv[1]
sa.read_ipc(path, ctx, batches=(0, 0), copy=True)  # starts threads and loads libarrow before the measurement

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
table = sa.read_ipc(path, ctx, copy=True, combine_chunks=True)
print(peak() - before - table.nbytes)
"""


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("batches", [1, 1000])
def test_the_host_needs_the_table_and_a_constant(run_python, tmp_path, compression, batches):
    rows = 12_000_000
    values = np.random.default_rng(1).integers(0, 1000, rows)
    strings = np.char.mod("%d", values[: rows // 12])
    source = pa.table({"a": values, "s": pa.array(np.tile(strings, 12))})
    path = write(tmp_path / "x.arrow", source, compression, chunk=rows // batches)
    done = run_python(PEAK, path)
    assert int(done.stdout) < 48 << 20, "less than the compressed bytes alone"
    assert path.stat().st_size > 48 << 20 or compression == "zstd"


CUT = """
import json, os, sys
import pyarrow as pa
import saeta as sa

path, copy, device = sys.argv[1], {"None": None, "True": True}[sys.argv[2]], sys.argv[3]
whole = open(path, "rb").read()
if device == "sim":
    sys.path.append(os.path.join(os.environ["SAETA_BUILD"], "tests", "python"))
    import saeta_sim
    simulated = saeta_sim.Device()
    ctx = simulated.context
else:
    ctx = sa.context(device)
said = []
for kept in json.loads(sys.argv[4]):
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(whole)
    reader = sa._ipc.open_file(path, copy=copy)
    os.truncate(path, kept)
    try:
        reader.read_all(ctx)
        said.append([kept, None, None])
    except sa.Error as failure:
        said.append([kept, type(failure).__name__, str(failure)])
print(json.dumps(said))
"""


@pytest.mark.parametrize("device", ["host", "sim", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("copy", [None, True], ids=["where needed", "copy"])
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_a_truncated_file_is_an_error(run_python, tmp_path, device, compression, copy, stream):
    if device == "sim":
        simulator()
    if device == "cuda" and not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    if device == "host" and copy is None and compression is None:
        pytest.skip("views of a truncated file can't be read")
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.integers(0, 1 << 40, 9000), "s": [f"row {i}" for i in range(9000)]})
    path = write(tmp_path / "cut.arrow", table, compression, 2000, stream)
    size = path.stat().st_size
    places = [0, 1, 4095, 4096, *range(5000, size, size // 12), size - 8, size - 1]
    done = run_python(CUT, str(path), str(copy), device, json.dumps(places))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [each[0] for each in seen] == places
    for kept, kind, message in seen:
        if kind is None:  # truncated after the last batch, which is not an error
            assert kept >= size - 1000
            continue
        assert kind == "FileError", message
        assert "cut.arrow" in message
        assert "offset" in message
    assert sum(kind == "FileError" for _, kind, _ in seen) > 10
