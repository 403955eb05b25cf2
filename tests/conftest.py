"""Fixtures of all Python tests: contexts checked for leaks, the current device, and the test data.

Fixtures import the package inside their bodies, because tests/lint runs in builds without it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import saeta as sa
    from sharing_peer import Peer

PROJECT = Path(__file__).resolve().parents[1]

# The tests use JAX on the CPU. On a GPU it would preallocate most of the memory, and listing its devices
# would change the current device of the thread.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Programs of tests fork where Saeta or NumPy has threads, about which Python 3.12 and later warn.
FORKS = {"PYTHONWARNINGS": "ignore:This process:DeprecationWarning"}

# A shell starts background jobs with SIGINT ignored, and child processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on a GPU come last: its rings keep page-locked memory, which counts on the host, and a child of
    fork can't use what its parent has begun with CUDA."""
    items.sort(key=lambda item: item.get_closest_marker("gpu") is not None)


@pytest.fixture(autouse=True)
def current_device() -> Iterator[None]:
    from current_device import cuda_driver, put_back

    with put_back(cuda_driver()):
        yield


@pytest.fixture
def host() -> Iterator[sa.Context]:
    from contexts import clean

    with clean("host") as ctx:
        yield ctx


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def anywhere(request: pytest.FixtureRequest) -> Iterator[sa.Context]:
    """A context on each kind of device in turn."""
    import saeta as sa
    from contexts import clean

    if request.param == "cuda" and not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with clean(request.param) as ctx:
        yield ctx


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A second process that shares and opens tables."""
    from sharing_peer import Peer

    with Peer() as other:
        yield other


@pytest.fixture
def reducers() -> Iterator[None]:
    """Registers the reducers of multiprocessing, so that pickled tables are shared."""
    from multiprocessing.reduction import ForkingPickler

    import saeta as sa

    before = dict(ForkingPickler._extra_reducers)  # type: ignore[attr-defined]
    sa.install_reducers()
    yield
    ForkingPickler._extra_reducers.clear()  # type: ignore[attr-defined]
    ForkingPickler._extra_reducers.update(before)  # type: ignore[attr-defined]


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails a test that leaks file descriptors or memory."""
    from sharing_peer import nothing_is_left

    yield from nothing_is_left()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data files: SAETA_SHARED_DATA, or ../shared/data beside the tree."""
    folder = Path(os.environ.get("SAETA_SHARED_DATA", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data in {folder} (set SAETA_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def flights(shared_data: Path) -> Path:
    return shared_data / "flights-200k.arrow"


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs a program in a new interpreter."""

    def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **FORKS, **environment},
        )

    return run
