"""Finds the files of a data set: lists, globs and folders, on this machine and on file systems."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from saeta._files.filesystems import (
    URL,
    file_system,
    filesystem_of,
    is_url,
    without_secrets,
)
from saeta._files.stores.requests import call_all
from saeta.errors import InvalidError, MissingFileError

IPC_ENDINGS: tuple[str, ...] = (".arrow", ".arrows", ".feather", ".ipc")
PARQUET_ENDINGS: tuple[str, ...] = (".parquet",)


class Listed(NamedTuple):
    """One source, as `readers.open_reader` takes it."""

    source: Any
    filesystem: Any = None
    regular: bool = False  # known to be neither a pipe nor a device


def list_sources(source: Any, filesystem: Any, endings: Sequence[str]) -> list[Listed]:
    """Returns the sources of a data set in their order.

    Lists keep their order. Files of a folder or a glob are sorted by their paths. A path with the characters
    of a glob that names a file is that file. In folders, names that begin with "." or "_" are skipped.

    Args:
        endings: of the files that are taken from folders.
    """
    if isinstance(source, str | os.PathLike):
        path = os.fsdecode(source)
        if filesystem is None and not URL.match(path):
            return _local(source, path, endings)
        return _remote(path, filesystem, endings)
    if is_list(source):
        return [one for each in elements(source) for one in list_sources(each, filesystem, endings)]
    return [Listed(source, filesystem)]


def is_list(source: Any) -> bool:
    """Whether a source is a list of sources, or an iterator of them."""
    return isinstance(source, list | tuple) or (isinstance(source, Iterator) and not hasattr(source, "read"))


def elements(sources: Any) -> list[Any]:
    """Returns the sources of a list. InvalidError if there are none."""
    found = list(sources)
    if not found:
        raise InvalidError("the list of sources is empty")
    return found


def is_pattern(path: str) -> bool:
    """Whether a path has the characters of a glob."""
    return glob.has_magic(path)


def _local(source: Any, path: str, endings: Sequence[str]) -> list[Listed]:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a Path takes a tenth of the time of a small read
    except (OSError, ValueError):
        if not is_pattern(path) or os.path.lexists(path):
            return [Listed(source)]  # the attempt to open it reports the error
        found = glob.glob(path, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        matches = sorted(each for each in found if not Path(each).is_dir())
        return [Listed(each) for each in matches] or _missing(f"no file matches '{path}'")
    if not stat.S_ISDIR(mode):
        return [Listed(source, regular=stat.S_ISREG(mode))]
    found = []
    for folder, below, names in os.walk(path):
        below[:] = [name for name in below if not _is_skipped(name)]
        found += [
            os.path.join(folder, name)  # noqa: PTH118 - a Path for each of thousands of files takes longer
            for name in names
            if name.endswith(tuple(endings)) and not _is_skipped(name)
        ]
    return [Listed(each, regular=True) for each in sorted(found)] or _missing(
        f"folder '{path}' has no files that end in {', '.join(endings)}"
    )


def _remote(path: str, filesystem: Any, endings: Sequence[str]) -> list[Listed]:
    """Finds files of a URL, or of a path in a file system."""
    shown = without_secrets(path)
    of_url = is_url(path, filesystem)
    bare, _, query = path.partition("?") if of_url else (path, "", "")
    # In a URL, "?" begins options, and "[" an address.
    magic = min((at for at in map(bare.find, "*" if of_url else "*?[") if at >= 0), default=-1)
    if magic >= 0:
        root, pattern = _split(bare, magic)
        if of_url:
            filesystem, root = filesystem_of(f"{root}?{query}" if query else root, filesystem)
        elif _kind(filesystem, path) == "file":
            return [Listed(path, filesystem)]
        wanted = pattern.split("/")
        below = _files_below(filesystem, root, deep=len(wanted) > 1)
        found = [each for each, parts in below if _matches(parts, wanted)]
        return [Listed(each, filesystem) for each in found] or _missing(f"no file matches '{shown}'")
    if bare.endswith(tuple(endings)):  # not looked up, because that would be one more request for each file
        return [Listed(path, filesystem)]
    inside = path
    if of_url:
        given, (filesystem, inside) = filesystem, filesystem_of(path, filesystem)
        if _kind(filesystem, inside) != "directory":
            return [Listed(path, given)]
    elif _kind(filesystem, inside) != "directory":
        return [Listed(path, filesystem)]
    found = [
        each
        for each, parts in _files_below(filesystem, inside, deep=True)
        if each.endswith(tuple(endings)) and not any(map(_is_skipped, parts))
    ]
    return [Listed(each, filesystem) for each in found] or _missing(
        f"folder '{shown}' has no files that end in {', '.join(endings)}"
    )


def _kind(filesystem: Any, path: str) -> str:
    [kind] = call_all([(path, partial(file_system(filesystem).kind, path))])
    return kind


def _split(path: str, magic: int) -> tuple[str, str]:
    """Splits a pattern into the folder before its first special character, and the rest."""
    end = path.rfind("/", 0, magic)
    root = path[:end] if end > 0 and path[end - 1] != "/" else path[: end + 1]
    return root, path[end + 1 :]


def _files_below(filesystem: Any, root: str, *, deep: bool) -> list[tuple[str, list[str]]]:
    """Returns the files in a folder, sorted, each with the parts of its path from there on."""
    [found] = call_all([(root, partial(file_system(filesystem).list_files, root, deep=deep))])
    begin = len(root.strip("/").split("/")) if root.strip("/") else 0
    return [(each, each.strip("/").split("/")[begin:]) for each in sorted(found)]


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches a glob, as `glob.glob` matches it.

    "**" stands for any number of folders. A name that begins with "." is matched only by a pattern that does.
    """
    if not patterns:
        return not parts
    pattern = patterns[0]
    hidden = bool(parts) and parts[0].startswith(".") and not pattern.startswith(".")
    if pattern == "**":
        return _matches(parts, patterns[1:]) or (bool(parts) and not hidden and _matches(parts[1:], patterns))
    matched = bool(parts) and not hidden and fnmatchcase(parts[0], pattern)
    return matched and _matches(parts[1:], patterns[1:])


def _is_skipped(name: str) -> bool:
    return name.startswith((".", "_"))


def _missing(reason: str) -> Any:
    raise MissingFileError(reason)
