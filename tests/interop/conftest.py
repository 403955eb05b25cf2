"""Fixtures of all Python tests: a host context that must be clean afterwards, and the shared data."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import saeta as sa

PROJECT = Path(__file__).resolve().parents[2]


@contextmanager
def clean(device: str) -> Iterator[sa.Context]:
    """A context without a budget and with counters at zero. What the block leaves alive is a failure."""
    ctx = sa.context(device)
    before = ctx.memory.statistics()
    ctx.budget = None
    ctx.reset_counters()
    yield ctx
    ctx.synchronize()
    if left_alive(ctx, before):
        gc.collect()  # what hangs in a cycle, as in the traceback of an expected error
        ctx.synchronize()
    ctx.budget = None
    assert not left_alive(ctx, before), (
        f"alive after the test: {left_alive(ctx, before)}, {ctx.memory.by_tag()}"
    )


@pytest.fixture
def host() -> Iterator[sa.Context]:
    with clean("host") as ctx:
        yield ctx


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def anywhere(request: pytest.FixtureRequest) -> Iterator[sa.Context]:
    """Each kind of device in turn."""
    if request.param == "cuda" and not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with clean(request.param) as ctx:
        yield ctx


def left_alive(ctx: sa.Context, before: dict[str, int | None]) -> dict[str, int]:
    """What the context holds more than before."""
    after = ctx.memory.statistics()
    more = {name: (after[name] or 0) - (before[name] or 0) for name in ("current", "external", "buffers")}
    return {name: count for name, count in more.items() if count > 0}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real files: SAETA_SHARED_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("SAETA_SHARED_DATA", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data in {folder} (set SAETA_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def flights(shared_data: Path) -> Path:
    return shared_data / "flights-200k.arrow"


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a fresh interpreter."""

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return run


def copies(ctx: sa.Context) -> int:
    """Transfers of data of any direction since the counters were reset."""
    counted = ctx.counters()
    ways = ("host_to_device", "device_to_host", "device_to_device", "host_to_host")
    return sum(counted[way]["transfers"] for way in ways)
