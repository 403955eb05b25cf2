"""Says once that an installation without CUDA leaves a GPU unused."""

from __future__ import annotations

import logging
from pathlib import Path

from saeta import _core

DRIVER = Path("/proc/driver/nvidia/version")  # there while the kernel has NVIDIA's driver


def note() -> None:
    """Logs a warning if this machine has a driver and Saeta was built without CUDA.

    The first context of a process calls it.
    """
    if not _core._runtime()["built_with_cuda"] and DRIVER.exists():
        logging.getLogger("saeta").warning(
            "this machine has a GPU and its driver, and this Saeta was built without CUDA: contexts are on "
            "the host. Install a wheel (pip install saeta), or a CUDA toolkit and build again; `saeta info` "
            "says what it found"
        )
