"""Files on a command line: paths, globs, folders, URLs, and `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from saeta._files import data_sets, sources
from saeta._files.filesystems import URL
from saeta.errors import MissingFileError


def source_of(file: str | Path) -> Any:
    """Returns the source to pass to `read_ipc`."""
    return sys.stdin.buffer if str(file) == "-" else file


def files_of(argument: str) -> list[data_sets.Listed]:
    """Returns the files of an argument, which become one table.

    A folder stands for its Arrow files, or for its Parquet files if it has none.
    """
    if is_read_once(argument):
        return [data_sets.Listed(argument)]
    try:
        return data_sets.list_sources(argument, None, data_sets.IPC_ENDINGS)
    except MissingFileError:
        return data_sets.list_sources(argument, None, data_sets.PARQUET_ENDINGS)


def is_local(file: data_sets.Listed) -> bool:
    """Whether a file is a path on this machine that can be read again."""
    return file.filesystem is None and not URL.match(str(file.source)) and not is_read_once(file.source)


def is_read_once(file: str | Path) -> bool:
    """Whether the bytes of the file can be read only once: standard input, a pipe."""
    return str(file) == "-" or sources.is_live(file)
