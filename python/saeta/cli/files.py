"""Files on a command line: paths, and `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from saeta._files import sources


def source_of(file: Path) -> Any:
    """Returns what `read_ipc` takes for the file."""
    return sys.stdin.buffer if str(file) == "-" else file


def is_read_once(file: Path) -> bool:
    """Whether the bytes of the file can be read only once: standard input, a pipe."""
    return str(file) == "-" or sources.is_live(file)
