"""Ctrl-C while tables are shared, opened and dropped: nothing is leaked, and the interrupt is never lost.

Python checks for signals when a function starts and when a C function has returned. The tests raise
KeyboardInterrupt at each of these moments in turn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import saeta as sa
from saeta import _core
from saeta._share import tables
from sharing_peer import Peer, charged, descriptors, maps, received
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")


def interrupt(work: Callable[[], object], moment: int) -> bool:
    """Runs `work` and interrupts it at the given moment. Returns False if it has fewer moments."""
    left = moment

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_return") and argument is not sys.setprofile:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    try:
        sys.setprofile(count)
        work()
        sys.setprofile(None)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def interrupt_everywhere(work: Callable[[], object], left: Callable[[], object], lost: list[Any]) -> int:
    """Interrupts `work` at every moment, and requires that nothing is leaked or lost. Returns the number of
    moments."""
    before = left()
    moment = 0
    while interrupt(work, moment):
        assert not lost, (moment, lost)
        assert left() == before or eventually(lambda: left() == before), (moment, left(), before)
        moment += 1
    assert not lost, "an interrupt was raised in a destructor and ignored"
    return moment


@pytest.fixture
def lost(monkeypatch: Any) -> list[Any]:
    """The exceptions raised in destructors."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append((each.object, each.exc_value)))
    return found


def what_is_here() -> tuple[Any, ...]:
    return descriptors(), maps(), charged(), len(tables._known), len(_core._posted_shared())


def test_an_interrupted_open_leaks_nothing(peer: Peer, lost: list[Any]) -> None:
    (text,) = peer.run("kept = sa.table({'a': np.arange(1000)}, 'host').share(); show(kept)")
    token = received(text)

    def open_and_drop() -> None:
        for _ in range(2):  # with a new connection, then with the cached one
            table = sa.open_shared(token)
            del table

    open_and_drop()
    assert interrupt_everywhere(open_and_drop, what_is_here, lost) > 40
    assert sa.open_shared(token)["a"][999] == 999
    peer.run("del kept; gc.collect()")
    assert eventually(lambda: peer.run("gc.collect(); print(charged(), flush=True)") == ["0"])


def test_an_interrupted_share_leaks_nothing(lost: list[Any]) -> None:
    def share_and_drop() -> None:
        token = sa.table({"a": [1, 2]}, "host").share()
        table = sa.open_shared(token)
        del token, table

    share_and_drop()
    assert interrupt_everywhere(share_and_drop, what_is_here, lost) > 100


def broker_threads() -> int:
    names = (each.joinpath("comm").read_text() for each in Path("/proc/self/task").iterdir())
    return sum(name == "saeta-broker\n" for name in names)


def test_an_interrupted_start_leaves_at_most_one_thread(lost: list[Any]) -> None:
    """The first use of sharing in a process starts the broker's thread. A child of fork has none yet."""
    table = sa.table({"a": [1, 2]}, "host")
    moment, ended = 0, False
    while not ended:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert broker_threads() == 0
                ended = not interrupt(table.share, moment)
                assert broker_threads() <= 1
                assert sa.open_shared(table.share())["a"].to_pylist() == [1, 2]
                assert eventually(lambda: broker_threads() == 1)  # a thread names itself
                assert not lost
                code = 2 if ended else 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 2), moment
        ended = code == 2
        moment += 1
    assert moment > 10
