"""The error classes: one for each error code of the C++ library.

Every class derives from `Error` and from the built-in that the convention or the protocol expects, so that
`except MemoryError` or `except BufferError` catches what it should. The table from codes to these classes is
in python/src/core/errors.cpp.
"""

# ruff: noqa: N818 - the names say what happened, like MemoryError and StopIteration

from __future__ import annotations

import os
from typing import Any

from saeta._text import printable


class Error(Exception):
    """Base class of all errors that Saeta raises.

    Names in the message are printable: control characters are escaped.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.DataType("int33")
        ... except sa.Error as error:
        ...     print(str(error).partition(':')[0])
        'int33' is not a type
    """

    def __init__(
        self, *arguments: object
    ) -> None:  # Python's own constructors have no signature for `inspect`
        super().__init__(
            *(printable(argument) if isinstance(argument, str) else argument for argument in arguments)
        )


class InvalidError(Error, ValueError):
    """A value that the caller passed can't be used.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.column([300], "host", name="a", type="int8")
        ... except sa.InvalidError as error:
        ...     print(str(error).partition(':')[0])
        column 'a'
    """


class ColumnNameError(InvalidError, KeyError):
    """No column has the name, or several have it. The message lists the names of the columns.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.table({"a": [1]}, "host")["b"]
        ... except sa.ColumnNameError as error:
        ...     print(str(error).partition(':')[0])
        no column 'b'
    """

    __str__ = Exception.__str__  # KeyError's own shows the message in quotes


class TypeMismatch(Error, TypeError):
    """A type differs from the requested one.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.column(["x"], "host", name="a").cast("int8")
        ... except sa.TypeMismatch as error:
        ...     print(str(error).partition(':')[0])
        a column of string can't be cast to int8
    """


class UnsupportedError(Error, NotImplementedError):
    """The input is valid, but Saeta does not support it. The message names the column and its type.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.table({"a": [1]}, "host") == sa.table({"a": [1]}, "host")
        ... except sa.UnsupportedError as error:
        ...     print(str(error).partition(':')[0])
        == does not compare the values of two tables in different memory
    """


class OutOfRange(Error, IndexError):
    """An index, offset or length is outside its container.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.table({"a": [1]}, "host").slice(5, 2)
        ... except sa.OutOfRange as error:
        ...     print(str(error).partition(':')[0])
        slice of 2 rows from row 5 of a table of 1 rows
    """


class SizeOverflow(Error, OverflowError):
    """The result of size arithmetic does not fit in its type.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.SizeOverflow, OverflowError)
        True
    """


class BudgetExceeded(Error, MemoryError):
    """A budget refused a request. The numbers are bytes, read at the moment of the refusal.

    Attributes:
        layer: the budget that refused ("cuda:0").
        requested: bytes that were requested.
        current: bytes that were charged already.
        reserved: bytes promised to reservations, and bytes kept for waiting requests.
        kept: the part of `reserved` that is kept for waiting requests.
        required: current + reserved + requested, exact.
        limit, remaining, peak: values of the budget that refused.
        owners: live bytes by tag in the budget that was asked, largest first.
        others: live bytes by tag of other budgets, where a parent of the budget that was asked has no room.

    Example:
        >>> import saeta as sa
        >>> ctx = sa.context("host").memory.child("query", "1MiB")
        >>> try:
        ...     ctx.allocate("2MiB")
        ... except sa.BudgetExceeded as refusal:
        ...     print(refusal.layer, refusal.requested, refusal.limit)
        query 2097152 1048576
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
        self.owners: dict[str, int] = dict(owners or {})
        self.others: dict[str, int] = dict(others or {})

    def numbers(self) -> dict[str, Any]:
        """Returns the attributes as a dict.

        Example:
            >>> import saeta as sa
            >>> ctx = sa.context("host").memory.child("query", "1MiB")
            >>> try:
            ...     ctx.allocate("2MiB")
            ... except sa.BudgetExceeded as refusal:
            ...     print(refusal.numbers()["remaining"])
            1048576
        """
        return dict(vars(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_refusal, (str(self), self.numbers())


def _rebuild_refusal(message: str, numbers: dict[str, Any]) -> BudgetExceeded:
    return BudgetExceeded(message, **numbers)


class OutOfMemory(Error, MemoryError):
    """The budget allowed the request, but the device or the system has no memory.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.OutOfMemory, MemoryError)
        True
    """


class DeviceError(Error, RuntimeError):
    """A driver or runtime call failed, or the device does not exist.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.context("cuda:99")
        ... except sa.DeviceError as error:
        ...     print(str(error).partition(':')[0])
        there is no device cuda
    """


class DeviceLost(DeviceError):
    """The driver reported that the device's context is broken for good.

    This happens, for example, after an illegal address in a kernel.

    Every later call fails in the same way. The device can be used again in a new process.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.DeviceLost, sa.DeviceError)
        True
    """


class FormatError(Error, ValueError):
    """The bytes of a file, a C struct or a capsule are not what they claim to be.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.read_ipc(b"PAR1 and more", "host")
        ... except sa.FormatError as error:
        ...     print(str(error).partition(':')[0])
        bytes
    """


class FileError(Error, OSError):
    """The operating system refused a file operation.

    Attributes:
        errno: the number that the system gave (`errno.ENOSPC`); None if the failure is not the system's.
        strerror: the system's text for this number, or None. `str(error)` is the whole message.

    Example:
        >>> import errno
        >>> import saeta as sa
        >>> try:
        ...     sa.read_ipc("/nowhere.arrow", "host")
        ... except sa.FileError as error:
        ...     print(error.errno == errno.ENOENT, str(error).partition(':')[0])
        True can't open '/nowhere.arrow'
    """

    __str__ = Exception.__str__  # OSError's own shows the number and its text in place of the message

    def __init__(self, *arguments: object, errno: int | None = None) -> None:
        super().__init__(*arguments)
        if errno is not None:
            self.errno = errno
            self.strerror = os.strerror(errno)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_file_error, (type(self), self.args, self.errno)


def _rebuild_file_error(kind: type[FileError], arguments: tuple[Any, ...], number: int | None) -> FileError:
    return kind(*arguments, errno=number)


class MissingFileError(FileError, FileNotFoundError):
    """The file does not exist, or a folder on its path.

    Example:
        >>> import saeta as sa
        >>> try:
        ...     sa.read_ipc("/nowhere.arrow", "host")
        ... except sa.MissingFileError as error:
        ...     print(str(error).partition(':')[0])
        can't open '/nowhere.arrow'
    """


class AccessError(FileError, PermissionError):
    """The memory that was asked for is shared by a process of another user.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.AccessError, PermissionError)
        True
    """


class ExchangeError(Error, BufferError):
    """An exchange protocol can't carry this value.

    Example:
        >>> import saeta as sa
        >>> import numpy as np
        >>> fare = sa.column([12.5, None], "host", name="fare")
        >>> try:
        ...     np.from_dlpack(fare)
        ... except sa.ExchangeError as error:
        ...     print("nulls='mask'" in str(error))
        True
    """


class ClosedError(Error, ValueError):
    """The object was closed or consumed already.

    Example:
        >>> import saeta as sa
        >>> with sa.context("host").memory.child("query", "1MiB") as query:
        ...     pass
        >>> try:
        ...     query.allocate(8)
        ... except sa.ClosedError as error:
        ...     print(type(error).__mro__[2].__name__)
        ValueError
    """


class BusyError(Error, RuntimeError):
    """The caller already holds what it asks for.

    Example:
        >>> import saeta as sa
        >>> block = sa.context("host").allocate(16)
        >>> try:
        ...     with sa.use(writes=[block]), sa.use(writes=[block]):
        ...         pass
        ... except sa.BusyError:
        ...     print("named twice on one thread")
        named twice on one thread
    """


class DownloadForbidden(Error, RuntimeError):
    """A call inside `Context.forbid_downloads` needs a copy from a device to the host. Nothing was copied.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.DownloadForbidden, RuntimeError)
        True
    """


class MissingDependency(Error, ImportError):
    """A package that the call needs is missing, or its release is not the one that Saeta was built for.

    Example:
        >>> import saeta as sa
        >>> issubclass(sa.MissingDependency, ImportError)
        True
    """
