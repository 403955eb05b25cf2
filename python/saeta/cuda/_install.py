"""Standing in for pyarrow's own module."""

from __future__ import annotations

import sys


def install() -> None:
    """Makes `import pyarrow.cuda` and `pyarrow.cuda` mean this module, for programs that can't be changed. Idempotent.

    Call it before they import. A pyarrow that was built with CUDA has its own module, which is replaced.
    """
    import pyarrow

    this = sys.modules["saeta.cuda"]
    sys.modules["pyarrow.cuda"] = this
    pyarrow.cuda = this
