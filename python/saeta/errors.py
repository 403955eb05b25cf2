"""The error classes: one for each error code of the C++ library.

Every class derives from `Error` and from the built-in that the convention or the protocol expects, so that
`except MemoryError` or `except BufferError` catches what it should. The table from codes to these classes is in
python/src/errors.cpp.
"""

# ruff: noqa: N818 - the names say what happened, as MemoryError and StopIteration do

from __future__ import annotations

from typing import Any

from saeta._text import printable


class Error(Exception):
    """Anything that Saeta raises on its own account. Names in its message are printable: control characters are escaped."""

    def __init__(
        self, *arguments: object
    ) -> None:  # Python's own constructors have no signature for `inspect`
        super().__init__(*(printable(each) if isinstance(each, str) else each for each in arguments))


class InvalidError(Error, ValueError):
    """A value that the caller passed can't be used."""


class ColumnNameError(InvalidError, KeyError):
    """A name that no column has, or more than one; the message lists the names there are."""

    __str__ = Exception.__str__  # KeyError's own shows the message in quotes


class TypeMismatch(Error, TypeError):
    """A type differs from the one that was asked for."""


class UnsupportedError(Error, NotImplementedError):
    """Valid input of a kind that Saeta does not carry; the message names the column and its type."""


class OutOfRange(Error, IndexError):
    """An index, offset or length outside its container."""


class SizeOverflow(Error, OverflowError):
    """Size arithmetic left its type."""


class BudgetExceeded(Error, MemoryError):
    """A budget refused a request. The numbers are bytes, read at the moment of the refusal.

    Attributes:
        layer: which budget refused ("cuda:0").
        requested: what was asked for.
        current: what was charged already.
        reserved: what was promised to reservations already, and what is kept for requests that wait in line.
        kept: the part of `reserved` that is kept for requests that wait in line.
        required: current + reserved + requested, exact.
        limit, remaining, peak: of the budget.
        owners: live bytes by tag of the budget that was asked, largest first.
        others: live bytes by tag of others, where a budget above the one that was asked has no room.
    """

    def __init__(
        self,
        message: str,
        *,
        layer: str = "",
        requested: int = 0,
        current: int = 0,
        reserved: int = 0,
        kept: int = 0,
        required: int = 0,
        limit: int = 0,
        remaining: int = 0,
        peak: int = 0,
        owners: dict[str, int] | None = None,
        others: dict[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.layer = layer
        self.requested = requested
        self.current = current
        self.reserved = reserved
        self.kept = kept
        self.required = required
        self.limit = limit
        self.remaining = remaining
        self.peak = peak
        self.owners = dict(owners or {})
        self.others = dict(others or {})

    def numbers(self) -> dict[str, Any]:
        """The attributes as a dict."""
        return dict(vars(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_refusal, (str(self), self.numbers())


def _rebuild_refusal(message: str, numbers: dict[str, Any]) -> BudgetExceeded:
    return BudgetExceeded(message, **numbers)


class OutOfMemory(Error, MemoryError):
    """The budget agreed, but the device or the system has no memory."""


class DeviceError(Error, RuntimeError):
    """A driver or runtime call failed, or there is no such device."""


class DeviceLost(DeviceError):
    """The driver said that the device's context is broken for good, as after an illegal address in a kernel.

    Every later call fails in the same way. The device can be used again in a new process.
    """


class FormatError(Error, ValueError):
    """Bytes that are not what they claim to be: a file, a C struct, a capsule."""


class FileError(Error, OSError):
    """The operating system refused a file operation."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file."""


class ExchangeError(Error, BufferError):
    """An exchange protocol can't carry this value."""


class ClosedError(Error, ValueError):
    """The object was closed or consumed already."""


class BusyError(Error, RuntimeError):
    """The caller already holds what it asks for."""


class DownloadForbidden(Error, RuntimeError):
    """Data would be copied from a device to the host inside `Context.forbid_downloads`; nothing was copied."""


class MissingDependency(Error, ImportError):
    """A package that this call needs is not installed, or is another release than the one Saeta was built for."""
