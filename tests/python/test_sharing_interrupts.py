"""Ctrl-C while tables are shared, opened and dropped: nothing stays behind, and it is never lost.

Python looks for signals when a function begins and when a function of C has returned. So the tests raise
KeyboardInterrupt at each of these moments in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import saeta as sa
from saeta._share import broker, tables
from sharing_peer import Peer, charged, descriptors, maps, received
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")


def interrupt(work: Callable[[], object], moment: int) -> bool:
    """Runs `work` with an interrupt at a moment. False if it has fewer moments."""
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
    """Returns at how many moments there was an interrupt. None may leave anything or be lost."""
    before = left()
    moment = 0
    while interrupt(work, moment):
        assert not lost, (moment, lost)
        assert left() == before or eventually(lambda: left() == before), (moment, left(), before)
        moment += 1
    assert not lost, "in a destructor, where nobody hears of it"
    return moment


@pytest.fixture
def lost(monkeypatch: Any) -> list[Any]:
    """What was raised in destructors."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append((each.object, each.exc_value)))
    return found


def what_is_here() -> tuple[Any, ...]:
    return descriptors(), maps(), charged(), len(tables._known), broker.own()._posted


def test_an_interrupted_open_leaves_nothing(peer: Peer, lost: list[Any]) -> None:
    (text,) = peer.run("kept = sa.table({'a': np.arange(1000)}, 'host').share(); show(kept)")
    token = received(text)

    def open_and_drop() -> None:
        for _ in range(2):  # by a new connection, and by one that is kept
            found = sa.open_shared(token)
            del found

    open_and_drop()
    assert interrupt_everywhere(open_and_drop, what_is_here, lost) > 50
    assert sa.open_shared(token)["a"][999] == 999
    peer.run("del kept; gc.collect()")
    assert eventually(lambda: peer.run("gc.collect(); print(charged(), flush=True)") == ["0"])


def test_an_interrupted_share_leaves_nothing(lost: list[Any]) -> None:
    def share_and_drop() -> None:
        token = sa.table({"a": [1, 2]}, "host").share()
        found = sa.open_shared(token)
        del token, found

    share_and_drop()
    assert interrupt_everywhere(share_and_drop, what_is_here, lost) > 100


def test_an_interrupted_start_leaves_one_thread(monkeypatch: Any, lost: list[Any]) -> None:
    """The first use of a process starts its thread."""

    def end_and_count() -> tuple[int, ...]:
        """Threads and descriptors, once the thread that was started has ended: a first use comes next."""
        found = broker.running()
        if found is not None:
            broker.own().retire()
            found.abandon()
            broker._own = None
        return tuple(len(list(Path("/proc/self", kind).iterdir())) for kind in ("task", "fd"))

    with monkeypatch.context() as patched:
        patched.setattr(broker, "_own", None)
        assert interrupt_everywhere(broker.own, end_and_count, lost) > 10
        assert broker.running() is not None
        end_and_count()
