from __future__ import annotations

from rmm import mr as mr
