"""Keeps tables that a process has sent and nobody has opened yet, when the process ends.

Most of them arrive within milliseconds: a pool reads the last result of a worker that ends. What has not
arrived then, another program keeps (`keeper.py`), which takes over the socket and the files. It ends when the
last table has arrived, or the parent of the process has ended, or after some minutes: a table that is never
received must not stay for ever.
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

_PATIENCE = 0.1  # seconds to wait for arrivals before the program is started
_LONGEST = 600.0  # seconds that it keeps what a child of another process has sent
_WITHOUT_PARENT = 30.0  # the same for a process that multiprocessing did not start

_log = logging.getLogger("saeta.share")
_prepared = False


def prepare() -> None:
    """Lets this process and its children hand over at their end.

    multiprocessing runs its finalizers also where a child ends without the functions of `atexit`.
    """
    global _prepared
    if not _prepared:
        _prepared = True
        _register()
        os.register_at_fork(after_in_child=_register)
        util.register_after_fork(_register, lambda register: register())  # it drops those of the parent


def _register() -> None:
    util.Finalize(None, _hand_over, exitpriority=-100)  # after the threads of queues, which still send


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
        start_new_session=True,  # Ctrl-C in the terminal is not for it
        cwd="/",
    )
    started.returncode = 0  # it outlives this process, which Popen would warn of
