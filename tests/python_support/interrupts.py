"""Raises KeyboardInterrupt at chosen places of the package's code, reproducibly.

CPython checks for signals where a function starts, where a loop jumps back, and after each call of a C
function or of a class. `interrupted_at(number)` counts these places while its block runs code of the package,
and raises at the place with that number.
"""

from __future__ import annotations

import contextlib
import dis
import gc
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import saeta

PACKAGE = str(Path(saeta.__file__).resolve().parent)
HELPERS = {
    each.__file__ for each in (contextlib, queue, threading, weakref)
}  # of the standard library, counted as code of the package
CHECKED = ("RESUME", "JUMP_BACKWARD", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "POP_JUMP_BACKWARD")

_names: dict[CodeType, dict[int, str]] = {}


def _opname(code: CodeType, offset: int) -> str:
    if code not in _names:
        _names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
    return _names[code].get(offset, "")


class Places:
    """A trace function that counts the places and raises at the chosen one."""

    def __init__(self, chosen: int) -> None:
        self.passed = 0
        self.where = ""
        self._chosen = chosen
        self._last: dict[FrameType, str] = {}

    def forget(self) -> None:
        """Drops the frames, which keep their local variables alive."""
        self._last.clear()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "call":
            file = frame.f_code.co_filename
            if file not in HELPERS and not os.path.realpath(file).startswith(PACKAGE):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            before = self._last.get(frame, "")
            self._last[frame] = _opname(frame.f_code, frame.f_lasti)
            if (
                before.startswith(CHECKED) and frame.f_lineno is not None
            ):  # CPython would not free a frame without
                self.passed += 1
                if self.passed == self._chosen:
                    self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                    raise KeyboardInterrupt
        elif event == "return":
            self._last.pop(frame, None)
        return self


@contextmanager
def interrupted_at(number: int) -> Iterator[Places]:
    """Interrupts the block at the place with this number. Does nothing if the block has fewer places."""
    places = Places(number)
    sys.settrace(places)
    try:
        yield places
    finally:
        sys.settrace(None)
        places.forget()


def descriptors() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this listing is closed by now
            found.append(str(each.readlink()))
    return sorted(each for each in found if not each.startswith("/proc"))


def try_all(work: Callable[[], None], step: int = 1) -> list[str]:
    """Interrupts the work at every `step`-th place. Returns the failures, each with its place.

    KeyboardInterrupt must reach the caller, and no thread, file descriptor or memory may be leaked.
    """
    wrong: list[str] = []
    lost: list[Any] = []
    sys.unraisablehook = lost.append
    threads = set(threading.enumerate())
    memory = saeta.context("host").memory
    before = memory.statistics()["current"]  # the tables that the work reads
    work()
    gc.collect()
    _waited(lambda: set(threading.enumerate()) - threads)
    files = descriptors()
    number, done = 1, False
    while not done:
        places, raised = _interrupted(work, number)
        done = not places.where
        if not done and raised != "KeyboardInterrupt":
            wrong.append(f"{places.where}: {raised or 'the interrupt is lost'}")
        gc.collect()
        for thread in _waited(lambda: set(threading.enumerate()) - threads):
            wrong.append(f"{places.where}: the thread {thread.name} goes on")
            threads.add(thread)
        # A thread that is just starting is not in threading.enumerate() yet, but its files are already open.
        if left := _waited(partial(_changed, files)):
            wrong.append(f"{places.where}: descriptors {left}")
            files = descriptors()
        if left := _waited(lambda: memory.statistics()["current"] - before):
            wrong.append(f"{places.where}: {left} bytes are left")
        wrong += [f"{places.where}: {each.exc_value!r} is lost in {each.object!r}" for each in lost]
        lost.clear()
        number += step
    if number <= 1 + step:
        wrong.append("no place was interrupted")
    sys.unraisablehook = sys.__unraisablehook__
    return wrong


def _changed(before: list[str]) -> set[str]:
    return set(before).symmetric_difference(descriptors())


def _waited(left: Callable[[], Any]) -> Any:
    """Calls `left` until it returns nothing, for at most 5 s. Returns its last result."""
    until = time.monotonic() + 5
    while (found := left()) and time.monotonic() < until:
        time.sleep(0.001)
    return found


def _interrupted(work: Callable[[], None], number: int) -> tuple[Places, str]:
    """Returns the place and the name of the exception that came out."""
    places, raised = Places(0), ""
    try:
        try:
            with interrupted_at(number) as places:
                work()
        except Exception as failure:
            raised = f"{type(failure).__name__}: {failure}"
        os.getpid()  # a call, after which Python looks for signals
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    return places, raised
