"""Logs failures that have no caller to raise them to, with the logger `saeta`."""

from __future__ import annotations

import logging

from saeta._text import printable

# Without a configuration of `logging`, errors go to standard error.
LOGGER = logging.getLogger("saeta")


def log(report: str) -> None:
    """Logs a report of a destructor, a callback or a background thread: "where: what happened"."""
    LOGGER.error("%s", printable(report))
