"""Internal helpers that run cleanup to its end and start threads completely, even if Ctrl-C interrupts
them."""

from __future__ import annotations

import _thread
import threading

import pytest

from saeta import _core
from saeta._files import threads as _threads


class Interrupted:
    """A function that raises KeyboardInterrupt on its first calls."""

    def __init__(self, times):
        self.times = times
        self.runs = 0
        self.ended = False

    def __call__(self):
        self.runs += 1
        if self.runs <= self.times:
            raise KeyboardInterrupt
        self.ended = True


def test_an_interrupt_is_raised_after_the_cleanup_has_finished():
    action = Interrupted(2)
    with pytest.raises(KeyboardInterrupt):
        _core._call_to_the_end(action)
    assert (action.runs, action.ended) == (3, True)
    _core._call_to_the_end(action)


def test_an_error_of_a_cleanup_is_raised():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _core._call_to_the_end(fail)


def test_an_interrupt_during_a_destructor_reaches_the_program():
    action = Interrupted(1)
    with pytest.raises(KeyboardInterrupt):
        drop(_core._Ending(action))
    assert action.ended


def drop(kept):
    del kept
    for _ in range(3):  # Python checks for signals where a loop jumps back
        pass


def test_a_finalizer_runs_once():
    for end in (lambda ending: ending(), lambda ending: None):
        action = Interrupted(0)
        ending = _core._Ending(action)
        end(ending)
        del ending
        assert action.runs == 1
    action = Interrupted(0)
    _core._Ending(action).detach()
    assert action.runs == 0


def test_a_finalizer_runs_at_interpreter_exit(run_python):
    done = run_python("import saeta\nkept = saeta._core._Ending(lambda: print('ended', flush=True))\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_finalizers_at_interpreter_exit_may_fail_and_drop_others(run_python):
    done = run_python("""
from saeta._core import _Ending
kept = [_Ending(lambda: print("ended", flush=True)) for _ in range(3)]
kept += [_Ending(kept.clear), _Ending(lambda: 1 // 0)]
""")
    assert (done.returncode, done.stdout) == (0, "ended\n" * 3)
    assert "ZeroDivisionError" in done.stderr


def test_a_worker_is_a_daemon_thread_that_can_be_waited_for():
    seen = []
    worker = _threads.Worker(lambda: seen.append(threading.current_thread()), "saeta-test")
    worker.wait()  # returns at once: the worker is not started
    worker.start()
    worker.start()
    worker.wait()
    assert [(each.name, each.daemon, each.is_alive()) for each in seen] == [("saeta-test", True, False)]


def test_a_worker_does_not_wait_for_itself():
    worker = _threads.Worker(lambda: worker.wait(), "saeta-test")
    worker.start()
    worker.wait()


def test_the_caller_does_the_work_if_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    seen = []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    worker = _threads.Worker(lambda: seen.append(1), "saeta-test")
    worker.start()
    worker.wait()
    assert seen == [1]


def test_a_worker_can_be_started_again_after_a_failed_start(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_threads, "start_new_thread", refuse)
    worker = _threads.Worker(lambda: None, "saeta-test")
    with pytest.raises(RuntimeError, match="new thread"):
        worker.start()
    worker.wait()
    monkeypatch.setattr(_threads, "start_new_thread", _thread.start_new_thread)
    worker.start()
    worker.wait()
