"""The simulated devices of tests/python_sim."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import saeta as sa

# Parameters of a fixture that yields from `contexts_of`.
DEVICES = ["host", "sim", pytest.param("cuda", marks=pytest.mark.gpu)]


def simulator() -> Any:
    """The module of tests/python_sim, which lies in the build folder."""
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD does not name the build folder, which has the simulator")
    folder = str(Path(build, "tests", "python"))
    if folder not in sys.path:
        sys.path.append(folder)
    return pytest.importorskip("saeta_sim")


def contexts_of(device: str) -> Iterator[sa.Context]:
    """One context of DEVICES for a test; of a simulated one it is required afterwards that it saw no race."""
    if device == "sim":
        simulated = simulator().Device()
        yield simulated.context
        assert simulated.races == []
    else:
        if device == "cuda" and not sa.info()["cuda"]["usable"]:
            pytest.skip("no usable CUDA device")
        yield sa.context(device)
