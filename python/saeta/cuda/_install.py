"""Installs this module in place of pyarrow's own."""

from __future__ import annotations

import sys


def install() -> None:
    """Makes `import pyarrow.cuda` and `pyarrow.cuda` refer to this module.

    It is for programs that can't be changed.

    Call it before they import. It may be called again. A pyarrow that was built with CUDA has its own module,
    which is replaced.

    Example:
        >>> import saeta.cuda
        >>> saeta.cuda.install()
        >>> import pyarrow.cuda
        >>> pyarrow.cuda.CudaBuffer is saeta.cuda.CudaBuffer
        True
    """
    import pyarrow

    this = sys.modules["saeta.cuda"]
    sys.modules["pyarrow.cuda"] = this
    pyarrow.cuda = this
