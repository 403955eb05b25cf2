"""Dropping views while torch or CuPy captures a CUDA graph on its own stream: the capture must survive.

To see the tests fail, remove `captures_->active()` from `timelines::mark_device` (saeta/order/timeline.cpp),
which postpones context-wide events. The driver then invalidates the capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import saeta as sa
from gpu_frameworks import cupy_with_a_device, torch_with_a_device

ROWS = 1 << 16


def test_capture_blocks_can_be_nested_and_end_with_an_error(anywhere):
    with anywhere.capturing() as outer, anywhere.capturing() as inner:
        assert isinstance(outer, sa.GraphCapture)
        with pytest.raises(sa.BusyError, match="is already open"):
            inner.__enter__()
    with pytest.raises(LookupError), outer:
        raise LookupError
    with inner:
        pass


def test_a_capture_on_the_host_delays_no_release(host):
    column = sa.from_dlpack(np.arange(ROWS), host, copy=True)
    with host.capturing():
        view = np.from_dlpack(column)
        del view, column
        now = host.memory.statistics()
        assert (now["current"], now["pending_releases"]) == (0, 0)


class TorchPeer:
    def __init__(self) -> None:
        self.torch = torch_with_a_device()

    def zeros(self) -> Any:
        return self.torch.zeros(ROWS, dtype=self.torch.int32, device="cuda")

    def take(self, column: sa.Column) -> Any:
        return self.torch.from_dlpack(column)

    @contextmanager
    def capture(self) -> Iterator[Any]:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            yield graph.replay

    def numpy(self, array: Any) -> Any:
        self.torch.cuda.synchronize()
        return array.cpu().numpy()


class CupyPeer:
    def __init__(self) -> None:
        self.cupy = cupy_with_a_device()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)

    def zeros(self) -> Any:
        return self.cupy.zeros(ROWS, dtype=self.cupy.int32)

    def take(self, column: sa.Column) -> Any:
        return self.cupy.from_dlpack(column)

    @contextmanager
    def capture(self) -> Iterator[Any]:
        self.cupy.cuda.runtime.deviceSynchronize()
        graphs = []
        with self.stream:
            self.stream.begin_capture()
            yield lambda: graphs[0].launch(self.stream)
            graphs.append(self.stream.end_capture())

    def numpy(self, array: Any) -> Any:
        self.cupy.cuda.runtime.deviceSynchronize()
        return array.get()


@pytest.fixture(params=[TorchPeer, CupyPeer], ids=["torch", "cupy"])
def peer(request: pytest.FixtureRequest) -> Any:
    made = request.param()
    warm = made.zeros()
    warm += warm  # compiles the kernel before the capture
    return made


@pytest.fixture
def ctx() -> sa.Context:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    found = sa.context("cuda:0")
    found.synchronize()
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("known_by", ["announcement", "hand-over"])
def test_views_dropped_in_a_capture_are_released_after_it_and_the_graph_is_correct(peer, ctx, known_by):
    before = ctx.memory.statistics()["current"]
    column = sa.from_dlpack(np.arange(ROWS, dtype=np.int32), ctx)
    earlier = sa.from_dlpack(np.zeros(ROWS, dtype=np.int32), ctx)
    earlier_view = peer.take(earlier)
    total = peer.zeros()
    outside = peer.take(column) if known_by == "announcement" else None
    with ctx.capturing() if known_by == "announcement" else nullcontext(), peer.capture() as replay:
        inside = peer.take(column) if outside is None else outside
        total += inside
        del inside, earlier_view, earlier
        held = ctx.memory.statistics()
        assert held["pending_releases"] == 1
        assert held["current"] == before + 2 * 4 * ROWS
    for _ in range(3):
        replay()
    np.testing.assert_array_equal(peer.numpy(total), 3 * np.arange(ROWS, dtype=np.int32))
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before + 4 * ROWS, "released after the capture"
    del outside, column
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before


@pytest.mark.gpu
def test_use_tokens_opened_in_a_capture_work_in_the_graph(ctx):
    peer = CupyPeer()
    column = sa.from_dlpack(np.arange(ROWS, dtype=np.int32), ctx)
    target = ctx.allocate(4 * ROWS)
    double = peer.cupy.ElementwiseKernel("int32 x", "int32 y", "y = 2 * x", "double_in_graph")
    double(peer.zeros(), peer.zeros())
    with peer.capture() as replay, sa.use(peer.stream, reads=[column], writes=[target]) as token:
        double(peer.cupy.asarray(token.array(column)), peer.cupy.asarray(token.array(target, "i4")))
    with sa.use(peer.stream, reads=[column], writes=[target]):
        replay()
    with sa.use(reads=[target]) as token, peer.cupy.cuda.ExternalStream(token.stream):
        got = peer.cupy.asarray(token.array(target, "i4")).get()
    np.testing.assert_array_equal(got, 2 * np.arange(ROWS))


@pytest.mark.gpu
def test_memory_on_a_capturing_stream_is_refused_and_the_capture_goes_on(ctx):
    peer = CupyPeer()
    total = peer.zeros()
    with peer.capture() as replay:
        with pytest.raises(
            sa.InvalidError, match="'kept': 1024 bytes can't be allocated on a stream that captures"
        ):
            ctx.allocate(1024, tag="kept", stream=peer.stream.ptr)
        total += 1
    replay()
    np.testing.assert_array_equal(peer.numpy(total), np.ones(ROWS))
