"""How many examples the property tests draw, and which.

They are the same wherever the tests run: a change must not fail on what it did not touch. SAETA_EXAMPLES=5000
looks further, with that many examples a test, drawn anew in each run (`make explore`).
"""

from __future__ import annotations

import os
from typing import Any


def examples(usual: int = 60) -> dict[str, Any]:
    """Arguments of `hypothesis.settings`."""
    wanted = int(os.environ.get("SAETA_EXAMPLES", "0"))
    return {"max_examples": wanted or usual, "derandomize": not wanted, "deadline": None, "database": None}
