"""Errors that the compiled library can't raise are logged by the logger `saeta`, from any thread."""

from __future__ import annotations

import ctypes
import logging

from saeta import _core
from threads import run_in_threads

UNKNOWN = 0x1234000


def free_unknown_address(count: int = 1) -> None:
    """Frees an address that was never allocated, without the GIL, so that the library reports an error."""
    library = ctypes.CDLL(_core.__file__)
    for _ in range(count):
        library.saeta_torch_free(ctypes.c_void_p(UNKNOWN), 8, 0, None)


def test_reports_are_logged(caplog):
    free_unknown_address()
    found = [record for record in caplog.records if record.name == "saeta"]
    assert [record.levelno for record in found] == [logging.ERROR]
    assert found[0].getMessage().startswith("take_back_memory: the memory at 0x1234000 was not lent")


def test_reports_of_other_threads_are_logged_in_order_and_none_is_lost(caplog):
    run_in_threads(4, lambda _: free_unknown_address(200))
    free_unknown_address()
    assert sum(record.name == "saeta" for record in caplog.records) == 801


def test_reports_go_to_stderr_by_default_also_at_exit(run_python):
    program = f"""
import atexit, ctypes
from saeta import _core
free, unknown = ctypes.CDLL(_core.__file__).saeta_torch_free, ctypes.c_void_p({UNKNOWN})
def give_back(free=free, unknown=unknown): # module globals may be cleared at exit
    free(unknown, 8, 0, None)
give_back()
class Last:
    def __del__(self, give_back=give_back):
        give_back()
_core.last = Last()
"""
    done = run_python(program)
    assert done.returncode == 0
    assert done.stderr.count("take_back_memory: the memory at 0x1234000 was not lent") == 2, done.stderr


def test_a_report_during_logging_is_logged_afterwards(run_python):
    """With a trace function, CPython 3.11 deadlocks if a pending call waits for another pending call."""
    program = f"""
import ctypes, logging, sys
from saeta import _core
library = ctypes.CDLL(_core.__file__)
give_back = lambda address: library.saeta_torch_free(ctypes.c_void_p(address), 8, 0, None)
inside, seen = [], []
class Handler(logging.Handler):
    def emit(self, record):
        assert not inside
        inside.append(record)
        if not seen:
            give_back({UNKNOWN + 64})
        seen.append(record.getMessage())
        inside.pop()
logging.getLogger("saeta").addHandler(Handler())
def tracer(frame, event, argument):
    return tracer
sys.settrace(tracer)
give_back({UNKNOWN})
while len(seen) < 2:
    pass
print([text.partition(" was not lent")[0][-9:] for text in seen])
"""
    done = run_python(program)
    assert done.stdout == "['0x1234000', '0x1234040']\n", done.stderr
