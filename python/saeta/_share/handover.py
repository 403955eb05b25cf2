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
import subprocess
from multiprocessing import parent_process, spawn, util
from pathlib import Path
from typing import Any

from saeta._share import broker, wire

_PATIENCE = 0.1  # seconds that an ending process waits before it starts the program
_LONGEST = 600.0  # seconds that the program keeps tables of a process that multiprocessing has started
_WITHOUT_PARENT = 30.0  # seconds that it keeps tables of any other process

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
    own = broker.running()
    if own is None:
        return
    own.wait_for_arrivals(_PATIENCE)
    if own.posted():
        try:
            _start_keeper(*own.retire())
        except Exception as failed:
            _log.warning("tables that were sent and did not arrive are lost: %s", str(failed))


def _start_keeper(listener: Any, posted: list[tuple[broker.Exported, int]]) -> None:
    files = []
    kept = []
    for entry, count in posted:
        try:
            file, sizes = entry.kept.in_file()
        except Exception as failed:
            _log.warning("a table that was sent and did not arrive is lost: %s", str(failed))
            continue
        files.append(file)
        kept.append(
            {
                "take": wire.request(wire.TAKE, entry.token).hex(),
                "open": wire.request(wire.OPEN, entry.token).hex(),
                "reply": (bytes([wire.DONE]) + sizes).hex(),
                "file": file.number,
                "count": count,
            }
        )
    parent = parent_process()
    told = {
        "listener": listener.fileno(),
        "kept": kept,
        "refusal": (bytes([wire.GONE]) + b"the process that shared the table has ended").hex(),
        "parent": None if parent is None else parent.pid,
        "seconds": _WITHOUT_PARENT if parent is None else _LONGEST,
    }
    message = broker.write_file("saeta message", json.dumps(told).encode())
    os.lseek(message.number, 0, os.SEEK_SET)
    program = Path(__file__).with_name("keeper.py")
    started = subprocess.Popen(
        [spawn.get_executable(), "-I", "-S", str(program)],
        stdin=message.number,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listener.fileno(), *(each.number for each in files)],
        start_new_session=True,  # so that Ctrl-C in the terminal does not end it
        cwd="/",
    )
    started.returncode = 0  # the program outlives this process; without a code Popen would warn about that
