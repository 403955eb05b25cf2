"""Files that a command line names: paths, and `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from saeta import _sources


def source_of(file: Path) -> Any:
    """What `read_ipc` takes."""
    return sys.stdin.buffer if str(file) == "-" else file


def is_read_once(file: Path) -> bool:
    """Whether its bytes are gone when they have been read: standard input, a pipe."""
    return str(file) == "-" or _sources.is_live(file)
