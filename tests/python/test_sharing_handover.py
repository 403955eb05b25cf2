"""Hand-over at process exit: tables sent through multiprocessing (`install_reducers`) arrive even if the
sender has ended. A keeper process holds their memory until then."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

import pickled_work
import saeta as sa
from share_wire import DONE, GONE, NAME, OPEN, TAKE, connect, request
from sharing_peer import Peer
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")

METHODS = ["fork", "spawn", "forkserver"]
ROWS = [[0], [1], [2]]


@pytest.fixture(params=METHODS)
def started(request: Any) -> Any:
    """The multiprocessing context of a start method."""
    return multiprocessing.get_context(request.param)


def test_tables_in_a_queue_arrive_after_the_sender_has_ended(started: Any) -> None:
    queue = started.Queue()
    process = started.Process(target=pickled_work.put_and_end, args=(queue, 3))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert [queue.get(timeout=60)["a"].to_pylist() for _ in range(3)] == ROWS
    queue.close()
    queue.join_thread()


def test_tables_in_a_pipe_arrive_after_the_sender_has_ended(started: Any) -> None:
    ours, theirs = started.Pipe(False)
    process = started.Process(target=pickled_work.send_and_end, args=(theirs, 3))
    process.start()
    theirs.close()
    process.join(60)
    assert [ours.recv()["a"].to_pylist() for _ in range(3)] == ROWS
    ours.close()


def test_results_of_workers_that_exit_after_one_task_arrive(started: Any) -> None:
    with started.Pool(1, maxtasksperchild=1) as pool:
        found = pool.map_async(pickled_work.share_one, range(3), chunksize=1).get(timeout=120)
    assert [each["a"].to_pylist() for each in found] == ROWS


@pytest.mark.parametrize("method", ["spawn", "forkserver"])  # "fork" has no max_tasks_per_child
def test_results_of_an_executor_arrive(method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        found = list(pool.map(pickled_work.share_one, range(3), timeout=120))
    assert [each["a"].to_pylist() for each in found] == ROWS


def messages_of(code: str) -> list[bytes]:
    """Runs code in a process that then exits. Returns the pickled messages that it made."""
    made = subprocess.run(
        [sys.executable, "-c", SENDING.format(path=sys.path, code=code)], capture_output=True, text=True
    )
    assert made.stderr == ""
    return [bytes.fromhex(each) for each in made.stdout.split()]


SENDING = """
import sys
sys.path[:0] = {path!r}
import os
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
import saeta as sa
sa.install_reducers()
def sent(values):
    return bytes(ForkingPickler.dumps(sa.table({{"a": values}}, "host")))
{code}
for each in messages:
    print(each.hex(), flush=True)
"""


def test_a_process_not_started_by_multiprocessing_hands_over() -> None:
    assert pickle.loads(messages_of("messages = [sent([1, 2])]")[0])["a"].to_pylist() == [1, 2]


def test_a_child_of_os_fork_hands_over() -> None:
    (message,) = messages_of("""
messages = []
child = os.fork()
if child:
    os.waitpid(child, 0)
    os._exit(0)
messages = [sent([1, 2])]
""")
    assert pickle.loads(message)["a"].to_pylist() == [1, 2]


def test_every_message_of_an_ended_process_is_counted() -> None:
    """The messages are three of one table, received while it is open or afterwards, and one of another
    table."""
    code = "table = sa.table({'a': [1, 2]}, 'host')\n"
    code += "messages = [bytes(ForkingPickler.dumps(table)) for _ in range(3)] + [sent([])]"
    messages = messages_of(code)
    restored = pickle.loads(messages[0])
    assert pickle.loads(messages[1]) is restored
    del restored
    gc.collect()
    assert pickle.loads(messages[2])["a"].to_pylist() == [1, 2]
    assert pickle.loads(messages[3])["a"].to_pylist() == []
    assert eventually(lambda: not answers(messages[0])), "the keeper must exit after the last message"


def answers(message: bytes) -> bool:
    """Returns whether a process listens on the socket that the message's token names."""
    name = NAME.search(message)
    assert name is not None
    try:
        connect(name[0]).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_second_message_of_an_open_table_does_not_need_the_sender() -> None:
    with Peer() as other:
        texts = other.run("""
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
sa.install_reducers()
table = sa.table({'a': [1, 2]}, 'host')
for _ in 'ab': print(bytes(ForkingPickler.dumps(table)).hex(), flush=True)
""")
        restored = pickle.loads(bytes.fromhex(texts[0]))
        other.kill()
    assert pickle.loads(bytes.fromhex(texts[1])) is restored


def test_a_table_of_an_ended_process_is_shared_again_as_a_copy(reducers: Any, peer: Peer) -> None:
    restored = pickle.loads(messages_of("messages = [sent([1, 2])]")[0])
    message = bytes(ForkingPickler.dumps(restored))
    assert peer.run(f"print(pickle.loads({message!r})['a'].to_pylist(), flush=True)") == ["[1, 2]"]


def test_tables_that_are_never_received_are_freed_when_the_parent_ends() -> None:
    with Peer() as parent:
        (text,) = parent.run("""
import multiprocessing, pickled_work
started = multiprocessing.get_context("fork")
ours, theirs = started.Pipe(False)
process = started.Process(target=pickled_work.send_and_end, args=(theirs, 1))
process.start()
process.join()
print(ours.recv_bytes().hex(), flush=True)
""")
        message = bytes.fromhex(text)
        assert answers(message)
        parent.kill()
    assert eventually(lambda: not answers(message))
    with pytest.raises(sa.ClosedError, match="has ended"):
        pickle.loads(message)


class Keeper:
    """The keeper, the program that a process starts at its exit to hold sent tables, of a process that has
    sent two tables and ended."""

    def __init__(self, *, messages: int = 1, code: str = "") -> None:
        program = SENDING.format(path=sys.path, code=KEEPING.format(messages=messages, code=code))
        made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.log = made.stderr
        name, *tokens, program_id = made.stdout.split()
        self.broker = bytes.fromhex(name)
        self.tokens = [bytes.fromhex(each) for each in tokens]
        self.program = int(program_id)

    def ask(self, said: bytes) -> bytes:
        with connect(self.broker) as connection:
            connection.send(said)
            return connection.recv(4096)[:1]

    def take(self, which: int) -> bytes:
        return self.ask(request(TAKE, self.tokens[which]))

    def has_ended(self) -> bool:
        """Whether the program ends by itself: nobody listens any more, and it was not killed."""
        return eventually(lambda: not Path(f"/proc/{self.program}").exists() or is_zombie(self.program))


def is_zombie(process: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


# `messages`: of the first table. Prints the name of the broker, the tokens and the number of the program.
KEEPING = """
import atexit, subprocess
from saeta import _core
from saeta._share import handover, tables
tokens = [tables.posted(sa.table({{"a": [1, 2]}}, "host")) for _ in range(2)]
for _ in range({messages} - 1): tokens[0]._entry.post()
started = subprocess.Popen
def start(*given, **options):
    program = started(*given, **options)
    print(program.pid, flush=True)
    return program
subprocess.Popen = start
messages = [tokens[0]._place.broker, *(each._place.token for each in tokens)]
{code}
"""

DONE_CODE, GONE_CODE = bytes([DONE]), bytes([GONE])


def test_tables_that_are_never_received_are_freed_after_a_timeout() -> None:
    keeper = Keeper(code="handover._WITHOUT_PARENT = 0.3")
    assert keeper.has_ended()
    with pytest.raises(ConnectionRefusedError):
        keeper.take(0)


def test_the_keeper_counts_only_tokens_of_messages() -> None:
    keeper = Keeper()
    first, second = keeper.tokens
    assert keeper.ask(b"nonsense") == GONE_CODE
    assert keeper.ask(request(TAKE, bytes(16))) == GONE_CODE
    for kind in (OPEN, TAKE, TAKE, OPEN):
        assert keeper.ask(request(kind, first)) == DONE_CODE
    connect(keeper.broker).close()  # sends no request
    assert keeper.ask(request(OPEN, second)) == DONE_CODE, "not received yet"
    assert keeper.ask(request(TAKE, second)) == DONE_CODE
    assert keeper.has_ended()


def test_the_keeper_waits_for_each_message_of_a_table() -> None:
    keeper = Keeper(messages=3)
    assert keeper.take(1) == DONE_CODE
    assert [keeper.take(0) for _ in range(3)] == [DONE_CODE] * 3
    assert keeper.has_ended()


def test_a_failed_hand_over_is_logged_and_other_tables_are_kept() -> None:
    keeper = Keeper(
        code="""
in_file = handover._in_file
def fail(entry):
    if entry.place[2] == tokens[0]._place.token:
        raise MemoryError("no room on the host")
    return in_file(entry)
handover._in_file = fail
"""
    )
    assert "is lost: no room on the host" in keeper.log
    assert keeper.take(0) == GONE_CODE
    assert keeper.take(1) == DONE_CODE
    assert keeper.has_ended()


def test_a_failure_to_start_the_keeper_is_logged() -> None:
    code = "handover.spawn.get_executable = lambda: '/nowhere'"
    program = SENDING.format(path=sys.path, code=KEEPING.format(messages=1, code=code))
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "are lost: [Errno 2] No such file or directory: '/nowhere'" in made.stderr
