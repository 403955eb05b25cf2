"""torch's graph captures and MemPools allocate from a context, on a GPU."""

from __future__ import annotations

import pytest

import saeta as sa

pytestmark = pytest.mark.gpu


def in_torch(run_python, program):
    """Runs the program in a new process, because torch's allocator can be replaced only once per process."""
    pytest.importorskip("torch")
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    done = run_python(
        """
import copy, gc, torch, saeta as sa, saeta.allocators
ctx = sa.context("cuda", budget="1GiB")
MIB = 1 << 20

def charged():
    ctx.synchronize()
    return ctx.memory.by_tag()
"""
        + program
        + "print('done')\n"
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


ON_SAETA = "torch.cuda.memory.change_current_allocator(saeta.allocators.torch_allocator(ctx))\n"


def test_torch_captures_code_that_allocates(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
source = torch.zeros(MIB, dtype=torch.int32, device="cuda")
(source * 2 + 3) * source                    # loads the kernels before the capture
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = source * 2
    shifted = doubled + 3
    del doubled
    result = shifted * shifted               # reuses the memory of `doubled`
    del shifted
pool = ctx.memory.by_tag()["torch.graph_pool"]
assert pool // (4 * MIB) == 2, pool          # torch may allocate a few more bytes
kept = []
for number in range(100):
    source.fill_(number)
    graph.replay()
    kept.append(torch.full((MIB,), number, dtype=torch.int32, device="cuda"))   # not the graph's memory
    assert result.eq((2 * number + 3) ** 2).all().item()
    if len(kept) == 10:
        first = number - 9
        assert all(each.eq(first + place).all().item() for place, each in enumerate(kept))
        kept.clear()
assert ctx.memory.by_tag()["torch.graph_pool"] == pool
graph.reset()
assert charged()["torch.graph_pool"] // (4 * MIB) == 1, "the result is alive"
del result
assert charged().get("torch.graph_pool", 0) < 4096
del source, kept
gc.collect()
assert sum(charged().values()) < 4096, charged()
""",
    )


def test_torch_trains_a_step_inside_a_graph(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
torch.manual_seed(0)

def make():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).cuda()
    return net, torch.optim.SGD(net.parameters(), lr=0.01)

batch, target = torch.randn(32, 64, device="cuda"), torch.randn(32, 8, device="cuda")

def step(net, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(net(batch), target)
    loss.backward()
    optimizer.step()
    return loss

eager, eager_optimizer = make()
net, optimizer = make()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step(net, optimizer)
torch.cuda.current_stream().wait_stream(side)
optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step(net, optimizer)
for _ in range(100):
    graph.replay()
for _ in range(103):
    expected = step(eager, eager_optimizer)
assert abs(loss.item() - expected.item()) < 1e-4, (loss.item(), expected.item())
for mine, theirs in zip(net.parameters(), eager.parameters(), strict=True):
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
""",
    )


def test_graphed_callables_of_torch_share_a_pool_and_return_it(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
torch.manual_seed(0)
parts = tuple(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()).cuda() for _ in range(2))
# torch can't capture parameters that were used on another stream
plain = torch.nn.Sequential(*copy.deepcopy(parts))
sample = torch.randn(16, 64, device="cuda", requires_grad=True)
expected = plain(sample)
(gradient,) = torch.autograd.grad(expected.sum(), sample)
samples = tuple((torch.randn(16, 64, device="cuda", requires_grad=True),) for _ in parts)
graphed = torch.cuda.make_graphed_callables(parts, samples)
assert ctx.memory.by_tag()["torch.graph_pool"] > 0
for _ in range(100):
    found = graphed[1](graphed[0](sample))
    (again,) = torch.autograd.grad(found.sum(), sample)
torch.testing.assert_close(found, expected)
torch.testing.assert_close(again, gradient)
del graphed, parts, plain, found, again, expected, gradient, samples
gc.collect()
# one workspace per stream, from the pool of the first capture that needed it
torch._C._cuda_clearCublasWorkspaces()
assert charged().get("torch.graph_pool", 0) < 4096, charged()
""",
    )


def test_graphs_of_torch_share_a_pool(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
source = torch.ones(MIB, dtype=torch.int32, device="cuda")
(source + 1) * 2
graphs, results = [torch.cuda.CUDAGraph() for _ in range(3)], []
for number, graph in enumerate(graphs):
    with torch.cuda.graph(graph, pool=graphs[0].pool() if number else None):
        passing = source + number
        results.append(passing * 2)
        del passing
assert ctx.memory.by_tag()["torch.graph_pool"] // (4 * MIB) == 4, "one temporary for all"
for _ in range(100):
    for number, graph in enumerate(graphs):
        graph.replay()
    for number, result in enumerate(results):
        assert result.eq(2 * (1 + number)).all().item()
results.clear()
del result
for graph in graphs[1:]:
    graph.reset()
assert charged()["torch.graph_pool"] // (4 * MIB) == 4, "one graph is left"
graphs[0].reset()
assert charged().get("torch.graph_pool", 0) < 4096
""",
    )


def test_a_capture_of_torch_on_two_streams_keeps_their_memory_apart(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
source = torch.ones(MIB, dtype=torch.int32, device="cuda")
(source + 1) * 3
side = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        for _ in range(8):
            beside = (source + 1) * 3
    for _ in range(8):
        here = (source + 2) * 5
    main.wait_stream(side)
    total = here + beside
for _ in range(100):
    graph.replay()
    assert total.eq(21).all().item()
""",
    )


def test_a_refused_allocation_does_not_end_torchs_capture(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
source = torch.zeros(MIB, dtype=torch.int32, device="cuda")
source + 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    try:
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    except RuntimeError as refusal:
        assert str(2 << 30) in str(refusal), refusal
    else:
        raise AssertionError("the budget holds nothing back")
    result = source + 1
graph.replay()
assert result.eq(1).all().item()
""",
    )


def test_foreign_views_can_be_dropped_while_torch_captures(run_python):
    """An allocation from torch's pool notes the capture, so that `ctx.capturing()` is not needed."""
    in_torch(
        run_python,
        ON_SAETA
        + """
import numpy
column = sa.from_dlpack(numpy.arange(1000, dtype="i4"), ctx)
view = torch.from_dlpack(column)
source = torch.zeros(MIB, dtype=torch.int32, device="cuda")
source + 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = source + 1
    del view, column
    assert ctx.memory.statistics()["pending_releases"] == 1
graph.replay()
assert result.eq(1).all().item()
ctx.synchronize()
assert ctx.memory.statistics()["pending_releases"] == 0
""",
    )


def test_allocating_through_torch_in_a_foreign_capture_needs_a_pool(run_python):
    in_torch(
        run_python,
        ON_SAETA
        + """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
graph = ctypes.c_void_p()
pool = saeta.allocators.graph_pool(ctx)
stream = torch.cuda.Stream()
source = torch.zeros(MIB, dtype=torch.int32, device="cuda")
source + 1
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    assert driver.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.cuda_stream), 2) == 0   # relaxed
    try:
        source + 1
    except RuntimeError as refusal:
        assert "saeta.allocators.graph_pool" in str(refusal), refusal
    else:
        raise AssertionError("whose memory would it be?")
    with pool:
        result = source + 1
    assert driver.cuStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(graph)) == 0
assert charged()["graph_pool"] == 4 * MIB
assert driver.cuGraphDestroy(graph) == 0
del result
pool.release()
assert "graph_pool" not in charged()
""",
    )


def test_a_torch_mem_pool_allocates_from_a_context(run_python):
    in_torch(
        run_python,
        """
own = torch.zeros(MIB, dtype=torch.int32, device="cuda")       # from torch's default allocator
assert charged() == {}
(own + own) * 3
pool = saeta.allocators.torch_mem_pool(ctx, tag="experts")
with torch.cuda.use_mem_pool(pool):
    inside = torch.ones(8 * MIB, dtype=torch.int32, device="cuda")
assert charged()["experts"] >= 32 * MIB
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=pool.id):
    passing = own + inside[:MIB]
    result = passing * 3
    del passing
for number in range(100):
    own.fill_(number)
    graph.replay()
    assert result.eq(3 * (number + 1)).all().item()
with torch.cuda.use_mem_pool(pool):
    try:
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    except RuntimeError as refusal:
        assert str(2 << 30) in str(refusal), refusal
    else:
        raise AssertionError("the budget holds nothing back")
graph.reset()
del inside, result, graph, pool
gc.collect()
torch.cuda.empty_cache()
assert charged() == {}, charged()
""",
    )
