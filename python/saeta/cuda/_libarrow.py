"""Loads the compiled modules behind saeta.cuda, for the installed pyarrow."""

from __future__ import annotations

from saeta import _libarrow

bridge = _libarrow.load("_bridge", "pyarrow's device memory")
classes = _libarrow.load("_arrow", "pyarrow's device memory")
