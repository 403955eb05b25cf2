"""What the compiled library can't raise goes to the logger `saeta`, from any thread."""

from __future__ import annotations

import ctypes
import logging

from saeta import _core
from threads import run_in_threads

UNKNOWN = 0x1234000


def give_back_what_nobody_lent(count: int = 1) -> None:
    """A call without the GIL that reports."""
    library = ctypes.CDLL(_core.__file__)
    for _ in range(count):
        library.saeta_torch_free(ctypes.c_void_p(UNKNOWN), 8, 0, None)


def test_reports_are_logged(caplog):
    give_back_what_nobody_lent()
    found = [record for record in caplog.records if record.name == "saeta"]
    assert [record.levelno for record in found] == [logging.ERROR]
    assert found[0].getMessage().startswith("take_back_memory: the memory at 0x1234000 was not lent")


def test_reports_of_other_threads_are_logged_in_order_and_none_is_lost(caplog):
    run_in_threads(4, lambda _: give_back_what_nobody_lent(200))
    give_back_what_nobody_lent()
    assert sum(record.name == "saeta" for record in caplog.records) == 801


def test_without_a_configuration_reports_go_to_standard_error_also_at_the_end(run_python):
    program = f"""
import atexit, ctypes
from saeta import _core
free, unknown = ctypes.CDLL(_core.__file__).saeta_torch_free, ctypes.c_void_p({UNKNOWN})
def give_back(free=free, unknown=unknown): # names of modules may be gone at the end
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


def test_what_is_reported_while_another_report_is_logged_is_logged_after_it(run_python):
    """Under a tracer CPython 3.11 does not come to an end where a pending call waits for another one."""
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
