"""Contexts on simulated devices, from the module of tests/python_sim."""

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
    """Imports the module of tests/python_sim from the build folder."""
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD does not name the build folder, which has the simulator")
    folder = str(Path(build, "tests", "python"))
    if folder not in sys.path:
        sys.path.append(folder)
    return pytest.importorskip("saeta_sim")


def contexts_of(device: str) -> Iterator[sa.Context]:
    """Yields a context on one of DEVICES. A simulated device must have detected no race at the end."""
    if device == "sim":
        simulated = simulator().Device()
        yield simulated.context
        assert simulated.races == []
    else:
        if device == "cuda" and not sa.info()["cuda"]["usable"]:
            pytest.skip("no usable CUDA device")
        yield sa.context(device)
