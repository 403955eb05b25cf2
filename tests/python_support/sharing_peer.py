"""A second process that shares and opens tables, and checks for leaked descriptors and memory."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import saeta as sa
from saeta import _core
from waiting import eventually

PEER = """
import sys
sys.path[:0] = {path!r}
import gc, os, pickle, time
import numpy as np
import arrow_data
import saeta as sa

def show(token):
    print(pickle.dumps(token).hex(), flush=True)

def opened(text):
    return sa.open_shared(pickle.loads(bytes.fromhex(text)), "host")

def charged():
    found = sa.context("host").memory.statistics()
    return (found["current"] or 0) + (found["reserved"] or 0)

print("ready", flush=True)
for line in sys.stdin:
    exec(bytes.fromhex(line).decode())
    print("done", flush=True)
"""


class Peer:
    """A second process that runs the code that a test sends."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hear("ready")

    def hear(self, last: str) -> list[str]:
        assert self.process.stdout is not None
        lines: list[str] = []
        while (line := self.process.stdout.readline().strip()) != last:
            assert line, "the other process has ended"
            lines.append(line)
        return lines

    def send(self, code: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(code.encode().hex() + "\n")
        self.process.stdin.flush()

    def run(self, code: str) -> list[str]:
        """Runs code and returns the lines that it printed."""
        self.send(code)
        return self.hear("done")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def descriptors() -> int:
    """Closes the connections that are cached for later leases. Returns the number of open file
    descriptors."""
    _core._close_idle_connections()
    return len(list(Path("/proc/self/fd").iterdir()))


def charged() -> int:
    found = sa.context("host").memory.statistics()
    return int(found["current"] or 0) + int(found["reserved"] or 0)


def nothing_is_left() -> Iterator[None]:
    """Fails if the block leaks file descriptors or memory. Those of multiprocessing's helpers are not
    counted."""
    _core._broker_name()  # starts the broker
    resource_tracker.ensure_running()
    forkserver.ensure_running()
    gc.collect()
    before = descriptors(), charged(), maps()
    yield
    assert eventually(lambda: (charged(), maps()) == before[1:]), (charged(), maps(), before)
    assert eventually(lambda: descriptors() <= before[0]), sorted(
        str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.exists()
    )
    assert not _core._posted_shared()


def maps() -> int:
    return Path("/proc/self/maps").read_text().count("saeta table")


def sent(token: sa.SharedTable) -> str:
    return pickle.dumps(token).hex()


def received(text: str) -> sa.SharedTable:
    found: sa.SharedTable = pickle.loads(bytes.fromhex(text))
    return found


@contextmanager
def few_descriptors(left: int = 0) -> Iterator[None]:
    """Uses up all file descriptors except `left`."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0] + 20, 100), before[1]))
    try:
        while True:
            taken.append(os.dup(taken[0]))
    except OSError:
        pass
    for _ in range(left):
        os.close(taken.pop())
    try:
        yield
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
