"""The simulated devices of tests/python_sim."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest


def simulator() -> Any:
    """The module of tests/python_sim, which lies in the build folder."""
    build = os.environ.get("SAETA_BUILD")
    if build is None:
        pytest.skip("SAETA_BUILD does not name the build folder, which has the simulator")
    folder = str(Path(build, "tests", "python"))
    if folder not in sys.path:
        sys.path.append(folder)
    return pytest.importorskip("saeta_sim")
