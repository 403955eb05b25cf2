"""The library that the package has loaded, for tests of the C interface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def library_path() -> str:
    """Returns the path of libsaeta as it is loaded, so that a test does not load another copy."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if re.search(r"/libsaeta\.so[.\d]*$", line):
            return line.split()[-1]
    pytest.skip("libsaeta is not loaded")
