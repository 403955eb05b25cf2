"""Hands sent tables that nobody has opened yet to another program when this process ends.

Most tables are opened within milliseconds: a pool reads the last result of a worker that ends. The ending
process waits that long. Then it starts a small program, `keeper.py`, which gets the socket and the files of
the tables that are left. The program ends when the last table was opened, when the parent of the process
ends, or after some minutes, because a table that is never opened must not be kept for ever.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import subprocess
from multiprocessing import parent_process, spawn, util
from pathlib import Path

from saeta import _core

_PATIENCE = 0.1  # seconds that an ending process waits before it starts the program
_LONGEST = 600.0  # seconds that the program keeps tables of a process that multiprocessing has started
_WITHOUT_PARENT = 30.0  # seconds that it keeps tables of any other process

_REQUEST = struct.Struct("<8sHB16s")  # magic, version, kind, token: saeta/share/wire.hpp
_OPEN, _TAKE = 2, 3
_DONE, _GONE = b"\0", b"\1"

_log = logging.getLogger("saeta.share")
_prepared = False


def prepare() -> None:
    """Makes this process and its children hand over their tables when they end.

    A finalizer of multiprocessing does it, because children of multiprocessing end without calling the
    functions of `atexit`.
    """
    global _prepared
    if not _prepared:
        _prepared = True
        _register()
        os.register_at_fork(after_in_child=_register)
        # A child of multiprocessing drops the finalizers of its parent, so it registers its own.
        util.register_after_fork(_register, lambda register: register())


def _register() -> None:
    util.Finalize(None, _hand_over, exitpriority=-100)  # runs after the threads of queues have sent the rest


def _hand_over() -> None:
    if not _core._wait_for_arrivals(_PATIENCE):
        try:
            listener = _core._retire_broker()
            _start_keeper(listener, _core._posted_shared())
        except Exception as failed:
            _log.warning("tables that were sent and did not arrive are lost: %s", str(failed))


def _in_file(entry: _core._Exported) -> _core._Exported:
    """Returns an export with the table in a file, which outlives this process."""
    if not entry.place[3]:
        return entry
    metadata, body = entry.packed()
    return _core._export_packed(metadata, body.to("host"))


def _request(kind: int, token: bytes) -> str:
    return _REQUEST.pack(b"SAETAIPC", 1, kind, token).hex()


def _start_keeper(listener: int, posted: list[tuple[_core._Exported, int]]) -> None:
    exports = []
    kept = []
    for entry, count in posted:
        try:
            export = _in_file(entry)
        except Exception as failed:
            _log.warning("a table that was sent and did not arrive is lost: %s", str(failed))
            continue
        token = entry.place[2]
        exports.append(export)
        kept.append(
            {
                "take": _request(_TAKE, token),
                "open": _request(_OPEN, token),
                "reply": (_DONE + export.reply).hex(),
                "file": export.file,
                "count": count,
            }
        )
    parent = parent_process()
    told = {
        "listener": listener,
        "kept": kept,
        "refusal": (_GONE + b"the process that shared the table has ended").hex(),
        "parent": None if parent is None else parent.pid,
        "seconds": _WITHOUT_PARENT if parent is None else _LONGEST,
    }
    program = Path(__file__).with_name("keeper.py")
    started = subprocess.Popen(
        [spawn.get_executable(), "-I", "-S", str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listener, *(export.file for export in exports)],
        start_new_session=True,  # so that Ctrl-C in the terminal does not end it
        cwd="/",
    )
    with started.stdin as told_to:  # type: ignore[union-attr]  # it is a pipe
        told_to.write(json.dumps(told).encode())
    started.returncode = 0  # the program outlives this process; without a code Popen would warn about that
