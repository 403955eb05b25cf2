"""Runs the command `saeta`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def saeta(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command and returns its output and exit code."""
    return subprocess.run(
        [sys.executable, "-m", "saeta", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
