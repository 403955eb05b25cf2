"""How many examples the property tests draw, and with which seeds.

The examples are the same in every run, so that a change does not fail on old code that it did not touch. With
SAETA_EXAMPLES=5000 each test draws that many examples, with new seeds in each run (`make explore`).
"""

from __future__ import annotations

import os
from typing import Any


def examples(usual: int = 60) -> dict[str, Any]:
    """Arguments of `hypothesis.settings`."""
    wanted = int(os.environ.get("SAETA_EXAMPLES", "0"))
    return {"max_examples": wanted or usual, "derandomize": not wanted, "deadline": None, "database": None}
