"""Spillable tables leave a GPU when torch, CuPy or RMM need its memory, and come back unchanged."""

from __future__ import annotations

import pytest

import saeta as sa
from gpu_frameworks import installed_rmm

pytestmark = pytest.mark.gpu

PRELUDE = """
import numpy as np
import saeta as sa

MIB = 1 << 20
ctx = sa.context("cuda:0", budget="256MiB")
fares = np.arange(5 * MIB)
handles = [ctx.spillable(sa.table({"fare": fares + i}, ctx)) for i in range(5)]  # 40 MiB each
assert {each.tier for each in handles} == {"device"}
"""
CHECK = """
assert "device" not in {each.tier for each in handles[:3]}
del other
for i, each in enumerate(handles):
    with each.use() as table:
        assert table["fare"][:3].to_pylist() == [i, i + 1, i + 2]
        assert int(table["fare"].to_numpy()[-1]) == i + 5 * MIB - 1
    del table
assert ctx.memory.statistics()["refused"] == 0
assert sa.spill_statistics(ctx)["refusals_avoided"] > 0
"""
TAKES_200_MIB = {
    "torch": """
import torch
torch.cuda.memory.change_current_allocator(sa.allocators.torch_allocator(ctx))
other = torch.zeros(200 * MIB, dtype=torch.uint8, device="cuda")
""",
    "cupy": """
import cupy
cupy.cuda.set_allocator(sa.allocators.cupy_allocator(ctx))
other = cupy.zeros(200 * MIB, dtype=cupy.uint8)
""",
    "rmm": """
import rmm
rmm.mr.set_current_device_resource(sa.rmm.resource(ctx))
other = rmm.DeviceBuffer(size=200 * MIB)
""",
}


@pytest.fixture(autouse=True)
def device():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")


@pytest.mark.parametrize("library", TAKES_200_MIB)
def test_an_allocation_by_another_library_spills_tables_instead_of_failing(run_python, library):
    installed_rmm() if library == "rmm" else pytest.importorskip(library)
    done = run_python(PRELUDE + TAKES_200_MIB[library] + CHECK)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_capture_of_torch_survives_spilling(run_python):
    pytest.importorskip("torch")
    program = """
import torch
x = torch.ones(1000, device="cuda")
doubled = x * 2
graph = torch.cuda.CUDAGraph()
with ctx.capturing(), torch.cuda.graph(graph):
    doubled = x * 2
    other = ctx.allocate(200 * MIB, tag="other")
graph.replay()
assert doubled.sum().item() == 2000
"""
    done = run_python(PRELUDE + program + CHECK)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_example_runs_on_the_gpu(run_python, tmp_path):
    from contexts import PROJECT

    program = (PROJECT / "examples" / "out_of_core.py").read_text()
    done = run_python(program, "256MiB", SAETA_SPILL_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "3.0 times the budget" in done.stdout
