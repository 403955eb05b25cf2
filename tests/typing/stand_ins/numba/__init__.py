from __future__ import annotations

from numba import cuda as cuda
