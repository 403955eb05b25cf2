"""The argument `engine` of the functions that read and write Parquet."""

from __future__ import annotations

import logging
from typing import Any, Literal, TypeAlias

from saeta._core import Context
from saeta._files.parquet_set import ParquetSet
from saeta._optional import load
from saeta._parquet.plan import Plan, plan_of
from saeta._text import did_you_mean
from saeta.errors import InvalidError, MissingDependency, UnsupportedError

Engine: TypeAlias = Literal["device", "host"]
"""Who reads and writes Parquet: the device by pylibcudf, the host by pyarrow. None: the device if it can."""

ENGINES = ("device", "host")
LOGGER = logging.getLogger("saeta.parquet")


def require_engine(engine: Any) -> None:
    if engine is not None and engine not in ENGINES:
        meant = did_you_mean(
            engine, ("device", "host"), {"gpu": "device", "pylibcudf": "device", "pyarrow": "host"}
        )
        raise InvalidError(f"engine={engine!r}: expected 'device', 'host' or None{meant}")


def device_plan(engine: Engine | None, ctx: Context, data_set: ParquetSet, filters: Any) -> Plan | None:
    """Returns what the device of a context decodes. None: pyarrow decodes on the host.

    Raises:
        InvalidError: `engine` is not known.
        MissingDependency, UnsupportedError: `engine` is "device", and something needs the host.
    """
    require_engine(engine)
    if engine == "host" or (engine is None and ctx.device == "host"):
        return None
    try:
        if not ctx.device.startswith("cuda:"):
            raise UnsupportedError(f"engine='device' needs a context of a CUDA device, not of '{ctx.device}'")
        load_pylibcudf("decoding Parquet on a device")
        return plan_of(data_set, filters)
    except (MissingDependency, UnsupportedError) as reason:
        if engine is not None:
            raise
        log_host(str(reason))
        return None


def load_pylibcudf(purpose: str) -> None:
    """Imports pylibcudf. UnsupportedError if its libraries can't be loaded."""
    try:
        load("pylibcudf", purpose)
    except (OSError, RuntimeError) as failure:  # of its libraries, or of the driver
        raise UnsupportedError(f"pylibcudf can't be loaded: {failure}") from failure


def log_host(reason: str, *, does: str = "decodes") -> None:
    """Logs why pyarrow does, on the host, what a device would have done."""
    LOGGER.info("pyarrow %s Parquet on the host: %s", does, reason)
